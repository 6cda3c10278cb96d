"""npy and npz files. Nothing is unpickled."""

from __future__ import annotations

import ast
import math
import zipfile
from functools import cached_property, lru_cache
from typing import BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy

from .._limits import NPY_HEADER, check_fits
from .._traces.sources import File
from .dtypes import of_name, plain, word_of
from .reader import Entry, Index, Reader

#: How ml_dtypes writes float8_e5m2, a type that NumPy does not read back.
_E5M2 = "<f1"


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype, str]:
    """Shape, whether in column-major order, the dtype in memory, and its safetensors name."""
    start = stream.read(8)
    if start[:6] != npy.MAGIC_PREFIX or start[6] not in (1, 2, 3):
        raise ValueError(f"its npy header begins with {start!r}")
    length = int.from_bytes(stream.read(2 if start[6] == 1 else 4), "little")
    if length > NPY_HEADER:
        raise ValueError(f"its header's length is {length} bytes; at most {NPY_HEADER} are read")
    text = stream.read(length)
    if len(text) < length:
        raise ValueError(f"its header ends before its length of {length}")
    return _parsed(text)


@lru_cache(maxsize=10_000)  # most arrays of a dump have one of a few headers
def _parsed(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype, str]:
    try:
        about = ast.literal_eval(text.decode("utf-8"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"its header {text[:80]!r} is not a dict of plain values") from None
    if not isinstance(about, dict) or set(about) != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header must have descr, fortran_order and shape, and nothing else")
    shape = about["shape"]
    if (
        not isinstance(shape, tuple)
        or not all(isinstance(n, int) and n >= 0 for n in shape)
        or not isinstance(about["fortran_order"], bool)
    ):
        raise ValueError(
            f"its header has the shape {shape!r} and the fortran_order {about['fortran_order']!r}"
        )
    if about["descr"] == _E5M2:
        return shape, about["fortran_order"], np.dtype("u1"), "F8_E5M2"
    if isinstance(about["descr"], str) and (named := of_name(about["descr"])):
        return shape, about["fortran_order"], *named
    dtype = npy.descr_to_dtype(about["descr"])
    return shape, about["fortran_order"], dtype, word_of(dtype)


class NpyReader(Reader):
    """One array; mapped if the file is local."""

    ordered = False  # one file per tensor: the order is that of the names

    def __init__(self, file: File):
        self._file = file
        with file.open() as stream:
            shape, self._fortran, self._dtype, word = _header(stream)
            self._begin = stream.tell()
        needed = self._begin + self._dtype.itemsize * int(np.prod(shape, dtype=object))
        if file.size < needed:
            raise ValueError(f"it has {file.size} bytes, its header needs {needed}")
        self.entries = (Entry("", word, shape),)

    def read(self, key: str, index: Index = ()) -> np.ndarray:  # noqa: ARG002  # there is one array
        shape = self.entries[0].shape
        check_fits(shape, self._dtype.itemsize)
        order: Literal["C", "F"] = "F" if self._fortran else "C"
        if not np.prod(shape, dtype=object):
            return plain(np.empty(shape, self._dtype)[index])
        if self._file.source.remote is None:
            values: np.ndarray = np.memmap(
                self._file.place,
                dtype=self._dtype,
                mode="r",
                offset=self._begin,
                shape=shape,
                order=order,
            )
            return plain(np.array(values[index]))
        with self._file.open() as stream:
            stream.seek(self._begin)
            flat = np.frombuffer(
                stream.read(self._dtype.itemsize * int(np.prod(shape))), self._dtype
            )
        return plain(flat.reshape(shape, order=order)[index])


class NpzReader(Reader):
    """Many arrays, in the order of writing. Uncompressed arrays can be read in parts."""

    def __init__(self, file: File):
        self._stream = file.open()
        self._last: tuple[str, np.ndarray] | None = None
        try:
            self._archive = zipfile.ZipFile(self._stream)
        except BaseException:
            self._stream.close()
            raise
        names = [name for name in self._archive.namelist() if name.endswith(".npy")]
        self._members = {name.removesuffix(".npy"): name for name in names}
        if len(self._members) < len(names):
            self.close()
            twice = next(name for name in names if names.count(name) > 1).removesuffix(".npy")
            raise ValueError(
                f"it has two arrays with the name {twice!r}; save them under other keys"
            )

    @cached_property
    # computed on request: a file is opened again for its values
    def entries(self) -> list[Entry]:  # type: ignore[override]
        listed = []
        for key, name in self._members.items():
            with self._archive.open(name) as member:
                # zipfile opens a stream
                shape, _, dtype, word = _header(member)  # type: ignore[arg-type]
                needed = member.tell() + math.prod(shape) * dtype.itemsize
            if (
                size := self._archive.getinfo(name).file_size
            ) != needed and not dtype.hasobject:  # before it is decompressed
                raise ValueError(
                    f"its array {key!r} has {size} bytes, its header's shape {list(shape)} of "
                    f"{dtype} needs {needed}"
                )
            listed.append(Entry(key, word, shape))
        return listed

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        if self._last is None or self._last[0] != key:
            if not index:
                return self._whole(key)
            about = self._archive.getinfo(self._members[key])
            if about.compress_type == zipfile.ZIP_STORED and isinstance(index[0], int):
                return self._part(key, index)
            self._last = (key, self._whole(key))  # compressed: the next part is of the same array
        return self._last[1][index]

    def _whole(self, key: str) -> np.ndarray:
        with self._archive.open(self._members[key]) as member:
            shape, fortran, dtype, _ = _header(member)  # type: ignore[arg-type]
            check_fits(shape, dtype.itemsize)
            # One byte more than needed: at the end the archive's checksum is compared.
            values = np.frombuffer(member.read(math.prod(shape) * dtype.itemsize + 1), dtype)
        return plain(values.reshape(shape, order="F" if fortran else "C"))

    def _part(self, key: str, index: Index) -> np.ndarray:
        """One position of the first axis: only its bytes in the archive are read."""
        about = self._archive.getinfo(self._members[key])
        # Of the local header, with separate lengths of name and extra field.
        self._stream.seek(about.header_offset + 26)
        lengths = self._stream.read(4)
        self._stream.seek(
            int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1
        )
        shape, fortran, dtype, _ = _header(self._stream)
        if fortran:
            self._last = (key, self._whole(key))
            return self._last[1][index]
        length = int(np.prod(shape[1:])) * dtype.itemsize
        self._stream.seek(int(index[0]) * length, 1)  # type: ignore[arg-type]
        return plain(np.frombuffer(self._stream.read(length), dtype).reshape(shape[1:])[index[1:]])

    def close(self) -> None:
        self._archive.close()
        self._stream.close()
