"""Pieces of the HTML for notebooks: plain tables, with all names escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from ._text import clip

#: Rows shown of a table; the others are only counted.
MAX_ROWS = 40


def name(text: Any, longest: int = 70) -> str:
    """A name as code, not read as a formula, shortened in the middle if it is long."""
    return f"<code>{html.escape(clip(str(text), longest))}</code>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A table; cells are already HTML."""

    def line(tag: str, cells: Iterable[str]) -> str:
        sides = ("right" if n else "left" for n in numeric)
        return (
            "<tr>"
            + "".join(
                f'<{tag} style="text-align:{side}">{cell}</{tag}>'
                for cell, side in zip(cells, sides)
            )
            + "</tr>"
        )

    shown = "".join(line("td", row) for row in rows[:MAX_ROWS])
    more = f"<div>and {len(rows) - MAX_ROWS} more rows</div>" if len(rows) > MAX_ROWS else ""
    head = line("th", (html.escape(h) for h in heads))
    return f'<div style="overflow-x:auto"><table><thead>{head}</thead><tbody>{shown}</tbody></table></div>{more}'


def paragraphs(parts: Iterable[str]) -> str:
    return "<div>" + "".join(f"<div>{part}</div>" for part in parts) + "</div>"
