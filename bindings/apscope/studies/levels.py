"""Levels of minimum variance for stochastic rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._arrays.checks import integer, text
from .._arrays.inputs import contiguous

__all__ = ["OptimalLevels", "optimal_levels"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class OptimalLevels:
    """The result of `optimal_levels`."""

    levels: np.ndarray  #: float64, ascending; fewer than k if x has fewer distinct elements
    variance: float  #: the sum over all elements; 0 if every element is a level


def optimal_levels(x: Any, k: int, method: str = "fast", *, candidates: int = 512) -> OptimalLevels:
    """The k levels with the minimum sum of (x - below)(above - x), including min and max of x.

    Parameters
    ----------
    x : array_like of float32
        Finite numbers, in any order and shape; at least one.
    k : int
        Levels, from 2.
    method : str
        ``exact`` tries every pair, k n^2 steps; ``fast`` finds equally good levels in k n log n;
        ``candidates`` chooses from some of the elements and of the values between them.
    candidates : int
        Their number, with ``candidates``.

    Returns
    -------
    OptimalLevels

    Raises
    ------
    TypeError
        x is not float32.
    ValueError
        No element, one that is not finite, an unknown method, k or candidates below 2.
    """
    a = np.asarray(x)
    if a.dtype.newbyteorder("=") != np.float32:
        raise TypeError(f"x has dtype {a.dtype}; optimal_levels takes float32")
    if a.size == 0:
        raise ValueError("x has no element; levels need one")
    if not np.isfinite(a).all():
        raise ValueError(
            f"x[{int(np.argmin(np.isfinite(a.ravel())))}] is not finite; levels need finite numbers"
        )
    levels, variance = _core.optimal_levels(
        contiguous(a, np.float32).ravel(),
        integer("k", k, 2, 2**40),
        text("method", method),
        integer("candidates", candidates, 2, 2**40),
    )
    return OptimalLevels(levels, variance)
