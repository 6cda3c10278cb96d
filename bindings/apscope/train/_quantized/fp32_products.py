"""PyTorch's products as a recipe means them: operands and sums in fp32, on a GPU too.

On a GPU PyTorch may round operands to TF32 before it multiplies. For matrix products that is off
unless a program asks for it, and such a program contradicts the recipe: it gets an error. For
convolutions it is on unless a program turns it off: here it is off as long as a product takes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

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
        with _convolutions_in_fp32:
            yield


class _ConvolutionsInFp32:
    """Sets PyTorch's precision of convolutions as long as some thread is inside.

    The setting is the process's: the first thread that enters keeps what it was, the last one that
    leaves restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._where, self._name = _CONVOLUTIONS or torch.backends.cudnn, "fp32_precision"
        self._exact: str | bool = "ieee"
        if _CONVOLUTIONS is None:
            self._name, self._exact = "allow_tf32", False
        self._before: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = getattr(self._where, self._name)
                setattr(self._where, self._name, self._exact)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                setattr(self._where, self._name, self._before)


_convolutions_in_fp32 = _ConvolutionsInFp32()
