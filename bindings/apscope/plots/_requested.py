"""The requested data: rows of a trace or a layer, and schemes in any spelling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from .._arrays.inputs import as_format
from .._core import FloatFormat
from .._results.comparison import scheme_in
from .._results.pooling import one_trace
from .._results.results import Results
from .._schemes.scheme import Scheme, known_scheme
from .._text import hint

#: Columns that every plot needs.
_NEEDED = (
    "trace", "step", "tensor", "scheme", "stage", "topology", "workers", "count", "skipped",
    "wire_bits", "side_bits",
)  # fmt: skip


def rows_of(results: Any, trace: str | None = None, layer: str | None = None) -> pd.DataFrame:
    """The table's rows of one trace, and of one layer if it is given.

    Raises
    ------
    TypeError
        Neither a Results nor a table.
    ValueError
        No rows, a table without the columns of `Results.frame`, no such trace or layer, several
        traces and none given.
    """
    if not isinstance(results, (Results, pd.DataFrame)):
        raise TypeError(f"results is of type {type(results).__name__}; give Results or their frame")
    frame = results.frame if isinstance(results, Results) else results
    missing = [column for column in _NEEDED if column not in frame]
    if missing:
        raise ValueError(
            f"the table has no column {', '.join(missing)}; give Results, their frame or rows of it"
        )
    frame = one_trace(frame, trace)
    if not len(frame):
        raise ValueError("the results have no rows; replay a trace")
    return _of_layer(frame, layer)


def histograms_of(results: Any, trace: str | None = None, layer: str | None = None) -> pd.DataFrame:
    """The exponent histograms of one trace, or of one layer of it; errors as in `rows_of`."""
    if isinstance(results, pd.DataFrame):
        raise TypeError("results is a table, which has no exponent histograms; give the Results")
    if not isinstance(results, Results):
        raise TypeError(f"results is of type {type(results).__name__}; give Results")
    table = one_trace(results.histograms, trace)
    if not len(table):
        raise ValueError("the results have no exponent histograms; replay the trace again")
    return _of_layer(table, layer)


def _of_layer(table: pd.DataFrame, layer: str | None) -> pd.DataFrame:
    if layer is None:
        return table
    rows = table[table["tensor"] == layer]
    if not len(rows):
        raise ValueError(
            f"the results have no layer '{layer}'; {hint(str(layer), layers_of(table))}"
        )
    return rows


def layers_of(table: pd.DataFrame) -> list[str]:
    """Layers (tensors) in the trace's order."""
    return list(dict.fromkeys(table["tensor"]))


def steps_of(table: pd.DataFrame) -> list[int]:
    return sorted(set(table["step"].astype(int)))


def specs_in(frame: pd.DataFrame, schemes: Iterable[Scheme | str] | None) -> list[str]:
    """The specs of the requested schemes, by default all of the table, in its order."""
    if schemes is None:
        return list(dict.fromkeys(frame["scheme"]))
    if isinstance(schemes, (str, Scheme)):
        schemes = [schemes]
    return list(dict.fromkeys(scheme_in(frame, s) for s in schemes))


def float_format(
    format: Any, frame: pd.DataFrame | None = None, spec: str | None = None
) -> FloatFormat:
    """The requested format, or else that of the scheme.

    Raises
    ------
    ValueError
        None is given, and the scheme does not round to a float format.
    """
    if isinstance(format, Scheme):
        raise TypeError(
            f"format is the scheme '{format}'; give scheme='{format}' to draw the effect of its "
            "scale, in its format"
        )
    if format is not None:
        try:
            return as_format(format)
        except ValueError:
            if frame is None and known_scheme(format) is not None:
                raise ValueError(
                    f"'{format}' is a scheme and not a format; give scheme='{format}' to draw the "
                    "effect of its scale, in its format"
                ) from None
            raise
    if spec is None or frame is None:
        raise ValueError(
            "neither a format nor a scheme is given; give the format whose ranges to draw"
        )
    name = str(frame.loc[frame["scheme"] == spec, "format"].iloc[0])
    try:
        return as_format(name)
    except ValueError:
        raise ValueError(
            f"'{spec}' rounds to the grid '{name}', which is not a float format; give format="
        ) from None
