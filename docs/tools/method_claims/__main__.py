"""Trains every method of docs/methods.md on the tasks that ship, and prints its tables.

    python -m docs.tools.method_claims [--only NAME ...] [--page docs/methods.md]

Five seeds, one thread; about twenty minutes of one processor. `--page` writes each table between its
markers.
"""

import argparse
import importlib
import time
from pathlib import Path

from .. import page

METHODS = (
    "adaptive_loss_scaling", "unit_scaling", "halp", "double_sampling", "multipoint", "fractrain",
    "fractrain_gates",
)  # fmt: skip


def main() -> None:
    """One method after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--page", type=Path, help="whose tables are replaced")
    asked = parser.parse_args()
    for name in asked.only:
        began = time.process_time()
        found = importlib.import_module(f"{__package__}.{name}").lines()
        found += ["", f"Processor time: {time.process_time() - began:.0f} s."]
        print("\n".join([f"## {name}", "", *found, ""]), flush=True)
        if asked.page:
            page.write(asked.page, {name: found})


if __name__ == "__main__":
    main()
