"""Unit scaling: layers whose results and gradients have unit variance at the start.

A sum of n independent products of variance 1 has variance n. Each operation here multiplies its
result, and each of its gradients, by 1 / sqrt(n), which depends only on shapes. So a model of these
operations starts with numbers near 1 in every tensor of both passes, and formats of few bits need
no loss scale. `Linear` and `Conv2d` also round their operands and the gradient of their output.

Source: C. Blake, D. Orr, C. Luschi, arXiv:2303.11257, and the code unit-scaling: the factors of a
linear layer are theirs (`apscope.studies.unit_scaling.unit_scales`). Those of `relu` and
`cross_entropy` are derived here for standard normal inputs and for equal probabilities.

In a chain of operations the factor of a gradient may differ from that of the result: it multiplies
the gradients of all earlier weights by the same positive number, which changes no direction, and
has no effect on an optimizer such as Adam. If a tensor is read twice (a residual connection), both
ways must have equal factors in both passes, or their gradients do not add up to a gradient:
`constrained` layers have them. The scaled residual sum, attention and norms of the code
unit-scaling are not here.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .._arrays.checks import flag
from .._arrays.inputs import FormatLike
from ..studies.unit_scaling import unit_scales
from ..torch import quantize

__all__ = ["Conv2d", "Linear", "cross_entropy", "relu", "scaled"]
__dir__ = __all__.copy


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        ctx.backward_scale = backward
        return x * forward

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return g * ctx.backward_scale, None, None


def scaled(x: torch.Tensor, forward: float = 1.0, backward: float = 1.0) -> torch.Tensor:
    """x times one number, its gradient times another.

    Parameters
    ----------
    x : tensor
    forward, backward : float
        The gradient is multiplied by `backward` alone.

    Returns
    -------
    tensor of x's shape and dtype

    Raises
    ------
    TypeError
        Not a floating-point tensor.
    """
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        raise TypeError(
            f"x is {getattr(x, 'dtype', type(x).__name__)}; give a floating-point tensor"
        )
    y: torch.Tensor = _Scaled.apply(x, float(forward), float(backward))
    return y


class _Layer:
    """Common parts of both layers: initial weights, and the rounded product with its factors."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def _begin(
        self, format: FormatLike | None, gradient: FormatLike | None, constrained: bool
    ) -> None:
        self.format, self.gradient = format, gradient
        self.constrained = flag("constrained", constrained)
        with torch.no_grad():
            self.weight.normal_()
            if self.bias is not None:
                self.bias.zero_()

    def _product(self, x: torch.Tensor, product: Any, places: Any) -> torch.Tensor:
        """`product` of the operands; `places`: terms of the weight's gradient."""
        rounded = [v if self.format is None else quantize(v, self.format, overflow="saturate")
                   for v in (x, self.weight)]  # fmt: skip
        terms = places(x)
        by = unit_scales(tuple(self.weight.shape), terms, constrained=self.constrained)
        y = product(
            scaled(rounded[0], 1.0, by.input_gradient), scaled(rounded[1], 1.0, by.weight_gradient)
        )
        y = scaled(y, by.output, 1.0)
        if self.bias is not None:
            bias = scaled(self.bias, 1.0, by.weight_gradient)
            y = y + bias.reshape(-1, *[1] * (self.weight.dim() - 2))
        if self.gradient is None:
            return y
        return quantize(
            y,
            "fp64" if y.dtype == torch.float64 else "fp32",
            overflow="saturate",
            backward=self.gradient,
        )


class Linear(_Layer, nn.Linear):
    """y = x W^T / sqrt(inputs) + b.

    The gradient of x is g W / sqrt(inputs), or / sqrt(outputs) if not `constrained`; those of W and
    b are divided by sqrt(terms), their number of samples.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    format : FloatFormat, str or dtype, optional
        x and W are rounded to it, saturating; by default they are not rounded.
    gradient : FloatFormat, str or dtype, optional
        The gradient of y is rounded to it, saturating; by default it is not rounded.
    constrained : bool
        Whether the gradient of x has the same factor as y.
    dtype
        Dtype of the weights, which are drawn from N(0, 1); biases start at 0.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> layer = Linear(1024, 256, format="e4m3", gradient="e5m2")
    >>> y = layer(torch.randn(64, 1024))
    >>> 0.9 < y.std().item() < 1.1
    True
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *,
        format: FormatLike | None = None, gradient: FormatLike | None = None,
        constrained: bool = False, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        nn.Linear.__init__(self, in_features, out_features, bias, dtype=dtype)
        self._begin(format, gradient, constrained)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs of shape (..., in_features) to (..., out_features)."""
        return self._product(x, functional.linear, lambda x: max(x.numel() // x.shape[-1], 1))


class Conv2d(_Layer, nn.Conv2d):
    """As `Linear`, divided by sqrt(inputs kernel); weight gradients by sqrt(samples positions).

    That a kernel's positions count as inputs and as outputs is our choice, see
    `apscope.studies.unit_scaling.unit_scales`.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding : int or pair of int
    bias : bool
    format, gradient, constrained, dtype
        As for `Linear`.

    Raises
    ------
    ValueError
        Padding that is not in numbers.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0, bias: bool = True, *,
        format: FormatLike | None = None, gradient: FormatLike | None = None,
        constrained: bool = False, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        if isinstance(padding, str):
            raise ValueError(f"padding={padding!r} is not supported here; give it in numbers")
        nn.Conv2d.__init__(self, in_channels, out_channels, kernel_size, stride, padding, bias=bias,
                           dtype=dtype)  # fmt: skip
        self._begin(format, gradient, constrained)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images of shape (n, in_channels, height, width) to (n, out_channels, ...)."""

        def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return functional.conv2d(x, w, None, self.stride, self.padding)

        def places(x: torch.Tensor) -> int:
            size = [
                (x.shape[2 + i] + 2 * int(self.padding[i]) - self.kernel_size[i]) // self.stride[i]
                + 1
                for i in range(2)
            ]
            return max(x.shape[0] * size[0] * size[1], 1)

        return self._product(x, product, places)


#: The standard deviation of max(x, 0) for x from N(0, 1), whose mean square is 1/2 and mean
#: 1/sqrt(2 pi).
_RELU = math.sqrt((1 - 1 / math.pi) / 2)


def relu(x: torch.Tensor) -> torch.Tensor:
    """max(x, 0) over its standard deviation for normal x, 0.584; the gradient times sqrt(2).

    Parameters
    ----------
    x : tensor

    Returns
    -------
    tensor of x's shape and dtype

    Raises
    ------
    TypeError
        Not a floating-point tensor.
    """
    return scaled(torch.relu(scaled(x, 1.0, math.sqrt(2))), 1 / _RELU, 1.0)


def cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy; its gradient is (p - y) s / sqrt(s - 1), not divided by the examples.

    With s classes of equal probability p = 1/s, the elements of p - y have mean square (s - 1) /
    s^2.

    Parameters
    ----------
    output : tensor of shape (..., s)
        s of at least 2.
    targets : integer tensor of shape (...)

    Returns
    -------
    scalar tensor

    Raises
    ------
    ValueError
        Fewer than two classes.
    TypeError
        Output that is not a floating-point tensor.
    """
    classes = output.shape[-1]
    if classes < 2:
        raise ValueError(f"output has {classes} classes; give two or more")
    count = max(targets.numel(), 1)
    rows = scaled(output, 1.0, count * classes / math.sqrt(classes - 1)).reshape(-1, classes)
    return functional.cross_entropy(rows, targets.reshape(-1))
