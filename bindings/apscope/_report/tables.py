"""The tables of the page: rows, sums over the steps, and the figures of the summary.

The page shows three digits of a number. Of a row's numbers `_BITS` are kept: an NMSE is off by at
most 1 in 8,000. Of two errors of one layer and step the smaller stays the smaller, and only equal
ones are equal, so wins and losses are those of `Results.compare`. What no part of the page shows by
step is added up over the steps here: a layer's sums instead of the numbers of its steps. The
figures of all layers are those of `Results.summary`; the page computes them only where a filter
selects layers.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._results.pooling import PARTS, losses, numbers, whole_sums

__all__ = ["ROWS", "SUMS", "histograms_of", "tables_of"]

#: Columns of the rows, and those of blocks.
ROWS = (
    "trace", "step", "tensor", "role", "scheme", "topology", "stage", "skipped", "counted",
    "nonzero", "underflow", "overflow", "sum_squared_error", "sum_squared_reference",
    "sum_signed_error", "sum_absolute_reference", "scale_exponent",
)  # fmt: skip
#: Columns that are added up over the steps.
SUMS = (
    "sum_signed_error", "sum_absolute_reference", "sum_log2_error_over_noise", "noise_blocks",
    "cosine", "cells", "underflow", "nonzero", "variance", "error", "reference", *PARTS,
)  # fmt: skip
_FIGURES = (
    "trace", "scheme", "topology", "error_over_noise", "step_nmse", "layer_cosine", "worst_nmse",
    "worst_layer", "worst_step", "nmse", "relative_bias", "expected_variance", "underflow_wire",
    "underflow_reduced", "volume", "time", "speedup", "skipped", "overflowed", "nonfinite", "gaps",
    "lost_layers",
)  # fmt: skip
_COUNTS = ("cells", "noise_blocks", "nonzero", "underflow")
_SQUARES = ("sum_squared_error", "sum_squared_reference")
#: Binary digits of the fraction that are kept of a row's numbers, and of sums.
_BITS = dict.fromkeys((*_SQUARES, "sum_absolute_reference", "block_range"), 13) | {
    "sum_signed_error": 9
}
_BITS_OF_SUMS = 15
#: An error over noise is a power of two of a quotient of this; differences of the errors tell the
#: orders of additions apart.
_WHOLE_SUMS = ("sum_log2_error_over_noise", "error", "reference")
#: Those of fp32.
_FRACTION = 23


def tables_of(frame: pd.DataFrame, summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables ``rows``, ``sums`` and ``figures``; every topology covers all tensors.

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
    figures = summary[list(_FIGURES)].reset_index(drop=True)
    return {"rows": _rows(whole), "sums": _sums(whole), "figures": figures}


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
    """One row per trace, scheme, topology, stage and layer, y = 0 in skipped steps.

    ``cosine`` is the sum over the ``cells``, the steps in which the reference is not zero;
    ``variance`` that of Var[y] over the elements; NaN where one of the steps has no number, except
    in the parts, which leave out steps without an error.
    """
    lost = losses(whole)
    skipped, judged = lost["skipped"], (lost["overflow"] > 0) | (lost["reference"] != 0)
    unknown = np.isnan(numbers(whole, "sum_squared_error"))

    def sent(column: str, without: np.ndarray = skipped) -> np.ndarray:
        return np.where(without, 0.0, numbers(whole, column))

    values = {
        "sum_signed_error": lost["signed_error"],
        "sum_absolute_reference": np.nan_to_num(lost["absolute"]),
        "sum_log2_error_over_noise": lost["log2_over_noise"],
        "noise_blocks": np.nan_to_num(lost["noise_blocks"]),
        "cosine": np.where(judged, lost["cosine"], 0.0),
        "cells": judged,
        **{c: np.nan_to_num(sent(c)) for c in ("underflow", "nonzero")},
        "variance": sent("expected_variance") * np.where(skipped, 0.0, numbers(whole, "counted")),
        "error": lost["error"],
        "reference": lost["reference"],
        **{part: sent(part, skipped | unknown) for part in PARTS},
    }
    keys = ["trace", "scheme", "topology", "stage", "tensor"]
    group = whole.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    first = np.unique(group, return_index=True)[1]
    found = {c: np.bincount(group, v, len(first)) for c, v in values.items()}
    floats = [c for c in values if c not in (*_COUNTS, *_WHOLE_SUMS)]
    found |= {c: found[c].astype(np.int64) for c in _COUNTS}
    found |= {c: _rounded(found[c], _BITS_OF_SUMS) for c in floats}
    return whole[keys].iloc[first].reset_index(drop=True).assign(**found)
