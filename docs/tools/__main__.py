"""Writes the tables of pages, of all if none is named: python -m docs.tools [PAGE...]."""

import argparse

from . import (
    advice,
    architecture,
    blocks_across_layers,
    limit,
    nodes,
    page,
    reductions,
    search,
    tables,
)

#: Page -> section -> the function that makes its lines.
PAGES = {
    "docs/scales.md": tables.SCALES,
    "docs/schemes.md": tables.SCHEMES_PAGE,
    "docs/ARCHITECTURE.md": architecture.SECTIONS,
    "docs/definitions.md": tables.DEFINITIONS,
    "README.md": {"answer": reductions.answer},
    "docs/reductions.md": reductions.SECTIONS,
    "docs/nodes.md": nodes.SECTIONS,
    "docs/limit.md": limit.SECTIONS,
    "docs/advice.md": advice.SECTIONS,
    "docs/search.md": search.SECTIONS,
    "docs/blocks_across_layers.md": blocks_across_layers.SECTIONS,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    pages = parser.parse_args().pages or list(PAGES)
    if unknown := [name for name in pages if name not in PAGES]:
        parser.error(f"{unknown[0]} is not a page with tables; they are {', '.join(PAGES)}")
    for name in pages:
        page.write(page.ROOT / name, {part: make() for part, make in PAGES[name].items()})
