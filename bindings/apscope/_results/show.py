"""What notebooks and prompts show of results: a line, and the ranking."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from .._html import name, paragraphs, table
from .._text import count_of
from .summary import ranked

if TYPE_CHECKING:
    from .results import Results

__all__ = ["results_html", "results_text"]

#: Of the summary, what is shown, and how it is headed.
_SHOWN = {
    "trace": "trace", "scheme": "scheme", "topology": "topology", "step_nmse": "NMSE of a step", "layer_cosine": "cosine of a layer",
    "worst_layer": "worst layer", "underflow_wire": "underflow, wire", "relative_bias": "relative bias", "volume": "volume",
    "speedup": "speed-up", "skipped": "skipped", "overflowed": "overflowed", "nonfinite": "steps with NaN or inf",
}  # fmt: skip
_PERCENT = ("underflow_wire", "relative_bias")
_NAMES = ("trace", "scheme", "topology", "worst_layer")


def headline(results: Results) -> str:
    """What the results are, in a line."""
    frame = results.frame
    traces = list(dict.fromkeys(frame["trace"])) or [t["name"] for t in results.provenance["traces"]]
    shard, of = results.provenance.get("shard", [0, 1])
    parts = [
        count_of(len(traces), "trace"), count_of(frame["scheme"].nunique(), "scheme"), count_of(frame["tensor"].nunique(), "layer"),
        count_of(len(frame[["trace", "step"]].drop_duplicates()), "step"), count_of(len(frame), "row"),
    ]  # fmt: skip
    return ", ".join(parts) + (f"; shard {shard} of {of}, merge it with the others" if of > 1 else "")


def results_text(results: Results) -> str:
    """The line, and the ranking as far as a screen holds it."""
    lines = [f"<Results: {headline(results)}>"]
    if len(results.frame):
        for trace, rows in ranked(results.frame).groupby("trace", sort=False):
            best = ", ".join(f"{r.scheme} {_figure(r.step_nmse)}{' (overflow)' if r.overflowed else ''}" for r in rows.head(5).itertuples())
            lines.append(f"  {trace}, NMSE of a step: {best}" + (f", and {len(rows) - 5} more" if len(rows) > 5 else ""))
    return "\n".join([*lines, *(f"  {sentence}" for sentence in (results.not_finite, results.all_zero) if sentence)])


def results_html(results: Results) -> str:
    """The line, and the summary of one topology a scheme."""
    parts = [f"<b>Results</b>: {html.escape(headline(results))}"]
    if len(results.frame):
        ranking = ranked(results.frame)
        columns = [c for c in _SHOWN if ranking[c].notna().any() and (c != "trace" or ranking["trace"].nunique() > 1)]
        columns = [c for c in columns if c not in ("skipped", "overflowed", "nonfinite") or ranking[c].any()]
        rows = [[_cell(column, value) for column, value in zip(columns, row)] for row in ranking[columns].itertuples(index=False)]
        heads = [_SHOWN[c] + (", %" if c in _PERCENT else "") for c in columns]
        parts.append(table(heads, rows, numeric=[c not in _NAMES for c in columns]))
        parts.append("Ranked by the NMSE of a step, schemes without overflow first; <code>results.summary()</code> has every topology and column.")
    return paragraphs(parts)


def _cell(column: str, value: Any) -> str:
    if column in _NAMES:
        return name(value, 48) if isinstance(value, str) and value else ""
    return _figure(100 * value if column in _PERCENT else value)


def _figure(value: Any) -> str:
    """Three digits, or a dash for what is not there."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.3g}"
