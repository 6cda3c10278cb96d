"""PyTorch's products as a recipe means them: operands and sums in fp32, on a GPU too.

On a GPU PyTorch may round operands to TF32 before it multiplies. For matrix products that is off
unless a program asks for it, and such a program contradicts the recipe: it gets an error. For
convolutions it is on unless a program turns it off: here it is off as long as a product takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

_CONVOLUTIONS = getattr(torch.backends.cudnn, "conv", None)  # from PyTorch 2.9 on


def _matmul_precision() -> str:
    backend = torch.backends.cuda.matmul
    precision = getattr(backend, "fp32_precision", None)  # from PyTorch 2.9 on
    if precision is None:
        return "tf32" if backend.allow_tf32 else "ieee"
    return str(precision)


@contextlib.contextmanager
def fp32_products(device: torch.device) -> Iterator[None]:
    """While open, products of fp32 tensors on the device have fp32 operands and sums.

    Raises
    ------
    RuntimeError
        The program has asked for matrix products in TF32 or bf16.
    """
    with torch.autocast(device.type, enabled=False):
        if device.type != "cuda":
            yield
            return
        if (precision := _matmul_precision()) not in ("none", "ieee"):
            raise RuntimeError(
                f"PyTorch's matrix products of fp32 tensors on a GPU are in {precision}, but those "
                "of a quantized model are fp32; leave out set_float32_matmul_precision and "
                "torch.backends.cuda.matmul.allow_tf32, or state the sums (accumulate=)"
            )
        with _convolutions_in_fp32():
            yield


@contextlib.contextmanager
def _convolutions_in_fp32() -> Iterator[None]:
    if _CONVOLUTIONS is None:
        before = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        try:
            yield
        finally:
            torch.backends.cudnn.allow_tf32 = before
        return
    precision = _CONVOLUTIONS.fp32_precision
    _CONVOLUTIONS.fp32_precision = "ieee"
    try:
        yield
    finally:
        _CONVOLUTIONS.fp32_precision = precision
