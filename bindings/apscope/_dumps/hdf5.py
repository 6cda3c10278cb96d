"""HDF5 files, through h5py, without links to other files and external datasets."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .._limits import check_fits
from .._traces.sources import File
from .dtypes import plain, word_of
from .reader import Entry, Index, Reader, numbers_of, taken


def library(name: str, what: str) -> Any:
    """An optional library.

    Raises
    ------
    ValueError
        It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(
            f"it is {what}, and {name} is not installed; pip install 'apscope[dumps]'"
        ) from None


class Hdf5Reader(Reader):
    """All datasets of a file; ordered if its groups track the order of creation."""

    def __init__(self, file: File):
        h5py = library("h5py", "HDF5")
        self._stream = file.open() if file.source.remote is not None else None
        self._file = h5py.File(self._stream or file.place, "r")
        entries: list[Entry] = []
        notes: list[str] = []
        self.ordered = self._walk(h5py, self._file["/"], "", entries, notes)
        self.entries, self.notes, self.scalars = entries, notes, numbers_of(self._file.attrs)

    def _walk(
        self, h5py: Any, group: Any, path: str, entries: list[Entry], notes: list[str]
    ) -> bool:
        """Collect the datasets below `group`; returns whether all groups track their order."""
        tracked = group.id.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
        ordered = bool(tracked) or len(group) <= 1
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                notes.append(f"the link {path + name!r} is not followed")
                continue
            inner = group[name]
            if isinstance(inner, h5py.Group):
                ordered &= self._walk(h5py, inner, f"{path}{name}/", entries, notes)
            elif isinstance(inner, h5py.Dataset) and (inner.external or inner.is_virtual):
                raise ValueError(
                    f"its dataset {path + name!r} is stored in other files, which are not read; "
                    "write the values into the file itself"
                )
            elif isinstance(inner, h5py.Dataset) and inner.shape is not None:
                entries.append(Entry(path + name, word_of(inner.dtype), inner.shape))
        return ordered

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        dataset = self._file[key]
        check_fits(taken(dataset.shape, index), dataset.dtype.itemsize)
        return plain(dataset[index])

    def close(self) -> None:
        self._file.close()
        if self._stream is not None:
            self._stream.close()
