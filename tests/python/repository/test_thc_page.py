"""docs/schemes.md has the errors of THC's tables that docs/tools/thc_table.py computes."""

import numpy as np

import apscope
from apscope._page.numbers import figure
from docs.tools import page, thc_table

ROWS = {row[0]: row[1:] for row in page.rows(page.DOCS / "schemes.md", "thc_table")}


def test_the_default_errs_less_than_the_published_table_on_every_trace():
    assert list(ROWS) == [f"`{name}`" for name in page.TRACES]
    assert all("(+" in published for _, published, *_ in ROWS.values())


def test_the_table_is_computed_from_the_bundled_traces():
    trace = apscope.open_trace(page.DATA / "digits_w64")
    ours, published = (
        2 ** float(np.mean(thc_table.logarithms(spec, trace)))
        for spec in list(thc_table.SCHEMES)[:2]
    )
    assert ROWS["`digits_w64`"][0] == figure(ours, 4)
    assert ROWS["`digits_w64`"][1].startswith(figure(published, 4))
