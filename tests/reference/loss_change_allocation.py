"""Loss Change Allocation: the change of the loss in one step, divided among the parameters.

With n intervals between the weights w before and v after a step, gradients g_j at
(1 - j / n) w + (j / n) v, j = 0..n, and Simpson's weights 1, 4, 2, ..., 4, 1, whose sum is 3 n:

    allocation = (sum of weight_j g_j / (3 n)) (v - w), element by element
    error = loss(v) - (loss(w) + sum of the allocations), per set of data

n begins at 2 and doubles while the largest |error| of the sets exceeds 0.001 and n < 32. Points
are computed in fp64, gradients are kept in fp32.

Source: Lan, Liu, Zhou and Yosinski, LCA: Loss Change Allocation for Neural Network Training, NeurIPS
2019; the rule as in uber-research/loss-change-allocation at 511b616a (adaptive_calc_gradients.py,
plot_util.py). The loss is the cross entropy alone, the mean over large batches of a set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

#: At a point: the loss and the gradient of one set.
Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]


def point(w: np.ndarray, v: np.ndarray, j: int, n: int) -> np.ndarray:
    w, v = np.asarray(w, np.float64), np.asarray(v, np.float64)
    return (1 - j / n) * w + (j / n) * v


def weights(n: int) -> np.ndarray:
    """Simpson's for n even intervals, their sum 1."""
    found = np.where(np.arange(n + 1) % 2, 4.0, 2.0)
    found[[0, -1]] = 1.0
    return found / found.sum()


def new_points(n: int) -> list[int]:
    """The j whose gradients n / 2 intervals did not have; all three for 2."""
    return list(range(3)) if n == 2 else list(range(1, n, 2))


def first_order(w: np.ndarray, v: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """With the gradient at w alone."""
    return np.asarray(gradient, np.float64) * (np.asarray(v, np.float64) - w)


@dataclass
class Allocation:
    parts: list[np.ndarray]  #: per set
    errors: list[float]  #: per set
    intervals: int


def allocate(
    w: np.ndarray,
    v: np.ndarray,
    sets: Sequence[Evaluate],
    tolerance: float = 1e-3,
    most: int = 32,
) -> Allocation:
    """Of the training set and the test set: one n for both."""
    gradients: dict[tuple[int, float], np.ndarray] = {}
    losses: dict[tuple[int, float], float] = {}
    d = np.asarray(v, np.float64) - np.asarray(w, np.float64)
    n = 2
    while True:
        for s, evaluate in enumerate(sets):
            for j in new_points(n):
                loss, gradient = evaluate(point(w, v, j, n))
                losses[s, j / n] = loss
                gradients[s, j / n] = np.asarray(gradient, np.float32)
        parts = [
            sum(c * gradients[s, j / n].astype(np.float64) for j, c in enumerate(weights(n))) * d
            for s in range(len(sets))
        ]
        errors = [
            losses[s, 1.0] - (losses[s, 0.0] + float(part.sum())) for s, part in enumerate(parts)
        ]
        if max(map(abs, errors)) <= tolerance or n >= most:
            return Allocation(parts, errors, n)
        n *= 2
