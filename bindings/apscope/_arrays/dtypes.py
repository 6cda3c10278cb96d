"""Recognises floating-point dtypes of NumPy, ml_dtypes and torch without importing them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class TorchDtype(Protocol):
    """A dtype of torch, for type checkers."""

    is_floating_point: bool
    itemsize: int


def is_torch_dtype(what: Any) -> bool:
    return (
        type(what).__module__ == "torch"
        and type(what).__name__ == "dtype"
        and what.is_floating_point
    )


def numpy_dtype(what: Any) -> np.dtype | None:
    """The floating-point dtype of NumPy or ml_dtypes that `what` is, if it is one."""
    if not isinstance(what, (np.dtype, type)) or any(
        what is t for t in (float, int, bool, complex, object, str, bytes)
    ):
        return None
    try:
        dtype = np.dtype(what)
    except TypeError:
        return None
    # ml_dtypes' scalar types come from a module of that name; any other class is dtype object.
    known = dtype.kind == "f" or dtype.type.__module__.split(".")[0] == "ml_dtypes"
    return (
        dtype
        if known and not dtype.name.startswith(("int", "uint", "complex", "bcomplex"))
        else None
    )


def is_dtype(what: Any) -> bool:
    """Whether `what` is a floating-point dtype of NumPy, ml_dtypes or torch."""
    return is_torch_dtype(what) or numpy_dtype(what) is not None


def dtype_bits(what: Any) -> int:
    """The bits of one code of a dtype; ml_dtypes keeps narrower ones in a byte."""
    if is_torch_dtype(what):
        return 8 * what.itemsize
    dtype = numpy_dtype(what)
    assert dtype is not None
    if dtype.type.__module__.split(".")[0] == "ml_dtypes":
        import ml_dtypes

        return int(ml_dtypes.finfo(dtype).bits)
    return 8 * dtype.itemsize


def dtype_name(what: Any) -> str:
    """The bare name, one of the aliases of `apscope formats`: float16, bfloat16, float8_e4m3fn.

    Raises
    ------
    TypeError
        A dtype whose element holds two values (``torch.float4_e2m1fn_x2``).
    """
    if is_torch_dtype(what):
        name = str(what).removeprefix("torch.")
        if name.endswith("_x2"):
            raise TypeError(
                f"{what} packs two values into an element; the format of one is "
                f"'{name.removeprefix('float4_').removesuffix('_x2')}'"
            )
        return name
    dtype = numpy_dtype(what)
    assert dtype is not None
    return dtype.name
