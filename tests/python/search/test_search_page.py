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


@pytest.mark.parametrize("name", ["digits", "digits_w64", "characters", "resnet18", "transformer"])
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


def test_what_the_page_says_of_exponent_bits(page):
    rows = [
        line.split("|")
        for line in (ROOT / "docs/search.md").read_text().splitlines()
        if (line.startswith("| `") and "_nmse` |" in line) or "_noise` |" in line
    ]
    bits = {
        (row[1].strip(" `"), row[2].strip(" `")): row[8].split(":e")[1][0]
        for row in rows
        if row[1].strip(" `") in page.TRACES
    }
    three = {
        (name, figure) for name in ("digits", "characters", "resnet18") for figure in page.FIGURES
    }
    assert {pair for pair, width in bits.items() if width == "3"} - {
        ("transformer", f) for f in page.FIGURES
    } == three
    assert {bits["digits_w64", figure] for figure in page.FIGURES} == {"4"} and len(
        {bits["transformer", figure] for figure in page.FIGURES}
    ) == 2
