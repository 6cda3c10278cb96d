"""The tables of the page: rows, sums over the steps, and the figures of summaries.

The page shows three digits of a number. Of a row's numbers `_BITS` are kept: an NMSE is off by at
most 1 in 8,000. Of two errors of one layer and step the smaller stays the smaller, and only equal
ones are equal, so wins and losses are those of `Results.compare`. The parts of the errors, which no
part of the page shows by step, are added up over the steps here. The figures are those of
`Results.summary`, and for the layers that a filter of the page keeps, those of the core's summaries
by role and by layer.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._results.codes import coded_of
from .._results.figures import columns_of
from .._results.noise import noise_of
from .._results.persistence import windows_of
from .._results.pooling import PARTS, numbers, whole_sums
from .._results.row_table import Rows
from .._results.summary import USED, frame_of_summary

__all__ = ["ROWS", "filtered", "histograms_of", "tables_of"]

_KEY = ("trace", "scheme", "topology")

#: Columns of the rows, and those of blocks.
ROWS = (
    "trace", "step", "tensor", "role", "scheme", "topology", "stage", "skipped", "counted",
    "nonzero", "underflow", "overflow", "sum_squared_error", "sum_squared_reference",
    "sum_signed_error", "sum_absolute_reference", "scale_exponent",
)  # fmt: skip
#: Figures of which the distance from 1 is shown.
_NEAR_ONE = ("layer_cosine", "underflow_wire", "underflow_reduced")
_SQUARES = ("sum_squared_error", "sum_squared_reference")
#: Binary digits of the fraction that are kept of a row's numbers, of sums and of figures.
_BITS = dict.fromkeys((*_SQUARES, "sum_absolute_reference", "block_range"), 13) | {
    "sum_signed_error": 9
}
_BITS_OF_SUMS, _BITS_NEAR_ONE = 15, 18
#: Those of fp32.
_FRACTION = 23


def tables_of(frame: pd.DataFrame, summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """``rows``, ``sums``, ``figures`` and ``filtered``; every topology covers all tensors.

    Parameters
    ----------
    frame : DataFrame
        The rows of the results, texts as categories.
    summary : DataFrame
        Of the same results.
    """
    wire = frame["stage"] == "wire"
    whole = pd.concat([frame[wire], whole_sums(frame[~wire])])
    # Steps of a layer stand together: numbers of like size take half of the space. Layers are in
    # the order of their trace, in which other traces may have the same names.
    order = [pd.factorize(whole[c])[0] for c in ("topology", "scheme", "stage", "trace")]
    layer = pd.factorize(order[-1] * len(whole) + pd.factorize(whole["tensor"])[0])[0]
    step = whole["step"].to_numpy(np.int64)
    whole = whole.iloc[np.lexsort([step, layer, *order])].reset_index(drop=True)
    shown = [
        c for c in summary if c in {*_KEY, *columns_of(page="part"), *columns_of(page="whole")}
    ]
    figures = summary[shown].reset_index(drop=True)
    return {
        "rows": _rows(whole), "sums": _sums(whole), "figures": figures, "filtered": filtered(frame),
    }  # fmt: skip


def filtered(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures of the layers that a filter keeps.

    That is of every role (``role conv``) and of every layer (``layer conv1.weight``).
    """
    rows, tables = Rows(coded_of(frame, [*USED, "role"])), []
    for part, column in (("role", "role"), ("layer", "tensor")):
        found = rows.core.summary(
            rows.core.compared_rows(), 1.0, noise_of(frame), windows_of(frame), part
        )
        table = frame_of_summary(rows, found, [column])
        table = table[table[column] != ""]
        tables.append(table.assign(filter=f"{part} " + table[column]))
    out = pd.concat(tables)[[*_KEY, "filter", *columns_of(page="part")]]
    # Rows of one scheme and reduction stand together: like numbers take less space.
    order = [pd.factorize(out[c])[0] for c in ("filter", "topology", "scheme", "trace")]
    out = out.iloc[np.lexsort(order)].reset_index(drop=True)
    bits = {
        c: _BITS_NEAR_ONE if c in _NEAR_ONE else _BITS_OF_SUMS for c in out if out[c].dtype == float
    }
    del bits["nmse"]  # whose differences tell the orders of additions apart
    return out.assign(
        nmse=out["nmse"].astype(np.float32),
        **{c: _rounded(out[c].to_numpy(), kept) for c, kept in bits.items()},
    )


def histograms_of(histograms: pd.DataFrame) -> pd.DataFrame:
    """Those of finite values, without roles."""
    return histograms[histograms["kind"] == "finite"].drop(columns=["role"]).reset_index(drop=True)


def _rows(whole: pd.DataFrame) -> pd.DataFrame:
    """One row per trace, scheme, topology, layer and step.

    Counts of underflow are left out of reduced rows, and signed errors at the wire of a trace that
    has reduced rows: no part of the page reads them by step.
    """
    blocks = [c for c in whole if c.startswith("block_") and whole[c].notna().any()]
    rows = whole[[*ROWS, *blocks]]
    reduced = (rows["stage"] == "reduced").to_numpy()
    with_reduced = rows["trace"].isin(rows["trace"][reduced].unique()).to_numpy()
    short = {
        c: _rounded(numbers(rows, c), bits)
        for c, bits in _BITS.items()
        if c in rows and c not in _SQUARES
    }
    # Finer than a 16th of the root of the squared error nobody sees: the band is twice that.
    unit = np.ldexp(1.0, np.frexp(np.sqrt(numbers(rows, "sum_squared_error")))[1] - 5)
    signed = np.round(short["sum_signed_error"] / unit) * unit
    signed[~reduced & with_reduced] = np.nan
    sent = {c: rows[c].mask(reduced) for c in ("underflow", "nonzero")}
    return rows.assign(**sent, **short | {"sum_signed_error": signed}, **_in_order(rows))


def _rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Each value with so many binary digits of its fraction; infinite ones and NaN stay."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(fraction, bits + 1)), exponent - bits - 1)


def _in_order(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Squared errors and references, rounded, in the order of the exact ones.

    Numbers of one layer and step that are equal when rounded differ in the places of fp32 below
    those kept, by their rank.
    """
    exact = np.concatenate([numbers(rows, c) for c in _SQUARES])
    cell = rows.groupby(["trace", "stage", "tensor", "step"], observed=True).ngroup().to_numpy()
    cell, bits = np.tile(cell, len(_SQUARES)), _BITS[_SQUARES[0]]
    short = _rounded(exact, bits)
    order = np.lexsort((exact, short, cell))

    def changes(values: np.ndarray) -> np.ndarray:
        return np.r_[True, values[order][1:] != values[order][:-1]]

    first = changes(cell) | changes(short)
    number = np.cumsum(changes(exact) | first)
    rank = np.empty(len(order))
    rank[order] = number - np.maximum.accumulate(np.where(first, number, 0))
    unit = np.ldexp(1.0, np.frexp(short)[1] - 1 - _FRACTION)
    below = np.minimum(rank, 2 ** (_FRACTION - bits) - 1)
    return dict(zip(_SQUARES, np.split(short + below * unit, len(_SQUARES))))


def _sums(whole: pd.DataFrame) -> pd.DataFrame:
    """The parts of the squared errors by trace, scheme, topology, stage and layer.

    Without steps that were skipped or have no error.
    """
    without = whole["skipped"].to_numpy(bool) | np.isnan(numbers(whole, "sum_squared_error"))
    keys = ["trace", "scheme", "topology", "stage", "tensor"]
    group = whole.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    first = np.unique(group, return_index=True)[1]
    sums = {
        part: np.bincount(group, np.where(without, 0.0, numbers(whole, part)), len(first))
        for part in PARTS
    }
    return (
        whole[keys]
        .iloc[first]
        .reset_index(drop=True)
        .assign(**{part: _rounded(found, _BITS_OF_SUMS) for part, found in sums.items()})
    )
