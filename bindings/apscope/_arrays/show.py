"""The statistics of a cast for prompts and notebooks: a line, and a table."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from .._text import aligned, count_of

if TYPE_CHECKING:
    from .cast_statistics import CastStatistics

#: Counts, and the counts that they are shares of.
_SHARES = {
    "nonzero": "count",
    "underflow": "nonzero",
    "subnormal": "nonzero",
    "saturated": "counted",
    "overflow": "count",
    "nan": "count",
    "infinite": "count",
}
#: Of the line: problems, if any.
_WRONG = ("saturated", "overflow", "nan", "infinite")
_PERCENT = ("underflow_rate", "relative_bias")


def _figure(column: str, value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{100 * value:.4g} %" if column in _PERCENT else f"{value:.6g}"


def _rows(statistics: CastStatistics) -> list[tuple[str, str, str]]:
    """Column, value, and for counts the share."""
    values = statistics.to_dict()
    rows = []
    for column, value in values.items():
        of = _SHARES.get(column)
        base = values[of] if of else 0
        rows.append(
            (
                column,
                _figure(column, value),
                f"{100 * value / base:.3g} % of {of}" if of and base and value else "",
            )
        )
    return rows


def statistics_line(statistics: CastStatistics) -> str:
    """The most important numbers."""
    parts = [
        count_of(statistics.count, "number"),
        f"underflow {statistics.underflow:,} of {statistics.nonzero:,} nonzero",
    ]
    parts += [f"{name} {value:,}" for name in _WRONG if (value := getattr(statistics, name))]
    parts += [
        f"{name} {_figure(name, value)}"
        for name in ("nmse", "relative_bias", "max_ulp")
        if (value := getattr(statistics, name)) is not None
    ]
    return f"<CastStatistics: {', '.join(parts)}>"


def statistics_text(statistics: CastStatistics) -> str:
    """Every column in a separate line."""
    return "\n".join(aligned(["column", "value", ""], _rows(statistics), ["column", ""])[0])


def statistics_html(statistics: CastStatistics) -> str:
    """The line, and every column."""
    from .._html import paragraphs, table

    rows = [
        [f"<code>{column}</code>", html.escape(value), html.escape(share)]
        for column, value, share in _rows(statistics)
    ]
    line = html.escape(
        statistics_line(statistics).removeprefix("<CastStatistics: ").removesuffix(">")
    )
    return paragraphs(
        [
            f"<b>CastStatistics</b>: {line}",
            table(["column", "value", ""], rows, numeric=[False, True, False]),
        ]
    )
