"""The cost of comparing a trace's files with their SHA-256: python -m tests.benchmarks.check_cost
docs/performance.md

Makes a trace in a temporary folder, so that its files are in the system's cache and no time is
spent on the disk, and replays it by `aps:e4m3` on the ring on the command line, alternately with
the check and with --no-check. Writes the medians between the markers of the page.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from apscope.record import TraceWriter
from docs import page
from tests.benchmarks.replay_cost import run
from tests.python.argv import argv

BEGIN, END = "<!-- check: written by tests/benchmarks/check_cost.py -->", "<!-- end of check -->"
STEPS, WORKERS = 5, 8


def write_trace(folder: Path, elements: int, steps: int = STEPS) -> float:
    """A trace of one tensor; its gradients' megabytes."""
    random = np.random.default_rng(1)
    with TraceWriter(folder, workers=WORKERS) as writer:
        for step in range(steps):
            for worker in range(WORKERS):
                writer.add(
                    step,
                    worker,
                    "g",
                    random.standard_normal(elements, dtype=np.float32) * np.float32(1e-3),
                )
            writer.end_step(step)
    return 4 * steps * WORKERS * elements / 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="docs/performance.md")
    parser.add_argument(
        "--rounds",
        type=int,
        default=9,
        help="of both commands in alternation; medians count",
    )
    parser.add_argument("--elements", type=int, default=1_000_000, help="of a gradient")
    args = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    taken: dict[str, list[tuple[float, float, int]]] = {"with the check": [], "`--no-check`": []}
    with tempfile.TemporaryDirectory() as place:
        trace = Path(place) / "trace"
        size = write_trace(trace, args.elements)
        words = argv(
            "{} -m apscope replay {} --scheme aps:e4m3 --topology ring --force -o {}",
            sys.executable,
            trace,
            Path(place) / "results",
        )
        for _ in range(args.rounds):
            for name, runs in taken.items():
                runs.append(run(words if name == "with the check" else [*words, "--no-check"]))
    middle = {
        name: [statistics.median(r[i] for r in runs) for i in range(2)]
        for name, runs in taken.items()
    }
    checked, not_checked = middle.values()
    more = [statistics.median(a[i] - b[i] for a, b in zip(*taken.values())) for i in range(2)]
    page.replace_between(
        args.page,
        BEGIN,
        END,
        [
            f"{page.machine()}; {size:.1f} MB of gradients, {STEPS} steps of {WORKERS} workers; "
            f"the median of {args.rounds} rounds. Load before them: {load:.1f} (0 is a quiet "
            "machine).",
            "",
            "| replay by `aps:e4m3` on the ring | seconds | processor seconds |",
            "|---|---|---|",
            *(
                f"| {name} | {wall:.2f} | {processor:.2f} |"
                for name, (wall, processor) in middle.items()
            ),
            "",
            f"The check takes {more[0]:.2f} s and {more[1]:.2f} s of processor time more, the "
            f"median of the rounds' differences: {100 * (checked[1] / not_checked[1] - 1):.0f} "
            "% of the processor time without it.",
        ],
    )


if __name__ == "__main__":
    main()
