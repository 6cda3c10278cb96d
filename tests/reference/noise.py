"""The noise of the batch and errors in its unit: definitions.md section 16, walked literally in
fp64 with libm's log2."""

from __future__ import annotations

import math

import numpy as np

from .statistics import fixed_shape_sum, quotient

BLOCK = 32
COLUMNS = (
    "sum_noise",
    "noise_blocks",
    "sum_log2_error_over_noise",
    "error_over_noise",
    "pooled_error_over_noise",
)


def block_sums(terms: np.ndarray) -> np.ndarray:
    """The noise of every 32 consecutive elements; elements that are not finite add nothing."""
    kept = np.where(np.isfinite(terms), terms, 0.0)
    return np.array([fixed_shape_sum(kept[i : i + BLOCK]) for i in range(0, len(kept), BLOCK)])


def noise_of(g: np.ndarray, reduction: str) -> np.ndarray | None:
    """g: (W, n). The variance of the workers' mean, or of their sum, over every noise block; None
    for one worker."""
    workers = len(g)
    if workers < 2:
        return None
    x = g.astype(np.float64)
    mean = np.add.accumulate(x, axis=0)[-1] / workers
    deviations = [block_sums((row - mean) ** 2) for row in x]
    unit = workers * (workers - 1) if reduction == "mean" else (workers - 1) / workers
    return np.add.accumulate(deviations, axis=0)[-1] / unit


def over_noise(noise: np.ndarray | None, reference: np.ndarray, y: np.ndarray) -> dict:
    """The columns of a reduced row."""
    if noise is None:
        return dict.fromkeys(COLUMNS)
    both = np.isfinite(reference) & np.isfinite(y)
    error = np.where(both, y - reference, 0.0)
    squares, there = block_sums(error * error), noise > 0
    total = float(sum(fixed_shape_sum(noise[i : i + 128]) for i in range(0, len(noise), 128)))
    row = {
        "sum_noise": total,
        "noise_blocks": int(there.sum()),
        "error_over_noise": None,
        "pooled_error_over_noise": None,
    }
    q = np.maximum(squares[there] / noise[there], 2.0**-30)
    overflows = bool((np.isfinite(reference) & ~np.isfinite(y)).any())
    row["sum_log2_error_over_noise"] = math.inf if overflows else math.fsum(np.log2(q))
    row["sum_log2_error_over_noise_tolerance"] = 1e-13 * float(np.abs(np.log2(q)).sum()) + 1e-13
    if len(q):
        row["error_over_noise"] = (
            math.inf if overflows else 2.0 ** (row["sum_log2_error_over_noise"] / len(q))
        )
        row["error_over_noise_tolerance"] = 1e-11 * row["error_over_noise"]
        lost = fixed_shape_sum(error * error)
        row["pooled_error_over_noise"] = math.inf if overflows else quotient(lost, total)
    return row


def without(g: np.ndarray, reduction: str) -> list[tuple[float, float]]:
    """Of every worker: the noise without it, added up, and the sum of log2 of its ratio to that
    with all, over blocks that are not lone."""
    workers = len(g)
    full, factor = (
        noise_of(g, reduction),
        (workers - 1) / workers if reduction == "mean" else workers / (workers - 1),
    )
    finite = np.where(np.isfinite(g).all(axis=0), g, 0.0)
    # Without w there are W - 1 workers, whose mean varies more than that of W: the factor takes
    # that back.
    left = np.array(
        [noise_of(np.delete(finite, w, axis=0), reduction) * factor for w in range(workers)]
    )
    known = (full > 0) & (left.min(axis=0) >= 2.0**-10 * full)
    return [(math.fsum(row), math.fsum(np.log2(row[known] / full[known]))) for row in left]
