"""safetensors files, single or in shards; ranges are read, so remote files are not fetched."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import numpy as np

from .._folders.json import parse_json
from .._limits import JSON_LENGTH, SAFETENSORS_HEADER, check_fits
from .._traces.sources import File
from .dtypes import numpy_dtype, unpacked
from .reader import Entry, Index, Reader, numbers_of


class SafetensorsReader(Reader):
    """One file, its header checked before anything in it is used."""

    def __init__(self, file: File):
        self._file = file
        with file.open() as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(SAFETENSORS_HEADER, file.size - 8):
                raise ValueError(
                    f"its header's length {length} is not one of 2 to "
                    f"{min(SAFETENSORS_HEADER, file.size - 8)}"
                )
            header = parse_json(stream.read(length), SAFETENSORS_HEADER)
        if not isinstance(header, dict):
            raise ValueError("its header must be an object of tensors")
        self._begin = 8 + length
        metadata = header.pop("__metadata__", None)
        self.scalars = numbers_of(metadata) if isinstance(metadata, dict) else {}
        entries, self._ranges = [], {}
        for key, about in header.items():
            if not isinstance(about, dict) or set(about) != {"dtype", "shape", "data_offsets"}:
                raise ValueError(
                    f"tensor {key!r} must have dtype, shape and data_offsets, and nothing else"
                )
            if not isinstance(about["dtype"], str):
                raise ValueError(
                    f"tensor {key!r} has the dtype {about['dtype']!r}, "
                    "which must be a word such as 'F32'"
                )
            if not isinstance(about["shape"], list) or not isinstance(about["data_offsets"], list):
                raise ValueError(
                    f"tensor {key!r}: its shape and data_offsets must be lists of integers"
                )
            shape, offsets = tuple(about["shape"]), about["data_offsets"]
            if (
                not all(isinstance(n, int) and n >= 0 for n in (*shape, *offsets))
                or len(offsets) != 2
            ):
                raise ValueError(
                    f"tensor {key!r}: its shape and data_offsets must be integers, 0 or more"
                )
            dtype = numpy_dtype(about["dtype"])
            needed = math.prod(shape) * (dtype.itemsize if dtype is not None else 0)
            if about["dtype"] == "F4":  # the header's shape counts values, two of them a byte
                needed = math.ceil(needed / 2)
            if dtype is not None and needed != offsets[1] - offsets[0]:
                raise ValueError(
                    f"tensor {key!r}: its shape {list(shape)} of {about['dtype']} needs other "
                    f"data_offsets than {offsets}"
                )
            entries.append(Entry(key, about["dtype"], shape))
            self._ranges[key] = offsets
        end = 0
        for key, offsets in sorted(self._ranges.items(), key=lambda item: item[1]):
            if offsets[0] != end or offsets[1] < end:
                raise ValueError(
                    f"tensor {key!r}: its data_offsets {offsets} must begin at {end}, the end of "
                    "the tensor before"
                )
            end = offsets[1]
        if self._begin + end != file.size:
            raise ValueError(f"it has {file.size} bytes, its header needs {self._begin + end}")
        self._kinds = {entry.key: entry for entry in entries}
        self.entries = entries
        self.ordered = not _alphabetical(entries)

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        begin, end = self._ranges[key]
        entry = self._kinds[key]
        dtype = numpy_dtype(entry.dtype)
        assert dtype is not None  # check_word was asked
        shape = entry.shape
        halves = entry.dtype == "F4"
        with self._file.open() as stream:
            if (
                index and isinstance(index[0], int) and not (halves and math.prod(shape[1:]) % 2)
            ):  # only the bytes of the position
                length = (end - begin) // shape[0]
                begin, end, shape, index = (
                    begin + index[0] * length,
                    begin + (index[0] + 1) * length,
                    shape[1:],
                    index[1:],
                )
            check_fits(shape, dtype.itemsize)
            stream.seek(self._begin + begin)
            values = np.frombuffer(stream.read(end - begin), dtype)
            return (unpacked(values, shape) if halves else values.reshape(shape))[index]


class ShardedReader(Reader):
    """Several safetensors files that are one dump's parts."""

    def __init__(self, shards: list[File], index: File | None):
        weight_map: Any = None
        if index is not None:
            with index.open() as stream:
                content = parse_json(stream.read(JSON_LENGTH + 1))
            weight_map = content.get("weight_map") if isinstance(content, dict) else None
            if not isinstance(weight_map, dict) or not all(
                isinstance(name, str) for name in weight_map.values()
            ):
                raise ValueError("its weight_map must be an object of file names")
        names = [shard.name.rsplit("/", 1)[-1] for shard in shards]
        if index is not None and (missing := sorted(set(weight_map.values()) - set(names))):
            raise ValueError(f"it lists {missing[0]}, which is not in its folder")
        self._shards = []
        for shard in shards:
            try:
                self._shards.append(SafetensorsReader(shard))
            except ValueError as error:
                raise ValueError(f"its part {shard.name}: {error}") from None
        self._of: dict[str, SafetensorsReader] = {}
        for name, reader in zip(names, self._shards):
            for entry in reader.entries:
                if entry.key in self._of:
                    raise ValueError(
                        f"tensor {entry.key!r} is in two of its parts; the second is {name}"
                    )
                if index is not None and weight_map.get(entry.key) != name:
                    raise ValueError(
                        f"its weight_map has {entry.key!r} in {weight_map.get(entry.key)}, but it "
                        f"is in {name}"
                    )
                self._of[entry.key] = reader
        entries = {entry.key: entry for reader in self._shards for entry in reader.entries}
        if index is not None and (lost := [key for key in weight_map if key not in entries]):
            raise ValueError(
                f"its weight_map has {lost[0]!r} in {weight_map[lost[0]]}, "
                "which does not contain it"
            )
        self.entries = [entries[key] for key in (weight_map if index is not None else entries)]
        self.scalars = {
            name: number for reader in self._shards for name, number in reader.scalars.items()
        }
        self.ordered = not _alphabetical(self.entries) and (
            index is not None or all(shard.ordered for shard in self._shards)
        )

    def read(self, key: str, index: Index = ()) -> np.ndarray:
        return self._of[key].read(key, index)


def _alphabetical(entries: list[Entry]) -> bool:
    """Whether the order is the safetensors library's default: by dtype, then by name."""
    keys = [entry.key for entry in entries]
    runs = [
        [entry.key for entry in run] for _, run in groupby(entries, key=lambda entry: entry.dtype)
    ]
    by_dtype = len(runs) == len({entry.dtype for entry in entries}) and all(
        run == sorted(run) for run in runs
    )
    return len(keys) > 1 and (keys == sorted(keys) or by_dtype)
