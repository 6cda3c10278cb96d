"""Transforms of a tensor before its blocks are formed: the Hadamard transform, tiles as runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..._core import BlockFormat
from .scaled import Scaled

#: The transform's length.
HADAMARD = 16
#: The signs before it, from Transformer Engine's reference.
SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
_SIGNS = torch.tensor(SIGNS, dtype=torch.float32)


def hadamard(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Runs of 16 along the axis, times diag(signs) H16 / 4.

    In fp32: signs, butterflies of distance 1, 2, 4 and 8, division by 4. The axis is padded with
    zeros to a multiple of 16.
    """
    x = x.movedim(axis, -1)
    x = torch.nn.functional.pad(x, (0, -x.shape[-1] % HADAMARD))
    shape = x.shape
    x = x.reshape(-1, HADAMARD) * _SIGNS.to(x.device, non_blocking=True)
    distance = 1
    while distance < HADAMARD:
        a, b = x.reshape(-1, HADAMARD // (2 * distance), 2, distance).unbind(2)
        x = torch.stack([a + b, a - b], 2).reshape(-1, HADAMARD)
        distance *= 2
    return (x * 0.25).reshape(shape).movedim(-1, axis)


def with_block(format: BlockFormat, size: int) -> BlockFormat:
    """The block format with blocks of another size."""
    head = format.name.split(",block=")[0] if ",block=" in format.name else format.name
    rest = format.name[len(head) :].partition(",block=")[2].partition(",")[2]
    return BlockFormat(f"{head},block={size}" + (f",{rest}" if rest else ""))


def in_tiles(
    x: torch.Tensor,
    tile: tuple[int, int],
    matrix: tuple[int, int],
    run: Callable[[torch.Tensor], Any],
) -> Any:
    """`run` on a tensor whose last axis has one tile each, row by row; edges are filled with zeros.

    It gives a tensor of this shape, or a `Scaled` of such tensors.

    Tiles are ordered by the other axes, then by tile row and tile column; random words by place
    in that order.
    """
    moved = x.movedim(matrix, (-2, -1))
    (p, q), (rows, columns) = tile, moved.shape[-2:]
    filled = torch.nn.functional.pad(moved, (0, -columns % q, 0, -rows % p))
    tall, wide = filled.shape[-2] // p, filled.shape[-1] // q
    lead = filled.shape[:-2]
    parts = filled.reshape(*lead, tall, p, wide, q).transpose(-3, -2)

    def in_place(y: torch.Tensor) -> torch.Tensor:
        y = y.reshape(*lead, tall, wide, p, q).transpose(-3, -2).reshape(filled.shape)
        return y[..., :rows, :columns].movedim((-2, -1), matrix)

    done = run(parts.reshape(-1, p * q).contiguous())
    return done.map(in_place) if isinstance(done, Scaled) else in_place(done)
