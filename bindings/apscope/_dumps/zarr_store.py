"""zarr folders, of version 2 and 3, through zarr."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._limits import check_fits
from .._traces.sources import Source
from .dtypes import plain, word_of
from .hdf5 import library
from .reader import Entry, Index, Reader, numbers_of, taken


class ZarrReader(Reader):
    """All arrays below a folder, in the order of the names: a store has no order."""

    ordered = False

    def __init__(self, place: str, source: Source):
        zarr = library("zarr", "zarr")
        store = place
        if source.remote is not None:
            store = zarr.storage.FsspecStore(
                _asynchronous(source.remote), read_only=True, path=place
            )
        opened = zarr.open(store, mode="r")
        self._arrays: dict[str, Any] = (
            {"": opened} if isinstance(opened, zarr.Array) else dict(_walk(zarr, opened, ""))
        )
        self.scalars = numbers_of(dict(opened.attrs))
        self.entries = [
            Entry(key, word_of(array.dtype), array.shape) for key, array in self._arrays.items()
        ]

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        array = self._arrays[key]
        check_fits(taken(array.shape, index), array.dtype.itemsize)
        return plain(array[index])


def _walk(zarr: Any, group: Any, path: str) -> Any:
    for name, inner in sorted(group.members()):
        if isinstance(inner, zarr.Array):
            yield path + name, inner
        else:
            yield from _walk(zarr, inner, f"{path}{name}/")


def _asynchronous(system: Any) -> Any:
    """The interface of a file system for zarr."""
    if system.async_impl:
        return type(system)(**{**system.storage_options, "asynchronous": True})
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    return AsyncFileSystemWrapper(system, asynchronous=True)
