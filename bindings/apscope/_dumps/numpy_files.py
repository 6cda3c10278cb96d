"""npy and npz files. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from .dtypes import plain, word_of
from .reader import Entry, Index, Reader
from .sources import File


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its npy version {version[0]}.{version[1]} is unknown")
    return read(stream)


class NpyReader(Reader):
    """One array; mapped where the file is local."""

    ordered = False  # one file a tensor: the order is that of the names

    def __init__(self, file: File):
        self._file = file
        with file.open() as stream:
            shape, self._fortran, self._dtype = _header(stream)
            self._begin = stream.tell()
        needed = self._begin + self._dtype.itemsize * int(np.prod(shape, dtype=object))
        if file.size < needed:
            raise ValueError(f"it has {file.size} bytes, its header needs {needed}")
        self.entries = (Entry("", word_of(self._dtype), shape),)

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        shape, order = self.entries[0].shape, "F" if self._fortran else "C"
        if not np.prod(shape, dtype=object):
            return plain(np.empty(shape, self._dtype)[index])
        if self._file.source.remote is None:
            values = np.memmap(self._file.place, self._dtype, "r", self._begin, shape, order)
            return plain(np.array(values[index]))
        with self._file.open() as stream:
            stream.seek(self._begin)
            flat = np.frombuffer(stream.read(self._dtype.itemsize * int(np.prod(shape))), self._dtype)
        return plain(flat.reshape(shape, order=order)[index])


class NpzReader(Reader):
    """Many arrays, in the order in which they were written. Arrays without compression are read in parts where parts are asked for."""

    def __init__(self, file: File):
        self._stream = file.open()
        self._last: tuple[str, np.ndarray] | None = None
        try:
            self._archive = zipfile.ZipFile(self._stream)
            entries = []
            for name in self._archive.namelist():
                with self._archive.open(name) as member:
                    if member.read(6) != npy.MAGIC_PREFIX:
                        continue
                with self._archive.open(name) as member:
                    shape, _, dtype = _header(member)  # type: ignore[arg-type]  # what zipfile opens is a stream
                entries.append(Entry(name.removesuffix(".npy"), word_of(dtype), shape))
            self._members = {name.removesuffix(".npy"): name for name in self._archive.namelist()}
        except BaseException:
            self._stream.close()
            raise
        self.entries = entries

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        if self._last is None or self._last[0] != key:
            if not index:
                return self._whole(key)
            about = self._archive.getinfo(self._members[key])
            if about.compress_type == zipfile.ZIP_STORED and index[0] != slice(None) and isinstance(index[0], int):
                return self._part(key, index)
            self._last = (key, self._whole(key))  # compressed: the next part is of the same array
        return self._last[1][index]

    def _whole(self, key: str) -> np.ndarray:
        with self._archive.open(self._members[key]) as member:  # checks the CRC at the end
            return plain(npy.read_array(member, allow_pickle=False))

    def _part(self, key: str, index: Index) -> np.ndarray:
        """One position of the first axis: its bytes alone are read."""
        with self._archive.open(self._members[key]) as member:
            shape, fortran, dtype = _header(member)  # type: ignore[arg-type]
            if fortran:
                self._last = (key, self._whole(key))
                return self._last[1][index]
            length = int(np.prod(shape[1:])) * dtype.itemsize
            member.seek(int(index[0]) * length, 1)  # type: ignore[arg-type]
            values = np.frombuffer(member.read(length), dtype).reshape(shape[1:])
        return plain(values[index[1:]])

    def close(self) -> None:
        self._archive.close()
        self._stream.close()

