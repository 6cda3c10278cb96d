"""docs/cut.md: the figures of the bundled cut are those of the page, and what the page says of the
distances is what its tables have."""

import re

import pytest

from apscope._page.numbers import figure
from docs.tools import cut
from docs.tools.page import DATA, DOCS

CELL = re.compile(r"^(\S.*?) / (.*?)( \(x (\S+)\))?$")


def tables():
    """Trace -> (scheme, reduction) -> the cells of its figures."""
    found, name = {}, ""
    for line in (DOCS / "cut.md").read_text().splitlines():
        if line.startswith("**`"):
            name = line.split("`")[1]
            found[name] = {}
        elif name and line.startswith("| `"):
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            found[name][cells[0].strip("`"), cells[1].strip("`")] = cells[2:]
    return found


@pytest.mark.parametrize("trace", ["gpt", "resnet18"])
def test_a_bundled_cut_has_the_figures_of_the_page(trace):
    rows = tables()[trace]
    now = cut.figures(str(DATA / trace))
    assert set(rows) == set(now.index)
    for place, cells in rows.items():
        for name, cell in zip(cut.FIGURES, cells, strict=True):
            assert CELL.match(cell)[2] == figure(float(now.loc[place, name]), 2), (place, name)


def test_the_typical_error_is_within_a_quarter_but_where_the_page_says():
    few = {"aps:e3m4,rule=tight", "aps:e2m5,rule=tight", "aps:e3m0,rule=tight"}
    for name, rows in tables().items():
        assert len(rows) == len(cut.SCHEMES) * 2
        far = {place for place, cells in rows.items() if CELL.match(cells[0])[4]}
        assert far <= {(scheme, "two_phase") for scheme in few}, name
        times = [float(m[4]) for cells in rows.values() for c in cells if (m := CELL.match(c))[4]]
        assert 0.25 < min(times) and max(times) < 1.4, name
