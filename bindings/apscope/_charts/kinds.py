"""Charts without numbers: the page fills them with the filtered rows, notebooks with selected ones.

Their axes, marks, bands and colours are defined only here. The page has them as JSON
(page/draw.js), `plots/_drawn.py` uses them directly.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .._results.families import FAMILIES
from .._results.volume import SIDE
from .colours import COLOURS, PAIR, REDUCTIONS, SYMBOLS, diverging
from .front import COSTS, FLOOR, MEASURES


@dataclass(frozen=True)
class Axis:
    """A numerical axis; steps and layers, which are names, need none."""

    label: str
    log: bool = False
    percent: bool = False  # numbers are shares, shown as percent


@dataclass(frozen=True)
class Bands:
    """A map's colours, one more than there are edges, for a light and for a dark background."""

    label: str
    edges: tuple[float, ...]
    ticks: tuple[str, ...]
    light: tuple[str, ...]
    dark: tuple[str, ...]
    percent: bool = False  # edges are shares; their ticks and the label say percent


@dataclass(frozen=True)
class Kind:
    """A chart without numbers: a map if it has `bands`; else marks, each with series and shape."""

    caption: str
    bands: Bands | None = None
    x: Axis = Axis("")
    y: Axis = Axis("")
    marks: tuple[
        tuple[str, str], ...
    ] = ()  # series, and "line", "step", "dashes", "dots", "band", "bar" or "symbols"


#: The kinds, by the names that the page and the plots use.
KINDS = {
    "underflow": Kind(
        "Nonzero values sent as 0, by layer and step; small values are, in narrow formats, so a "
        "high share is not a fault: their part of the squared error tells what they are worth",
        Bands(  # the first three bands are the range of training logs
            "nonzero values sent as 0, %",
            (0.005, 0.02, 0.04, 0.1, 0.25, 0.5),
            ("0.5", "2", "4", "10", "25", "50"),
            # One hue: a large share is not a fault by itself. What the lost values are worth is
            # their part of the squared error.
            ("#f2f4f7", "#dbe7f2", "#bad3e8", "#8fb4d6", "#5f8fbd", "#386a9c", "#1f4470"),
            ("#262b31", "#2a3d50", "#305572", "#3d7196", "#5590b8", "#7db3d6", "#b5daf0"),
            percent=True,
        ),
    ),
    "ratio": Kind(
        "NMSE of A over NMSE of B, one layer at one step. × a value "
        "overflowed; its NMSE counts as at least 1",
        Bands(
            "NMSE, A over B",
            (1 / 64, 1 / 16, 1 / 4, 1 / 1.25, 1.25, 4.0, 16.0, 64.0),
            ("1/64", "1/16", "1/4", "1/1.25", "1.25", "4", "16", "64"),
            diverging("#00605c", "#f1f1f1", "#93205f"),
            diverging("#2cc4bd", "#3a3d42", "#f06bb0"),
        ),
    ),
    "bias": Kind(
        "Relative bias after the reduction, sum of sign(x)(y − x) over sum of |x|; the band is ± 2 "
        "standard errors; a skipped step is a gap",
        Bands(
            "relative bias, %",
            (-0.25, -0.05, -0.01, -0.002, 0.002, 0.01, 0.05, 0.25),
            ("-25", "-5", "-1", "-0.2", "0.2", "1", "5", "25"),
            diverging("#543005", "#f5f5f5", "#003c30"),
            diverging("#d8a860", "#3a3d42", "#5fd3c0"),
            percent=True,
        ),
        y=Axis("relative bias, %", percent=True),
        marks=(("bias", "band"), ("bias", "line")),
    ),
    "exponents": Kind(
        "Exponents of the gradient, and the range of each format with its scale",
        x=Axis("exponent of the value, log2 |g|"),
        y=Axis("share of values, % per binade", percent=True),
        marks=(("share", "bar"),),
    ),
    "scale": Kind(
        "Scale exponent s of Q(2ˢ g)", y=Axis("scale exponent s"), marks=(("scale", "step"),)
    ),
    "origin": Kind(
        "Where the error is made: sent (dots), summed exactly (dashes), summed in the format "
        "(line)",
        y=Axis("NMSE", log=True),
        marks=(("sent", "dots"), ("exact", "dashes"), ("summed", "line")),
    ),
    "order": Kind(
        "Bar: the sent values summed exactly, the error of encoding alone. Mark: the error that "
        "the rounded additions of an order add (accumulation); hollow if they reduce it; an arrow "
        "at the left if it is smaller than the axis. × overflow",
        x=Axis("NMSE: bar = encoding, marker = accumulation", log=True),
        marks=(("exact", "bar"), ("added", "symbols")),
    ),
}


def as_json() -> dict[str, Any]:
    """The definitions for JSON: kinds, `front_chart`, colours and symbols of the series."""
    return {
        "kinds": {name: asdict(kind) for name, kind in KINDS.items()},
        "front": {"floor": FLOOR, "same": SIDE, "measures": MEASURES, "costs": COSTS},
        "families": {name: look._asdict() for name, look in FAMILIES.items()},
        "reductions": REDUCTIONS,
        "pair": PAIR,
        "colours": COLOURS,
        "symbols": SYMBOLS,
    }
