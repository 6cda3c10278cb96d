"""Writes a RESULTS folder, its rows as they come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .._folders.durable import digest_of
from .._folders.results import CSV, CSV_ROWS, FILES, MARK, OPTIONAL, TABLES
from .._text import count_of
from .columns import length_of
from .row_groups import RowGroups, csv_from, pieces, store

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .._folders.writing import Writing
    from .columns import Columns
    from .stored import OnFile

_ROWS = "results.parquet"


class NewResults:
    """A RESULTS folder in the making; use it in a ``with`` block.

    Parameters
    ----------
    writing : Writing
        Of `_folders.results.writing_results`.
    csv : bool, optional
        Whether to write results.csv; by default if the table has at most `CSV_ROWS` rows.
    """

    def __init__(self, writing: Writing, csv: bool | None) -> None:
        self._writing, self._csv = writing, csv

    def __enter__(self) -> NewResults:
        with self._writing.named(), ExitStack() as stack:
            self._file = stack.enter_context((self._writing.new / _ROWS).open("xb"))
            self._rows = RowGroups(self._file)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, rows: pd.DataFrame | Columns | OnFile | pa.Table) -> None:
        """The next rows of the table; at least once, possibly none."""
        with self._writing.named():
            for piece in pieces(rows):
                self._rows.add(piece)

    def finish(
        self,
        tables: Mapping[str, pd.DataFrame | Columns | OnFile],
        provenance: dict[str, Any],
    ) -> int:
        """Writes the other files and puts all into place; returns the number of rows.

        Parameters
        ----------
        tables : mapping
            ``histograms``, ``noise``, ``limit`` and ``persistence``.
        provenance : dict
        """
        writing, new = self._writing, self._writing.new
        with writing.named():
            self._rows.close()
            self._stack.close()
            rows = self._rows.rows
            of_rows = {**digest_of(new / _ROWS), "rows": rows}
            files = {}
            for name, kind in TABLES.items():
                if name == CSV:
                    if rows <= CSV_ROWS if self._csv is None else self._csv:
                        with (new / name).open("xb") as file:
                            csv_from(new / _ROWS, file)
                        files[name] = {**digest_of(new / name), "rows": rows}
                elif name not in OPTIONAL or length_of(tables[kind]) > 0:
                    files[name] = of_rows if name == _ROWS else store(new / name, tables[kind])
            about = json.dumps(provenance | {"files": files}, indent=1, allow_nan=False)
            (new / MARK).write_text(about + "\n", encoding="utf-8")
        writing.put_files(FILES, mark=MARK) if writing.into else writing.put_folder()
        writing.clear()
        return rows


def csv_left_out(rows: int, csv: bool | None) -> str:
    """A sentence for a command that wrote so many rows without results.csv; else nothing."""
    if csv or rows <= CSV_ROWS:
        return ""
    return (
        f"{CSV} was left out because the table has more than {count_of(CSV_ROWS, 'row')}; "
        "results.parquet has all of it, and --csv writes both"
    )
