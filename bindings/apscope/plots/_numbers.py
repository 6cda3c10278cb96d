"""Tick labels as plain text: powers of ten in Unicode's superscripts.

Matplotlib's own labels go through its parser of formulas, for every label and figure, which is
slow.
"""

from __future__ import annotations

import re

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogFormatterSciNotation, ScalarFormatter

from .._text import raised


class Numbers(ScalarFormatter):
    """0.5, 1.0, ... with a common factor such as ×10⁻³ at the axis' end."""

    def __init__(self) -> None:
        super().__init__(useMathText=False)

    def get_offset(self) -> str:
        return re.sub(
            r"1e([-\N{MINUS SIGN}]?\d+)", lambda m: f"×10{raised(m[1])}", super().get_offset()
        )


class Powers(LogFormatterSciNotation):
    """10⁻³, 2×10⁻³, 5×10⁻³; empty if matplotlib leaves a label out."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        text = super().__call__(x, pos)
        power = re.fullmatch(
            r"\$\\mathdefault\{(?:([^\\]*)\\times)?10\^\{([-\N{MINUS SIGN}]?\d+)\}\}\$", text
        )
        if power is None:
            return re.sub(r"\$\\mathdefault\{(.*)\}\$", r"\1", text)
        if power[1] and power[1] not in ("2", "5"):
            return ""  # labels at 3 and 4 would touch
        return f"{power[1]}×10{raised(power[2])}" if power[1] else f"10{raised(power[2])}"


def plain_numbers(ax: Axes) -> None:
    """Gives both linear axes plain labels."""
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(Numbers())


def logarithmic(axis: Axis) -> None:
    """A logarithmic axis with plain labels."""
    # missing in matplotlib's stubs
    {"x": axis.axes.set_xscale, "y": axis.axes.set_yscale}[axis.axis_name]("log")  # type: ignore[attr-defined]
    axis.set_major_formatter(Powers())
    axis.set_minor_formatter(Powers())
