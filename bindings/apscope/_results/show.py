"""What notebooks show of results, traces and schemes: HTML of plain tables, harmless whatever the names are."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from .summary import ranked

if TYPE_CHECKING:
    from .._schemes.scheme import Scheme
    from .._traces.trace import Trace
    from .results import Results

__all__ = ["results_html", "results_text", "scheme_html", "trace_html"]

#: Rows of a table; further ones are counted.
MOST_ROWS = 40
#: Of the summary, what is shown, and how it is headed.
_SHOWN = {
    "trace": "trace", "scheme": "scheme", "topology": "topology", "step_nmse": "NMSE of a step", "layer_cosine": "cosine of a layer",
    "worst_layer": "worst layer", "underflow_wire": "underflow, wire", "relative_bias": "relative bias", "volume": "volume",
    "speedup": "speed-up", "skipped": "skipped", "overflowed": "overflowed",
}  # fmt: skip
_PERCENT = ("underflow_wire", "relative_bias")
_NAMES = ("trace", "scheme", "topology", "worst_layer")


def name(text: Any, most: int = 70) -> str:
    """A name as code, which no typesetter of formulas reads, shortened in the middle where it is long."""
    text = str(text)
    short = text if len(text) <= most else f"{text[: most - most // 2 - 1]}…{text[-(most // 2) :]}"
    return f"<code>{html.escape(short)}</code>"


def headline(results: Results) -> str:
    """What the results are, in a line."""
    frame = results.frame
    traces = list(dict.fromkeys(frame["trace"])) or [t["name"] for t in results.provenance["traces"]]
    shard, of = results.provenance.get("shard", [0, 1])
    parts = [
        _count(len(traces), "trace"), _count(frame["scheme"].nunique(), "scheme"), _count(frame["tensor"].nunique(), "layer"),
        _count(len(frame[["trace", "step"]].drop_duplicates()), "step"), _count(len(frame), "row"),
    ]  # fmt: skip
    return ", ".join(parts) + (f"; shard {shard} of {of}, merge it with the others" if of > 1 else "")


def results_text(results: Results) -> str:
    """The line, and the ranking as far as a screen holds it."""
    lines = [f"<Results: {headline(results)}>"]
    if len(results.frame):
        table = ranked(results.frame)
        for trace, rows in table.groupby("trace", sort=False):
            best = ", ".join(f"{r.scheme} {_figure(r.step_nmse)}" for r in rows.head(5).itertuples())
            lines.append(f"  {trace}, NMSE of a step: {best}" + (f", and {len(rows) - 5} more" if len(rows) > 5 else ""))
    return "\n".join(lines)


def results_html(results: Results) -> str:
    """The line, and the summary of one topology a scheme."""
    parts = [f"<b>Results</b>: {html.escape(headline(results))}"]
    if len(results.frame):
        table = ranked(results.frame)
        columns = [c for c in _SHOWN if table[c].notna().any() and (c != "trace" or table["trace"].nunique() > 1)]
        columns = [c for c in columns if c not in ("skipped", "overflowed") or table[c].any()]
        rows = [[_cell(column, value) for column, value in zip(columns, row)] for row in table[columns].itertuples(index=False)]
        heads = [_SHOWN[c] + (", %" if c in _PERCENT else "") for c in columns]
        parts.append(_table(heads, rows, numeric=[c not in _NAMES for c in columns]))
        parts.append("Ranked by the NMSE of a step, schemes without overflow first; <code>results.summary()</code> has every topology and column.")
    return _paragraphs(parts)


def trace_html(trace: Trace) -> str:
    """What was recorded, and the tensors."""
    manifest = trace.manifest
    steps = trace.steps
    facts = {
        "model": html.escape(manifest.model) or "not given", "workers": str(trace.workers),
        "steps": f"{len(steps)}" + (f", {steps[0]} to {steps[-1]}" if steps else ""), "stage": html.escape(manifest.stage),
        "reduction": html.escape(manifest.reduction), "elements": f"{sum(t.size for t in manifest.tensors):,}",
        "recorded": ", ".join(f"{kind} ({_count(len(at), 'step')})" for kind, at in trace.recorded().items() if at),
    }  # fmt: skip
    rows = [[name(t.name), html.escape(t.role), " × ".join(map(str, t.shape)) or "scalar", f"{t.size:,}"] for t in manifest.tensors]
    return _paragraphs([
        f"<b>Trace</b> {name(trace.name)}", "; ".join(f"{key}: {value}" for key, value in facts.items() if value),
        _table(["tensor", "role", "shape", "elements"], rows, numeric=[False, False, True, True]),
    ])  # fmt: skip


def scheme_html(scheme: Scheme) -> str:
    """The spec, what the scheme does, its keys with values, and what it needs."""
    from .._schemes.scheme import definitions

    found = next((d for d in definitions() if d.name == scheme.name), None)
    parts = [f"<b>Scheme</b> {name(scheme.spec)}" + (f": {html.escape(found.summary)}" if found else "")]
    values = scheme.keys
    if found and found.keys:
        rows = []
        for key in found.keys:
            value = values.get(key.name, key.default)
            shown = name(value) if value == key.default else f"<b>{name(value)}</b>"
            rows.append([name(key.name), shown, "" if value == key.default else name(key.default), html.escape(key.meaning)])
        parts.append(_table(["key", "value", "default", "meaning"], rows, numeric=[False] * 4))
    elif values:
        parts.append(_table(["key", "value"], [[name(k), name(v)] for k, v in values.items()], numeric=[False] * 2))
    if scheme.branches:
        parts.append(_table(["where", "scheme"], [[name(c), name(s)] for c, s in scheme.branches], numeric=[False] * 2))
    needs = scheme.needs
    parts.append(f"Family: {html.escape(scheme.family)}. Needs gradients{''.join(f', {html.escape(n)}' for n in needs)} recorded"
                 + ("; remembers something from step to step." if scheme.keeps_state else "."))  # fmt: skip
    return _paragraphs(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """Cells are HTML already."""
    def line(tag: str, cells: Iterable[str]) -> str:
        sides = ("right" if n else "left" for n in numeric)
        return "<tr>" + "".join(f'<{tag} style="text-align:{side}">{cell}</{tag}>' for cell, side in zip(cells, sides)) + "</tr>"

    shown = "".join(line("td", row) for row in rows[:MOST_ROWS])
    more = f"<div>and {len(rows) - MOST_ROWS} more rows</div>" if len(rows) > MOST_ROWS else ""
    head = line("th", (html.escape(h) for h in heads))
    return f'<div style="overflow-x:auto"><table><thead>{head}</thead><tbody>{shown}</tbody></table></div>{more}'


def _paragraphs(parts: Iterable[str]) -> str:
    return "<div>" + "".join(f"<div>{part}</div>" for part in parts) + "</div>"


def _cell(column: str, value: Any) -> str:
    if column in _NAMES:
        return name(value, 48) if isinstance(value, str) and value else ""
    return _figure(100 * value if column in _PERCENT else value)


def _figure(value: Any) -> str:
    """Three digits, or a dash for what is not there."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.3g}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
