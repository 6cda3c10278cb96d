"""Where tensors are: on the CPU, or on a CUDA GPU, whose kernels compute nearly everything."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch


def is_supported(x: torch.Tensor) -> bool:
    """Whether the tensor is where the package computes: on the CPU or on a CUDA GPU."""
    return x.device.type in ("cpu", "cuda")


def to_cpu(x: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor itself on the CPU; a copy of another, for `what`, which a warning names once."""
    if x.device.type == "cpu":
        return x
    _warn(f"{what}: computed on the CPU, to which tensors of another device are copied, and back")
    return x.cpu()


def to_supported(x: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor itself where the package computes, else a copy on the CPU as `to_cpu` gives it."""
    return x if is_supported(x) else to_cpu(x, what)


def stream_of(x: torch.Tensor) -> Any:
    """The stream on which a GPU's tensor is computed now; None on the CPU."""
    return torch.cuda.current_stream(x.device) if x.device.type == "cuda" else None


def take_over(x: torch.Tensor, stream: Any) -> None:
    """Make the current stream wait for all of `stream`, that of x (`stream_of`), and keep x for it."""
    if stream is None:
        return
    current = torch.cuda.current_stream(x.device)
    if current != stream:
        current.wait_stream(stream)
        x.record_stream(current)


def quotient(x: torch.Tensor, divisor: float) -> torch.Tensor:
    """x / divisor, rounded once: on a GPU PyTorch multiplies by the inverse of a number."""
    return x / x.new_full((), divisor)


@functools.cache
def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
