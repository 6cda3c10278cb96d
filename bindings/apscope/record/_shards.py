"""Tensors in parts of several processes, joined when they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._folders.reading import open_regular
from .._traces.manifest import Shapes
from .._traces.safetensors import dtype_of


class Part(NamedTuple):
    """The position of a part in its tensor: the tensor's shape, the index of the first element."""

    shape: tuple[int, ...]
    offset: tuple[int, ...]


@dataclass(frozen=True)
class Joined:
    """A tensor made of parts in files; in memory only while it is written."""

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: tuple[tuple[np.ndarray, tuple[int, ...]], ...]  # memory-mapped values, and their offsets

    @property
    def nbytes(self) -> int:
        """Bytes of the whole."""
        return self.itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        joined = np.zeros(self.shape, self.dtype)
        for values, offset in self.parts:
            joined[tuple(slice(o, o + n) for o, n in zip(offset, values.shape, strict=True))] = (
                values
            )
        return joined


def join(shapes: Shapes, sources: list[tuple[Path, Mapping[str, list[int]]]]) -> dict[str, Joined]:
    """The whole tensors of files of parts, each with the parts' offsets by name.

    Raises
    ------
    ValueError
        The parts do not form a tensor.
    """
    parts: dict[str, list[tuple[np.ndarray, tuple[int, ...]]]] = {name: [] for name in shapes}
    for path, offsets in sources:
        for name, values in _mapped(path).items():
            if values.size:
                parts[name].append((values, tuple(offsets[name])))
    joined = {}
    for name, shape in shapes.items():
        dtypes = {values.dtype for values, _ in parts[name]}
        tensor = Joined(shape, dtypes.pop() if dtypes else np.dtype(np.float32), tuple(parts[name]))
        size = sum(values.size for values, _ in parts[name])
        if dtypes or size != np.prod(shape, dtype=np.int64):
            raise ValueError(
                f"tensor {name!r} has {size} values of {sorted(map(str, dtypes))} in its parts, "
                f"which do not fit its shape {shape}"
            )
        joined[name] = tensor
    return joined


def _mapped(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a safetensors file, memory-mapped."""
    with open_regular(path) as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    data = (
        np.memmap(path, np.uint8, mode="r", offset=8 + length)
        if path.stat().st_size > 8 + length
        else np.zeros(0, np.uint8)
    )
    header.pop("__metadata__", None)
    return {
        name: data[slice(*entry["data_offsets"])]
        .view(dtype_of(entry["dtype"]))
        .reshape(entry["shape"])
        for name, entry in header.items()
    }
