"""``apscope ladder TRACE|RESULTS``: what a reduction, a format and a finer scale are worth."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence

import pandas as pd

from .._core import parse_topology
from .._replay.ladder import (
    FORMATS,
    REDUCTIONS,
    RULES,
    RUNGS,
    Rung,
    better_reduction,
    ladder,
    ladder_schemes,
)  # fmt: skip
from .._results.noise import check_batch_factor
from .._results.pooling import is_own
from .._results.ranking import BLOCK_FORMATS
from .._results.results import Results
from .._results.winners import bits_of, winners
from .._schemes.phases import is_phased
from .._text import count_of, printable
from .._traces.selection import parse_steps
from ._arguments import add_part_of_trace, add_shape, add_threads, adder, listed, open_results
from ._table import (
    line_width,
    marks_explained,
    marks_of,
    on_terminal,
    print_csv,
    print_json,
    print_table,
    print_winners,
    warn,
)

EXAMPLE = "apscope ladder notebooks/data/digits --formats e4m3,e3m4 --steps 0:8"
HELP = "what a reduction, a format and finer scales are worth: the error by all three"
DESCRIPTION = (
    "Prints the error of every rung of the ladder of scales, from one scale for all steps "
    "to one for 16 elements, in every reduction, as the NMSE of a step and in units of the noise "
    "of the batch (1: as large as the noise; of a trace of one worker it is unknown), and the "
    "factors by which another reduction, another format and a finer scale lower the NMSE, all else "
    "equal, with a 95 % interval over the steps. docs/definitions.md, section 17."
)


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
    ladder_schemes(FORMATS if formats is None else formats, args.rule)
    parse_steps(args.steps)
    check_batch_factor(args.batch_factor)
    results = open_results(args.source)
    if results is not None:
        if args.steps or args.workers is not None:
            raise ValueError(
                "--steps and --workers select from a trace; results contain what was replayed"
            )
    else:
        from .._replay.replay import replay

        for name in args.topology or []:
            parse_topology(name)
        schemes = ladder_schemes(FORMATS if formats is None else formats, args.rule)
        specs = list(
            dict.fromkeys([*schemes.values(), *(BLOCK_FORMATS if formats is None else ())])
        )
        results = replay(
            args.source, specs, topology=args.topology or REDUCTIONS, steps=args.steps,
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
        rivals = list(BLOCK_FORMATS) if formats is None else []
        ranked = _ranked(results, table, rivals, args.batch_factor)
        bits = bits_of(
            results._coded(["scheme", "topology", "stage", "wire_bits", "count", "workers"])
        )
        for trace, part in table.groupby("trace", sort=False):
            if part[list(_ERRORS)].isna().all(axis=None):
                print(f"{printable(trace)}: no rung has an error: the sum is 0 or not finite")
                continue
            own = ranked[ranked["trace"] == trace]
            among = "the ladder's rungs" + (
                " and the hardware's block formats" if own["scheme"].isin(rivals).any() else ""
            )
            _print(str(trace), part)
            print_winners(str(trace), winners(own, bits), among)
            _print_rungs(part)
    return 0


def _ranked(
    results: Results, table: pd.DataFrame, rivals: Sequence[str], batch_factor: float
) -> pd.DataFrame:
    """The rows that the best of a width is chosen from: those of the ladder, and block formats."""
    found = results.summary(batch_factor=batch_factor)
    rows = found[found["scheme"].isin([*table["scheme"], *rivals])]
    return rows[[t in set(table["topology"]) or is_own(t) for t in rows["topology"]]]


#: The errors of a rung, and the heading of a table that has only one of them.
_ERRORS = {
    "step_nmse": "NMSE of a step (the noise of the batch is 0 or, with one worker, unknown)",
    "error_over_noise": "typical error over the noise of the batch (the sum is 0: no NMSE)",
}
_FACTORS = ["reduction_factor", "format_factor", "factor"]


def _print(trace: str, table: pd.DataFrame) -> None:
    """A trace's errors, a table per reduction; what each choice is worth."""
    trace = printable(trace)
    known = [name for name in _ERRORS if table[name].notna().any()]
    both = "step NMSE / typical error over the noise of the batch"
    unit = both if len(known) == 2 else _ERRORS[known[0]]
    reductions = list(dict.fromkeys(table["topology"]))
    for reduction in reductions:
        part = table[table["topology"] == reduction]
        steps = f", {count_of(part['steps'].max(), 'step')}" if "step_nmse" in known else ""
        print(f"{trace}: {unit}, {reduction or 'the wire'}{steps}")
        _print_cells("one scale per", part, lambda row: _error(row, known), lambda rung: rung.name)
    for line in marks_explained(table):
        print(line)
    print()
    if table[_FACTORS].notna().any(axis=None):
        print(f"{trace}: error before a choice divided by that after it; 95 % intervals")
        _print_factors(table, reductions)
        print()


def _print_factors(table: pd.DataFrame, reductions: Sequence[str]) -> None:
    for other in reductions[1:]:
        drops = is_phased(other)
        room = (
            f"; scales of a layer and finer then leave {'no ' if drops else ''}room for the sum"
            if drops != is_phased(reductions[0])
            else ""
        )
        _print_factor(
            f"the reduction, {reductions[0]} -> {other}{room}",
            table[table["topology"] == other],
            "reduction_factor",
        )
    best = better_reduction(table)
    part = table[table["topology"] == best]
    within = f", {best}" if len(reductions) > 1 else ""
    _print_factor(
        f"the format{within}, from the first of as many bits",
        part.assign(format=part["other_format"] + " -> " + part["format"]),
        "format_factor",
    )
    room = "; step -> layer also drops the room for the sum" if is_phased(best) else ""
    _print_factor(f"the scale{within}{room}", part, "factor")


def _print_factor(title: str, table: pd.DataFrame, name: str) -> None:
    """The factors of one choice; without one, not even the title."""
    if table[name].notna().any():
        print(title)
        scale = name == "factor"
        _print_cells(
            "from -> to" if scale else "one scale per",
            table,
            lambda row: _factor(row, name),
            lambda rung: f"{rung.finer_than} -> {rung.name}" if scale else rung.name,
        )


def _print_rungs(table: pd.DataFrame) -> None:
    rungs = [rung for rung in RUNGS if (table["rung"] == rung.name).any()]
    room = line_width() - 2 - max(len(rung.name) for rung in rungs)
    lines = [
        [rung.name if i == 0 else "", line]
        for rung in rungs
        for i, line in enumerate(textwrap.wrap(rung.meaning, room))
    ]
    print_table(["the rungs", ""], lines, ["the rungs", ""])
    print()


def _print_cells(
    head: str,
    table: pd.DataFrame,
    text: Callable[[pd.Series], str],
    called: Callable[[Rung], str],
) -> None:
    """One row per rung and one column per format, of those that have a text.

    Formats that do not fit side by side into a line stand in several tables.
    """
    cells = {(row["rung"], row["format"]): text(row) for _, row in table.iterrows()}
    formats = [
        name
        for name in dict.fromkeys(table["format"])
        if any(said for (_, f), said in cells.items() if f == name)
    ]
    rows = [
        [called(rung), *(cells.get((rung.name, name), "") for name in formats)]
        for rung in RUNGS
        if any(cells.get((rung.name, name)) for name in formats)
    ]
    widths = [2 + max(map(len, column)) for column in zip(formats, *(row[1:] for row in rows))]
    room = line_width() - max(map(len, [head, *(row[0] for row in rows)]))
    count = 1
    while count < len(formats) and any(sum(part) > room for part in _parts(widths, count)):
        count += 1
    for part in _parts(range(len(formats)), count):
        kept = [[row[0], *(row[1 + i] for i in part)] for row in rows]
        heads = [head, *(formats[i] for i in part)]
        print_table(heads, [row for row in kept if any(row[1:])], [head])


def _parts(values: Sequence[int], count: int) -> list[Sequence[int]]:
    """The values in `count` runs of about equal length."""
    ends = [round(i * len(values) / count) for i in range(count + 1)]
    return [values[a:b] for a, b in zip(ends, ends[1:])]


def _error(row: pd.Series, known: Sequence[str]) -> str:
    return f"{' / '.join(f'{row[name]:.2g}' for name in known)} {marks_of(row)}".rstrip()


def _factor(row: pd.Series, name: str) -> str:
    if pd.isna(row[name]):
        return ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.3g}" + ("" if pd.isna(low) else f" [{low:.3g}, {high:.3g}]")
