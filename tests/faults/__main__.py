"""``python -m tests.faults``: a fault at every writing call of every command, then several writers.

Prints every failure and, last, the counts; exits with 1 after any failure. A failure "MODE at call
N" is repeated in a shell by ``cc -shared -fPIC -o faults.so tests/faults/faults.c`` and, in a
folder of its own, ``LD_PRELOAD=.../faults.so APSCOPE_FAULTS_UNDER=$PWD APSCOPE_FAULTS_MODE=MODE
APSCOPE_FAULTS_AT=N apscope ...``.
"""

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from pathlib import Path

from .commands import COMMANDS, Command, make_inputs, warm_up
from .library import Server, compiled, scratch
from .races import MOST, RACES, Outcome, Race
from .races import make_inputs as make_sources
from .races import run as run_race
from .trials import Bench, Tally, all_trials, thinned


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="WORD", default="", help="commands whose name holds it")
    parser.add_argument(
        "--writes",
        type=int,
        default=1,
        metavar="N",
        help="one in N of the trials at writes of data; default: all",
    )
    parser.add_argument(
        "--others",
        type=int,
        default=1,
        metavar="N",
        help="one in N of the other trials; default: all",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=100,
        metavar="N",
        help="of several writers at once; default: %(default)s",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="trials at a time; default: %(default)s",
    )
    args = parser.parse_args(words)
    chosen = [command for command in COMMANDS.values() if args.only in command.name]
    races = [race for race in RACES.values() if args.rounds and args.only in race.name]
    if not chosen and not races:
        parser.error(f"--only '{args.only}' leaves no command; they are {', '.join(COMMANDS)}")
    folder = scratch()
    try:
        tallies, outcomes = run(args, chosen, races, folder)
    finally:
        shutil.rmtree(folder)
    rows = [Tally.HEAD, *(tally.row() for tally in tallies)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(row, widths))
            )
        )
    for outcome in outcomes:
        print(outcome)
    return 1 if any(each.failures for each in (*tallies, *outcomes)) else 0


def run(
    args: argparse.Namespace, chosen: list[Command], races: list[Race], folder: Path
) -> tuple[list[Tally], list[Outcome]]:
    library, begun = compiled(folder), time.monotonic()
    servers = [Server(library) for _ in range(args.jobs)]
    inputs = make_inputs(servers[0], folder / "inputs")
    tallies = []
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda i: warm_up(servers[i], inputs, folder / f"at{i}"), range(args.jobs)))

        def share(command: Command, number: int) -> Tally:
            bench = Bench(servers[number], command, inputs, folder / f"at{number}")
            return bench.all(
                thinned(all_trials(bench.calls), args.writes, args.others)[number :: args.jobs]
            )

        for command in chosen:
            tally = reduce(add, pool.map(share, [command] * args.jobs, range(args.jobs)))
            for failure in tally.failures:
                print(f"  {failure}")
            print(
                f"{command.name}: {tally.trials} trials, {len(tally.failures)} failures, "
                f"{time.monotonic() - begun:.0f} s",
                flush=True,
            )
            tallies.append(tally)
    if races:
        make_sources(servers[0], inputs)
    outcomes = [
        run_race(servers[0], race, inputs, folder / "at0", writers, args.rounds)
        for race in races
        for writers in (2, MOST)
    ]
    for server in servers:
        server.close()
    return tallies, outcomes


if __name__ == "__main__":
    sys.exit(main())
