"""``apscope merge RESULTS... -o RESULTS``: join shards, or replays of several schemes or traces."""

from __future__ import annotations

import argparse

from .._folders.results import writing_results
from .._results.merging import merge
from .._results.results import Results
from .._results.saving import csv_left_out
from .._text import count_of
from ._arguments import add_written_results, adder
from ._table import say

EXAMPLE = """\
apscope replay notebooks/data/digits --scheme qsgd --steps 0:8 -o more
apscope merge results more -o both"""
HELP = "join shards of a replay, or replays of different schemes or traces"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("results RESULTS", "folders written by apscope replay", nargs="+")
    add_written_results(add)


def run(args: argparse.Namespace) -> int:
    parts = [Results.open(folder) for folder in args.results]
    with writing_results(args.output, args.force) as writing:
        merged = merge([*parts])
        merged._write(writing, args.csv)
    say(f"{args.output}: {count_of(len(merged), 'row')} of {count_of(len(args.results), 'folder')}")
    if left_out := csv_left_out(len(merged), args.csv):
        say(left_out)
    return 0
