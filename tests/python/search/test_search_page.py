"""docs/search.md has the results of a current search of the bundled traces; its seconds are of the
machine that wrote it."""

import pytest

import apscope
from docs.tools import page
from docs.tools import search as script
from tests.python.bundled import BUNDLED

PAGE = page.rows(page.DOCS / "search.md", "searches")


@pytest.mark.parametrize("name", BUNDLED)
def test_the_table_is_todays(name):
    rows = [row for row in PAGE if row[0] == f"`{name}`"]
    found = [
        script.facts(name, figure, apscope.search(page.DATA / name, 8, minimize=figure))
        for figure in script.FIGURES
    ]
    assert [tuple(row[:5] + row[7:]) for row in rows] == found, "run make tables"


def test_what_the_page_says_of_exponent_bits_and_reductions():
    rows = [[cell.strip("`") for cell in row] for row in PAGE]
    found = {(row[0], row[1]): dict(zip(script.HEADS[7:], row[7:])) for row in rows}
    assert set(found) == {(trace, name) for trace in page.TRACES for name in script.FIGURES}
    assert {cells["reduction"] for cells in found.values()} == {"two_phase"}
    bits = {place: cells["best"].split(":e")[1][0] for place, cells in found.items()}
    assert bits.pop(("resnet18", "error_over_noise")) == "1" and set(bits.values()) == {"2"}
    assert {cells["best in a ring"].split(":e")[1][0] for cells in found.values()} == {"3"}
    assert all(
        cells[name].endswith("unit=32")
        for cells in found.values()
        for name in ("best", "best in a ring")
    )
    times = []
    for row in rows:
        two_phase, ring = (float(row[i].split(", ")[script.FIGURES.index(row[1])]) for i in (9, 12))
        times.append(ring / two_phase)
    assert 8 <= min(times) and 125 < max(times) < 135
