"""Compare the kernels of two trees: python -m docs.tools.two_trees BEFORE AFTER [TEXT].

Each tree is a copy of the sources with its modules in ``bindings/apscope``. Processes of
``apscope bench`` take turns, the order reversed from pair to pair, and count the processor time of
one thread. Printed are, for every kernel, the median, least and largest ratio AFTER / BEFORE over
the pairs, the slowest first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .page import ROOT

#: The clock that the bench reads, taken from the processor; Linux alone.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* now) {
    static int (*next)(clockid_t, struct timespec*);
    if (!next) next = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
    return next(clock == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : clock, now);
}
"""


def clock(folder: Path) -> Path:
    """The library to be loaded before others."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def times(tree: Path, library: Path, words: list[str]) -> dict[tuple[str, str], float]:
    """Nanoseconds of the processor for an element, of every kernel and memory."""
    env = os.environ | {"APSCOPE_TREE": str(tree), "LD_PRELOAD": str(library)}
    env["PYTHONPATH"] = str(ROOT / "tests" / "extending" / "site")
    command = [sys.executable, "-B", "-m", "apscope", "bench", "--json", "--no-peers", *words]
    printed = subprocess.run(
        [*command, "--threads", "1"], env=env, check=True, capture_output=True, text=True
    ).stdout
    return {(row["name"], row["where"]): row["ns"] for row in json.loads(printed)["rows"]}


def ratios(
    pairs: list[tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]],
) -> list[tuple[float, float, float, str, str]]:
    """Median, least, largest, kernel, memory; of the kernels that both trees have."""
    found = []
    for name, where in pairs[0][0].keys() & pairs[0][1].keys():
        each = [after[name, where] / before[name, where] for before, after in pairs]
        found.append((statistics.median(each), min(each), max(each), name, where))
    return sorted(found, reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs.tools.two_trees", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("text", nargs="?", default="", help="kernels whose name has it")
    parser.add_argument("--pairs", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="of a process; default: %(default)s")
    parser.add_argument("--elements", type=int, default=2**21, help="default: %(default)s")
    args = parser.parse_args()
    words = ["--rounds", str(args.rounds), "--elements", str(args.elements)]
    words += [args.text] if args.text else []
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        library = clock(Path(folder))
        for turn in range(args.pairs):
            trees = [args.before.resolve(), args.after.resolve()]
            found = [times(tree, library, words) for tree in (trees[::-1] if turn % 2 else trees)]
            before, after = found[::-1] if turn % 2 else found
            pairs.append((before, after))
    for median, least, most, name, where in ratios(pairs):
        print(f"{median:6.3f}  {least:5.2f} to {most:5.2f}  {name}, {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
