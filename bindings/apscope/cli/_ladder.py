"""``apscope ladder TRACE|RESULTS``: the gain of finer scales, and whether it matters."""

from __future__ import annotations

import argparse

import pandas as pd

from .._results.ladder import FORMATS, RULES, RUNGS, ladder
from .._text import printable
from ._arguments import add_part_of_trace, add_shape, add_threads, adder, listed, open_results
from ._table import on_terminal, print_csv, print_json, print_table, warn

EXAMPLE = "apscope ladder notebooks/data/digits --formats e4m3,e3m4 --steps 0:8"
HELP = "the gain of finer scales: the error by rung and format"
DESCRIPTION = (
    "Prints the error of every rung of the ladder of scales, from one scale for all steps "
    "to one for 16 elements, in units of the noise of the batch (1: as large as the noise; "
    "of a trace of one worker it is unknown) and as the NMSE of a step, and the factor by which "
    "a finer scale lowers it, with a 95 % interval over the steps. docs/definitions.md, section 17."
)


#: Numbers of steps that are marked beside an error.
_MARKS = (("overflowed", "overflow"), ("skipped", "skipped"))


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "source TRACE|RESULTS", "a trace, which is replayed through all rungs, or results with some"
    )
    add(
        "--formats F,G,...",
        f"repeatable; by default {','.join(FORMATS)}; for results all that they have",
        action="append",
    )
    add(
        "--rule",
        "rule of every scale: the largest that fits (tight), or APS's own (ceil)",
        default="tight",
        choices=RULES,
    )
    add_part_of_trace(add)
    add("--batch-factor K", "the noise of a batch K times as large", type=float, default=1.0)
    add_threads(add)
    add_shape(parser, "print the table as JSON: a list of rows")


def run(args: argparse.Namespace) -> int:
    formats = listed(args.formats)
    results = open_results(args.source)
    if results is not None:
        if args.steps or args.workers is not None:
            raise ValueError(
                "--steps and --workers select from a trace; results contain what was replayed"
            )
    else:
        from .._replay.replay import replay
        from .._results.ladder import ladder_schemes

        schemes = ladder_schemes(FORMATS if formats is None else formats, args.rule)
        specs = list(dict.fromkeys(schemes.values()))
        results = replay(
            args.source, specs, topology=args.topology or "ring", steps=args.steps,
            workers=args.workers, threads=args.threads,
            progress=on_terminal(),
        )  # fmt: skip
    warn(results)
    table = ladder(
        results,
        formats,
        rule=args.rule,
        topology=args.topology,
        batch_factor=args.batch_factor,
    )
    if args.json:
        print_json(table)
    elif args.csv:
        print_csv(table)
    else:
        for trace, part in table.groupby("trace", sort=False):
            _print(str(trace), part)
    return 0


def _print(trace: str, table: pd.DataFrame) -> None:
    """Two tables of a trace, errors and factors, one column per format; what the rungs are."""
    noisy = table["error_over_noise"].notna().any()
    unit = (
        "typical error over the noise of the batch / step NMSE"
        if noisy
        else "NMSE of a step (one worker: the noise of the batch is unknown)"
    )
    topology = table["topology"].iloc[0]
    formats = list(dict.fromkeys(table["format"]))
    rungs = [rung for rung in RUNGS if (table["rung"] == rung.name).any()]
    cell = table.set_index(["rung", "format"])

    def error(rung: str, name: str) -> str:
        if (rung, name) not in cell.index:
            return ""
        row = cell.loc[(rung, name)]
        mark = "".join(f" ({row[what]} {word})" for what, word in _MARKS if row[what])
        mark += "*" if row["gaps"] else ""
        both = f"{row['error_over_noise']:.2g} / " if noisy else ""
        return f"{both}{row['step_nmse']:.2g}{mark}"

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

    trace = printable(trace)
    print(f"{trace}: {unit}, {topology}, {table['steps'].max()} steps")
    print_table(
        ["one scale per", *formats],
        [[r.name, *(error(r.name, f) for f in formats)] for r in rungs],
        ["one scale per"],
    )
    if table["gaps"].any():
        print("* memory of an earlier step, because steps are missing: no rank, no factor")
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
    print_table(["the rungs", ""], [[r.name, r.meaning] for r in rungs], ["the rungs", ""])
    print()
