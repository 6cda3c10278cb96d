"""Counts the cases behind every promise of docs/what_holds.md and writes them into its table: python -m docs.tools.what_holds."""

import re
import subprocess
import sys
from collections import Counter

from .page import DOCS, ROOT

PAGE = DOCS / "what_holds.md"
ROW = re.compile(
    r"^\| (?P<promise>.+?) \| (?P<tests>`tests/.+`) \| *(?P<cases>[\d,]*) *\|$", re.MULTILINE
)


def named(cell: str) -> list[str]:
    """The tests that a cell names: files, folders, or FILE::TEST."""
    return re.findall(r"`(tests/[^`]+)`", cell)


def collected(names: set[str]) -> Counter[str]:
    """The cases of each of these, as pytest collects them, or the test macros of a C++ file."""
    python = sorted(name for name in names if not name.endswith(".cpp"))
    words = [sys.executable, *"-m pytest --collect-only -q -p no:cacheprovider".split(), "-m", ""]
    words += {name.split("::")[0] for name in python}
    run = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    listed = run.stdout.splitlines()
    found: Counter[str] = Counter()
    for name in python:
        found[name] = sum(
            line == name or line.startswith((f"{name}::", f"{name}[", f"{name}/"))
            for line in listed
        )
    for name in names - set(python):
        found[name] = len(
            re.findall(
                r"^TEST(?:_P|_F)?\(", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
            )
        )
    return found


def page(text: str) -> str:
    """The page with the counts of today.

    Raises
    ------
    ValueError
        A row names a test that has no case.
    """
    counts = collected({name for row in ROW.finditer(text) for name in named(row["tests"])})
    if missing := [name for name, count in counts.items() if not count]:
        raise ValueError(f"{', '.join(missing)}: no such test")
    return ROW.sub(
        lambda row: (
            f"| {row['promise']} | {row['tests']} | "
            f"{sum(counts[name] for name in named(row['tests'])):,} |"
        ),
        text,
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
