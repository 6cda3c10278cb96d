"""``apscope compare RESULTS A B``: one scheme against another, layer by layer."""

from __future__ import annotations

import argparse

import pandas as pd

from .._results.comparison import scheme_in
from .._results.differences import chain, differences
from .._results.pooling import PARTS
from .._results.results import Results
from ._table import print_csv, print_frame, warn

#: What a terminal has room for, the most telling first.
SHORT = ("layer", "error_over_noise_a", "error_over_noise_b", "steps", "wins", "losses", "ties", "median_ratio",
         "worst_ratio", "step_nmse_a", "step_nmse_b", "overflowed_a", "overflowed_b", "underflow_wire_a", "underflow_wire_b",
         "accumulation_a", "accumulation_b")  # fmt: skip


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


def made_of(whole: pd.Series) -> pd.DataFrame:
    """Of the row of all layers: a row a scheme, a column a part of the squared error."""
    parts = [part.removeprefix("split_") for part in PARTS]
    rows = [[side, whole[f"nmse_{side}"], *(whole[f"share_{part}_{side}"] for part in parts)] for side in "ab"]
    return pd.DataFrame(rows, columns=["scheme", "nmse", *(f"share_{part}" for part in parts)])


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
        quiet = [c for c in ("overflowed_a", "overflowed_b") if not part[c].any()]
        columns = (
            [c for c in part.columns if c not in ("trace", "topology_a", "topology_b")] if args.all_columns else [c for c in SHORT if c not in quiet]
        )
        print_frame(f"{trace}: a = {args.a} ({one}), b = {args.b} ({other})", part[columns], fit=not args.all_columns)
        print_frame(f"{trace}: in what they differ", _differ(results, str(trace), part.iloc[0], args), fit=False)
        factors = results.decompose(args.a, args.b, args.topology)
        factors = factors.loc[factors["trace"] == trace, ["change", "before", "after", "factor", "factor_low", "factor_high"]]
        if len(factors) > 1:
            print_frame(
                f"{trace}: what each difference is worth, from b to a: how many times less the error is, 95 % over the steps", factors, fit=False
            )
        print_frame(f"{trace}: what their squared errors are made of, all layers and steps together", made_of(part.iloc[0]), fit=False)
    missing = [spec for _, spec in chain(args.a, args.b) if spec not in set(results.frame["scheme"])]
    if missing:
        print(f"To give each difference its factor, replay the same trace with {' '.join(f'--scheme {spec}' for spec in missing)}, and merge.")
    return 0


def _differ(results: Results, trace: str, whole: pd.Series, args: argparse.Namespace) -> pd.DataFrame:
    """A row an aspect in which the two differ, the reduction and the volume among them."""
    rows = [list(one) for one in differences(args.a, args.b)]
    names = [whole["topology_a"], whole["topology_b"]]
    if names[0] != names[1]:
        rows.append(["reduction", *names])
    table = results.summary()
    table = table[table["trace"] == trace].set_index(["scheme", "topology"])["volume"]
    volumes = [table.get((scheme_in(results.frame, spec), name)) for spec, name in zip((args.a, args.b), names)]
    if None not in volumes and abs(volumes[0] - volumes[1]) > 1e-3:
        rows.append(["volume", *(f"{v:.3g}" for v in volumes)])
    return pd.DataFrame(rows, columns=["aspect", "a", "b"])
