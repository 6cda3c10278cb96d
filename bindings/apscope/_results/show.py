"""Results for notebooks and prompts: one line, and the ranking."""

from __future__ import annotations

import html
import shutil
from typing import TYPE_CHECKING, Any

import pandas as pd

from .._html import name, paragraphs
from .._html import table as html_table
from .._text import aligned, clip, count_of, numbered, printable
from .ranking import UNSOUND
from .summary import ranked

if TYPE_CHECKING:
    from .results import Results

#: Shown columns of the summary, and their headings.
_SHOWN = {
    "trace": "trace", "scheme": "scheme", "topology": "topology",
    "step_nmse": "NMSE of a step", "error_over_noise": "error over noise", "volume": "volume",
    "layer_cosine": "cosine of a layer", "worst_layer": "worst layer",
    "underflow_wire": "underflow, wire", "relative_bias": "relative bias",
    "speedup": "speed-up", "skipped": "skipped", "overflowed": "overflowed",
    "nonfinite": "steps with NaN or inf", "gaps": "steps after a gap",
    "lost_layers": "lost layers",
}  # fmt: skip
#: The same at a prompt, the most important first: the last may not fit on a terminal.
_AT_A_PROMPT = (
    "scheme",
    "topology",
    "step_nmse",
    "volume",
    "error_over_noise",
    "overflowed",
    "skipped",
    "worst_layer",
    "underflow_wire",
    "nonfinite",
    "gaps",
    "lost_layers",
)
_PERCENT = ("underflow_wire", "relative_bias")
_NAMES = ("trace", "scheme", "topology", "worst_layer")
#: Letters of a name in a table; a longer spec stands whole below it. In a cell of HTML it is
#: broken.
_LONGEST, _LONGEST_IN_HTML = 48, 190
#: Number of rows at a prompt, for one trace and for each of several.
_ROWS = (10, 5)


def headline(results: Results) -> str:
    """A description of the results in one line."""
    frame = results.frame
    traces = list(dict.fromkeys(frame["trace"])) or [
        t["name"] for t in results.provenance["traces"]
    ]
    shard, of = results.provenance.get("shard", [0, 1])
    parts = [
        count_of(len(traces), "trace"), count_of(frame["scheme"].nunique(), "scheme"),
        count_of(frame["tensor"].nunique(), "layer"),
        count_of(len(frame[["trace", "step"]].drop_duplicates()), "step"),
        count_of(len(frame), "row"),
    ]  # fmt: skip
    return ", ".join(parts) + (
        f"; shard {shard} of {of}, merge it with the others" if of > 1 else ""
    )


def results_text(results: Results) -> str:
    """The line, and the beginning of every trace's ranking."""
    lines = [f"<Results: {headline(results)}>"]
    if len(results.frame):
        width = shutil.get_terminal_size().columns
        table = ranked(results.frame)
        most = _ROWS[table["trace"].nunique() > 1]
        for trace, ranking in table.groupby("trace", sort=False):
            shown = ranking.head(most)
            columns = _columns(shown, _AT_A_PROMPT)
            specs, whole = numbered(list(shown["scheme"]), _LONGEST)
            rows = [
                [spec, *(_text(column, value) for column, value in zip(columns[1:], row))]
                for spec, row in zip(specs, shown[columns[1:]].itertuples(index=False))
            ]
            lines += [
                "",
                printable(str(trace), width),
                *aligned([_head(c) for c in columns], rows, [_SHOWN[c] for c in _NAMES], width)[0],
                *whole,
            ]
            if len(ranking) > most:
                lines.append(f"and {count_of(len(ranking) - most, 'more row')} with larger errors")
        lines += [
            "",
            "summary() has every scheme and column, by('layer') and "
            "compare(a, b) show where errors are",
            "",
        ]
    return "\n".join([*lines, *remarks(results)]).rstrip()


def remarks(results: Results) -> list[str]:
    """The sentences that a reader of any ranking needs."""
    sentences = (
        results.not_finite, results.all_zero, results.without_rank, results.numerically_zero,
    )  # fmt: skip
    return [sentence for sentence in sentences if sentence]


def results_html(results: Results) -> str:
    """The line, and the front of the summary."""
    parts = [f"<b>Results</b>: {html.escape(headline(results))}"]
    if len(results.frame):
        ranking = ranked(results.frame)
        columns = [
            c
            for c in _columns(ranking, tuple(_SHOWN))
            if c != "trace" or ranking["trace"].nunique() > 1
        ]
        rows = [
            [_cell(column, value) for column, value in zip(columns, row)]
            for row in ranking[columns].itertuples(index=False)
        ]
        parts.append(
            html_table(
                [_head(c) for c in columns], rows, numeric=[c not in _NAMES for c in columns]
            )
        )
        parts.append(
            "Ranked by the NMSE of a step, schemes without overflow first; "
            "<code>results.summary()</code> has every topology and column."
        )
        parts += [html.escape(sentence) for sentence in remarks(results)]
    return paragraphs(parts)


def _columns(ranking: pd.DataFrame, wanted: tuple[str, ...]) -> list[str]:
    """Columns that are not empty; those of problems only if there are any."""
    return [
        c
        for c in wanted
        if ranking[c].notna().any() and (c not in ("nonfinite", *UNSOUND) or ranking[c].any())
    ]


def _head(column: str) -> str:
    return _SHOWN[column] + (", %" if column in _PERCENT else "")


def _text(column: str, value: Any) -> str:
    if column in _NAMES:
        return clip(value, _LONGEST) if isinstance(value, str) else ""
    return _figure(100 * value if column in _PERCENT else value)


def _cell(column: str, value: Any) -> str:
    if column in _NAMES:
        if not (isinstance(value, str) and value):
            return ""
        return name(value, _LONGEST_IN_HTML if column == "scheme" else _LONGEST)
    return _text(column, value)


def _figure(value: Any) -> str:
    """Three digits, or a dash for a missing value."""
    return "–" if pd.isna(value) else f"{value:.3g}"
