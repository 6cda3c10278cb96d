"""Every section that `make tables` writes is what its command writes today.

Those of long replays and of times are compared in parts, by the tests of their pages: README.md's
answer, all schemes on `digits`, the plans of docs/advice.md, the searches of docs/search.md.
"""

import pytest

from docs.tools import page
from docs.tools.__main__ import PAGES

IN_PARTS = {"README.md": "answer", "docs/schemes.md": "all schemes",
            "docs/advice.md": "plans", "docs/search.md": "searches"}  # fmt: skip
WHOLE = [(path, name) for path in PAGES for name in PAGES[path] if name != IN_PARTS.get(path)]


@pytest.mark.parametrize("path, name", WHOLE)
def test_a_section_is_what_make_tables_writes(path, name):
    assert page.read(page.ROOT / path, name) == PAGES[path][name](), "run make tables"


def test_a_section_is_replaced_if_the_page_has_it_once():
    text = "before\n<!-- a: written by b -->\nold\n<!-- end of a -->\nafter\n"
    new = page.replaced(text, "a", ["one", "two"])
    assert new == "before\n<!-- a: written by b -->\n\none\ntwo\n\n<!-- end of a -->\nafter\n"
    assert page.replaced(new, "a", ["one", "two"]) == new
    for wrong, count in (("", 0), (text + text, 2)):
        with pytest.raises(ValueError, match=f"{count} sections are marked 'a'"):
            page.replaced(wrong, "a", [])
