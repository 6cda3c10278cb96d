"""Families of schemes, and their colours and shapes in plots and in the report's page."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """How a family is drawn: an sRGB colour, visible on white and dark backgrounds, and a shape."""

    colour: str
    symbol: str  # in Observable Plot


#: Every value of `Scheme.family`.
FAMILIES = {
    "baseline": Look("#8a8f98", "square"),
    "unscaled": Look("#b07aa1", "times"),
    "loss scaling": Look("#e8871e", "triangle"),
    "APS": Look("#3b82d6", "circle"),
    "stochastic": Look("#2f9e6e", "diamond"),
    "recipe": Look("#c9a227", "star"),
    "one bit": Look("#d1495b", "plus"),
    "transform": Look("#6c8ebf", "cross"),
    "mixed": Look("#8d6e63", "wye"),
    "other": Look("#777777", "asterisk"),
}
