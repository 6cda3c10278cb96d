"""The cost of comparing a trace's files with their SHA-256: python -m docs.tools.check_cost
docs/performance.md

Makes a trace in a temporary folder, so that its files are in the system's cache and no time is
spent on the disk, and replays it by `aps:e4m3` on the ring on the command line, alternately with
the check and with --no-check. Writes the medians between the markers of the page.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from apscope.record import TraceWriter
from tests.python.argv import argv

from . import page
from .replay_cost import run

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
    parser = page.options(__doc__)
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
    middle = page.medians(taken)
    checked, not_checked = middle.values()
    more = [statistics.median(a[i] - b[i] for a, b in zip(*taken.values())) for i in range(2)]
    lines = [
        f"{page.machine()}; {size:.1f} MB of gradients, {STEPS} steps of {WORKERS} workers; "
        f"the median of {args.rounds} rounds. Load before them: {load:.1f} {page.QUIET}.",
        "",
        *page.table(
            ("replay by `aps:e4m3` on the ring", "seconds", "processor seconds"),
            [(name, f"{m[0]:.2f}", f"{m[1]:.2f}") for name, m in middle.items()],
        ),
        "",
        f"The check takes {more[0]:.2f} s and {more[1]:.2f} s of processor time more, the "
        f"median of the rounds' differences: {100 * (checked[1] / not_checked[1] - 1):.0f} "
        "% of the processor time without it.",
    ]
    page.write(args.page, {"check": lines})


if __name__ == "__main__":
    main()
