"""Layer-wise loss scales (adaptive loss scaling) on recorded activation gradients and weights."""

from __future__ import annotations

import math
import os
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.casts import quantize
from .._arrays.checks import integer, listed, number
from .._arrays.float_environment import guarded
from .._arrays.inputs import FormatLike, as_format
from .._traces.opening import as_trace
from .._traces.trace import Trace

__all__ = ["cast_scale", "join_scales", "layer_scale", "layer_scales"]
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
    rescue: float = 1.0,
    abs_range: bool = False,
    sparsity: float = 0.5,
    u_min: float | None = None,
    power_of_two: bool = True,
) -> float:
    """The scale l of one layer, a factor of its output's gradient before backpropagation.

    With sigma_o^2 = (var g + mean(g)^2) (var w + mean(w)^2) fan sparsity, of the sums of products g
    w,

        l = max(1, u_min / (sqrt2 erfinv(share) sigma_o)), at most (u_max / fan) / max abs(g w),
        at most total / cumulative and upper; then down to a power of two,

    so that a `share` of normal products is below u_min. If sigma_o is 0, the first line is 1.

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
        The scale at which the gradient arrives: the scale of the loss times those of all layers
        before. If it is above `total`, l is below 1.
    upper, total : float or None
        Bounds on l, and on the product; None: no bound.
    fan : int, optional
        Terms summed; by default the weights' first axis times all but the first two.
    element_wise : bool
        Rescue the smallest product instead: l = max(1, u_min / min abs(g w)), at most u_max / max
        abs(g w) / fan, over the nonzero products of g and w at the same output, the terms of
        the sums. `upper` and `total` do not apply. The outputs are the gradient's last axis, or, for
        weights of d > 2 axes, the axis before its last d - 2.
    rescue : float, 0 to 1
        With `element_wise`, the share of these products that are rescued: min abs(g w) is that of
        the floor(N rescue) largest of N products. u_max is compared with all of them. Below 1 all
        products are in memory at once.
    abs_range : bool
        l = max(1, (u_min / fan) / max(min|g| min|w|, 1e-15)), at most (u_max / fan) / (max|g|
        max|w|), over the nonzero elements of each tensor; 1 if one has none. `upper` and `total` do
        not apply.
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
        `share`, `fan`, `rescue` or `u_min` out of range, an unknown format, a gradient with another
        number of outputs, a product that fp64 does not have; `rescue` without `element_wise`, or
        both rules at once.

    Notes
    -----
    All numbers are fp64, of finite elements; the code ada-loss has fp32. As there, l is bounded by
    the products and not by the gradient: l g itself may overflow in the format.

    Examples
    --------
    >>> layer_scale([[1e-5]], [[1e-4]], element_wise=True, u_min=6e-8)
    32.0
    >>> layer_scale([[1e-5, 1e-7]], [[1e-4], [1e-4]], element_wise=True, u_min=6e-8, rescue=0.5)
    32.0
    """
    g, w = np.asarray(gradient, np.float64), np.asarray(weights, np.float64)
    f = as_format(format)
    smallest = f.smallest_positive if u_min is None else _positive("u_min", u_min)
    terms = math.prod((w.shape[0], *w.shape[2:])) if w.ndim else 1
    if fan is not None:
        terms = integer("fan", fan, 1, 2**62)
    share = _share(share)
    if not 0 <= number("rescue", rescue) <= 1:
        raise ValueError(f"rescue={rescue} is not between 0 and 1")
    if (rescue < 1 and not element_wise) or (element_wise and abs_range):
        raise ValueError(
            f"rescue={rescue} with element_wise={element_wise} and abs_range={abs_range} is not a "
            "rule; rescue is for element_wise, without abs_range"
        )
    if element_wise:
        l = _rescuing(g, w, smallest, f.largest, terms, rescue)
        return power_of_two_below(l) if power_of_two else l
    if abs_range:
        l = _within_extremes(g, w, smallest / terms, f.largest / terms)
        return power_of_two_below(l) if power_of_two else l
    (mean_g, var_g), (mean_w, var_w) = _moments(g), _moments(w)
    squares = (var_g + mean_g * mean_g) * (var_w + mean_w * mean_w)
    sigma = math.sqrt(squares) * math.sqrt(sparsity * terms)
    l = 1.0
    if sigma > 0:
        l = max(1.0, _quotient(smallest, _half_width(share) * sigma))
        l = min(l, _quotient(f.largest / terms, _largest(g) * _largest(w)))
    l = bounded(l, cumulative, upper, total)
    return power_of_two_below(l) if power_of_two else l


def bounded(l: float, cumulative: float, upper: float | None, total: float | None) -> float:
    """A layer's l, at most `upper`, and with the scale that arrives at most `total`."""
    return min(
        l,
        math.inf if total is None else total / cumulative,
        math.inf if upper is None else upper,
    )


def _quotient(limit: float, product: float) -> float:
    """The limit over the largest product, which must be finite in fp64."""
    if math.isinf(product):
        raise ValueError("a product of gradient and weight is beyond fp64; give smaller ones")
    return limit / product if product else math.inf


def power_of_two_below(l: float) -> float:
    """The largest power of two that is at most l, for l > 0."""
    return math.ldexp(1.0, math.frexp(l)[1] - 1)


def _half_width(share: float) -> float:
    """sqrt2 erfinv(T): the normal quantile of (1 + T) / 2."""
    return NormalDist().inv_cdf(0.5 + 0.5 * share)


def _rescuing(
    g: np.ndarray, w: np.ndarray, u_min: float, u_max: float, fan: int, rescue: float
) -> float:
    """l by the products of the sums, element by element."""
    low, high = _products(g, w)
    if not high:
        return 1.0
    if rescue < 1:
        low = _least_of_largest(g, w, rescue)
    return min(max(1.0, u_min / low if low else math.inf), _quotient(u_max, high) / fan)


def _within_extremes(g: np.ndarray, w: np.ndarray, u_min: float, u_max: float) -> float:
    """l by the products of the smallest and of the largest elements."""
    (low_g, high_g), (low_w, high_w) = _sizes(g), _sizes(w)
    if not (high_g and high_w):
        return 1.0
    return min(max(1.0, u_min / max(low_g * low_w, 1e-15)), _quotient(u_max, high_g * high_w))


def _sizes(x: np.ndarray) -> tuple[float, float]:
    """Smallest and largest magnitude of the nonzero finite elements; 0, 0 if there is none."""
    size = np.abs(x[np.isfinite(x) & (x != 0)])
    return (float(size.min()), float(size.max())) if size.size else (0.0, 0.0)


def _least_of_largest(g: np.ndarray, w: np.ndarray, rescue: float) -> float:
    """The smallest magnitude of this share of the nonzero products, the largest ones; or inf."""
    rows = [np.moveaxis(x, axis, 0) for x, axis in ((g, _outputs(g, w)), (w, 0))]
    found = []
    for of_g, of_w in zip(*rows, strict=True):
        factors = [np.abs(x[np.isfinite(x) & (x != 0)]) for x in (of_g, of_w)]
        found.append(np.multiply.outer(*factors).ravel())
    products = np.concatenate(found)
    count = int(products.size * rescue)
    return float(np.partition(products, products.size - count)[-count]) if count else math.inf


def _outputs(g: np.ndarray, w: np.ndarray) -> int:
    """The gradient's axis of the outputs."""
    axis = -1 if w.ndim < 2 else 1 - w.ndim
    if g.ndim < -axis or not w.ndim or g.shape[axis] != w.shape[0]:
        raise ValueError(
            f"weights of shape {w.shape} do not fit a gradient of shape {g.shape}; its axis "
            f"{axis} must be the weights' first"
        )
    return axis


def _products(g: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """Smallest and largest magnitude of the nonzero products g w at the same output; or 0, 0."""
    outputs = _outputs(g, w)
    low, high = np.ones(w.shape[0]), np.ones(w.shape[0])
    for factor in (np.moveaxis(g, outputs, 0), w):
        size = np.abs(factor).reshape(w.shape[0], -1) if factor.size else np.zeros((w.shape[0], 1))
        size[~np.isfinite(size)] = 0.0
        with np.errstate(over="ignore"):
            low *= np.where(size > 0, size, math.inf).min(axis=1, initial=math.inf)
            high *= size.max(axis=1, initial=0.0)
    return (float(low.min()), float(high.max())) if high.any() else (0.0, 0.0)


@guarded
def cast_scale(
    gradient: Any,
    *,
    format: FormatLike = "fp16",
    share: float = 1e-3,
    cumulative: float = 1.0,
    upper: float | None = 16.0,
    total: float | None = 1024.0,
    lognormal: bool = False,
    u_min: float | None = None,
    power_of_two: bool = True,
) -> float:
    """The scale l of a gradient that is cast to a narrower format, at a border between formats.

    With the standard deviation sigma of the elements g, about their mean,

        l = max(1, u_min / (sqrt2 erfinv(share) sigma)), at most u_max / max abs(g),
        at most total / cumulative and upper; then down to a power of two,

    so that a `share` of a normal gradient is below u_min. With `lognormal`, and the mean mu and
    standard deviation s of ln abs(g) over the elements that are not zero,

        l = max(1, exp(ln u_min - mu - s sqrt2 erfinv(2 share - 1))), with the same bounds.

    If the standard deviation is 0, or there is no element, the first line is 1.

    Source: R. Zhao et al., arXiv:1910.12385, and its code (`AdaLossCastFunction`), in fp32.

    Parameters
    ----------
    gradient : array_like
        As it arrives, of any shape. Elements that are not finite do not count.
    format : FloatFormat, str or dtype
        That of the result: u_min is its smallest positive value, u_max its largest.
    share, cumulative, upper, total, u_min, power_of_two
        As for `layer_scale`.
    lognormal : bool
        Whether the logarithms of the magnitudes are taken to be normal.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        `share` or `u_min` out of range, an unknown format.

    Examples
    --------
    >>> cast_scale([1e-5, -1e-5], u_min=6e-8)
    4.0
    """
    g = np.asarray(gradient, np.float64)
    f, share = as_format(format), _share(share)
    smallest = f.smallest_positive if u_min is None else _positive("u_min", u_min)
    sizes = np.abs(g[np.isfinite(g) & (g != 0)])
    mean, variance = _moments(np.log(sizes) if lognormal else g)
    sigma, l = math.sqrt(variance), 1.0
    if sigma > 0:
        if lognormal:
            exponent = math.log(smallest) - mean - sigma * NormalDist().inv_cdf(share)
            l = math.exp(min(exponent, 700.0))
        else:
            l = _quotient(smallest, _half_width(share) * sigma)
        l = min(max(1.0, l), f.largest / float(sizes.max()))
    l = bounded(l, cumulative, upper, total)
    return power_of_two_below(l) if power_of_two else l


@guarded
def join_scales(
    scales: list[float],
    largest: list[float],
    *,
    format: FormatLike = "fp16",
    floor: float = 0.125,
) -> float:
    """The common scale of gradients at a branch: the largest of theirs at which all fit.

    A gradient fits if its largest magnitude is below the format's largest value. If none of the
    scales fits, the smallest is halved until one does, as long as it is at least `floor`: the last
    that is tried is the first below it.

    Parameters
    ----------
    scales : list of float
        Cumulative scale of each gradient.
    largest : list of float
        Largest scaled magnitude of each.
    format : FloatFormat, str or dtype
        Its largest value is the limit.
    floor : float
        The least scale that is halved.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        No scale, or not one largest magnitude each; no scale fits.
    """
    limit = as_format(format).largest
    scales = [_positive("scales", s) for s in listed("scales", scales)]
    largest = [number("largest", a) for a in listed("largest", largest)]
    if not scales or len(scales) != len(largest):
        raise ValueError(
            f"{len(scales)} scales and {len(largest)} largest magnitudes; give one of each per "
            "gradient, at least one"
        )
    unscaled = float(np.max([a / s for a, s in zip(largest, scales, strict=True)]))
    candidates = sorted(scales, reverse=True)
    while candidates[-1] >= _positive("floor", floor):
        candidates.append(candidates[-1] / 2)
    for scale in candidates:
        if unscaled * scale < limit:
            return scale
    raise ValueError(
        f"an unscaled gradient of {unscaled:g} does not fit below {limit:g}, the largest value of "
        f"{as_format(format)}, at any scale from {candidates[0]:g} to {candidates[-1]:g}; give a "
        "smaller gradient, a smaller floor, or a wider format"
    )


def _positive(name: str, value: Any) -> float:
    value = number(name, value)
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value} must be a finite number above 0")
    return value


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
