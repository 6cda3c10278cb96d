"""Adaptive loss scaling: a scale per layer, chosen inside backpropagation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from .._arrays.casts import quantize
from .._arrays.checks import integer
from .._arrays.inputs import FormatLike, as_format
from .._core import FloatFormat
from ..studies.activation_scales import (
    bounded,
    cast_scale,
    join_scales,
    layer_scale,
    power_of_two_below,
)
from ._layers import LayerMode, Product


@dataclass
class LayerScale:
    """Scales and counts of a layer in the last backward pass."""

    layer: str
    arrived: float  #: P, the scale of the gradient that arrived
    scale: float  #: l, the layer's own factor
    passed: float  #: P l, the scale of the gradient that it passed on
    underflow: float  #: share of the nonzero products passed on that became 0
    overflow: int  #: elements of the three results that are not finite


@dataclass
class _Call:
    """One call of a layer: which calls read its output, and the scale that it passed on."""

    name: str
    number: int
    readers: list[_Call] = field(default_factory=list)
    passed: float | None = None


class AdaptiveLossScaling(LayerMode):
    """Scales of gradients, layer by layer, chosen where backpropagation reaches the layer.

    Inside the context, the forward pass of a linear layer or convolution with weights W and inputs
    x is unchanged; its backward pass receives the gradient g of its output at a scale P (`start` at
    the end of the model), and passes on a gradient at another scale:

        g  = Q(P g)                        what a gradient in the format is
        l  = `apscope.studies.activation_scales.layer_scale`(g, W, cumulative=P)
        gx = Q(Q(l g) W) / (P l)           passed on at the scale P l
        gW = Q(g x) / P,  gb = Q(sum g) / P

    Q rounds to the format, sums are fp32. P l is a power of two, so the division is exact. If
    several layers read an output, P is `join_scales` of their scales; where none fits, it is the
    smallest of them, and the step has overflowed. All tensors between the layers hold the unscaled
    numbers, which have the same bits: only Q depends on P.

    Source: R. Zhao, B. Vogel, T. Ahmed, W. Luk, arXiv:1910.12385, and the code gradient-scaling
    (ada-loss), whose rule, bounds (16 of a layer, 1024 of all, `start` among them) and join are
    these. At a join the code limits each gradient, where here their sum is limited, and stops if
    none fits. The code has fp16 with `u_min=6e-8`, and gW and gb are fp16 numbers after the
    division too: `stored="fp16"`.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed. Its parameters are fp32 or fp64, on the CPU.
    format : FloatFormat, str or dtype
        Format of gradients in the backward pass. Weights and activations are not rounded.
    scale : float, optional
        A constant loss scale instead, a power of two: P = scale, l = 1.
    start : float
        P at the end of the model, a power of two. A loop may change the attribute between passes,
        for example halve it after an overflow.
    every : int
        l is computed once per this number of forward passes. In between it is kept as it was
        before the bounds 16 and 1024 and the power of two, which hold for every pass's own P.
    cast : {"normal", "lognormal"}, optional
        The gradient at the end of the model comes from a wider format, as one of fp32 does from a
        loss in fp32, and its own l multiplies P there: that of
        `apscope.studies.activation_scales.cast_scale`, by either rule.
    stored : FloatFormat, str or dtype, optional
        gW and gb are rounded to this format once more after the division by P; None: they are not.
    **options
        Of `layer_scale`: share, upper, total, sparsity, element_wise, rescue, abs_range, u_min.

    Attributes
    ----------
    layers : list of LayerScale
        Of the last backward pass, in its order.
    overflowed : bool
        Whether a gradient of the last backward pass had an element that is not finite; the
        optimizer's step should then be left out.

    Raises
    ------
    TypeError
        `model` is not a module; an unknown option.
    ValueError
        An unknown format, a scale that is not a power of two, an unknown rule of `cast`, or one
        beside a constant scale.

    Notes
    -----
    One context per forward pass; ``backward`` may be called inside or after it, once. A compiled
    model runs uncompiled inside the context. Layers are found by their weights; ``nn.LSTM`` and
    ``nn.MultiheadAttention`` do not call ``linear`` with them. If an output also reaches the loss
    without another layer, the layer takes only the scale of the layers that read it. In `Workers`
    set ``batched=False``.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> scales = AdaptiveLossScaling(model, "fp16")
    >>> with scales:
    ...     loss = model(torch.ones(3, 8)).square().mean() * 2.0**-20
    >>> loss.backward()
    >>> [found.layer for found in scales.layers]
    ['2', '0']
    """

    def __init__(
        self,
        model: torch.nn.Module,
        format: FormatLike = "fp16",
        *,
        scale: float | None = None,
        start: float = 1.0,
        every: int = 1,
        cast: str | None = None,
        stored: FormatLike | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model)
        unknown = options.keys() - {
            "share", "upper", "total", "sparsity", "element_wise", "rescue", "abs_range", "u_min",
        }  # fmt: skip
        if unknown:
            raise TypeError(f"{min(unknown)} is not an option of layer_scale")
        self.format = as_format(format)
        self.scale = None if scale is None else _power_of_two("scale", scale)
        self.start = _power_of_two("start", start) if self.scale is None else self.scale
        self.every = integer("every", every, 1, 2**62)
        self.stored = None if stored is None else as_format(stored)
        if cast not in (None, "normal", "lognormal") or (cast is not None and scale is not None):
            raise ValueError(
                f"cast={cast!r} with scale={scale} must be normal, lognormal or None, and None "
                "beside a scale"
            )
        self.cast = cast
        bounds = {"upper": options.pop("upper", 16.0), "total": options.pop("total", 1024.0)}
        ranges = options.get("element_wise") or options.get("abs_range")
        self._bounds = dict.fromkeys(bounds) if ranges else bounds
        self._options = options
        self._cast_bounds = bounds
        self._passes = 0
        self._calls: dict[str, int] = {}
        self._held: dict[tuple[str, int, str], float] = {}
        self.layers: list[LayerScale] = []

    @property
    def overflowed(self) -> bool:
        """Whether an element of the last pass's gradients is not finite."""
        return any(scale.overflow for scale in self.layers)

    def __enter__(self) -> AdaptiveLossScaling:
        if self._passes % self.every == 0:
            self._held = {}
        self._passes += 1
        self._calls, self.layers = {}, []
        super().__enter__()
        return self

    def layer(
        self, name: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, product: Product
    ) -> torch.Tensor:
        """The layer, with the backward pass of this method."""
        call = _Call(name, self._calls.get(name, 0))
        self._calls[name] = call.number + 1
        for earlier in _calls_before(x.grad_fn):
            earlier.readers.append(call)
        y: torch.Tensor = _Layer.apply(x, w, b, self, call, product)
        return y

    def _arrives_at(self, call: _Call, g: torch.Tensor) -> float:
        scales = [r.passed for r in call.readers if r.passed is not None]
        if not scales:
            return self.start * self._cast_scale(call, g)
        if len(scales) == 1:
            return scales[0]
        largest = float(g.abs().max()) if g.numel() else 0.0
        try:
            return join_scales(scales, [largest * s for s in scales], format=self.format)
        except ValueError:  # No scale fits, which `overflowed` then tells.
            return min(scales)

    def _cast_scale(self, call: _Call, g: torch.Tensor) -> float:
        """l of a gradient that no layer of the format has passed on."""
        if self.cast is None:
            return 1.0
        key = call.name, call.number, "cast"
        if key not in self._held:
            options = {k: v for k, v in self._options.items() if k in ("share", "u_min")}
            self._held[key] = cast_scale(
                g.numpy() * self.start,
                format=self.format,
                lognormal=self.cast == "lognormal",
                upper=None,
                total=None,
                power_of_two=False,
                **options,
            )
        return power_of_two_below(bounded(self._held[key], self.start, **self._cast_bounds))

    def _own(self, call: _Call, g: torch.Tensor, w: torch.Tensor, arrived: float) -> float:
        if self.scale is not None:
            return 1.0
        key = call.name, call.number, "layer"
        if key not in self._held:
            self._held[key] = layer_scale(
                g.numpy(),
                w.detach().numpy(),
                format=self.format,
                upper=None,
                total=None,
                power_of_two=False,
                **self._options,
            )
        return power_of_two_below(bounded(self._held[key], arrived, **self._bounds))

    def _q(self, x: torch.Tensor) -> torch.Tensor:
        return _rounded(x, self.format)

    def _unscaled(self, gradient: torch.Tensor, scale: float) -> torch.Tensor:
        exact = gradient / scale
        return exact if self.stored is None else _rounded(exact, self.stored)

    @torch.no_grad()
    def backward_of(
        self, call: _Call, product: Product, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor,
        needs: tuple[bool, ...],
    ) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
        """The three gradients of one call, unscaled."""
        arrived = self._arrives_at(call, g)
        g = self._q(g * arrived)
        factor, gx, lost = 1.0, None, 0.0
        if needs[0]:
            factor = self._own(call, g, w, arrived)
            exact = product.input_gradient(self._q(g * factor), w, x.shape)
            gx = self._q(exact)
            there = int(exact.count_nonzero())
            lost = (there - int(gx.count_nonzero())) / there if there else 0.0
        call.passed = arrived * factor
        gw = gb = None
        if needs[1]:
            gw = self._unscaled(self._q(product.weight_gradient(g, x, w.shape)), arrived)
        if needs[2]:
            gb = self._unscaled(self._q(product.bias_gradient(g)), arrived)
        gradients = [r for r in (gx, gw, gb) if r is not None]
        overflow = sum(int((~torch.isfinite(r)).sum()) for r in gradients)
        self.layers.append(LayerScale(call.name, arrived, factor, call.passed, lost, overflow))
        return None if gx is None else gx / call.passed, gw, gb


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None,
        scales: AdaptiveLossScaling, call: _Call, product: Product,
    ) -> torch.Tensor:  # fmt: skip
        ctx.save_for_backward(x, w)
        ctx.scales, ctx.call, ctx.product = scales, call, product
        return product.with_bias(product.output(x, w), b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, w = ctx.saved_tensors
        gradients = ctx.scales.backward_of(ctx.call, ctx.product, g, x, w, ctx.needs_input_grad[:3])
        return *gradients, None, None, None


def _calls_before(node: Any) -> list[_Call]:
    """The layers' calls that reach this node of the graph without another layer in between."""
    calls: dict[int, _Call] = {}
    seen, left = set(), [node]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        call = getattr(node, "call", None)
        if isinstance(call, _Call):
            calls[id(call)] = call
        else:
            left += [after for after, _ in node.next_functions]
    return list(calls.values())


def _rounded(x: torch.Tensor, format: FloatFormat) -> torch.Tensor:
    rounded: torch.Tensor = quantize(x.contiguous(), format)
    return rounded.to(x.dtype)


def _power_of_two(name: str, value: float) -> float:
    if not (value > 0 and float(value).hex().startswith("0x1.0000000000000p")):
        raise ValueError(f"{name}={value} must be a power of two, so that dividing by it is exact")
    return float(value)
