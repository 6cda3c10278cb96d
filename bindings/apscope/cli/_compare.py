"""``apscope compare RESULTS A B``: one scheme against another, layer by layer."""

from __future__ import annotations

import argparse

from .._results.results import Results
from ._table import print_csv, print_frame, warn

#: What a terminal has room for, the most telling first.
SHORT = ("layer", "steps", "wins", "losses", "ties", "median_ratio", "worst_ratio", "step_nmse_a", "step_nmse_b", "underflow_wire_a",
         "underflow_wire_b", "accumulation_a", "accumulation_b")  # fmt: skip


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "compare", help="one scheme against another, layer by layer", allow_abbrev=False,
        description="Compares the NMSE of scheme A with that of scheme B at every layer and step. A ratio below 1, and a win, is A losing less. "
        "docs/definitions.md, section 14, defines the columns. On a terminal the last columns give way to its width.",
    )  # fmt: skip
    parser.add_argument("results", metavar="RESULTS", help="a folder that apscope replay wrote")
    parser.add_argument("a", metavar="A", help="a scheme, in any spelling")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument(
        "--topology", metavar="NAME", help="by default the first that both have and that is not exact; exact or wire leave the sums out"
    )
    parser.add_argument("--all-columns", action="store_true", help="all columns, not only the telling ones")
    parser.add_argument("--csv", action="store_true", help="print CSV: all columns, every digit")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    results = Results.open(args.results)
    warn(results)
    table = results.compare(args.a, args.b, args.topology)
    if args.csv:
        print_csv(table)
        return 0
    named = (table["layer"] == "all") & ~table["whole"]
    table["layer"] = table["layer"].mask(named, "'all'")  # a layer of that name, beside the row of all layers
    for trace, part in table.groupby("trace", sort=False):
        one, other = part["topology_a"].iloc[0], part["topology_b"].iloc[0]
        columns = [c for c in part.columns if c not in ("trace", "topology_a", "topology_b")] if args.all_columns else list(SHORT)
        print_frame(f"{trace}: a = {args.a} ({one}), b = {args.b} ({other})", part[columns], fit=not args.all_columns)
    return 0
