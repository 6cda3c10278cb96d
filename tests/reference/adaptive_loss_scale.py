"""Adaptive loss scaling: the scale l of a layer's incoming gradient, of a border between formats,
and of the sum where a tensor is read twice. P is the product of all scales before, the loss's own
included; the gradient g arrives multiplied by P.

Moments of g and W are fp32 numbers. Their sums are computed exactly and rounded once, because the
order of a library's sum is not part of the rule.

Source: Zhao, Vogel, Ahmed and Luk, arXiv 1910.12385 (IJCAI 2020); kumasento/gradient-scaling at
0ca43543 (ada_loss/core.py, ada_loss/chainer_impl), older ada-loss/ada-loss at 060a6a82. The sources
do not treat gradients that are not finite.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

F = np.float32

#: Share of products that may underflow.
SHARE = 1e-3

#: Limits (u_min, u_max) of the formats. The smallest one of fp16 is a decimal, not 2^-24.
LIMITS = {"fp16": (6.0e-8, 65504.0), "fp32": (1e-23, 1e23)}


def moments(x: np.ndarray) -> tuple[F, F]:
    """The mean and the population's standard deviation."""
    x = np.asarray(x, F).astype(np.float64)
    mean = math.fsum(x.ravel()) / x.size
    return F(mean), F(math.sqrt(math.fsum(((x - mean) ** 2).ravel()) / x.size))


def fan(W: np.ndarray) -> int:
    """W.shape[0] of a linear layer, times the kernel's size of a convolution (out, in, kh, kw)."""
    return W.shape[0] * math.prod(W.shape[2:])


def largest(x: np.ndarray) -> F:
    return F(np.abs(np.asarray(x, F)).max(initial=0))


def normal_factor() -> float:
    """sqrt(2) erfinv(SHARE): |N(0, 1)| is below it with probability SHARE."""
    return NormalDist().inv_cdf((1 + SHARE) / 2)


def approx_range(g: np.ndarray, W: np.ndarray, u_min: float, u_max: float) -> float:
    """From the distribution of the layer's products, l before the bounds:

        sigma = sqrt((var g + mean^2 g)(var W + mean^2 W)) sqrt(fan / 2)
        l = min(max(u_min / (sqrt(2) erfinv(1e-3) sigma), 1), (u_max / fan) / (max|g| max|W|))

    A sigma of 0 gives 1, without the second bound. l may be less than 1."""
    if g.size == 0 or W.size == 0:
        return 1.0
    (mean_g, std_g), (mean_W, std_W) = moments(g), moments(W)
    variance = (std_g * std_g + mean_g * mean_g) * (std_W * std_W + mean_W * mean_W)
    sigma = np.sqrt(variance) * F(math.sqrt(0.5 * fan(W)))
    if sigma == 0:
        return 1.0
    l = max(u_min / (normal_factor() * float(sigma)), 1.0)
    return min(l, u_max / fan(W) / float(largest(g) * largest(W)))


def element_wise_range(
    g: np.ndarray, W: np.ndarray, u_min: float, u_max: float, rescued: float | None = None
) -> float:
    """From the nonzero products p = g[n, o] W[o, m] of a linear layer, W (out, in):

        l = min(max over p of max(u_min / |p|, 1), min over p of u_max / |p| / fan)

    rescued: the first maximum is over the int(count * rescued) smallest values; 1 if there are
    none. The second bound is over all products in either case."""
    p = np.abs(np.asarray(g, F)[:, :, None] * np.asarray(W, F)[None])
    p = p[p > 0].astype(np.float64)
    if p.size == 0:
        return 1.0
    needed = np.sort(np.maximum(u_min / p, 1.0))
    if rescued is not None:
        needed = needed[: int(needed.size * rescued)]
    return min(float(needed.max(initial=1.0)), u_max / float(p.max()) / fan(W))


def abs_range(g: np.ndarray, W: np.ndarray, u_min: float, u_max: float) -> float:
    """From the smallest and the largest nonzero |g| and |W|:

    l = min(max((u_min / fan) / max(o_min, 1e-15), 1), (u_max / fan) / o_max)"""
    size_g, size_W = (np.abs(np.asarray(x, F)) for x in (g, W))
    size_g, size_W = size_g[size_g > 0], size_W[size_W > 0]
    if size_g.size == 0 or size_W.size == 0:
        return 1.0
    o_min = max(float(size_g.min() * size_W.min()), 1e-15)
    o_max = float(size_g.max() * size_W.max())
    l = max(u_min / fan(W) / o_min, 1.0)
    return min(l, u_max / fan(W) / o_max) if o_max > 0 else l


def cast_range(g: np.ndarray, u_min: float, u_max: float, lognormal: bool = False) -> float:
    """Of a gradient that is cast to a narrower format: sigma = std g, no fan. lognormal:

    l = exp(ln u_min - mean - std * (the normal quantile at 1e-3)), moments of ln|g|, g nonzero.

    A standard deviation of 0 gives 1 in either case, without the bound."""
    if lognormal:
        size = np.abs(np.asarray(g, F))
        size = size[size > 0]
        if size.size == 0:
            return 1.0
        mean, std = moments(np.log(size.astype(np.float64)))
        if std == 0:
            return 1.0
        l = math.exp(math.log(u_min) - float(mean) - float(std) * NormalDist().inv_cdf(SHARE))
    else:
        sigma = moments(g)[1] if g.size else F(0)
        if sigma == 0:
            return 1.0
        l = u_min / (normal_factor() * float(sigma))
    return min(max(l, 1.0), u_max / float(largest(g)))


def bounded(l: float, P: float, total: float = 1024.0, one: float = 16.0) -> float:
    """approx_range's and cast_range's bounds: of P l, then of l. Below 1 if P exceeds `total`."""
    return min(l, total / P, one)


def power_of_two(l: float) -> np.float16:
    """The power of two at or below l, as an fp16 number; 0 of 0."""
    return np.float16(2.0 ** math.floor(math.log2(l)) if l > 0 else 0.0)


@dataclass
class LayerScale:
    """The scale of a layer, computed anew every `every` steps. In between the last l before its
    bounds is used, and the bounds and the power of two are applied with the current P."""

    every: int = 1
    total: float = 1024.0
    one: float = 16.0
    limits: tuple[float, float] = LIMITS["fp16"]
    step: int = 0
    l: float = 1.0

    def update(self, g: np.ndarray, W: np.ndarray, P: float) -> np.float16:
        if self.step % self.every == 0:
            self.l = approx_range(g, W, *self.limits)
        self.step += 1
        return power_of_two(bounded(self.l, P, self.total, self.one))


def unscaled(product: np.ndarray, P: float) -> np.ndarray:
    """A weight's or bias's gradient, fp16, divided by P: in fp16 if P is a power of two, else in
    fp32 and cast. It may underflow here."""
    product = np.asarray(product, np.float16)
    if math.frexp(P)[0] == 0.5:
        return product / np.float16(P)
    return (product.astype(F) / F(P)).astype(np.float16)


def join_scale(
    tops: list[float], tags: list[float], u_max: float = 65504.0, least: float = 0.125
) -> float:
    """The scale of the sum of gradients whose largest magnitudes are `tops` and whose scales are
    `tags`: the largest tag s with max_i(tops_i / tags_i) s < u_max; if there is none, the first of
    half the smallest tag, a quarter, ... that is at least `least` and satisfies it.

    The published loop halves while s >= 1/8; whether it also tries the value below 1/8 that the
    last halving gives is not known here: least = 1/16 does."""
    top = max(a / s for a, s in zip(tops, tags, strict=True))
    for s in sorted(tags, reverse=True):
        if top * s < u_max:
            return s
    s = min(tags) / 2
    while s >= least:
        if top * s < u_max:
            return s
        s /= 2
    raise ValueError(f"no scale from {min(tags)} down to {least} keeps {top} below {u_max}")


def join(
    gradients: list[np.ndarray], tags: list[float], u_max: float = 65504.0, least: float = 0.125
) -> tuple[np.ndarray, float]:
    """The sum, in order, in the gradients' own type, and its scale."""
    s = join_scale([float(largest(g)) for g in gradients], tags, u_max, least)
    rows = [g * g.dtype.type(s / tag) for g, tag in zip(gradients, tags, strict=True)]
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total, s
