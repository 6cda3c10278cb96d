"""docs/search.md has the results of a current search of the bundled traces; its seconds are of the
machine that wrote it."""

from pathlib import Path

import pytest

import apscope

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def page():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        import search

        yield search


@pytest.mark.parametrize("name", ["digits", "digits_w64", "characters", "resnet18", "gpt"])
def test_the_table_is_todays(page, name):
    text = (ROOT / "docs/search.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith(f"| `{name}` |")
    ]
    found = [
        page.facts(name, figure, apscope.search(page.DATA / name, 8, minimize=figure))
        for figure in page.FIGURES
    ]
    assert [tuple(row[:5] + row[7:]) for row in rows] == found, "run make tables"


def test_what_the_page_says_of_exponent_bits_and_reductions(page):
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in (ROOT / "docs/search.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    found = {
        (row[0], row[1]): dict(zip(page.HEADS[7:], row[7:]))
        for row in rows
        if row[0] in page.TRACES and row[1] in page.FIGURES
    }
    assert len(found) == len(page.TRACES) * len(page.FIGURES)
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
        if (row[0], row[1]) in found:
            two_phase, ring = (
                float(row[i].split(", ")[page.FIGURES.index(row[1])]) for i in (9, 12)
            )
            times.append(ring / two_phase)
    assert 8 <= min(times) and 125 < max(times) < 135
