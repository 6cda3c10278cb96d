"""What the steps tell apart, and how surely: two mixtures, and the choice of a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._results.intervals import student_t
from .._results.volume import SIDE
from .table import Sums
from .wish import ERRORS

if TYPE_CHECKING:
    from .choose import Problem

__all__ = ["FEW", "ONE_STEP", "SAME", "by_blocks", "is_beaten", "is_worse", "ratio", "sureness"]

#: Errors and times whose quotient is below this count as equal.
SAME = 1.01
#: The same between mixtures, where the steps are too few to say how much they scatter.
FEW = 1.1
#: From so many blocks of steps on Student's interval decides.
_ENOUGH = 4
#: One step says nothing of others: a mixture must have so many times less than one scheme for all.
ONE_STEP = 4.0
_DRAWS = 400


def by_blocks(sums: Sums, figure: str, options: np.ndarray) -> np.ndarray:
    """An error of a mixture in every block of steps, in the terms that add up."""
    rows = np.arange(len(options))
    if figure == "error_over_noise":
        return sums.log2[rows, options].sum(axis=0) / np.maximum(sums.noise_blocks.sum(axis=0), 1.0)
    return sums.nmse[rows, options].sum(axis=0) / np.maximum(sums.losses, 1.0)


def ratio(sums: Sums, figure: str, one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """How many times as large the error of `one` is, and its interval of 95 %, the blocks of steps as independent; NaN with fewer than four."""
    first, second = by_blocks(sums, figure, one), by_blocks(sums, figure, other)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = first - second if figure == "error_over_noise" else np.log2(first) - np.log2(second)
    logs = np.where(first == second, 0.0, logs)
    half = student_t(len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5 if len(logs) >= _ENOUGH else np.nan
    return tuple(float(2.0 ** (logs.mean() + end)) for end in (0.0, -half, half))  # type: ignore[return-value]


def is_worse(problem: Problem, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a mixture is worse than another one by more than a hundredth, as far as the steps tell; with fewer than four blocks, by more than a tenth."""
    figure = problem.wish.minimize
    if figure == "volume":
        return problem.objective(one) - problem.objective(other) > SIDE
    if figure == "time":
        return problem.objective(one) > SAME * problem.objective(other)
    sums = problem.table.chosen
    middle, low, _ = ratio(sums, figure, one, other)
    return middle > FEW if np.isnan(low) else middle > SAME and low > 1.0


def is_beaten(problem: Problem, single: np.ndarray, mixture: np.ndarray) -> bool:
    """Whether a mixture is better than one scheme for all: by the interval, with fewer than four blocks in every one of them, with one by `ONE_STEP`."""
    sums, figure = problem.table.chosen, problem.wish.minimize
    blocks = len(sums.losses)
    if figure not in ERRORS or blocks >= _ENOUGH:
        return is_worse(problem, single, mixture)
    middle = ratio(sums, figure, single, mixture)[0]
    if blocks == 1:
        return middle > ONE_STEP
    return middle > SAME and bool((by_blocks(sums, figure, single) > by_blocks(sums, figure, mixture)).all())


def sureness(sums: Sums, figure: str, options: np.ndarray, price: np.ndarray, seed: int = 0) -> np.ndarray:
    """How often each unit would prefer the same of the candidates in use by other steps: blocks of steps drawn with replacement.

    What it prefers is the candidate with the least sum of error and price; where the volume that is left decides, a plan has another.

    Parameters
    ----------
    sums : Sums
    figure : str
        The error.
    options : (U,) int array
    price : (U, K) floats
        What an option's other totals are worth, in the terms of the error.

    Returns
    -------
    (U,) floats
        Shares of the draws; NaN with fewer than four blocks.
    """
    blocks = len(sums.losses)
    if blocks < _ENOUGH:
        return np.full(len(options), np.nan)
    used = np.unique(options)
    drawn = np.random.Generator(np.random.Philox(seed)).integers(0, blocks, (_DRAWS, blocks))
    weights = np.stack([(drawn == b).sum(axis=1) for b in range(blocks)], axis=1).astype(float)
    values, size = (sums.log2, sums.noise_blocks.sum(axis=0)) if figure == "error_over_noise" else (sums.nmse, sums.losses)
    cost = np.tensordot(values[:, used], weights, (2, 1)) / np.maximum(weights @ size, 1.0)
    cost = np.where(np.isnan(cost), np.inf, cost) + price[:, used][..., None]
    whole = values[:, used].sum(axis=2) / max(size.sum(), 1.0)
    preferred = (np.where(np.isnan(whole), np.inf, whole) + price[:, used]).argmin(axis=1)
    return (cost.argmin(axis=1) == preferred[:, None]).mean(axis=1)
