"""Layer-wise loss scales (adaptive loss scaling) on recorded activation gradients and weights."""

from __future__ import annotations

import math
import os
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.casts import quantize
from .._arrays.checks import listed, number
from .._arrays.float_environment import guarded
from .._arrays.inputs import FormatLike, as_format
from .._traces.opening import as_trace
from .._traces.trace import Trace

__all__ = ["join_scales", "layer_scale", "layer_scales"]
__dir__ = __all__.copy


def _moments(x: np.ndarray) -> tuple[float, float]:
    """Mean and variance of the finite elements."""
    finite = x[np.isfinite(x)].astype(np.float64)
    return (float(finite.mean()), float(finite.var())) if finite.size else (0.0, 0.0)


def _largest(x: np.ndarray) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0


def _share(share: float) -> float:
    if not 1e-6 <= share <= 0.5:
        raise ValueError(f"share={share} is not between 1e-6 and 0.5")
    return float(share)


@guarded
def layer_scale(
    gradient: Any,
    weights: Any,
    *,
    format: FormatLike = "fp16",
    share: float = 1e-3,
    cumulative: float = 1.0,
    upper: float | None = 16.0,
    total: float | None = 1024.0,
    fan: int | None = None,
    element_wise: bool = False,
    sparsity: float = 0.5,
    u_min: float | None = None,
    power_of_two: bool = True,
) -> float:
    """The scale l of one layer, a factor of its output's gradient before backpropagation.

    With sigma_o^2 = (var g + mean(g)^2) (var w + mean(w)^2) fan sparsity, of the sums of products g
    w,

        l = max(1, u_min / (sqrt2 erfinv(share) sigma_o)), at most (u_max / fan) / max abs(g w),
        at most total / cumulative and upper; then down to a power of two,

    so that a `share` of normal products is below u_min. Zero sigma_o: 1.

    Parameters
    ----------
    gradient, weights : array_like
        The gradient of the layer's output, and the layer's weights, whose first axis is its
        outputs.
    format : FloatFormat, str or dtype
        u_min is its smallest positive value, u_max its largest.
    share : float
        The target T, 1e-6 to 0.5.
    cumulative : float
        Product of the scales of all earlier layers.
    upper, total : float or None
        Bounds on l, and on the product; None: no bound.
    fan : int, optional
        Terms summed; by default the weights' first axis times all but the first two.
    element_wise : bool
        Rescue the smallest product instead: l = u_min / min abs(g w), over nonzero products of any
        g with any w.
    sparsity : float
        Share of products that pass a ReLU.
    u_min : float, optional
        Instead of the format's: ada-loss has 6e-8 for fp16.
    power_of_two : bool
        False: l is a real number.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        `share` out of range, an unknown format.

    Examples
    --------
    >>> layer_scale([[1e-5]], [[1e-4]], element_wise=True, upper=None, total=None, u_min=6e-8)
    32.0
    """
    g, w = np.asarray(gradient, np.float64), np.asarray(weights, np.float64)
    f = as_format(format)
    smallest = f.smallest_positive if u_min is None else u_min
    terms = (math.prod((w.shape[0], *w.shape[2:])) if w.ndim else 1) if fan is None else fan
    (mean_g, var_g), (mean_w, var_w) = _moments(g), _moments(w)
    sigma = math.sqrt((var_g + mean_g**2) * (var_w + mean_w**2)) * math.sqrt(sparsity * terms)
    if sigma == 0.0:
        return 1.0
    if element_wise:
        product = min(np.abs(g[g != 0]).min() * np.abs(w[w != 0]).min(), math.inf)
        l = max(1.0, smallest / product)
    else:
        # sqrt2 erfinv(T) is the normal quantile of (1 + T) / 2.
        l = max(1.0, smallest / (NormalDist().inv_cdf(0.5 + 0.5 * _share(share)) * sigma))
    l = min(l, f.largest / terms / (_largest(g) * _largest(w)))
    if total is not None:
        l = min(l, total / cumulative)
    if upper is not None:
        l = min(l, upper)
    return math.ldexp(1.0, math.frexp(l)[1] - 1) if power_of_two else l


@guarded
def join_scales(
    scales: list[float],
    largest: list[float],
    *,
    format: FormatLike = "fp16",
    min_factor: float = 0.125,
) -> float:
    """The common scale of gradients at a branch: the largest of theirs at which none overflows.

    If all would, the smallest is halved, down to `min_factor` times it.

    Parameters
    ----------
    scales : list of float
        Cumulative scale of each gradient.
    largest : list of float
        Largest scaled magnitude of each.
    format : FloatFormat, str or dtype
        Its largest value is the limit.
    min_factor : float
        How far the smallest scale may be lowered.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        No scale, or not one largest magnitude each.
    """
    limit = as_format(format).largest
    scales = [number("scales", s) for s in listed("scales", scales)]
    largest = [number("largest", a) for a in listed("largest", largest)]
    if not scales or len(scales) != len(largest):
        raise ValueError(
            f"{len(scales)} scales and {len(largest)} largest magnitudes; give one of each per "
            "gradient, at least one"
        )
    halved = [min(scales) * 0.5**k for k in range(1, 60) if 0.5**k >= min_factor]
    candidates = sorted(set(scales), reverse=True) + halved
    for scale in candidates:
        if all(a * (scale / s) <= limit for a, s in zip(largest, scales, strict=True)):
            return scale
    return candidates[-1]


@guarded
def layer_scales(
    trace: Trace | str | os.PathLike[str],
    step: int,
    *,
    format: FormatLike = "fp16",
    worker: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Adaptive loss scaling on one step's recorded activation gradients, layer by layer backwards.

    Layers with weights of two axes or more (linear, convolution) and recorded gradients, in the
    reverse of the trace's order, form a chain: the result of `layer_scale` for one multiplies all
    below it. A recorded gradient is not changed by the rounding of layers above (open loop), and
    branches are treated as a chain; see `join_scales`.

    Parameters
    ----------
    trace : Trace or path-like
        With ``activation_gradient`` and ``weights`` at `step`.
    step : int
        A recorded step.
    format : FloatFormat, str or dtype
        As for `layer_scale`.
    worker : int
        The rank of the gradients.
    **options
        Of `layer_scale`.

    Returns
    -------
    pandas.DataFrame
        One row per layer, in the order of backpropagation: layer, fan, scale (l), cumulative (P:
        the scale passed on), target, predicted (share of products below u_min at scale P, by the
        normal model, 0 for an all-zero gradient), underflow_before, underflow (shares of the
        layer's nonzero gradient elements that round to 0 in the format, as recorded and at scale
        P), overflow_before, overflow (counts).

    Raises
    ------
    ValueError
        The step has no activation gradients or no weights.
    """
    trace = as_trace(trace)
    for kind in ("activation_gradient", "weights"):
        if not trace.names(step, kind):
            raise ValueError(
                f"{trace.path}: step {step} has no {kind} recorded; steps with it are "
                f"{trace.recorded()[kind]}"
            )
    f = as_format(format)
    gradients = set(trace.names(step, "activation_gradient"))
    layers = [
        n.removesuffix(".weight")
        for n, shape in trace.shapes.items()
        if n.endswith(".weight") and len(shape) >= 2
    ]
    share, sparsity = _share(options.get("share", 1e-3)), options.get("sparsity", 0.5)
    u_min = options.get("u_min") or f.smallest_positive
    cumulative, rows = 1.0, []
    for layer in (
        n for n in reversed(layers) if n in gradients and trace.roles[f"{n}.weight"] != "embedding"
    ):
        g = trace.read(step, layer, worker, "activation_gradient").astype(np.float64)
        w = trace.read(step, f"{layer}.weight", 0, "weights").astype(np.float64)
        before = cumulative
        # Its gradient has the scale of the layers above.
        l = layer_scale(g * before, w, format=f, cumulative=before, **options)
        cumulative = before * l
        fan = options.get("fan") or math.prod((w.shape[0], *w.shape[2:]))
        (mean_g, var_g), (mean_w, var_w) = _moments(g), _moments(w)
        sigma = math.sqrt((var_g + mean_g**2) * (var_w + mean_w**2) * sparsity * fan) * cumulative
        finite = g[np.isfinite(g) & (g != 0)]
        cast = [quantize(finite * scale, f) for scale in (1.0, cumulative)]
        lost = [float((y == 0).mean()) if y.size else 0.0 for y in cast]
        over = [int((~np.isfinite(y)).sum()) for y in cast]
        predicted = 2 * NormalDist().cdf(u_min / sigma) - 1 if sigma > 0 else 0.0
        rows.append(
            (layer, fan, l, cumulative, share, predicted, lost[0], lost[1], over[0], over[1])
        )
    columns = [
        "layer", "fan", "scale", "cumulative", "target", "predicted", "underflow_before",
        "underflow", "overflow_before", "overflow",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)
