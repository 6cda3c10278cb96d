"""A table as columns from C++, converted on request to a pandas frame, or to Arrow for files.

Files are written without pandas, whose import takes longer than a small replay. pyarrow imports
pandas when it makes an array from anything but buffers (``pa.array``), and importing
``pyarrow.compute`` is as slow: so arrays are made from buffers here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import _core

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .stored import OnFile

#: Columns of the table of results.
TEXT_COLUMNS = ["trace", "tensor", "role", "scheme", "format", "topology", "stage", "note"]

#: Name -> array, all of one length: objects are text, a pair (values, whether empty) is nullable
#: integers, NaN an empty float.
Columns: TypeAlias = Mapping[str, Any]


def columns_that_pool(how: str) -> tuple[str, ...]:
    """The numeric columns that pool this way (analysis/statistics/result_columns.h), in order."""
    return tuple(name for name, _, _, pools in _core.COLUMNS if pools == how)


def length(columns: Columns) -> int:
    """The number of rows."""
    first = next(iter(columns.values()))
    return len(first[0] if isinstance(first, tuple) else first)


def length_of(table: Columns | pd.DataFrame | OnFile) -> int:
    """The number of rows of a table in any form."""
    return length(table) if isinstance(table, Mapping) else len(table)


def joined(parts: Sequence[tuple[str, Columns]]) -> dict[str, Any]:
    """Concatenated columns of (trace name, columns), after a column of the traces' names."""
    names = np.array([name for name, _ in parts], dtype=object)
    return dict(
        together(
            [
                {"trace": np.repeat(names[i : i + 1], length(columns)), **columns}
                for i, (_, columns) in enumerate(parts)
            ]
        )
    )


def together(pieces: list[Columns]) -> Columns:
    """The rows of several tables with the same columns; takes them out of `pieces`."""
    if len(pieces) == 1:
        return pieces.pop()
    rows = [dict(piece) for piece in pieces]  # each column is dropped once it is joined
    pieces.clear()
    joined: dict[str, Any] = {}
    for name, first in list(rows[0].items()):
        parts = [columns.pop(name) for columns in rows]
        joined[name] = (
            tuple(map(np.concatenate, zip(*parts)))
            if isinstance(first, tuple)
            else np.concatenate(parts)
        )
    return joined


def frame_of(columns: Columns) -> pd.DataFrame:
    """The pandas frame: text becomes objects, pairs become nullable integers."""
    import pandas as pd

    def column(values: Any) -> Any:
        if isinstance(values, tuple):
            return pd.arrays.IntegerArray(*values)
        # An index is kept as it is; pandas would inspect every text of an array of objects.
        return pd.Index(values, dtype=object, copy=False) if values.dtype == object else values

    return pd.DataFrame({name: column(values) for name, values in columns.items()}, copy=False)


def arrow_table(columns: Columns) -> pa.Table:
    """The Arrow table of ``pa.Table.from_pandas(frame_of(columns), preserve_index=False)``."""
    import pyarrow as pa

    arrays, described = [], []
    for name, values in columns.items():
        if isinstance(values, tuple):
            arrays.append(_number_array(pa.int64(), *values))
        elif values.dtype == object:
            arrays.append(text_array(values))
        elif values.dtype == bool:
            arrays.append(
                pa.Array.from_buffers(
                    pa.bool_(),
                    len(values),
                    [None, pa.py_buffer(np.packbits(values, bitorder="little"))],
                )
            )
        else:
            kind = pa.from_numpy_dtype(values.dtype)
            arrays.append(
                _number_array(
                    kind,
                    values,
                    np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool),
                )
            )
        logical = (
            "unicode"
            if pa.types.is_string(arrays[-1].type)
            else str(arrays[-1].type).replace("double", "float64")
        )
        physical = "Int64" if isinstance(values, tuple) else str(values.dtype)
        described.append(
            {
                "name": name,
                "field_name": name,
                "pandas_type": logical,
                "numpy_type": physical,
                "metadata": None,
            }
        )
    pandas_metadata = {
        "index_columns": [], "column_indexes": [], "columns": described, "attributes": {},
        "creator": {"library": "pyarrow", "version": pa.__version__},
    }  # fmt: skip
    return pa.Table.from_arrays(arrays, names=list(columns)).replace_schema_metadata(
        {"pandas": json.dumps(pandas_metadata)}
    )


def validity(there: np.ndarray) -> pa.Buffer | None:
    """Arrow's bitmap of values that are not empty; none if all are there."""
    import pyarrow as pa

    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def text_array(values: Sequence[str]) -> pa.Array:
    """Text with few distinct values as an Arrow array of strings."""
    import pyarrow as pa

    encoded = {text: text.encode() for text in set(values)}
    sizes = {text: len(code) for text, code in encoded.items()}
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(sizes.__getitem__, values), np.int64, len(values)), out=ends[1:])
    small = ends[-1] < 2**31
    data = b"".join(map(encoded.__getitem__, values))
    offsets = pa.py_buffer(ends.astype(np.int32) if small else ends)
    return pa.Array.from_buffers(
        pa.string() if small else pa.large_string(),
        len(values),
        [None, offsets, pa.py_buffer(data)],
    )


def _number_array(kind: pa.DataType, values: np.ndarray, empty: np.ndarray) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(
        kind, len(values), [validity(~empty), pa.py_buffer(np.ascontiguousarray(values))]
    )
