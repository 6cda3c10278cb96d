"""Gradients of a linear model with samples stored in few levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._arrays.checks import integer, taken
from .._arrays.draws import Draws
from .._arrays.float_environment import guarded

__all__ = ["DoubleSampling", "gradients"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class DoubleSampling:
    """Estimates of the mean over the samples of a (a.x - b), float64 arrays of shape (n,)."""

    exact: np.ndarray  #: with unrounded samples
    #: the mean of Q1(a) (Q2(a).x - b) and Q2(a) (Q1(a).x - b), Q1 and Q2 drawn independently
    unbiased: np.ndarray
    naive: np.ndarray  #: Q1(a) (Q1(a).x - b)
    naive_bias: np.ndarray  #: E[naive] - exact, in closed form
    first: np.ndarray  #: (m, n): Q1(a)
    second: np.ndarray  #: (m, n): Q2(a)


@guarded
def gradients(a: Any, x: Any, b: Any, levels: Any, *, seed: int | Draws = 0) -> DoubleSampling:
    """Round samples stochastically, twice, and compute the gradient of (a.x - b)^2 / 2.

    With one draw the gradient contains a draw's square, whose mean is too large by its variance:
    the bias is D x, D diagonal with the mean over the samples of (a_i - below)(above - a_i). Two
    independent draws have none.

    Parameters
    ----------
    a : array_like, shape (m, n)
        Samples, one per row; within the levels.
    x : array_like, shape (n,)
        The model.
    b : array_like, shape (m,)
        The targets.
    levels : array_like
        Ascending, the same for all elements, at least two.
    seed : int or Draws
        Of the draws: element i of the flattened samples has word i of worker 0's stream, hop 0 and
        1.

    Returns
    -------
    DoubleSampling

    Raises
    ------
    ValueError
        Shapes that do not fit, levels that do not ascend, samples beyond them.

    Examples
    --------
    >>> gradients([[0.3, 0.7]], [1.0, 2.0], [0.0], [0.0, 1.0]).naive_bias.round(9)
    array([0.21, 0.42])
    """
    samples, model, target, grid = (np.asarray(v, np.float64) for v in (a, x, b, levels))
    if samples.ndim != 2 or samples.size == 0:
        raise ValueError(
            f"a has shape {samples.shape}; it must be (samples, features), at least one of each"
        )
    m, n = samples.shape
    if model.shape != (n,) or target.shape != (m,):
        raise ValueError(
            f"x and b have shapes {model.shape} and {target.shape}; with a of {samples.shape} they "
            f"must be {(n,)} and {(m,)}"
        )
    if grid.ndim != 1 or grid.size < 2 or not (np.diff(grid) > 0).all():
        raise ValueError("levels must be two or more ascending numbers")
    if not ((samples >= grid[0]) & (samples <= grid[-1])).all():
        raise ValueError(
            f"a goes from {samples.min()} to {samples.max()}; it must stay within the levels, "
            f"{grid[0]} to {grid[-1]}"
        )
    above = np.clip(np.searchsorted(grid, samples, side="right"), 1, grid.size - 1)
    low, high = grid[above - 1], grid[above]
    up = (samples - low) / (high - low)
    step = _core.TrainingStep(
        "a",
        "other",
        [m, n],
        0,
        0,
        integer("seed", taken(seed), 0, 2**64 - 1),
        float("nan"),
        float("nan"),
    )
    draw = [
        np.where(step.random(0, samples.size, 53, hop).reshape(m, n) < up * 2.0**53, high, low)
        for hop in (0, 1)
    ]
    first, second = draw

    def gradient(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left.T @ (right @ model - target) / m

    return DoubleSampling(
        exact=gradient(samples, samples),
        unbiased=(gradient(first, second) + gradient(second, first)) / 2,
        naive=gradient(first, first),
        naive_bias=((samples - low) * (high - samples)).mean(axis=0) * model,
        first=first,
        second=second,
    )
