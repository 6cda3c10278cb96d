"""Runs functions that compute with NumPy in the float environment of the C++ core."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .. import _core

P = ParamSpec("P")
R = TypeVar("R")


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run in round to nearest with subnormals, whatever the calling thread has set.

    The thread's rounding mode (C's ``fesetround``) and flushing (``torch.set_flush_denormal``) are
    restored at the end. Entry points of `_core` do this themselves.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _core.FloatEnvironment():
            return function(*args, **kwargs)

    return call
