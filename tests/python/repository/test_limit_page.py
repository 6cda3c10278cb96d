"""The table of docs/limit.md is the one that its command writes, and its sentences are its numbers."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/limit.md"


def cells() -> dict[str, list[list[str]]]:
    """Scheme -> a pair of texts, of two phases and of the ring, for each trace."""
    text = PAGE.read_text().partition("<!-- above:")[2].partition("<!-- end of above -->")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {line[0].strip("`"): [pair.split(" / ") for pair in line[1:]] for line in lines}


def test_command_writes_the_table(tmp_path):
    copy = tmp_path / "limit.md"
    text = PAGE.read_text()
    copy.write_text(re.sub(r"(above: written by make tables -->).*?(<!-- end)", r"\1\2", text,
                           flags=re.DOTALL))  # fmt: skip
    subprocess.run([sys.executable, ROOT / "docs/limit.py", copy], check=True, timeout=600)
    assert copy.read_text() == text


def number(cell: str) -> float:
    return {"–": float("nan"), "∞": float("inf")}.get(cell) or float(cell)


def test_sentences_are_the_tables_numbers():
    found = {spec: [[number(c) for c in pair] for pair in row] for spec, row in cells().items()}
    assert len(found) > 30
    every = [x for row in found.values() for pair in row for x in pair if x == x]
    four = [pair for row in found.values() for pair in row[:4]]
    assert min(every) == min(x for pair in four for x in pair if x == x) == 1.4
    nearest = [row[0] for row in found["mx:block_format=mxfp4"][:4]]
    assert (min(nearest), max(nearest)) == (1.4, 2.0)
    for trace in range(4):
        assert nearest[trace] <= min(row[trace][0] for row in found.values()) + 0.05
    apart = {
        spec: [ring - two for two, ring in row[:4] if two < math.inf and ring < math.inf]
        for spec, row in found.items()
    }
    block = apart["aps:e2m5,rule=tight,unit=32"]
    assert max(block[:3]) == pytest.approx(2.8) and block[3] == pytest.approx(5.8)
    for row in apart.values():
        assert max(row[:3], default=0) < 2.85 and max(row[3:], default=0) < 5.85
    assert max(map(abs, apart["none:e3m4"])) == 0
    assert min(two for two, _ in found["mx:block_format=bfp:4:32"][4:]) > 7
