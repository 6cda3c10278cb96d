"""The limit in a picture of error over noise against volume: two lines and the best grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._rate_limit.bound import ENTROPY_CODED
from .._rate_limit.known import Known
from .describe import Line, Point, number

#: Of no family; visible on white and on dark.
_COLOUR, _GRID = "#c2417f", "#8a6f80"
LEGEND = (
    ("limit", _COLOUR, "line"),
    ("entropy-coded", _COLOUR, "dashes"),
    ("best grid of 2^R levels", _GRID, "times"),
)
#: What the lines bound, in a sentence.
SAYS = (
    "No code that treats all values alike has an error below the limit in two phases that send R "
    "bits a value each (32 times the volume); uniform grids whose codes are "
    "entropy-coded are 0.255 bits above it."
)
#: Places of a line between its ends.
_PLACES = 129


@dataclass(frozen=True)
class Reference:
    """What is drawn beside the points of schemes."""

    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """Its entries of a legend."""
        there = [line.dashed for line in self.lines]
        drawn = (False in there, True in there, bool(self.points))
        return [entry for entry, is_drawn in zip(LEGEND, drawn) if is_drawn]


def reference_of(known: Known, left: float, right: float, low: float, high: float) -> Reference:
    """The part that is inside these volumes and errors over the noise."""
    bits = 32 * np.geomspace(left, right, _PLACES)
    least = known.of_sum.at(bits)
    lines = []
    for errors, dashed in ((least, False), (least * 4.0**ENTROPY_CODED, True)):
        inside = _inside(bits / 32, errors, low, high)
        if len(inside) > 1:
            lines.append(
                Line(inside, _COLOUR, "" if dashed else "limit", dashed=dashed, inside=True)
            )
    points = [
        Point(r / 32, error, _GRID, "times",
              f"best grid of {2**round(r)} levels, two phases\nerror over noise {number(error, 3)}\n"
              f"volume {number(r / 32, 3)}")
        for r, error in known.grids
        if left <= r / 32 <= right and low <= error <= high
    ]  # fmt: skip
    return Reference(tuple(lines), tuple(points))


def _inside(x: np.ndarray, y: np.ndarray, low: float, high: float) -> list[tuple[float, float]]:
    """The points between `low` and `high`, with those where the falling line crosses the two."""
    known = y > 0
    x, y = x[known], y[known]
    if not len(x):
        return []
    logs = np.log(y)
    # ascending, as np.interp needs; a place outside of the line is its end
    ends = [
        float(np.exp(np.interp(np.log(edge), logs[::-1], np.log(x)[::-1]))) for edge in (high, low)
    ]
    between = [(float(a), float(b)) for a, b in zip(x, y) if low < b < high]
    first = [(ends[0], high)] if y[0] >= high > y[-1] else []
    last = [(ends[1], low)] if y[-1] <= low < y[0] else []
    return [*first, *between, *last]
