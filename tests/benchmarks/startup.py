"""The time of `apscope` from the shell around its work: python -m tests.benchmarks.startup
docs/performance.md

Runs Python alone, what it imports, and small commands on the bundled trace `digits`, each in turn
in every round, and writes the medians of their wall time and processor time between the markers of
the page. `import numpy` is the floor: a machine busy with other work slows it as it slows the
others.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from docs import page
from tests.benchmarks.replay_cost import run

BEGIN, END = "<!-- startup: written by tests/benchmarks/startup.py -->", "<!-- end of startup -->"
TRACE = "notebooks/data/digits"


def jobs(folder: str) -> dict[str, list[str]]:
    """The timed commands, by the words of their rows."""
    apscope = [sys.executable, "-m", "apscope"]
    return {
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`import numpy`": [sys.executable, "-c", "import numpy"],
        "`import apscope`": [sys.executable, "-c", "import apscope"],
        "`import pandas`": [sys.executable, "-c", "import pandas"],
        "`apscope schemes aps`": [*apscope, "schemes", "aps"],
        f"`apscope replay {TRACE} --scheme aps:e4m3 -o RESULTS`": [
            *apscope,
            "replay",
            TRACE,
            "--scheme",
            "aps:e4m3",
            "-o",
            folder,
            "--force",
        ],
        "`apscope summary RESULTS`": [*apscope, "summary", folder],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="docs/performance.md")
    parser.add_argument(
        "--rounds",
        type=int,
        default=15,
        help="of all commands in alternation; medians count",
    )
    args = parser.parse_args(arguments)
    taken: dict[str, list[tuple[float, float, int]]] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        for _ in range(args.rounds):
            for name, words in jobs(str(Path(place) / "results")).items():
                taken.setdefault(name, []).append(run(words))
    rows = [
        (name, [statistics.median(r[i] for r in runs) for i in range(2)], min(r[0] for r in runs))
        for name, runs in taken.items()
    ]
    page.replace_between(
        args.page,
        BEGIN,
        END,
        [
            f"{page.machine()}; the median of {args.rounds} rounds. Load before them: "
            f"{load:.1f} (0 is a quiet machine).",
            "",
            "| command | seconds | shortest | processor seconds |",
            "|---|---|---|---|",
            *(
                f"| {name} | {wall:.2f} | {shortest:.2f} | {processor:.2f} |"
                for name, (wall, processor), shortest in rows
            ),
        ],
    )


if __name__ == "__main__":
    main()
