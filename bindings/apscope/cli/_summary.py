"""``apscope summary RESULTS``: which scheme lost least, ranked."""

from __future__ import annotations

import argparse

import pandas as pd

from .._results.pooling import headline_topology
from .._results.results import Results
from .._results.summary import headline
from ._table import print_csv, print_frame, warn

#: What a terminal has room for, the most telling first.
SHORT = ("scheme", "topology", "error_over_noise", "step_nmse", "skipped", "overflowed", "nonfinite", "underflow_wire", "underflow_reduced", "volume", "speedup",
         "layer_cosine", "worst_nmse", "relative_bias", "worst_layer")  # fmt: skip


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "summary", help="which scheme lost least: a table, ranked", allow_abbrev=False,
        description="Ranks the schemes of a replay by error_over_noise, the typical block's squared error over the noise of the batch (1: as large as "
        "the noise); of a trace of one worker by step_nmse, the mean over the steps of the step's NMSE. A skipped step counts as lost, and "
        "schemes with overflow come last. docs/definitions.md, sections 14 and 16, defines the columns. On a terminal the last "
        "columns give way to its width.",
    )  # fmt: skip
    parser.add_argument("results", metavar="RESULTS", help="a folder that apscope replay wrote")
    parser.add_argument(
        "--topology",
        metavar="NAME",
        help="rows of this reduction, all for each of them; by default the first replayed "
        "that adds, and with --csv all. Schemes with a reduction of their own stay",
    )
    parser.add_argument(
        "--elements", type=float, default=25.6e6, metavar="N", help="time and speedup are for a model of N parameters; default %(default)g"
    )
    parser.add_argument("--batch-factor", type=float, default=1.0, metavar="K", help="the noise of a batch K times as large as the recorded one")
    parser.add_argument("--all-columns", action="store_true", help="all columns, not only the telling ones")
    parser.add_argument("--csv", action="store_true", help="print CSV: all columns, every digit")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    results = Results.open(args.results)
    warn(results)
    table = results.summary(elements=args.elements, batch_factor=args.batch_factor)
    wanted = args.topology or ("all" if args.csv else headline_topology(results.frame))
    held = [t for t in table["topology"].unique() if t]
    if args.topology and wanted not in [*held, "all"]:
        raise ValueError(f"the results have no topology '{wanted}'; use one of {', '.join(held)}, or all")
    if wanted != "all":
        table = table[table["topology"] == wanted] if wanted == "exact" else headline(table, wanted)
    if args.csv:
        print_csv(table)
        return 0
    for trace, part in table.groupby("trace", sort=False):
        quiet = [c for c in ("skipped", "overflowed", "nonfinite") if not part[c].any()]
        columns = [c for c in (part.columns if args.all_columns else SHORT) if c != "trace" and (args.all_columns or c not in quiet)]
        if not args.all_columns:
            columns = [c for c in columns if part[c].notna().any()]  # error_over_noise, of one worker
        print_frame(trace, part[columns], fit=not args.all_columns)
        _print_noise(results.noise_facts(batch_factor=args.batch_factor), str(trace))
    return 0


def _print_noise(facts: pd.DataFrame, trace: str) -> None:
    """The facts of one trace's noise, in a table."""
    facts = facts[facts["trace"] == trace].drop(columns="trace")
    if len(facts):
        print_frame(f"{trace}: noise of the batch; low and high: by what an error over it is to be multiplied, 95 %", facts, fit=False)
