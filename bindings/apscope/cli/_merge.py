"""``apscope merge RESULTS... -o RESULTS``: join shards, or replays of several schemes or traces."""

from __future__ import annotations

import argparse

from .._results.folders import writing_results
from .._results.merging import merge
from .._results.saving import csv_left_out
from .._text import count_of

EXAMPLE = """\
apscope replay notebooks/data/digits --scheme qsgd --steps 0:8 -o more
apscope merge results more -o both"""


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "merge",
        help="join shards of a replay, or replays of different schemes or traces",
        allow_abbrev=False,
    )
    parser.add_argument(
        "results", nargs="+", metavar="RESULTS", help="folders written by apscope replay"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="RESULTS", help="the folder to write"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace earlier results, or files of the same names, in the folder",
    )
    parser.add_argument(
        "--csv",
        action="store_true",
        default=None,
        help="write results.csv even if there are more than 200,000 rows",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    with writing_results(args.output, args.force) as writing:
        merged = merge(args.results)
        merged._write(writing, args.csv)
    print(
        f"{args.output}: {count_of(len(merged), 'row')} of {count_of(len(args.results), 'folder')}"
    )
    if left_out := csv_left_out(len(merged), args.csv):
        print(left_out)
    return 0
