"""Significance over the steps: of the difference of two mixtures, and of a unit's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._core import LEAST_OBSERVATIONS, student_t
from .._results.volume import SIDE
from .objective import ERRORS
from .table import Sums

if TYPE_CHECKING:
    from .choose import Problem

#: Errors and times with a quotient below this count as equal.
SAME = 1.01
#: The same between mixtures, if there are too few steps to estimate the scatter.
FEW = 1.1
#: One step says nothing about others: a mixture's error must be smaller by this factor.
ONE_STEP = 4.0
_DRAWS = 400


def by_blocks(sums: Sums, figure: str, options: np.ndarray) -> np.ndarray:
    """An error of a mixture in every block of steps, in the terms that add up."""
    rows = np.arange(len(options))
    if figure == "error_over_noise":
        return sums.log2[rows, options].sum(axis=0) / np.maximum(sums.noise_blocks.sum(axis=0), 1.0)
    return sums.nmse[rows, options].sum(axis=0) / np.maximum(sums.losses, 1.0)


def ratio(
    sums: Sums,
    figure: str,
    one: np.ndarray,
    other: np.ndarray,
    sums_of_other: Sums | None = None,
) -> tuple[float, float, float]:
    """The ratio of two errors and its 95 % interval over independent blocks; NaN below four.

    `sums_of_other`: those of the other mixture, on the same steps; by default `sums`.
    """
    first, second = (
        by_blocks(sums_of, figure, options)
        for sums_of, options in ((sums, one), (sums_of_other or sums, other))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = first - second if figure == "error_over_noise" else np.log2(first) - np.log2(second)
    logs = np.where(first == second, 0.0, logs)
    half = (
        student_t(len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5
        if len(logs) >= LEAST_OBSERVATIONS
        else np.nan
    )
    return tuple(float(2.0 ** (logs.mean() + end)) for end in (0.0, -half, half))  # type: ignore[return-value]


def is_worse(problem: Problem, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a mixture is significantly worse by over 1 %; below four blocks, by over 10 %."""
    figure = problem.wish.minimize
    if figure == "volume":
        return problem.objective(one) - problem.objective(other) > SIDE
    if figure == "time":
        return problem.objective(one) > SAME * problem.objective(other)
    sums = problem.table.chosen
    middle, low, _ = ratio(sums, figure, one, other)
    return middle > FEW if np.isnan(low) else middle > SAME and low > 1.0


def is_beaten(problem: Problem, single: np.ndarray, mixture: np.ndarray) -> bool:
    """Whether a mixture is better than one scheme: by interval, in all blocks, or by `ONE_STEP`."""
    sums, figure = problem.table.chosen, problem.wish.minimize
    blocks = len(sums.losses)
    if figure not in ERRORS or blocks >= LEAST_OBSERVATIONS:
        return is_worse(problem, single, mixture)
    middle = ratio(sums, figure, single, mixture)[0]
    if blocks == 1:
        return middle > ONE_STEP
    return middle > SAME and bool(
        (by_blocks(sums, figure, single) > by_blocks(sums, figure, mixture)).all()
    )


def sureness(sums: Sums, figure: str, options: np.ndarray, price: np.ndarray) -> np.ndarray:
    """How often each unit prefers the same used candidate when blocks of steps are resampled.

    It prefers the candidate with the least sum of error and price; a plan can have another one if
    the remaining volume decides.

    Parameters
    ----------
    sums : Sums
    figure : str
        The error.
    options : (U,) int array
    price : (U, K) floats
        The price of an option's other totals, in units of the error.

    Returns
    -------
    (U,) floats
        Shares of the draws; NaN with fewer than four blocks.
    """
    blocks = len(sums.losses)
    if blocks < LEAST_OBSERVATIONS:
        return np.full(len(options), np.nan)
    used = np.unique(options)
    drawn = np.random.Generator(np.random.Philox(0)).integers(0, blocks, (_DRAWS, blocks))
    weights = np.stack([(drawn == b).sum(axis=1) for b in range(blocks)], axis=1).astype(float)
    values, size = (
        (sums.log2, sums.noise_blocks.sum(axis=0))
        if figure == "error_over_noise"
        else (sums.nmse, sums.losses)
    )
    cost = np.tensordot(values[:, used], weights, (2, 1)) / np.maximum(weights @ size, 1.0)
    cost = np.where(np.isnan(cost), np.inf, cost) + price[:, used][..., None]
    whole = values[:, used].sum(axis=2) / max(size.sum(), 1.0)
    preferred = (np.where(np.isnan(whole), np.inf, whole) + price[:, used]).argmin(axis=1)
    return (cost.argmin(axis=1) == preferred[:, None]).mean(axis=1)
