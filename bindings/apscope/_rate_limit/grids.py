"""The best grid of 2^R levels for given values, rounded to nearest.

Lloyd's iteration moves each level to the mean of its cell until no value changes its cell, which
lowers the error at every step and ends in a local minimum. It has two starts, of which the better
end counts: the levels of ZipML's program (`optimal_levels`), which are the best for stochastic
rounding and have nearly the density of the best for rounding to nearest, and equal ranks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .. import _core

_MOST_ROUNDS = 10_000
#: Points per level among which ZipML's program chooses.
_CANDIDATES = 4


class Grid(NamedTuple):
    """A grid and its error."""

    levels: np.ndarray  #: float64, ascending
    nearest: float  #: the sum of the squared distances to the nearest level


def best_grid(values: np.ndarray, levels: int) -> Grid:
    """The `levels`, 1 or more, with the least squared error that Lloyd's iteration finds.

    `values` are float64, one or more, each rounded to the nearest level.
    """
    z = np.sort(values)
    sums = np.concatenate([[0.0], np.cumsum(z)])
    starts = [z[((2 * np.arange(levels) + 1) * len(z)) // (2 * levels)]]
    if levels > 1:
        candidates = max(512, _CANDIDATES * levels)
        starts.append(
            _core.optimal_levels(z.astype(np.float32), levels, "candidates", candidates)[0]
        )
    ends = [_lloyd(z, sums, points) for points in starts]
    return min((Grid(points, _error(z, points)) for points in ends), key=lambda g: g.nearest)


def _lloyd(z: np.ndarray, sums: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Levels that are the means of their cells; an empty cell keeps its level."""
    before = None
    for _ in range(_MOST_ROUNDS):
        cells = _cells(z, points)
        if before is not None and np.array_equal(cells, before):
            break
        before = cells
        counts = np.diff(cells)
        points = np.where(counts > 0, np.diff(sums[cells]) / np.maximum(counts, 1), points)
    return points


def _cells(z: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The first of the sorted values of each level, and their number."""
    inner = np.searchsorted(z, (points[1:] + points[:-1]) / 2)
    return np.concatenate([[0], inner, [len(z)]])


def _error(z: np.ndarray, points: np.ndarray) -> float:
    apart = z - np.repeat(points, np.diff(_cells(z, points)))
    return math.fsum((apart * apart).tolist())
