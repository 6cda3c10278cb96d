"""The columns of a table of results as the C++ core takes them: analysis/summary/row_table.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.checks import of_type
from .codes import Coded, CodedColumns, coded_of
from .columns import TEXT_COLUMNS

#: Columns of texts that the core takes as they are.
_TEXTS = [name for name in TEXT_COLUMNS if name != "stage"]
_NUMBERS = {"workers", *(name for name, *_ in _core.COLUMNS)}


def frame_of(results: Any) -> pd.DataFrame:
    """The table itself, or the ``frame`` of a Results.

    Raises
    ------
    TypeError
        It is neither.
    """
    frame = getattr(results, "frame", results)
    return of_type("results", frame, pd.DataFrame, "a Results, or its table")


class Rows:
    """Rows of a table for the core.

    Parameters
    ----------
    columns : mapping
        ``step``, ``stage`` and ``skipped``, and what else a computation needs; the core says which
        number it lacks.

    Raises
    ------
    ValueError
        A column is missing, or a text is empty.
    """

    def __init__(self, columns: CodedColumns) -> None:
        if missing := [name for name in ("step", "stage", "skipped") if name not in columns]:
            raise ValueError(
                f"the results have no column '{missing[0]}': an older apscope wrote them; replay "
                "the trace again"
            )
        self._columns = columns
        stage = _text(columns["stage"])
        self.core = _core.RowTable(
            {name: _text(columns[name]) for name in _TEXTS if name in columns},
            np.asarray(columns["step"]),
            np.array([level == "wire" for level in stage.levels], bool)[stage.codes],
            np.asarray(columns["skipped"]),
            {name: values for name, values in columns.items() if name in _NUMBERS},
        )

    def cells(self, column: str, rows: np.ndarray) -> pd.Series:
        """The cells of a column in these rows, as objects."""
        values = self._columns[column]
        return objects(values.texts(rows) if isinstance(values, Coded) else values[rows])

    def scheme_specs(self) -> list[str]:
        """The specs of the schemes, in order of appearance."""
        scheme = _text(self._columns["scheme"])
        first = np.unique(scheme.codes, return_index=True)
        return [scheme.levels[code] for code in first[0][np.argsort(first[1])]]


def rows_of(results: Any, columns: Sequence[str]) -> Rows:
    """These columns of a Results or its table, those that it has; of a file only they are read."""
    of_results = getattr(results, "_for_core", None)
    return Rows(of_results(columns) if of_results else coded_of(frame_of(results), columns))


def objects(values: Sequence[Any] | np.ndarray) -> pd.Series:
    """A column of objects; pandas would give texts another dtype."""
    return pd.Series(values, dtype=object)


def _text(column: Any) -> Coded:
    return column if isinstance(column, Coded) else Coded(np.zeros(len(column), np.int32), [""])
