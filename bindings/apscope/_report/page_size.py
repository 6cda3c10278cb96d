"""Selects the part of a large replay that fits into a page, and describes the rest."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from .._results.pooling import is_on_front
from .payload import pack

#: Space for the rows in a page, in bytes of base64 text.
MAX_BYTES = 14_000_000
#: Number of rows from which sizes are estimated.
_SAMPLE = 60_000
#: Maximum number of rows of histograms; if there are more, those of a layer are added up over its
#: steps.
_HISTOGRAM_ROWS = 100_000


def fitted(
    tables: Mapping[str, pd.DataFrame], topology: str, max_bytes: int = MAX_BYTES
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The tables of the page, and one sentence per omission.

    All topologies but `topology` and those beside it on the front are dropped first, then steps,
    evenly. Figures are computed from all rows before that.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        From `tables_of`, and ``histograms``.
    topology : str
        The first reduction that ranks schemes; it is kept, and so are two phases and a scheme's
        own.
    max_bytes : int
        Of base64 text.
    """
    tables, left_out = dict(tables), []
    histograms = tables["histograms"]
    if len(histograms) > _HISTOGRAM_ROWS:
        keys = [c for c in histograms if c not in ("step", "count")]
        by_layer = histograms.groupby(keys, sort=False, observed=True, as_index=False)
        tables["histograms"] = by_layer["count"].sum()
        left_out.append(
            "This page has the exponent histograms of whole layers, not those of single steps; "
            "histograms.parquet has all."
        )

    def room() -> float:
        return max_bytes - sum(_text_bytes(t) for name, t in tables.items() if name != "rows")

    if _estimate(tables["rows"]) > room():
        topologies = tables["rows"]["topology"].unique()
        retained = [t for t in topologies if t in ("", "exact") or is_on_front(t, topology)]
        if dropped := [t for t in topologies if t not in retained]:
            for name in ("rows", "filtered"):
                selected = tables[name]["topology"].isin(retained)
                tables[name] = tables[name][selected].reset_index(drop=True)
            left_out.append(
                f"The topologies {', '.join(dropped)} are not in the interactive parts of this "
                "page."
            )
    if (size := _estimate(rows := tables["rows"])) > room():
        steps = rows.groupby("trace", sort=False)["step"].unique()
        share = 0.95 * room() / size
        chosen = pd.concat(
            [pd.DataFrame({"trace": t, "step": _evenly(list(s), share)}) for t, s in steps.items()]
        )
        counts = ", ".join(
            f"{len(chosen[chosen['trace'] == t])} of {len(s)} of {t}" for t, s in steps.items()
        )
        tables["rows"] = rows.merge(chosen, on=["trace", "step"])
        left_out.append(
            f"The interactive parts of this page use some of the steps, evenly chosen: {counts}. "
            "The first part is computed from all."
        )
    return tables, left_out


def _evenly(values: list[int], share: float) -> list[int]:
    """A share of the values, at least one, including the first and the last."""
    count = max(1, int(share * len(values)))
    if count == 1:
        return values[-1:]
    return [values[round(i * (len(values) - 1) / (count - 1))] for i in range(count)]


def _estimate(rows: pd.DataFrame) -> float:
    """Bytes of text that the rows will take, estimated from rows in the middle."""
    if len(rows) <= _SAMPLE:
        return _text_bytes(rows)
    start = (len(rows) - _SAMPLE) // 2
    return _text_bytes(rows.iloc[start : start + _SAMPLE]) * len(rows) / _SAMPLE


def _text_bytes(table: pd.DataFrame) -> float:
    return len(pack({"table": table})) * 4 / 3
