"""Casts of other libraries: dtypes and callables, found by name and run on float32 arrays."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays.dtypes import is_dtype, is_torch_dtype, numpy_dtype


def name_of(what: Any) -> str:
    """A name to print: `ml_dtypes.float8_e4m3fn`, `torch.bfloat16`, `module.function`."""
    if is_torch_dtype(what):
        return str(what)
    dtype = numpy_dtype(what)
    if dtype is not None:
        return f"{dtype.type.__module__.split('.')[0]}.{dtype.name}"
    return (
        f"{getattr(what, '__module__', '?')}.{getattr(what, '__qualname__', type(what).__name__)}"
    )


def load(spec: str) -> Any:
    """The object ``MODULE:NAME``.

    Parameters
    ----------
    spec : str
        A module, importable from here or from the working directory, a colon, and the name of a
        callable or a dtype in it: ``my_module:my_cast``, ``ml_dtypes:float8_e4m3fn``.

    Raises
    ------
    ValueError
        No colon, no such module, no such name, or neither a callable nor a dtype.
    """
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise ValueError(
            f"'{spec}' is not MODULE:CALLABLE, such as my_module:my_cast or ml_dtypes:float8_e4m3fn"
        )
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"cannot import module '{module_name}' of '{spec}': {error}") from None
    finally:
        sys.path.remove(here)
    for part in name.split("."):
        if not hasattr(value, part):
            raise ValueError(f"module '{module_name}' has no '{name}'")
        value = getattr(value, part)
    if not callable(value) and not is_dtype(value):
        raise ValueError(
            f"'{spec}' is a {type(value).__name__}; give a callable or a floating-point dtype"
        )
    return value


def cast_of(what: Any) -> Callable[[np.ndarray], Any]:
    """A callable on float32 arrays: `what` itself, or the conversion to the dtype `what`."""
    if is_torch_dtype(what):
        import torch

        return lambda x: torch.from_numpy(np.array(x)).to(what).to(torch.float64).numpy()
    dtype = numpy_dtype(what)
    if dtype is not None:
        return lambda x: x.astype(dtype).astype(np.float64)
    if callable(what):
        return what
    raise TypeError(
        f"{type(what).__name__} is not a cast; give a callable on float32 arrays, or a dtype"
    )


def run_cast(cast: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The result of a cast of `x`: float64 values, or integers if they are codes.

    The cast gets a copy of `x`, which it may overwrite.

    Raises
    ------
    ValueError
        The result is not one number per input, or the cast raised an exception.
    """
    try:
        with np.errstate(all="ignore"):
            result = cast(np.array(x, np.float32))
    except Exception as error:
        raise ValueError(f"the cast raised {type(error).__name__}: {error}") from error
    if type(result).__module__.split(".")[0] == "torch":
        result = result.detach().cpu()
        result = (result.double() if result.is_floating_point() else result).numpy()
    result = np.asarray(result)
    if result.shape != x.shape:
        raise ValueError(
            f"the cast returned an array of shape {result.shape} for "
            f"one of shape {x.shape}; they must agree"
        )
    if result.dtype.kind in "iu":
        return result.astype(np.int64)
    try:
        if result.dtype.kind == "c":
            raise TypeError
        with np.errstate(all="ignore"):
            return result.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"the cast returned an array of {result.dtype}; it must return numbers"
        ) from None


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays have equal values: any NaN equals any NaN, signs of zeros matter."""
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
