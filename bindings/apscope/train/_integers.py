"""Rounding to integers, as formats with one exponent bit, whose values are one unit apart."""

from __future__ import annotations

import functools

import torch

from .._arrays.casts import quantize
from .._core import FloatFormat


@functools.cache
def _integers(bits: int, signed: bool) -> FloatFormat:
    """0 to 2^bits - 1, with their negatives if signed."""
    return FloatFormat(
        exponent_bits=1, mantissa_bits=bits - 1, bias=2 - bits, specials="finite", is_signed=signed
    )


def to_integers(
    x: torch.Tensor, bits: int, seed: int | None = None, *, signed: bool = False
) -> torch.Tensor:
    """x, rounded by `apscope.quantize` to 0, ..., 2^bits - 1, or also to negatives; saturates.

    Stochastically with the words of `seed`, or to nearest, ties to even, if there is none.
    """
    rounded: torch.Tensor = quantize(
        x.detach().contiguous(),
        _integers(bits, signed),
        rounding="ties_to_even" if seed is None else "stochastic",
        overflow="saturate",
        seed=seed or 0,
    )
    return rounded
