"""``apscope formats [NAME...]``: a table of formats."""

from __future__ import annotations

import argparse

from .._formats.formats import format_table
from ._table import print_table


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser("formats", help="table of formats: bits, precision, limits, specials", allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a named format or e<E>m<M>[fn|fnuz|finite][u][b<bias>]; all if none")
    parser.add_argument("--json", action="store_true", help="the fields of each format as JSON")
    parser.set_defaults(run=run)


def _power(value: float) -> str:
    """A limit in the shortest readable form."""
    return "" if value != value else f"{value:.6g}"


def run(args: argparse.Namespace) -> int:
    table = format_table(args.names or None)
    if args.json:
        import json

        from .. import FloatFormat

        print(json.dumps({name: FloatFormat(name).to_dict() for name in table["name"]}, indent=1))
        return 0
    for column in ("largest", "smallest_normal", "smallest_subnormal"):
        table[column] = [_power(v) for v in table[column]]
    heads = [c.replace("_", " ") for c in table.columns]
    print_table(heads, table.astype(str).values.tolist(), words=("name", "specials", "aliases"))
    return 0
