"""An operand of a matrix unit in a block format: its elements and their scales, kept apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch

from ..._arrays.blocks import decode_blocks, encode_blocks
from ..._arrays.casts import decode, encode
from ..._core import BlockFormat


class Scaled(NamedTuple):
    """Elements, values of their format, and the scale of each; tensors of one shape."""

    elements: torch.Tensor
    scales: torch.Tensor

    @property
    def values(self) -> torch.Tensor:
        """What the elements stand for."""
        return self.elements * self.scales

    @property
    def T(self) -> Scaled:
        """Transposed, as a tensor's ``T``."""
        return Scaled(self.elements.T, self.scales.T)

    @property
    def mT(self) -> Scaled:
        """Matrices transposed, as a tensor's ``mT``."""
        return Scaled(self.elements.mT, self.scales.mT)


Operand: TypeAlias = torch.Tensor | Scaled


def values_of(operand: Operand) -> torch.Tensor:
    """The values of an operand of either kind."""
    return operand.values if isinstance(operand, Scaled) else operand


def scaled_blocks(x: torch.Tensor, format: BlockFormat, axis: int = -1, **how: Any) -> Scaled:
    """What `quantize_blocks` gives, in two factors; the scales are powers of two."""
    encoded = encode_blocks(x, format, axis=axis, **how)
    ones = encode(torch.ones(x.shape), format.element)
    scales = decode_blocks(ones, encoded.scales, format, axis=axis)
    return Scaled(decode(encoded.codes, format.element), scales)


def as_scaled(operand: Operand) -> Scaled:
    """An operand of either kind in two factors; the scales of a plain one are 1."""
    if isinstance(operand, Scaled):
        return operand
    return Scaled(operand, torch.ones_like(operand))


def save(ctx: Any, *operands: Operand) -> None:
    """Saves operands for the backward pass."""
    pairs = [o if isinstance(o, Scaled) else (o, None) for o in operands]
    ctx.save_for_backward(*(tensor for pair in pairs for tensor in pair))


def saved(ctx: Any) -> list[Operand]:
    """The operands that `save` got."""
    tensors = ctx.saved_tensors
    return [
        x if scales is None else Scaled(x, scales)
        for x, scales in zip(tensors[::2], tensors[1::2], strict=True)
    ]


def add_chains(
    a: Scaled,
    b: Scaled,
    promote: int | None,
    chain: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The product of a, (..., m, k), and b, (..., k, n), in chains of `promote` terms; None: one chain.

    Each chain's sum of products of elements is multiplied by the scales of both, and added to the
    sum of those before in fp32.

    Raises
    ------
    ValueError
        A chain whose terms have several scales.
    """
    total: torch.Tensor | None = None
    terms = promote or max(1, a.elements.shape[-1])
    for first in range(0, a.elements.shape[-1], terms):
        part = slice(first, first + terms)
        rows, columns = a.scales[..., part], b.scales[..., part, :]
        if bool((rows != rows[..., :1]).any()) or bool((columns != columns[..., :1, :]).any()):
            raise ValueError(
                f"terms {first} to {min(first + terms, a.elements.shape[-1]) - 1} of a sum have "
                f"several scales; promote={promote} must be a number that divides the number of "
                "terms that share one"
            )
        products = chain(a.elements[..., part], b.elements[..., part, :])
        scaled = products * rows[..., :1] * columns[..., :1, :]
        total = scaled if total is None else total + scaled
    if total is None:
        return torch.matmul(a.elements, b.elements)
    return total
