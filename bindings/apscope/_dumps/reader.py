"""What the reader of every file format gives: the arrays' keys, dtypes and shapes, and then values, one array (or a part of it) at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

#: What is taken of an array's leading axes: a position, or all of an axis.
Index = tuple[int | slice, ...]


@dataclass(frozen=True)
class Entry:
    """One array of a file."""

    key: str  # "" where the file is one array
    dtype: str  # a word of dtypes.py, else the file's own name of it
    shape: tuple[int, ...]
    layout: str = "dense"  # else torch's word, such as sparse_coo


def single_numbers(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Those of a file's attributes that are one number, or the text of one."""
    found = {}
    for name, value in attributes.items():
        if isinstance(value, str | int | float | np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
            with suppress(ValueError, TypeError):
                found[name] = float(value.item() if isinstance(value, np.ndarray | np.generic) else value)
    return found


def taken(shape: Sequence[int], index: Index) -> tuple[int, ...]:
    """The shape of what `index` takes of an array."""
    left = [length if not isinstance(i, int) else None for length, i in zip(shape, index)]
    return (*(length for length in left if length is not None), *shape[len(index) :])


class Reader(ABC):
    """An open file, or a folder that counts as one.

    Attributes
    ----------
    entries : sequence of Entry
        In the file's order.
    ordered : bool
        Whether that order is somebody's choice, and not the alphabet's.
    scalars : mapping
        Numbers that stand beside the arrays or in the file's attributes, such as a loss.
    notes : sequence of str
        Sentences that whoever converts the file should read.
    """

    entries: Sequence[Entry] = ()
    ordered: bool = True
    scalars: Mapping[str, float] = {}
    notes: Sequence[str] = ()

    @abstractmethod
    def read(self, key: str, index: Index = ()) -> np.ndarray:
        """The values of one array, of a dtype that dtypes.py knows; `index` as NumPy takes it."""

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """Nothing is read any more."""
