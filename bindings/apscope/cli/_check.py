"""``apscope check FOLDER``: finds errors in a trace, results, an experiment or conformance pack."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .._folders.results import check_readable, what_is
from .._folders.writing import left_behind
from .._text import count_of, printable
from ._arguments import adder

EXAMPLE = "apscope check results"
HELP = "whether a trace, results or an experiment are complete and undamaged"
DESCRIPTION = (
    "Checks every digest, count and row. Prints every problem, and exits with 1 if there is one."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "folder FOLDER",
        "a trace, results of replay or merge, the folder of apscope train, or a conformance pack",
    )


def run(args: argparse.Namespace) -> int:
    folder = check_readable(args.folder)
    problems, strays, what = _look(folder)
    for line in problems:
        print(printable(line, 1000))
    for line in strays:
        print(f"does not belong to it: {printable(line)}")
    place = Path(os.path.abspath(folder))
    for path in (*left_behind(place.parent, place.name), *left_behind(place, place.name)):
        print(
            f"left by an interrupted run: {printable(str(path))}; the next write to "
            f"{printable(folder.name)} removes it"
        )
    print(
        f"{printable(str(folder))}: {what}, "
        f"{count_of(len(problems), 'problem') if problems else 'whole'}"
    )
    return 1 if problems else 0


def _look(folder: Path) -> tuple[list[str], list[str], str]:
    """Problems, files that do not belong to it, and its kind."""
    if (folder / "manifest.json").is_file():
        from ..conformance import is_pack, pack_problems

        if is_pack(folder):
            return list(pack_problems(folder)), [], "a conformance pack"
        from .._traces.problems import problems as of_trace
        from .._traces.problems import strays

        found = list(of_trace(folder))
        return found, [] if found else strays(folder), "a trace"
    if (folder / "experiment.json").is_file():
        from .._training.folder import problems as of_experiment

        return list(of_experiment(folder)), [], "an experiment"
    if (folder / "provenance.json").is_file() or (folder / "results.parquet").is_file():
        from .._results.problems import problems as of_results

        return list(of_results(folder)), [], "results"
    raise ValueError(
        f"{folder} is neither a trace nor a RESULTS folder: "
        f"{what_is(folder, 'manifest.json and no provenance.json')}"
    )
