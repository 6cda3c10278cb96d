"""FracTrain's quantizer: evenly spaced levels between two numbers, with the identity's gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from .._arrays.draws import Draws
from ._integers import to_integers

_LEAST_STEP = 1e-8


def affine(
    x: torch.Tensor, bits: int, low: torch.Tensor, width: torch.Tensor, seed: int | None = None
) -> torch.Tensor:
    """The nearest of 2^bits levels from `low` to `low` + `width`, ties to even codes, or a draw.

        step = max(width / (2^bits - 1), 1e-8)
        u = clamp((x - low) / step, 0, 2^bits - 1)
        y = low + step round(u)

    All operations are in the dtype of x. With a seed, u is rounded stochastically.
    """
    largest = 2**bits - 1
    step = (width / largest).clamp(min=_LEAST_STEP)
    u = ((x - low) / step).clamp(0, largest)
    return (u.round() if seed is None else to_integers(u, bits, seed)) * step + low


def extremes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest element, and the distance of the largest from it."""
    low, high = torch.aminmax(x.detach())
    return low, high - low


def row_extremes(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same per output channel, the first axis, of a shape that broadcasts with w."""
    low, high = torch.aminmax(w.detach().flatten(1), dim=1)
    shape = (-1, *(1,) * (w.dim() - 1))
    return low.reshape(shape), (high - low).reshape(shape)


class Rounded(torch.autograd.Function):
    """`affine` to nearest, of an operand; the gradient passes unchanged."""

    @staticmethod
    def forward(
        _: Any, x: torch.Tensor, bits: int, low: torch.Tensor, width: torch.Tensor
    ) -> torch.Tensor:
        return affine(x, bits, low, width)

    @staticmethod
    @once_differentiable
    def backward(_: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return g, None, None, None


class RoundedGradient(torch.autograd.Function):
    """The identity, whose gradient is rounded stochastically, between its own extremes."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, bits: int, draws: Draws) -> torch.Tensor:
        ctx.bits, ctx.draws = bits, draws
        return y.view_as(y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        seed = ctx.draws.next()
        return (affine(g, ctx.bits, *extremes(g), seed) if g.numel() else g), None, None
