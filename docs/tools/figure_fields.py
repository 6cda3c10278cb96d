"""A C++ header in which the list of a summary's figures is written out, for doxygen.

A filter of docs/Doxyfile: python3 -m docs.tools.figure_fields bindings/cpp/apscope/summary.h
"""

import re
import sys
from pathlib import Path

from .page import ROOT

LIST = "analysis/summary/summary_figures.inc"
ENTRY = re.compile(
    r'^APSCOPE_(?P<kind>\w+)\((?P<name>\w+), .*?(?P<says>(?:\s*"[^"]*")+)\)$',
    re.MULTILINE | re.DOTALL,
)
TYPES = {"FIGURE": "double", "COUNT": "std::int64_t"}


def fields(text: str) -> str:
    """The members of a SummaryRow, each below its documentation."""
    lines, names = [], []
    for entry in ENTRY.finditer(text):
        if entry["kind"] in TYPES:
            names.append(f"    {TYPES[entry['kind']]} {entry['name']} = 0;\n")
        if says := "".join(re.findall('"([^"]*)"', entry["says"])):
            lines += [f"    /// {says[0].upper()}{says[1:]}\n{name}" for name in names]
            names.clear()
    return "".join(lines)


def main() -> None:
    """Prints the header."""
    header = Path(sys.argv[1]).read_text(encoding="utf-8")
    figures = fields((ROOT / LIST).read_text(encoding="utf-8"))
    print(
        re.sub(
            rf'(^ *//.*\n)?(^#define.*\n)+#include "{LIST}"\n', figures, header, flags=re.MULTILINE
        )
    )


if __name__ == "__main__":
    main()
