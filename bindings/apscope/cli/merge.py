"""``apscope merge RESULTS... -o RESULTS``: join shards, or replays of different traces."""

from __future__ import annotations

import argparse

from ..results import merge
from .replay import check_output_folder


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser("merge", help="join shards of a replay, or replays of different traces", allow_abbrev=False)
    parser.add_argument("results", nargs="+", metavar="RESULTS", help="folders that apscope replay wrote")
    parser.add_argument("-o", "--output", required=True, metavar="RESULTS", help="the folder to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    check_output_folder(args.output)
    merged = merge(args.results)
    merged.save(args.output)
    print(f"{args.output}: {len(merged.frame)} rows of {len(args.results)} results")
    return 0
