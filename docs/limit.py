"""Writes the table of docs/limit.md: python docs/limit.py docs/limit.md"""

import argparse
import math
from pathlib import Path

import page
import pandas as pd

import apscope

TRACES = ("characters", "digits", "digits_w64")  # of samples it is unknown
#: Those of `main` in which each value is sent once to the sum and once back.
REDUCTIONS = ("two_phase", "ring")
#: The traces, whatever the folder in which the command runs.
DATA = Path(__file__).parents[1] / "notebooks/data"


def rows() -> pd.DataFrame:
    """Bits above the limit of every scheme of main: a column per trace and reduction."""
    found = []
    for trace in TRACES:
        table = apscope.replay(DATA / trace, topology=REDUCTIONS[::-1], limit=True).summary()
        found.append(table[table["topology"].isin(REDUCTIONS)])
    return pd.concat(found).pivot(
        index="scheme", columns=["trace", "topology"], values="bits_above_limit"
    )


def table(found: pd.DataFrame) -> list[str]:
    """The lines of the table: those with a number, the least on the first trace first."""
    found = found[found.notna().any(axis=1)]
    order = found[(TRACES[0], REDUCTIONS[0])].sort_values(kind="stable").index
    cells = [
        [f"`{spec}`"]
        + [" / ".join(_bits(found.at[spec, (trace, r)]) for r in REDUCTIONS) for trace in TRACES]
        for spec in order
    ]
    heads = ["scheme", *TRACES]
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *cells)]


def _bits(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    page.replace_between(
        parser.parse_args().page,
        "<!-- above: written by make tables -->",
        "<!-- end of above -->",
        table(rows()),
    )
