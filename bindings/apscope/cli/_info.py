"""apscope info: describes a trace."""

from __future__ import annotations

import argparse

from .._text import count_of
from .._traces.opening import open_trace
from .._traces.trace import Trace
from .._traces.trace_info import check, describe
from ._arguments import adder
from ._table import on_terminal

EXAMPLE = "apscope info notebooks/data/digits"
HELP = "model, steps, workers, tensors, sizes and other records of a trace"
DESCRIPTION = (
    "Prints the contents of a trace, and a summary of the gradients of its first, middle "
    "and last step."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("trace TRACE", "the trace's folder, or a URL that fsspec reads")
    add("--all", "every tensor, not the 20 largest; with --beside every number, not the first 20")
    add("--no-values", "only the manifest; read no gradient")
    add(
        "--beside LOG",
        "the statistics that TransformerEngine logged, a file or folder, beside the trace's "
        "own; print nothing else",
    )
    add("--check", "compare every file with its SHA-256 and shapes")


def run(args: argparse.Namespace) -> int:
    trace = open_trace(args.trace)
    if args.beside is not None:
        return beside(trace, args.beside, 0 if args.all else 20)
    print(describe(trace))
    if not args.no_values:
        from .._replay.values import describe_values

        print("\n" + describe_values(trace, 0 if args.all else 20))
    if args.check:
        found = check(trace, progress=on_terminal())
        agree = "agrees" if found == 1 else "agree"
        print(f"\n{count_of(found, 'file')} {agree} with the manifest")
    return 0


def beside(trace: Trace, log: str, most: int) -> int:
    from .._dumps.te_statistics import beside_te_statistics
    from ._table import print_table

    table = beside_te_statistics(trace, log)
    table = table[table["trace_tensor"] != ""]
    shown = table.head(most or len(table))
    words = ("tensor", "statistic")
    heads = ["step", "rank", *words, "TransformerEngine", "trace", "all ranks"]
    columns = ["step", "rank", "trace_tensor", "statistic", "value", "own", "all_ranks"]
    print_table(
        heads,
        [
            [str(s), str(r), tensor, statistic, *("-" if x != x else f"{x:.7g}" for x in numbers)]
            for s, r, tensor, statistic, *numbers in shown[columns].itertuples(index=False)
        ],
        words,
    )
    if len(shown) < len(table):
        print(f"... and {len(table) - len(shown)} more; --all shows them")
    return 0
