"""A table in a Parquet file, whose columns are decoded on request.

The bytes of the file are kept: they are a tenth of the table in memory, and the table is read from
the bytes that were compared with the digest, even if the file changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._folders.reading import open_regular
from .._folders.results import AGAIN, differs
from .._limits import check_fits, is_of_memory
from .._text import clip, printable
from .codes import Coded, CodedColumns, coded_of
from .columns import TEXT_COLUMNS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: Required columns.
_COLUMNS = {
    "results.parquet": "step workers count counted nonzero underflow overflow nan nmse "
    "sum_signed_error sum_squared_reference volume sum_noise skipped",
    "histograms.parquet": "step exponent count",
    "noise.parquet": "step workers elements blocks sum_squared_reference sum_noise sum_log2_ratio",
    "limit.parquet": "elements values unit width entropy bits error",
    "persistence.parquet": "step steps sum_squared_error sum_noise noise_blocks "
    "sum_log2_error_over_noise sum_product sum_squared_reference sum_squared_result adam_product "
    "adam_squared_reference adam_squared_result",
}
_TEXTS = {
    "results.parquet": TEXT_COLUMNS,
    "histograms.parquet": ["trace", "tensor", "role", "kind"],
    "noise.parquet": ["trace", "tensor", "role"],
    "limit.parquet": ["trace", "kind"],
    "persistence.parquet": ["trace", "tensor", "scheme", "topology"],
}


class OnFile(ABC):
    """A table that is decoded from files on request."""

    columns: list[str]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def frame(self, columns: Sequence[str]) -> pd.DataFrame:
        """Those of these columns that it has, for computing.

        Texts are categories; integers of a column with empty cells are float64, NaN where they are
        empty.
        """

    def coded(self, columns: Sequence[str]) -> CodedColumns:
        """The same columns without pandas: texts as codes."""
        return coded_of(self.frame(columns), columns)

    @abstractmethod
    def whole(self) -> pd.DataFrame:
        """The table with the dtypes of `Results.frame`: texts are objects, integers nullable."""

    @abstractmethod
    def groups(
        self, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> Iterator[pa.Table]:
        """The rows in order, a group after another, at least one.

        Parameters
        ----------
        columns : sequence of str, optional
            Which; by default all.
        coded : sequence of str
            Texts that come as dictionaries.
        """


class Stored(OnFile):
    """One Parquet file of a RESULTS folder, its columns checked.

    Parameters
    ----------
    data : bytes or memoryview
        The file.
    path : pathlib.Path
        Its name, which says what table it is, and its place for messages.

    Raises
    ------
    ValueError
        It is damaged, of an older version, or has columns of other types.
    """

    def __init__(self, data: bytes | memoryview, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path, self._data, self._texts = path, pa.py_buffer(data), _TEXTS[path.name]
        with self._in_one_sentence():
            self._metadata = pq.read_metadata(pa.BufferReader(self._data))
            schema = self._metadata.schema.to_arrow_schema()
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            raise ValueError(
                f"{path} has the column {printable(twice[0], 60)} {schema.names.count(twice[0])} "
                f"times; {AGAIN}"
            )
        needed = [*_COLUMNS[path.name].split(), *self._texts]
        if missing := [c for c in needed if c not in schema.names]:
            raise ValueError(
                f"{path.parent} was written by an older apscope, without "
                f"the column {missing[0]}; {AGAIN}"
            )
        _check_columns(path, schema, self._texts)
        self.columns: list[str] = schema.names
        self._decoded_columns: dict[str, Coded | np.ndarray] = {}

    def __len__(self) -> int:
        return self._metadata.num_rows

    def frame(self, columns: Sequence[str]) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            {
                name: pd.Categorical.from_codes(values.codes, pd.Index(values.levels, dtype=object))
                if isinstance(values, Coded)
                else (values.astype(np.int64) if values.dtype.kind == "i" else values)
                for name, values in self.coded(columns).items()
            },
            copy=False,
        )

    def coded(self, columns: Sequence[str]) -> dict[str, Coded | np.ndarray]:
        names = [name for name in columns if name in self.columns]
        if new := [name for name in names if name not in self._decoded_columns]:
            self._decoded_columns |= self._decoded(new)
        return {name: self._decoded_columns[name] for name in names}

    def whole(self) -> pd.DataFrame:
        self._check_fits(self.columns)
        self._decoded_columns = {}
        with self._in_one_sentence():
            # As codes of a few texts: one object per cell would take gigabytes for a large table.
            read = self._file(self._texts).read(use_threads=False)
            table = read.to_pandas(use_threads=False)  # the file also has dtypes for pandas
        for name in self._texts:
            # Parquet's text has its own dtype; in memory it is always object.
            table[name] = table[name].astype(object)
        return table

    def groups(
        self, columns: Sequence[str] | None = None, coded: Sequence[str] = ()
    ) -> Iterator[pa.Table]:
        with self._in_one_sentence():
            file = self._file(coded)
        count = self._metadata.num_row_groups
        for i in range(max(count, 1)):
            with self._in_one_sentence():
                group = (
                    file.read_row_group(i, columns=columns, use_threads=False)
                    if count
                    else file.read(columns=columns, use_threads=False)
                )
            yield group

    def _file(self, coded: Sequence[str]) -> Any:
        """The file, for reading in this thread: pyarrow would wait forever for a new one."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            pa.BufferReader(self._data),
            metadata=self._metadata,
            read_dictionary=list(coded),
            pre_buffer=False,
        )

    def _decoded(self, names: list[str]) -> dict[str, Coded | np.ndarray]:
        """Columns, from one group of rows after another: their memory is used again."""
        self._check_fits(names)
        decoded: dict[str, _Texts | _Numbers] = {
            name: (_Texts if name in self._texts else _Numbers)(len(self)) for name in names
        }
        for group in self.groups(names, self._texts):
            for name, column in decoded.items():
                if name in self._texts and group[name].null_count:
                    raise ValueError(_not_texts(self.path, name))
                with self._in_one_sentence():
                    column.add(group[name])
        return {name: column.whole() for name, column in decoded.items()}

    def _check_fits(self, names: list[str]) -> None:
        check_fits((len(self), len(names)), 8, f"{AGAIN}, or a part of it")

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        """Turns every error of reading a damaged file into one sentence."""
        try:
            yield
        except Exception as error:  # of many types
            if is_of_memory(error):
                raise
            raise ValueError(
                f"{self.path} is damaged: "
                f"{str(error).splitlines()[0] if str(error) else type(error).__name__}"
            ) from None


def stored(path: Path, about: dict[str, Any]) -> Stored:
    """A file of a RESULTS folder, compared with its entry in provenance.json; its texts are read.

    Raises
    ------
    ValueError
        As of `Stored`; or it is from another run.
    """
    # NumPy's memory is in huge pages, where the system has them.
    with open_regular(path) as stream:
        if (size := os.fstat(stream.fileno()).st_size) != about["bytes"]:
            raise ValueError(differs(path, "bytes", size, about["bytes"]))
        data = np.fromfile(stream, np.uint8).data
    if (digest := hashlib.sha256(data).hexdigest()) != about["sha256"]:
        raise ValueError(differs(path, "SHA-256", digest, about["sha256"]))
    table = Stored(data, path)
    if len(table) != about["rows"]:
        raise ValueError(differs(path, "number of rows", len(table), about["rows"]))
    table.frame(_TEXTS[path.name])
    return table


_INTEGERS = tuple(map(np.dtype, (np.int8, np.int16, np.int32, np.int64)))


class _Numbers:
    """A column of numbers, put together from pieces; integers as narrow as they fit."""

    def __init__(self, rows: int) -> None:
        self._values, self._rows, self._at = np.empty(0), rows, 0

    def add(self, piece: pa.ChunkedArray) -> None:
        values = piece.to_numpy()
        kind = values.dtype
        if kind.kind == "i" and len(values):
            most = max(int(values.max()), -1 - int(values.min()))
            kind = next(k for k in _INTEGERS if most < 2 ** (8 * k.itemsize - 1))
        if self._at == 0:
            self._values = np.empty(self._rows, kind)
        elif kind != self._values.dtype:  # larger integers, or the first empty cells
            wider = np.result_type(self._values.dtype, kind)
            self._values = self._values.astype(wider, copy=False)
        self._values[self._at : self._at + len(values)] = values
        self._at += len(values)

    def whole(self) -> np.ndarray:
        return self._values


class _Texts:
    """A column of texts as codes; a file has a dictionary for every group of rows."""

    def __init__(self, rows: int) -> None:
        self._codes, self._at = np.empty(rows, np.int32), 0
        self._levels: dict[str, int] = {}

    def add(self, piece: pa.ChunkedArray) -> None:
        for chunk in piece.chunks:
            indices, texts = chunk.indices.to_numpy(), chunk.dictionary.to_pylist()
            used = np.bincount(indices, minlength=len(texts)) > 0  # others are not in the table
            codes = [
                self._levels.setdefault(text, len(self._levels)) if here else -1
                for text, here in zip(texts, used)
            ]
            if codes:
                self._codes[self._at : self._at + len(chunk)] = np.array(codes, np.int32)[indices]
            self._at += len(chunk)

    def whole(self) -> Coded:
        return Coded(self._codes, list(self._levels))


def _check_columns(path: Path, schema: pa.Schema, texts: Collection[str]) -> None:
    import pyarrow as pa

    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in texts:
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise ValueError(_not_texts(path, field.name))
        elif not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            raise ValueError(
                f"{path}: the column {printable(field.name, 60)} has type {clip(str(kind))}; it "
                f"must have numbers; {AGAIN}"
            )


def _not_texts(path: Path, column: str) -> str:
    return f"{path}: the column {column} has values that are not texts; {AGAIN}"
