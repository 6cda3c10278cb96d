"""``apscope ladder TRACE|RESULTS``: the gain of finer scales, and whether it matters."""

from __future__ import annotations

import argparse

import pandas as pd

from .._results.folders import check_readable
from .._results.ladder import FORMATS, RULES, RUNGS, ladder
from .._results.results import Results
from ._table import on_terminal, print_csv, print_json, print_table, warn

EXAMPLE = "apscope ladder notebooks/data/digits --formats e4m3,e3m4 --steps 0:8"


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "ladder", help="the gain of finer scales: the error by rung and format", allow_abbrev=False,
        description="Prints the error of every rung of the ladder of scales, from one scale for "
                    "all steps to one for 16 elements, in units of the noise of the batch (1: as "
                    "large as the noise; for a trace of one worker, the NMSE of a step), and the "
                    "factor by which a finer scale lowers it, with a 95 % interval over the steps. "
                    "docs/definitions.md, section 17.",
    )  # fmt: skip
    parser.add_argument(
        "source",
        metavar="TRACE|RESULTS",
        help="a trace, which is replayed through all rungs, or results with some",
    )
    parser.add_argument(
        "--formats",
        metavar="F,G,...",
        help=f"by default {','.join(FORMATS)}; for results all that they have",
    )
    parser.add_argument(
        "--rule",
        default="tight",
        choices=RULES,
        help="rule of every scale: the largest that fits (tight), or APS's own (ceil)",
    )
    parser.add_argument(
        "--topology",
        metavar="NAME",
        help="the order of the additions; by default ring, for results the first replayed",
    )
    parser.add_argument(
        "--steps",
        metavar="A:B",
        help="for a trace: recorded step numbers A <= step < B, or a list A,B,C",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="for a trace: only ranks 0..N-1")
    parser.add_argument(
        "--batch-factor",
        type=float,
        default=1.0,
        metavar="K",
        help="the noise of a batch K times as large",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help="threads of a replay; 0: all of the machine",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--json", action="store_true", help="print the table as JSON: a list of rows"
    )
    shape.add_argument("--csv", action="store_true", help="print CSV: all columns, every digit")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    formats = None if args.formats is None else [f for f in args.formats.split(",") if f]
    options = {"rule": args.rule, "topology": args.topology, "batch_factor": args.batch_factor}
    folder = check_readable(args.source) if "://" not in args.source else None
    if (
        folder is not None
        and (folder / "provenance.json").exists()
        and not (folder / "manifest.json").exists()
    ):
        if args.steps or args.workers is not None:
            raise ValueError(
                "--steps and --workers select from a trace; results contain what was replayed"
            )
        results = Results.open(args.source)
        warn(results)
        table = ladder(results, formats, **options)
    else:
        from .._replay.replay import replay
        from .._results.ladder import ladder_schemes

        specs = list(
            dict.fromkeys(
                ladder_schemes(FORMATS if formats is None else formats, args.rule).values()
            )
        )
        replayed = replay(
            args.source, specs, topology=args.topology or "ring", steps=args.steps,
            workers=args.workers, threads=args.threads,
            progress=on_terminal(),
        )  # fmt: skip
        warn(replayed)
        table = ladder(replayed, formats, **options)
    if args.json:
        print_json(table)
    elif args.csv:
        print_csv(table)
    else:
        for trace, part in table.groupby("trace", sort=False):
            _print(str(trace), part)
    return 0


def _print(trace: str, table: pd.DataFrame) -> None:
    """Two tables of a trace: errors, and factors; one column per format."""
    noisy = table["error_over_noise"].notna().any()
    unit = (
        "typical error over the noise of the batch"
        if noisy
        else "NMSE of a step (one worker: the noise of the batch is unknown)"
    )
    topology = table["topology"].iloc[0]
    formats = list(dict.fromkeys(table["format"]))
    rungs = [rung for rung in RUNGS if (table["rung"] == rung.name).any()]
    cell = table.set_index(["rung", "format"])
    column = "error_over_noise" if noisy else "step_nmse"

    def error(rung: str, name: str) -> str:
        if (rung, name) not in cell.index:
            return ""
        row = cell.loc[(rung, name)]
        mark = "".join(
            f" ({row[what]} {word})"
            for what, word in (("overflowed", "overflow"), ("skipped", "skipped"))
            if row[what]
        )
        return f"{row[column]:.2g}{mark}"

    def factor(rung: str, name: str) -> str:
        row = cell.loc[(rung, name)] if (rung, name) in cell.index else None
        if row is None or pd.isna(row["factor"]):
            return ""
        spread = (
            ""
            if pd.isna(row["factor_low"])
            else f" [{row['factor_low']:.3g}, {row['factor_high']:.3g}]"
        )
        return f"{row['factor']:.3g}{spread}"

    print(f"{trace}: {unit}, {topology}, {table['steps'].max()} steps")
    print_table(
        ["one scale per", *formats, ""],
        [[r.name, *(error(r.name, f) for f in formats), r.meaning] for r in rungs],
        ["one scale per", ""],
    )
    print(
        f"\n{trace}: error of the coarser rung divided by this one's, 95 % interval over the steps"
    )
    steps = [r for r in rungs if any(factor(r.name, f) for f in formats)]
    print_table(
        ["from -> to", *formats],
        [[f"{r.finer_than} -> {r.name}", *(factor(r.name, f) for f in formats)] for r in steps],
        ["from -> to"],
    )
    print()
