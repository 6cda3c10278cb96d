"""Converts callers' arrays, tensors and numbers to contiguous NumPy arrays and back."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._core import FloatFormat
from .checks import text
from .dtypes import TorchDtype, dtype_name, is_dtype, numpy_dtype

#: What `as_format` accepts; the type does not say which dtypes are floating-point.
FormatLike = FloatFormat | str | np.dtype | type[np.generic] | TorchDtype


def as_format(format: Any) -> FloatFormat:
    """The format, or that of a name or of a floating-point dtype of NumPy, ml_dtypes or torch.

    Raises
    ------
    TypeError
        Anything else, also an integer dtype.
    ValueError
        A name of no format.
    """
    if isinstance(format, FloatFormat):
        return format
    if isinstance(format, str):
        return _named(format)
    if is_dtype(format):
        return _named(dtype_name(format))
    what = (
        repr(format)
        if isinstance(format, (type, np.dtype)) or type(format).__name__ == "dtype"
        else f"of type {type(format).__name__}"
    )
    raise TypeError(
        f"format is {what}; give a FloatFormat, a format's name such as 'e4m3', or a "
        "floating-point dtype of NumPy, ml_dtypes or torch"
    )


@functools.lru_cache(maxsize=1024)
def _named(name: str) -> FloatFormat:
    try:
        return FloatFormat(text("format", name))  # never changes: its fields are read-only
    except ValueError:
        if name in {row["name"] for row in _core.named_block_formats()}:
            raise ValueError(
                f"'{name}' is a block format; give a float format such as 'e4m3', or call "
                "quantize_blocks"
            ) from None
        raise


def _is_torch(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "torch" and hasattr(x, "detach")


def _pandas_kind(x: Any) -> str:
    """``DataFrame``, ``Series``, or empty if it is not an object of pandas."""
    pandas = sys.modules.get("pandas")  # a caller with such an object has imported it
    if pandas is None:
        return ""
    return (
        "DataFrame"
        if isinstance(x, pandas.DataFrame)
        else "Series"
        if isinstance(x, pandas.Series)
        else ""
    )


def _without_gradient(x: Any, what: str) -> Any:
    """The tensor, detached from autograd: no result here has a gradient.

    Raises
    ------
    ValueError
        A tensor that requires grad, outside of ``torch.no_grad()``.
    """
    if x.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise ValueError(
            f"{what} requires grad, but results here have no gradient; give {what}.detach(), or "
            "call under torch.no_grad()"
        )
    return x.detach()


def _on_gpu(x: Any) -> bool:
    """Whether the array is in a CUDA GPU's memory, for apscope.cuda."""
    if isinstance(x, (np.ndarray, np.generic, float, int, list, tuple)):
        return False
    if _is_torch(x):
        return x.device.type == "cuda"
    if hasattr(x, "__cuda_array_interface__"):
        return True
    # CUDA's memory, its managed memory.
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in (2, 13)


def _torch_to_numpy(x: Any, what: str) -> np.ndarray:
    """A view of a CPU tensor's memory."""
    if x.device.type != "cpu":
        raise ValueError(
            f"{what} is a tensor on {x.device}; this takes CPU tensors, so call .cpu() first"
        )
    x = _without_gradient(x, what)
    if str(x.dtype).startswith(("torch.bfloat16", "torch.float8")):  # NumPy has no such dtypes
        return x.float().numpy()  # exact, and a copy
    return x.numpy()


def _widen(a: np.ndarray, what: str) -> np.ndarray:
    """float32 or float64 with the same values; every other dtype is widened exactly or refused."""
    if a.dtype in (np.float32, np.float64):
        return a
    if a.dtype.kind == "f" and not a.dtype.isnative:
        return _widen(a.astype(a.dtype.newbyteorder("=")), what)
    if a.dtype == object:
        raise TypeError(f"{what} is an object array; give numbers of one floating-point dtype")
    if a.dtype.itemsize <= 2 and numpy_dtype(a.dtype) is not None:  # float16 and those of ml_dtypes
        return a.astype(np.float32)
    if a.dtype.kind in "iu":
        if beyond_float64(a):
            raise ValueError(
                f"{what} has integers beyond 2^53, which float64 cannot represent exactly"
            )
        return a.astype(np.float64)
    raise TypeError(
        f"{what} has dtype {a.dtype}; use float64, float32, float16, bfloat16, a float8 or "
        "narrower, or integers"
    )


def beyond_float64(a: np.ndarray) -> bool:
    """Integers that are not all exact in float64."""
    return (
        a.dtype.kind in "iu"
        and a.dtype.itemsize == 8
        and a.size > 0
        and not -(2**53) <= int(a.min()) <= int(a.max()) <= 2**53
    )


def _as_array(x: Any, what: str) -> np.ndarray:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is a masked array, whose mask a result cannot keep; give {what}.filled(value) "
            f"or {what}.compressed()"
        )
    return _torch_to_numpy(x, what) if _is_torch(x) else np.asarray(x)


def contiguous(a: np.ndarray, dtype: Any = None) -> np.ndarray:
    """The values in C order and aligned for C++; a copy only if needed."""
    a = np.ascontiguousarray(a, dtype)
    return a if a.flags.aligned else a.copy()


def _input(x: Any, what: str = "x") -> np.ndarray:
    """A contiguous float32 or float64 array of the values."""
    a = _as_array(x, what)
    return contiguous(_widen(a, what)).reshape(a.shape)


def _output(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The caller's `out` as an array that results can be written to."""
    a = _torch_to_numpy(out, "out") if _is_torch(out) else out
    if not isinstance(a, np.ndarray):
        raise TypeError(f"out is {type(out).__name__}; give an array or a tensor")
    if a.shape != shape:
        raise ValueError(f"out has shape {a.shape}, the result {shape}; they must agree")
    # A narrow tensor's array is a widened copy: writing it would not change the tensor.
    if a.dtype != dtype or (_is_torch(out) and out.dtype.itemsize != a.dtype.itemsize):
        raise TypeError(f"out has dtype {out.dtype}, the result {np.dtype(dtype)}; they must agree")
    if not a.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written to")
    return a


def _narrow(a: np.ndarray) -> np.ndarray:
    """float64 values that are float32 numbers, as float32, even if subnormals are flushed."""
    result = np.empty(a.shape, np.float32)
    _core.narrow(a.reshape(-1), result.reshape(-1))
    return result


def _widened(a: np.ndarray) -> np.ndarray:
    """float32 values as float64, including subnormals."""
    result = np.empty(a.shape, np.float64)
    _core.widen(a.reshape(-1), result.reshape(-1))
    return result


def _like(x: Any, result: np.ndarray) -> Any:
    """The result as the caller's kind of array; a Series or DataFrame keeps its labels."""
    if _is_torch(x):
        import torch

        return torch.from_numpy(result)
    if (kind := _pandas_kind(x)) and x.shape == result.shape:
        import pandas as pd

        if kind == "Series":
            return pd.Series(result, index=x.index, name=x.name)
        return pd.DataFrame(result, index=x.index, columns=x.columns)
    if isinstance(x, (float, int)) and not isinstance(x, np.generic):
        return result.item()
    return result if isinstance(x, np.ndarray) or result.ndim else result[()]


def _run(
    write: Callable[[np.ndarray], None],
    x: Any,
    result_dtype: np.dtype,
    out: Any,
    shape: tuple[int, ...],
) -> Any:
    """Calls write(flat result) and returns `out`, or a new array of x's kind."""
    if out is None:
        result = np.empty(shape, result_dtype)
        write(result.reshape(-1))
        return _like(x, result)
    target = _output(out, shape, result_dtype)
    # Through a temporary unless the loop may write in place: `out` is contiguous, aligned and does
    # not overlap x.
    source = _torch_to_numpy(x, "x") if _is_torch(x) else x
    apart = isinstance(source, (list, tuple, int, float)) or not np.may_share_memory(
        np.asarray(source), target
    )
    if target.flags.carray and apart:
        write(target.reshape(-1))
    else:
        result = np.empty(shape, result_dtype)
        write(result.reshape(-1))
        target[...] = result
    return out
