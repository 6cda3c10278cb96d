"""What a search of 8 bits finds and takes: the table of docs/search.md.

Every bundled trace, for the typical error over the noise and for the NMSE of a step: the search as
it is compared with one that replays every split on all steps, alternately, on one thread, in
seconds of processor time, which others on the machine do not add to; the median of three rounds.
Both are held to the same ranks and figures.
"""

import statistics
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pandas as pd

import apscope

from . import page
from .page import DATA, TRACES

FIGURES = ("error_over_noise", "step_nmse")
ROUNDS = 3
HEADS = (
    "trace", "figure", "rows", "stopped", "replayed", "seconds", "without stopping",
    "best", "reduction", "its `error_over_noise`, `step_nmse`", "nearest named",
    "best in a ring", "its `error_over_noise`, `step_nmse`",
)  # fmt: skip


class Found(NamedTuple):
    """One search, and the seconds of processor time that it took with stopping and without."""

    trace: str
    figure: str
    table: pd.DataFrame
    seconds: float
    whole: float


def timed(trace: apscope.Trace, figure: str, stop: bool) -> tuple[pd.DataFrame, float]:
    start = time.process_time()
    found = apscope.search(trace, 8, minimize=figure, stop=stop, threads=1)
    return found, time.process_time() - start


def searches(name: str, rounds: int = ROUNDS) -> Iterator[Found]:
    """All of a trace."""
    trace = apscope.open_trace(DATA / name)
    for figure in FIGURES:
        pairs = [(timed(trace, figure, True), timed(trace, figure, False)) for _ in range(rounds)]
        (table, _), (whole, _) = pairs[0]
        kept = table[~table["stopped"]].drop(columns="bound").reset_index(drop=True)
        places = [pd.MultiIndex.from_frame(of[["scheme", "topology"]]) for of in (whole, kept)]
        same = whole[places[0].isin(places[1])].drop(columns="bound").reset_index(drop=True)
        pd.testing.assert_frame_equal(kept, same, check_exact=True)
        yield Found(
            name,
            figure,
            table,
            *(statistics.median(pair[i][1] for pair in pairs) for i in range(2)),
        )


def lines(found: Iterable[Found]) -> list[str]:
    """The table."""
    cells = [(facts(one.trace, one.figure, one.table), one) for one in found]
    return page.table(
        HEADS,
        [(*of[:5], f"{one.seconds:.1f}", f"{one.whole:.1f}", *of[5:]) for of, one in cells],
    )


def facts(trace: str, figure: str, table: pd.DataFrame) -> tuple[str, ...]:
    """The cells that are the same on every machine."""
    best, ring = table.iloc[0], table[table["topology"] == "ring"].iloc[0]
    work = table["steps"].sum() / (len(table) * table["steps"].max())
    return (
        f"`{trace}`", f"`{figure}`", str(len(table)), str(table["stopped"].sum()),
        f"{100 * work:.0f} %",
        f"`{best['scheme']}`", f"`{best['topology']}`", errors(best), f"`{best['nearest_named']}`",
        f"`{ring['scheme']}`", errors(ring),
    )  # fmt: skip


def errors(row: pd.Series) -> str:
    """Both figures of a row."""
    return f"{row['error_over_noise']:.2g}, {row['step_nmse']:.2g}"


def searched() -> list[str]:
    head = f"{page.machine()}, processor time of one thread, the median of {ROUNDS} rounds."
    return [head, "", *lines(one for name in TRACES for one in searches(name))]


SECTIONS = {"searches": searched}
