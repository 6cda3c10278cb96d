"""ZipML's double sampling: a first layer whose inputs are stored in few levels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .._arrays.checks import flag, integer
from .._arrays.draws import Draws
from ..torch._devices import quotient
from ._integers import to_integers


class _DoubleSampled(torch.autograd.Function):
    """x W^T with one draw of x; the gradient of W with another."""

    @staticmethod
    def forward(
        ctx: Any, w: torch.Tensor, forward: torch.Tensor, backward: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(backward)
        with torch.autocast(w.device.type, enabled=False):
            return functional.linear(forward, w)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        with torch.autocast(x.device.type, enabled=False):
            rows = g.to(x.dtype).reshape(-1, g.shape[-1])
            return rows.T @ x.reshape(-1, x.shape[-1]), None, None


class DoubleSampledLinear(nn.Linear):
    """A linear layer whose inputs are rounded stochastically, twice, to 2^bits even levels.

    With Q1 and Q2 two independent draws of the inputs x, one draw per call and element,

        y = Q2(x) W^T + b,  gradient of W = g^T Q1(x)

    where g is the gradient of y. If g is linear in y (a squared error of y itself), the gradient of
    W is unbiased: E = (E Q1)(E Q2). With one draw (`double` False) it contains the square of the
    draw and has the bias D W, where D is the diagonal matrix of the sums of (x - below)(above - x),
    so training converges to another point: `apscope.studies.double_sampling.gradients` has the
    closed form, and the estimate that takes both draws in both places.

    Source: H. Zhang et al., ZipML, arXiv:1611.05402. Here both draws are new at every call; that
    the second draw needs only one more bit of storage is recalled, and follows because the two
    differ by at most one level. The paper's polynomials for other losses (logistic, hinge) are not
    implemented.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    bits : int, 1 to 16
    low, high : float
        The smallest and the largest level. Inputs beyond them saturate, which adds a bias.
    double : bool
        False: one draw is used in both places.
    stochastic : bool
        False: both are rounded to nearest, ties to even.
    seed : int, 0 to 2**64 - 1
        Call t uses calls 2 t and 2 t + 1 of ``Draws(seed)``. In ``eval`` mode inputs are not
        rounded.
    dtype
        Of the weights.

    Attributes
    ----------
    calls : int
        Number of calls in training mode; later draws depend only on it and the seed. It is in the
        state dict.

    Raises
    ------
    ValueError
        A number is out of range.

    Notes
    -----
    The inputs get no gradient because they are data, so the layer must be the first of a model.

    Examples
    --------
    >>> import torch
    >>> layer = DoubleSampledLinear(64, 1, bits=2, low=0.0, high=1.0)
    >>> layer(torch.rand(5, 64)).shape
    torch.Size([5, 1])
    """

    calls: int

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        bits: int = 2,
        low: float = -1.0,
        high: float = 1.0,
        double: bool = True,
        stochastic: bool = True,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype=dtype)
        if not float(low) < float(high):
            raise ValueError(f"low={low} must be below high={high}")
        self.bits, self.low, self.high = integer("bits", bits, 1, 16), float(low), float(high)
        self.double, self.stochastic = flag("double", double), flag("stochastic", stochastic)
        self.seed, self.calls = integer("seed", seed, 0, 2**64 - 1), 0

    def drawn(self, x: torch.Tensor, call: int) -> torch.Tensor:
        """The inputs, rounded with call number `call` of the draws."""
        step = (self.high - self.low) / (2**self.bits - 1)
        seed = Draws(self.seed, call).next() if self.stochastic else None
        above = x.double() - self.low
        codes = to_integers(quotient(above, step), self.bits, seed)
        return (self.low + step * codes).to(self.weight.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs of shape (..., in_features) to (..., out_features)."""
        if not self.training:
            return functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
        second = self.drawn(x, 2 * self.calls + 1)
        first = self.drawn(x, 2 * self.calls) if self.double else second
        self.calls += 1
        y: torch.Tensor = _DoubleSampled.apply(self.weight, second, first)
        return y if self.bias is None else y + self.bias

    def get_extra_state(self) -> torch.Tensor:
        """The number of calls."""
        return torch.tensor(self.calls)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Continues after this number of calls."""
        self.calls = int(state)

    def extra_repr(self) -> str:
        """Its settings."""
        return (
            f"{super().extra_repr()}, bits={self.bits}, low={self.low:g}, high={self.high:g}, "
            f"double={self.double}"
        )
