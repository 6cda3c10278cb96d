"""The table of docs/limit.md."""

import math

import pandas as pd

import apscope

from . import page
from .page import DATA

TRACES = ("characters", "digits", "digits_w64")  # of samples it is unknown
#: Those of `main` in which each value is sent once to the sum and once back.
REDUCTIONS = ("two_phase", "ring")


def rows() -> pd.DataFrame:
    """Bits above the limit of every scheme of main: a column per trace and reduction."""
    found = []
    for trace in TRACES:
        bits = apscope.replay(DATA / trace, topology=REDUCTIONS[::-1], limit=True).summary()
        found.append(bits[bits["topology"].isin(REDUCTIONS)])
    return pd.concat(found).pivot(
        index="scheme", columns=["trace", "topology"], values="bits_above_limit"
    )


def above() -> list[str]:
    """Those with a number, the least on the first trace first."""
    found = rows()
    found = found[found.notna().any(axis=1)]
    order = found[(TRACES[0], REDUCTIONS[0])].sort_values(kind="stable").index
    cells = [
        [f"`{spec}`"]
        + [" / ".join(_bits(found.at[spec, (trace, r)]) for r in REDUCTIONS) for trace in TRACES]
        for spec in order
    ]
    return page.table(["scheme", *TRACES], cells)


def _bits(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.1f}"


SECTIONS = {"above": above}
