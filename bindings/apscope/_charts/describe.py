"""Charts as data: marks on two scales, in numbers and words, without their appearance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .._text import raised


@dataclass(frozen=True)
class Log:
    """A logarithmic scale."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Linear:
    """A scale with equal distances for equal differences."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Band:
    """Places 0, 1, ..., each with a name."""

    label: str
    names: Sequence[str]


@dataclass(frozen=True)
class Point:
    """One mark; `says` is its tooltip, `link` the id of the row of a table that has its numbers."""

    x: float
    y: float
    colour: str
    symbol: str = "circle"  # as Observable Plot calls it
    says: str = ""
    hollow: bool = False  # something overflowed, or was skipped
    faint: bool = False  # others are better in both
    link: str = ""
    label: str = ""
    beyond: str = ""  # "below" or "above" the frame: an arrow at its edge; `says` has the value


@dataclass(frozen=True)
class Line:
    """Points that are joined; `label` stands at its right end, or `inside`, to the left of it."""

    points: Sequence[tuple[float, float]]
    colour: str
    label: str = ""
    dashed: bool = False
    inside: bool = False


@dataclass(frozen=True)
class Rule:
    """A horizontal line and its meaning; if it is a limit, the area above is shaded."""

    y: float
    label: str
    limit: bool = False


@dataclass(frozen=True)
class Chart:
    """Marks on a horizontal and a vertical scale; `says` describes it, for screen readers."""

    title: str
    says: str
    x: Log | Linear | Band
    y: Log
    lines: Sequence[Line] = ()
    points: Sequence[Point] = ()
    rules: Sequence[Rule] = ()
    legend: Sequence[
        tuple[str, str, str]
    ] = ()  # a name, its colour and its symbol; the report shows them once for all charts


@dataclass(frozen=True)
class Bar:
    """A factor from 1: its name, what it says, and the colour of its kind."""

    name: str
    factor: float
    colour: str
    says: str = ""


@dataclass(frozen=True)
class Bars:
    """Bars in groups, each under a heading, on one logarithmic scale from 1.

    `kinds` are the names and colours of their kinds.
    """

    title: str
    says: str
    groups: Sequence[tuple[str, Sequence[Bar]]]
    kinds: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Row:
    """A row of a map: name, one number per column; in words its error, main reason and remedy."""

    name: str
    values: Sequence[float]
    error: float = math.nan
    part: str = ""
    remedy: str = ""
    reason: str = ""  # beside the row, for the worst rows
    says: str = ""

    @property
    def peak(self) -> tuple[float, int] | None:
        """The largest of the values and its place; None if there is none."""
        pairs = [
            (value, -place) for place, value in enumerate(self.values) if not math.isnan(value)
        ]
        return None if not pairs else (max(pairs)[0], -max(pairs)[1])


@dataclass(frozen=True)
class Cells:
    """A map: rows down, the worst first, steps across, one colour per band."""

    title: str  # the scheme that has these errors
    says: str
    rows: Sequence[Row]
    steps: Sequence[int]
    edges: Sequence[tuple[float, str]]  # between the bands
    unit: str
    order: Sequence[int] = field(default=())  # for each place in the model, the row here


def number(value: float, digits: int = 2) -> str:
    """A number for an axis or a tooltip: 0.0123, 12, 310, 1.2e+06."""
    short = f"{value:.{digits}g}"
    return f"{float(short):.0f}" if 100 <= abs(value) < 1e5 else short


def powers(low: float, high: float, most: int = 4) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis: powers of ten within it, at most `most`."""
    tens = list(range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1))
    every = -(-len(tens) // most)
    shown = [k for k in tens if (k - tens[-1]) % every == 0]
    plain = all(-3 <= k <= 2 for k in shown)
    return [(10.0**k, f"{10.0**k:g}" if plain or k == 0 else f"10{raised(k)}") for k in shown]
