"""Columns of a table as arrays: texts as codes, numbers as float64, without pandas if possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Coded(NamedTuple):
    """A column of texts."""

    codes: np.ndarray  # int32: the place of every row's text in `levels`
    levels: list[str]

    def texts(self, rows: np.ndarray) -> np.ndarray:
        """The texts of these rows, as objects."""
        return np.array([*self.levels, None], object)[self.codes[rows]]


#: By name: texts, or numbers as arrays of any width: narrow ones are for the core alone, because
#: NumPy's products of them would overflow.
CodedColumns: TypeAlias = Mapping[str, "Coded | np.ndarray"]


def coded_of(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, Coded | np.ndarray]:
    """Those of these columns that a frame has; with empty numbers (NaN) a column is float64."""
    return {name: _column(frame[name]) for name in columns if name in frame}


def _column(column: pd.Series) -> Coded | np.ndarray:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return Coded(column.cat.codes.to_numpy(np.int32), list(column.cat.categories))
    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        codes, levels = pd.factorize(column)
        return Coded(codes.astype(np.int32), list(levels))
    if column.dtype == bool:
        return column.to_numpy()
    if pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans:
        return column.to_numpy(np.int64)
    return column.to_numpy(float, na_value=np.nan)
