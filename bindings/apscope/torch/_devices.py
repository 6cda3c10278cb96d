"""Where tensors are: on the CPU, or on a CUDA GPU, whose kernels compute nearly everything."""

from __future__ import annotations

import functools
import warnings

import torch


def is_supported(x: torch.Tensor) -> bool:
    """Whether the tensor is where the package computes: on the CPU or on a CUDA GPU."""
    return x.device.type in ("cpu", "cuda")


def to_cpu(x: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor itself on the CPU; a copy of one on a GPU, for `what`, which a warning names once."""
    if x.device.type == "cpu":
        return x
    _warn(f"{what}: computed on the CPU, to which tensors of a GPU are copied, and back")
    return x.cpu()


@functools.cache
def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
