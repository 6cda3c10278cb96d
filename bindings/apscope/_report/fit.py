"""Selects the part of a large replay that fits into a page, and describes the rest."""

from __future__ import annotations

import pandas as pd

from .._results.pooling import PARTS, is_on_front
from .payload import pack

#: Space for the rows in a page, in bytes of base64 text.
MAX_BYTES = 14_000_000
#: Columns without which a part of the page has nothing to show.
NEEDED = (
    "trace", "step", "tensor", "role", "scheme", "format", "topology", "stage", "skipped",
    "counted", "nonzero", "underflow", "overflow",
    "sum_squared_error", "sum_squared_reference", "sum_signed_error", "sum_absolute_reference",
    "expected_variance", "cosine", "scale_exponent",
    "sum_log2_error_over_noise", "noise_blocks", *PARTS,
)  # fmt: skip
#: Number of rows from which sizes are estimated.
_SAMPLE = 60_000
#: Maximum number of rows of histograms; if there are more, those of a layer are added up over its
#: steps.
_HISTOGRAM_ROWS = 100_000


def fitted(
    rows: pd.DataFrame, histograms: pd.DataFrame, topology: str, max_bytes: int = MAX_BYTES
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The tables of the page, and one sentence per omission.

    All topologies but `topology` and those beside it on the front are dropped first, then steps,
    evenly. Part (a) of the page is computed from all rows before that.

    Parameters
    ----------
    rows, histograms : DataFrame
    topology : str
        The first reduction that ranks schemes; it is kept, and so are two phases and a scheme's own.
    max_bytes : int
        Of base64 text.
    """
    left_out: list[str] = []
    if len(histograms) > _HISTOGRAM_ROWS:
        keys = [c for c in histograms if c not in ("step", "count")]
        histograms = histograms.groupby(keys, sort=False, observed=True, as_index=False)[
            "count"
        ].sum()
        left_out.append(
            "This page has the exponent histograms of whole layers, not those of single steps; "
            "histograms.parquet has all."
        )
    room = max_bytes - _text_bytes(histograms)
    if _estimate(rows) > room:
        kept = [
            t for t in rows["topology"].unique() if t in ("", "exact") or is_on_front(t, topology)
        ]
        gone = [t for t in rows["topology"].unique() if t not in kept]
        if gone:
            rows = rows[rows["topology"].isin(kept)].reset_index(drop=True)
            left_out.append(
                f"The topologies {', '.join(gone)} are not in the interactive parts of this page."
            )
    if _estimate(rows) > room:
        steps = rows.groupby("trace", sort=False)["step"].unique()
        share = 0.95 * room / _estimate(rows)
        chosen = pd.concat(
            [pd.DataFrame({"trace": t, "step": _evenly(list(s), share)}) for t, s in steps.items()]
        )
        held = ", ".join(
            f"{len(chosen[chosen['trace'] == t])} of {len(s)} of {t}" for t, s in steps.items()
        )
        rows = rows.merge(chosen, on=["trace", "step"])
        left_out.append(
            f"The interactive parts of this page use some of the steps, evenly chosen: {held}. The "
            "first part is computed from all."
        )
    return {"rows": rows, "histograms": histograms}, left_out


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
