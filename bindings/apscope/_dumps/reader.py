"""The interface of readers: keys, dtypes and shapes, then values of one array or part at a time."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

#: A selection on an array's leading axes: a position, or all of an axis.
Index = tuple[int | slice, ...]


@dataclass(frozen=True)
class Entry:
    """One array of a file."""

    key: str  # "" if the file is one array
    dtype: str  # a name of dtypes.py, else the file's own name
    shape: tuple[int, ...]
    layout: str = "dense"  # else torch's word, such as sparse_coo
    refusal: str = ""  # why it has no values here: words that follow its name


def numbers_of(attributes: Mapping[str, Any]) -> dict[str, float]:
    """The attributes of a file that are numbers, or the text of one.

    Those of a list, or of a text such as ``[1, 2]``, become ``NAME/0``, ``NAME/1`` and so on.
    """
    numbers = {}
    for name, value in attributes.items():
        several = value
        if isinstance(value, np.ndarray):
            several = value.ravel().tolist() if value.size != 1 else value.item()
        elif isinstance(value, np.generic):
            several = value.item()
        elif isinstance(value, str) and re.fullmatch(r"\s*\[.*\]\s*", value, re.DOTALL):
            several = value.strip()[1:-1].split(",")
        listed = isinstance(several, list | tuple)
        for i, one in enumerate(several if listed else [several]):
            if isinstance(one, str | bytes | int | float):
                with suppress(ValueError, OverflowError):
                    numbers[f"{name}/{i}" if listed else name] = float(one)
    return numbers


def taken(shape: Sequence[int], index: Index) -> tuple[int, ...]:
    """The shape of the part of an array selected by `index`."""
    left = [length if not isinstance(i, int) else None for length, i in zip(shape, index)]
    return (*(length for length in left if length is not None), *shape[len(index) :])


class Reader(ABC):
    """An open file, or a folder that counts as one.

    Attributes
    ----------
    entries : sequence of Entry
        In the file's order.
    ordered : bool
        Whether that order is intended, not just alphabetical.
    scalars : mapping
        Numbers beside the arrays or in the file's attributes, such as a loss.
    nones : sequence of str
        Paths at which the file has None instead of an array.
    notes : sequence of str
        Remarks for the user.
    """

    entries: Sequence[Entry] = ()
    ordered: bool = True
    scalars: Mapping[str, float] = {}
    nones: Sequence[str] = ()
    notes: Sequence[str] = ()

    @abstractmethod
    def read(self, key: str, index: Index = ()) -> np.ndarray:
        """The values of one array, of a dtype in dtypes.py; `index` as in NumPy."""

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """Ends reading."""
