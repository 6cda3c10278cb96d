"""The axis along which blocks lie, and the shapes that follow from it."""

from __future__ import annotations

import numpy as np

from .._core import BlockFormat
from .checks import integer


def around(shape: tuple[int, ...], axis: int) -> tuple[int, tuple[int, int, int]]:
    """The axis from 0, and (elements before it, its length, elements after it)."""
    if not shape:
        raise ValueError("the array has no axis for blocks; give at least one dimension")
    axis = integer("axis", axis, -(2**31), 2**31 - 1)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis={axis} does not exist in an array of {len(shape)} dimensions")
    axis %= len(shape)
    return axis, (int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :])))


def scale_shape(shape: tuple[int, ...], axis: int, f: BlockFormat) -> tuple[int, ...]:
    """The shape of the scales of an array, one for each block along the axis."""
    return (*shape[:axis], -(-shape[axis] // f.block_size), *shape[axis + 1 :])


def check_scales(
    codes: tuple[int, ...], scales: tuple[int, ...], axis: int, f: BlockFormat
) -> None:
    """Raises ValueError for scales of another shape than the codes need."""
    needed = scale_shape(codes, axis, f)
    if scales != needed:
        raise ValueError(
            f"scales have shape {scales}; codes of shape {codes} in blocks of {f.block_size} "
            f"need {needed}"
        )
