"""The sentences of docs/limit.md are the numbers of its table."""

import math

import pytest

from docs.tools import page


def cells() -> dict[str, list[list[str]]]:
    """Scheme -> a pair of texts, of two phases and of the ring, for each trace."""
    lines = page.rows(page.DOCS / "limit.md", "above")
    return {line[0].strip("`"): [pair.split(" / ") for pair in line[1:]] for line in lines}


def number(cell: str) -> float:
    return {"–": float("nan"), "∞": float("inf")}.get(cell) or float(cell)


def test_sentences_are_the_tables_numbers():
    found = {spec: [[number(c) for c in pair] for pair in row] for spec, row in cells().items()}
    assert len(found) > 30
    every = [x for row in found.values() for pair in row for x in pair if x == x]
    assert min(every) == 1.6
    named = ["aps:e2m5finite,rule=tight,unit=32"]
    named += [f"mx:block_format={name}" for name in ("mxfp4", "bfp:4:32")]
    nearest = [[found[spec][trace][0] for spec in named] for trace in range(3)]
    assert (min(map(min, nearest)), max(map(max, nearest))) == (1.6, 3.0)
    for trace in range(3):
        assert min(nearest[trace]) <= min(row[trace][0] for row in found.values()) + 0.05
    apart = {
        spec: [ring - two for two, ring in row if two < math.inf and ring < math.inf]
        for spec, row in found.items()
    }
    layer, block = (apart[f"aps:e2m5finite,rule=tight{unit}"] for unit in ("", ",unit=32"))
    assert max(layer[:2]) == pytest.approx(2.6) and block[2] == pytest.approx(4.6)
    for row in apart.values():
        assert max(row[:2], default=0) < 2.65 and max(row[2:], default=0) < 4.65
    assert max(map(abs, apart["none:e3m4"])) == 0
    assert found["aps:e4m3fn,rule=tight"][2] == [4.7, 5.2]
