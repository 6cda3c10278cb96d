"""What a caller asks to see: rows of a trace or a layer, schemes in any spelling; one sentence where they are not there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from .._arrays.inputs import as_format
from .._core import FloatFormat
from .._results.comparison import hint, scheme_in
from .._results.pooling import one_trace
from .._results.results import Results
from .._schemes.scheme import Scheme, as_scheme

#: Without these columns no row can be placed.
_NEEDED = (
    "trace",
    "step",
    "tensor",
    "scheme",
    "stage",
    "topology",
    "workers",
    "count",
    "skipped",
    "wire_bits",
    "side_bits",
)


def rows_of(results: Any, trace: str | None = None, layer: str | None = None) -> pd.DataFrame:
    """The table's rows of one trace, and of one layer where it is named.

    Raises
    ------
    TypeError
        Neither a Results nor a table.
    ValueError
        No rows, a table without the columns of `Results.frame`, no such trace or layer, several
        traces and none named.
    """
    if not isinstance(results, (Results, pd.DataFrame)):
        raise TypeError(f"results is of type {type(results).__name__}; give a Results or its frame")
    frame = results.frame if isinstance(results, Results) else results
    missing = [column for column in _NEEDED if column not in frame]
    if missing:
        raise ValueError(
            f"the table has no column {', '.join(missing)}; give a Results, its frame or rows of it"
        )
    frame = one_trace(frame, trace)
    if not len(frame):
        raise ValueError("the results hold no rows")
    return _of_layer(frame, layer)


def histograms_of(results: Any, trace: str | None = None, layer: str | None = None) -> pd.DataFrame:
    """The exponent histograms of one trace, and of one layer where it is named; errors as in `rows_of`."""
    if isinstance(results, pd.DataFrame):
        raise TypeError(
            "results is a table, which holds no exponent histograms; give the Results themselves"
        )
    if not isinstance(results, Results):
        raise TypeError(f"results is of type {type(results).__name__}; give a Results")
    table = one_trace(results.histograms, trace)
    if not len(table):
        raise ValueError("the results hold no exponent histograms")
    return _of_layer(table, layer)


def _of_layer(table: pd.DataFrame, layer: str | None) -> pd.DataFrame:
    if layer is None:
        return table
    rows = table[table["tensor"] == layer]
    if not len(rows):
        raise ValueError(
            f"the results hold no layer '{layer}'; {hint(str(layer), layers_of(table))}"
        )
    return rows


def layers_of(table: pd.DataFrame) -> list[str]:
    """Layers (tensors) in the trace's order."""
    return list(dict.fromkeys(table["tensor"]))


def steps_of(table: pd.DataFrame) -> list[int]:
    return sorted(set(table["step"].astype(int)))


def specs_in(frame: pd.DataFrame, schemes: Iterable[Scheme | str] | None) -> list[str]:
    """The specs of the schemes asked for, by default all that the table has, in its order."""
    if schemes is None:
        return list(dict.fromkeys(frame["scheme"]))
    if isinstance(schemes, (str, Scheme)):
        schemes = [schemes]
    return list(dict.fromkeys(scheme_in(frame, s) for s in schemes))


def _is_scheme(text: str) -> bool:
    try:
        as_scheme(text)
    except ValueError:
        return False
    return True


def float_format(
    format: Any, frame: pd.DataFrame | None = None, spec: str | None = None
) -> FloatFormat:
    """The format asked for; where none is, that of the scheme.

    Raises
    ------
    ValueError
        None is given, and the scheme rounds to no float format.
    """
    if isinstance(format, Scheme):
        raise TypeError(
            f"format is the scheme '{format}'; give scheme='{format}' to draw what its scale does, "
            "in its format"
        )
    if format is not None:
        try:
            return as_format(format)
        except ValueError:
            if frame is None and _is_scheme(format):
                raise ValueError(
                    f"'{format}' is a scheme and no format; give scheme='{format}' to draw what "
                    "its scale does, in its format"
                ) from None
            raise
    if spec is None or frame is None:
        raise ValueError(
            "neither a format nor a scheme is given; give the format whose ranges are to be shown"
        )
    name = str(frame.loc[frame["scheme"] == spec, "format"].iloc[0])
    try:
        return as_format(name)
    except ValueError:
        raise ValueError(
            f"'{spec}' rounds to the grid '{name}', which is not a float format; give format="
        ) from None
