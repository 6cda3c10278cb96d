"""Functions that compute with NumPy, in the float environment that the C++ core computes in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .. import _core

__all__ = ["guarded"]

P = ParamSpec("P")
R = TypeVar("R")


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, computed rounding to nearest with subnormals kept, whatever the calling thread has set.

    Rounding modes (C's ``fesetround``) and flushing (``torch.set_flush_denormal``) are the thread's and come back at
    the end. Entry points of `_core` do this by themselves.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _core.FloatEnvironment():
            return function(*args, **kwargs)

    return call
