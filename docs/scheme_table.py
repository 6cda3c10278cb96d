"""Writes README.md's table of all schemes: python docs/scheme_table.py README.md

Replays every scheme on the bundled trace `digits` and puts a row for each between the page's marks.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import apscope
from apscope.report.measure import measure
from apscope.report.words import figure, percent

TRACE = Path(__file__).parents[1] / "notebooks" / "data" / "digits"
BEGIN, END = "<!-- table of schemes: written by make picture -->", "<!-- end of the table -->"


def table() -> str:
    """Markdown, best first; rows that overflowed last."""
    found = measure(apscope.replay(TRACE, "all", topology="ring").frame)
    lines = ["| scheme | bits a value | NMSE wire | NMSE reduced | bias | variance | underflow | time |", "|---|---|---|---|---|---|---|---|"]
    for e in sorted(found["schemes"], key=lambda e: e["rank"]):
        wire, head = e["wire"], e["headline"]
        mark = " †" if head["overflow"] else ""
        cells = [
            f"`{e['scheme']}`", figure(e["bits_per_value"]), figure(wire["nmse"]), figure(head["nmse"]) + mark,
            figure(head["bias"], 2), figure(head["variance"], 2), percent(wire["underflow_rate"]), _time(e),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time(entry: dict) -> str:
    seconds = entry["model_seconds_large"]
    return "-" if seconds is None else f"{seconds * 1e3:.2f} ms"


def main() -> None:
    page = Path(sys.argv[1])
    text = page.read_text()
    new, count = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{page} has {count} places marked for the table; one is needed")
    page.write_text(new)


if __name__ == "__main__":
    main()
