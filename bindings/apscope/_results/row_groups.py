"""Writes and reads a table in groups of rows, so that a large one is never held whole.

A group has the same number of rows wherever the rows come from: the same table gives the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from .._folders.durable import digest_of
from .columns import Columns, arrow_table, length
from .csv_table import write_csv
from .stored import OnFile

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: Rows of a group: about 30 MB in memory.
ROWS = 65_536


class RowGroups:
    """A Parquet file in groups of `ROWS` rows.

    Parameters
    ----------
    file : binary stream
        Where it is written.
    """

    def __init__(self, file: BinaryIO | pa.NativeFile) -> None:
        self.rows = 0
        self._file = file
        self._writer: Any = None
        self._waiting: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Adds rows, at least once before `close`, possibly none."""
        import pyarrow as pa

        if self._writer is None:
            self._writer = _writer(self._file, table.schema)
        self.rows += len(table)
        self._waiting.append(table)
        while (count := sum(map(len, self._waiting))) >= ROWS:
            whole = pa.concat_tables(self._waiting)
            self._write(whole.slice(0, ROWS))
            self._waiting = [whole.slice(ROWS)] if count > ROWS else []

    def close(self) -> None:
        """Writes the rest."""
        import pyarrow as pa

        if self._waiting and (sum(map(len, self._waiting)) or not self.rows):
            self._write(pa.concat_tables(self._waiting))
        self._waiting = []
        self._writer.close()

    def _write(self, table: pa.Table) -> None:
        # In one piece: where the pieces begin would show in the file.
        self._writer.write_table(table.combine_chunks(), row_group_size=ROWS)


def _writer(file: BinaryIO | pa.NativeFile, schema: pa.Schema) -> Any:
    """A writer that does not close itself when an error or a signal has ended its use.

    pyarrow's would write the end of the table, late and in vain, and tell of the closed file.
    """
    import pyarrow.parquet as pq

    class Writer(pq.ParquetWriter):  # type: ignore[misc]  # pyarrow has no types
        def __del__(self) -> None:
            pass

    # Few numbers are equal: a dictionary of them is slower and larger than the numbers.
    few = [f.name for f in schema if str(f.type) in ("string", "large_string")]
    return Writer(file, schema, use_dictionary=few)


def arrow(table: pd.DataFrame | Columns) -> pa.Table:
    """The Arrow table of a frame or of columns; the same for both."""
    import pyarrow as pa

    if isinstance(table, Mapping):
        return arrow_table(table)
    if len(table):
        table_of_frame = pa.Table.from_pandas(table, preserve_index=False)
        metadata = json.loads(table_of_frame.schema.metadata[b"pandas"])
        del metadata["pandas_version"]  # as in `arrow_table`
        return table_of_frame.replace_schema_metadata({"pandas": json.dumps(metadata)})
    # Without any text pyarrow cannot infer the type.
    return arrow_table(
        {
            name: (np.zeros(0, np.int64), np.zeros(0, bool))
            if str(kind) == "Int64"
            else np.zeros(0, kind)
            for name, kind in table.dtypes.items()
        }
    )


def pieces(table: pd.DataFrame | Columns | OnFile | pa.Table) -> Iterator[pa.Table]:
    """The rows of a table as Arrow tables, at least one."""
    import pyarrow as pa

    if isinstance(table, OnFile):
        yield from table.groups()
        return
    if not isinstance(table, Mapping):
        yield table if isinstance(table, pa.Table) else arrow(table)
        return
    for begin in range(0, max(length(table), 1), ROWS):
        here = slice(begin, begin + ROWS)
        yield arrow_table(
            {
                name: tuple(part[here] for part in values)
                if isinstance(values, tuple)
                else values[here]
                for name, values in table.items()
            }
        )


def csv_from(parquet: Path | BinaryIO, file: BinaryIO) -> None:
    """Writes the table of a Parquet file as CSV, one group of rows after another."""
    import pyarrow.parquet as pq

    if isinstance(parquet, Path):
        with parquet.open("rb") as stream:  # Arrow accepts only UTF-8 paths
            return csv_from(stream, file)
    read = pq.ParquetFile(parquet)
    if not read.num_row_groups:
        return write_csv(read.read(use_threads=False), file)
    for i in range(read.num_row_groups):
        write_csv(read.read_row_group(i, use_threads=False), file, header=i == 0)
    return None


def store(path: Path, table: pd.DataFrame | Columns | OnFile) -> dict[str, int | str]:
    """Writes a table as Parquet; returns its entry for provenance.json."""
    with path.open("xb") as file:
        groups = RowGroups(file)
        for piece in pieces(table):
            groups.add(piece)
        groups.close()
    return {**digest_of(path), "rows": groups.rows}
