"""The time of `apscope` from the shell around its work: python -m docs.tools.startup
docs/performance.md

Runs Python alone, what it imports, and small commands on the bundled trace `digits`, each in turn
in every round, and writes the medians of their wall time and processor time between the markers of
the page. `import numpy` is the floor: a machine busy with other work slows it as it slows the
others.
"""

import os
import sys
import tempfile
from pathlib import Path

from . import page
from .replay_cost import run

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
            *apscope, "replay", TRACE, "--scheme", "aps:e4m3", "-o", folder, "--force"
        ],
        "`apscope summary RESULTS`": [*apscope, "summary", folder],
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__)
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
        (name, f"{wall:.2f}", f"{min(run[0] for run in taken[name]):.2f}", f"{processor:.2f}")
        for name, (wall, processor, _) in page.medians(taken).items()
    ]
    head = (
        f"{page.machine()}; the median of {args.rounds} rounds. Load before them: {load:.1f} "
        f"{page.QUIET}."
    )
    heads = ("command", "seconds", "shortest", "processor seconds")
    page.write(args.page, {"startup": [head, "", *page.table(heads, rows)]})


if __name__ == "__main__":
    main()
