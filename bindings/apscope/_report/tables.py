"""The tables of the page: rows, and the core's figures of all layers and of those a filter keeps.

The page shows three digits of a number. Of a row's numbers `_BITS` are retained: an NMSE is off by
at most 1 in 8,000. Of two NMSEs of one layer and step the smaller stays the smaller, and only equal
ones are equal, so wins and losses are those of `Results.compare`. The figures are those of
`Results.summary`, for filters those of the core's summaries by role and by layer, beside the
errors and their parts as the core pools them: the page adds up none itself.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._results.codes import coded_of
from .._results.figures import columns_of
from .._results.noise import noise_of
from .._results.persistence import windows_of
from .._results.pooling import PARTS, compared_rows, losses, numbers, pool, step_losses, whole_sums
from .._results.row_table import Rows
from .._results.summary import USED, frame_of_summary

_KEY = ["trace", "scheme", "topology"]

#: Columns of the rows, and those of blocks.
ROWS = (
    "trace", "step", "tensor", "role", "scheme", "topology", "stage", "skipped", "counted",
    "nonzero", "underflow", "overflow", "nmse", "sum_squared_reference", "sum_signed_error",
    "sum_absolute_reference", "scale_exponent",
)  # fmt: skip
#: Figures of which the distance from 1 is shown.
_NEAR_ONE = ("layer_cosine", "underflow_wire", "underflow_reduced")
#: Sums of `pool` that the page shows beside figures of summaries.
_POOLED = ("mse", *PARTS)
#: Binary digits of the fraction that are kept of a row's numbers, of sums and of figures.
_BITS = dict.fromkeys(
    ("nmse", "sum_squared_reference", "sum_absolute_reference", "block_range"), 13
) | {"sum_signed_error": 9}
_BITS_OF_SUMS, _BITS_NEAR_ONE = 15, 18
#: Those of fp32.
_FRACTION = 23


def tables_of(frame: pd.DataFrame, summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """``rows``, ``figures`` and ``filtered``; every topology covers all tensors.

    Parameters
    ----------
    frame : DataFrame
        The rows of the results, texts as categories.
    summary : DataFrame
        Of the same results.
    """
    wire = frame["stage"] == "wire"
    complete = pd.concat([frame[wire], whole_sums(frame[~wire])])
    # Steps of a layer stand together: numbers of like size take half of the space. Layers are in
    # the order of their trace, in which other traces may have the same names.
    order = [pd.factorize(complete[c])[0] for c in ("topology", "scheme", "stage", "trace")]
    layer = pd.factorize(order[-1] * len(complete) + pd.factorize(complete["tensor"])[0])[0]
    step = complete["step"].to_numpy(np.int64)
    complete = complete.iloc[np.lexsort([step, layer, *order])].reset_index(drop=True)
    columns = [c for c in summary if c in {*columns_of(page="part"), *columns_of(page="whole")}]
    compared = compared_rows(frame)
    return {
        "rows": _rows(complete),
        "figures": _with_pooled(summary[_KEY + columns], compared, _KEY),
        "filtered": filtered(frame, compared),
    }


def filtered(frame: pd.DataFrame, compared: pd.DataFrame) -> pd.DataFrame:
    """The figures of every role (``role conv``) and of every layer (``layer conv1.weight``)."""
    rows, tables = Rows(coded_of(frame, [*USED, "role"])), []
    for part, column in (("role", "role"), ("layer", "tensor")):
        found = rows.core.summary(
            rows.core.compared_rows(), 1.0, noise_of(frame), windows_of(frame), part
        )
        table = frame_of_summary(rows, found, [column])
        table = _with_pooled(table[table[column] != ""], compared, [*_KEY, column])
        tables.append(table.assign(filter=f"{part} " + table[column]))
    out = pd.concat(tables)[[*_KEY, "filter", *columns_of(page="part"), *_POOLED]]
    # Rows of one scheme and reduction stand together: like numbers take less space.
    order = [pd.factorize(out[c])[0] for c in ("filter", "topology", "scheme", "trace")]
    out = out.iloc[np.lexsort(order)].reset_index(drop=True)
    bits = {
        c: _BITS_NEAR_ONE if c in _NEAR_ONE else _BITS_OF_SUMS for c in out if out[c].dtype == float
    }
    with np.errstate(over="ignore"):  # a page has fp32 numbers
        for name in ("nmse", "mse"):  # whose differences tell the orders of additions apart
            out[name] = out[name].astype(np.float32)
            del bits[name]
        return out.assign(**{c: _rounded(out[c].to_numpy(), digits) for c, digits in bits.items()})


def _with_pooled(table: pd.DataFrame, compared: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Rows of a summary by these keys with the columns of `_POOLED`."""
    sums = pool(compared, keys).set_index(keys)[list(_POOLED)]
    return table.join(sums, on=keys).reset_index(drop=True)


def histograms_of(histograms: pd.DataFrame) -> pd.DataFrame:
    """Those of finite values, without roles."""
    return histograms[histograms["kind"] == "finite"].drop(columns=["role"]).reset_index(drop=True)


def _rows(whole: pd.DataFrame) -> pd.DataFrame:
    """One row per trace, scheme, topology, layer and step.

    Counts of underflow are left out of reduced rows, and signed errors at the wire of a trace that
    has reduced rows: no part of the page reads them by step.
    """
    blocks = [c for c in whole if c.startswith("block_") and whole[c].notna().any()]
    nmse, counts = step_losses(losses(whole))
    rows = whole.assign(nmse=np.where(counts, nmse, np.nan))[[*ROWS, *blocks]]
    reduced = (rows["stage"] == "reduced").to_numpy()
    with_reduced = rows["trace"].isin(rows["trace"][reduced].unique()).to_numpy()
    short = {c: _rounded(numbers(rows, c), bits) for c, bits in _BITS.items() if c in rows}
    # Finer than a 16th of the root of the squared error nobody sees: the band is twice that.
    unit = np.ldexp(1.0, np.frexp(np.sqrt(numbers(whole, "sum_squared_error")))[1] - 5)
    signed = np.round(short["sum_signed_error"] / unit) * unit
    signed[~reduced & with_reduced] = np.nan
    sent = {c: rows[c].mask(reduced) for c in ("underflow", "nonzero")}
    return rows.assign(**sent, **short | {"sum_signed_error": signed, "nmse": _in_order(rows)})


def _rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Each value with so many binary digits of its fraction; infinite ones and NaN stay."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(fraction, bits + 1)), exponent - bits - 1)


def _in_order(rows: pd.DataFrame) -> np.ndarray:
    """The NMSEs of rows as fp32, rounded, in the order of the exact ones.

    Numbers of one layer and step that are equal when rounded differ in the places of fp32 below
    those retained, by their rank.
    """
    exact, bits = numbers(rows, "nmse"), _BITS["nmse"]
    cell = rows.groupby(["trace", "stage", "tensor", "step"], observed=True).ngroup().to_numpy()
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
    return (short + below * unit).astype(np.float32)
