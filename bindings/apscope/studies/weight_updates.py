"""The effect of low precision on weights: lost updates, and residuals that keep them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.arithmetic import subtract
from .._arrays.casts import quantize
from .._arrays.float_environment import guarded
from .._arrays.inputs import FormatLike, as_format
from .._traces.opening import as_trace
from .._traces.trace import Trace

__all__ = [
    "SGDUpdates", "WeightResidual", "sgd_updates", "underflow_curve", "update_underflow",
    "weight_residual",
]  # fmt: skip
__dir__ = __all__.copy


def _update(trace: Trace, step: int, tensor: str, learning_rate: float | None) -> np.ndarray:
    """eta g in fp64; g is the exact sum or mean of the workers' gradients."""
    if learning_rate is None:
        learning_rate = trace.manifest.steps[trace.steps.index(step)].learning_rate
        if learning_rate is None or not np.isfinite(learning_rate):
            raise ValueError(
                f"{trace.path}: step {step} has no learning rate recorded; give learning_rate="
            )
    # After the all-reduce all are equal.
    ranks = range(trace.workers if trace.manifest.stage == "local" else 1)
    # The sum or mean that the optimizer gets.
    total = np.sum([trace.read(step, tensor, w).astype(np.float64) for w in ranks], axis=0)
    return learning_rate * (total / len(ranks) if trace.manifest.reduction == "mean" else total)


@guarded
def update_underflow(
    trace: Trace | str | os.PathLike[str],
    format: FormatLike = "fp16",
    *,
    master: FormatLike = "fp32",
    learning_rate: float | None = None,
    steps: Iterable[int] | None = None,
) -> pd.DataFrame:
    """The share of lost weight updates w - eta g, which do not change the weight.

    In a format with rounding to nearest, ties to even, an update d is lost if abs(d) < ulp(w) / 2,
    or if it is equal and w's last bit is even; for abs(w) = 2^k and d towards 0, with ulp(w) / 4
    instead. Every subtraction is exact and rounded once, so this is counted, not estimated.

    Parameters
    ----------
    trace : Trace or path-like
        With ``weights`` recorded.
    format : FloatFormat, str or dtype
        Weights without a master copy: w is the recorded weight, rounded to it.
    master : FloatFormat, str or dtype
        Of a master copy: w is the recorded weight, rounded to that.
    learning_rate : float, optional
        By default the recorded one. The update is eta times the sum or mean of the workers'
        gradients, without momentum.
    steps : iterable of int, optional
        By default all that have weights.

    Returns
    -------
    pandas.DataFrame
        step, tensor, updates (finite, not zero), lost, lost_with_master (counts), share,
        share_with_master, and kept_by_master: the part of the lost updates that the master copy
        keeps.

    Raises
    ------
    ValueError
        No weights at a step, or no learning rate.
    """
    trace = as_trace(trace)
    formats = [as_format(format), as_format(master)]
    chosen = trace.recorded()["weights"] if steps is None else tuple(steps)
    rows = []
    for step in chosen:
        for tensor in trace.names(step, "weights"):
            if tensor not in trace.tensors:
                continue
            d = _update(trace, step, tensor, learning_rate).ravel()
            w = trace.read(step, tensor, 0, "weights").astype(np.float64).ravel()
            there = np.isfinite(d) & (d != 0) & np.isfinite(w)
            d, w = d[there], w[there]
            lost = []
            for f in formats:
                before = np.asarray(quantize(w, f, overflow="saturate"), np.float64)
                lost.append(np.asarray(subtract(before, d, f), np.float64) == before)
            counts = [int(x.sum()) for x in lost]
            n = d.size
            rescued = int((lost[0] & ~lost[1]).sum())
            rows.append(
                (
                    step,
                    tensor,
                    n,
                    *counts,
                    *(c / n if n else 0.0 for c in counts),
                    rescued / counts[0] if counts[0] else 0.0,
                )
            )
    if not rows:
        raise ValueError(f"{trace.path}: no weights recorded at steps {list(chosen)}")
    return pd.DataFrame(
        rows,
        columns=[
            "step",
            "tensor",
            "updates",
            "lost",
            "lost_with_master",
            "share",
            "share_with_master",
            "kept_by_master",
        ],
    )


@guarded
def underflow_curve(
    x: Any, format: FormatLike = "fp16", *, exponents: Iterable[int] = range(25)
) -> pd.DataFrame:
    """Underflow against a loss scale 2^k, from one histogram of exponents.

    A power of two shifts the histogram. In a format whose smallest positive value q is a power of
    two, a nonzero x with abs(x) 2^k <= q / 2 becomes 0 (also in a tie): all of the bins below that
    of q / 2, and in that bin the elements equal to q / 2, which are counted separately.

    Parameters
    ----------
    x : array_like
        Gradients; zeros and elements that are not finite are ignored.
    format : FloatFormat, str or dtype
        Rounding is to nearest.
    exponents : iterable of int
        The k.

    Returns
    -------
    pandas.DataFrame
        scale_exponent, below (bins below), at_threshold, zeros (their sum), underflow (share of the
        nonzero elements).

    Raises
    ------
    ValueError
        The format's smallest positive value is not a power of two, so bins are not enough.
    """
    f = as_format(format)
    fraction, exponent = np.frexp(f.smallest_positive)
    if fraction != 0.5:
        raise ValueError(
            f"format {f.name}: its smallest positive value {f.smallest_positive} is not a power of "
            "two; count by casting instead"
        )
    threshold = int(exponent) - 2  # exponent of q / 2
    a = np.abs(np.asarray(x, np.float64).ravel())
    a = a[np.isfinite(a) & (a > 0)]
    fractions, bins = np.frexp(a)
    bins = bins - 1
    low = int(bins.min()) if a.size else 0
    histogram = np.bincount(bins - low, minlength=1)  # exponent low, low + 1, ...
    powers = np.bincount((bins - low)[fractions == 0.5], minlength=histogram.size)
    cumulative = np.concatenate([[0], np.cumsum(histogram)])
    rows = []
    for k in exponents:
        at = threshold - k - low
        below = int(cumulative[np.clip(at, 0, histogram.size)])
        exact = int(powers[at]) if 0 <= at < powers.size else 0
        rows.append((k, below, exact, below + exact, (below + exact) / a.size if a.size else 0.0))
    return pd.DataFrame(
        rows, columns=["scale_exponent", "below", "at_threshold", "zeros", "underflow"]
    )


@dataclass(frozen=True)
class SGDUpdates:
    """The result of `sgd_updates`, an argument of `weight_residual`."""

    weights: np.ndarray  #: float64
    updates: np.ndarray  #: float64, one row per step


@guarded
def sgd_updates(
    trace: Trace | str | os.PathLike[str],
    tensor: str,
    *,
    steps: Iterable[int] | None = None,
    learning_rate: float | None = None,
) -> SGDUpdates:
    """The weights at a recorded step and the updates -eta g of the steps that follow without a gap.

    Parameters
    ----------
    trace : Trace or path-like
        With ``weights`` at the first of the steps.
    tensor : str
        A tensor's name.
    steps : iterable of int, optional
        By default from the first step with weights, while the numbers are consecutive.
    learning_rate : float, optional
        By default the recorded ones, without momentum.

    Returns
    -------
    SGDUpdates

    Raises
    ------
    ValueError
        No weights recorded, a step without a learning rate.
    """
    trace = as_trace(trace)
    if steps is None:
        recorded = trace.recorded()["weights"]
        if not recorded:
            raise ValueError(
                f"{trace.path}: no weights recorded; give arrays to weight_residual instead"
            )
        chosen = [recorded[0]]
        while chosen[-1] + 1 in trace.steps:
            chosen.append(chosen[-1] + 1)
    else:
        chosen = list(steps)
    weights = trace.read(chosen[0], tensor, 0, "weights").astype(np.float64)
    return SGDUpdates(
        weights, np.stack([-_update(trace, step, tensor, learning_rate) for step in chosen])
    )


@dataclass(frozen=True)
class WeightResidual:
    """Low-precision weights with and without a residual: float64, one row per step from 0."""

    weights: np.ndarray  #: in the format
    residual: np.ndarray  #: their rounding error, kept by each worker
    without: np.ndarray  #: weights in the format, without a residual
    target: np.ndarray  #: the first weights plus the sum of the updates so far


@guarded
def weight_residual(
    weights: Any,
    updates: Any,
    format: FormatLike = "hfp8_forward",
    *,
    residual_format: FormatLike | None = None,
) -> WeightResidual:
    """Updates of low-precision weights, each with the residual of the last rounding.

        p = w + r + update,  w = Q(p),  r = p - w

    so weights + residual equals the first weights plus all updates, if the additions are exact.
    This is error feedback on weights. It starts at w = Q(weights), r = weights - w.

    Parameters
    ----------
    weights : array_like, shape (...)
    updates : array_like, shape (steps, ...)
        The update of each step, such as from `sgd_updates`.
    format : FloatFormat, str or dtype
        Of the weights, saturating: ``hfp8_forward`` is 1-4-3, bias 11, all exponents normal: 1.125
        2^-11 to 30; ``e4m3b11fnuz`` has its values with subnormals, from 2^-13, 2^-10 the smallest
        normal one.
    residual_format : FloatFormat, str or dtype, optional
        The residual is rounded to it; by default it stays fp64.

    Returns
    -------
    WeightResidual

    Raises
    ------
    ValueError
        Updates whose rows do not have the weights' shape, an unknown format.
    """
    f = as_format(format)
    w0, u = np.asarray(weights, np.float64), np.asarray(updates, np.float64)
    if u.shape[1:] != w0.shape:
        raise ValueError(
            f"updates have shape {u.shape}; give one row per step of the weights' shape {w0.shape}"
        )

    def rounded(p: np.ndarray) -> np.ndarray:
        return np.asarray(quantize(p, f, overflow="saturate"), np.float64)

    def left(p: np.ndarray, w: np.ndarray) -> np.ndarray:
        r = p - w
        return (
            r
            if residual_format is None
            else np.asarray(quantize(r, residual_format, overflow="saturate"), np.float64)
        )

    with_it, without = [rounded(w0)], [rounded(w0)]
    residual, target = [left(w0, with_it[0])], [w0]
    for update in u:
        p = with_it[-1] + residual[-1] + update
        with_it.append(rounded(p))
        residual.append(left(p, with_it[-1]))
        without.append(rounded(without[-1] + update))
        target.append(target[-1] + update)
    return WeightResidual(
        np.stack(with_it), np.stack(residual), np.stack(without), np.stack(target)
    )
