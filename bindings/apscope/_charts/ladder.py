"""The ladder of scales: the gain of a reduction, a format and finer scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._replay.ladder import RUNGS, better_reduction
from .._results.ranking import RANKS
from .colours import FORMATS
from .describe import Band, Chart, Line, Log, Point, number, powers
from .front import MEASURES

#: The choice of scale hardly matters if the coarsest has at most this many times the error of the
#: finest.
NO_MATTER = 1.5

#: Rungs that form a line from coarse to fine, and their names on the axis; the others are not on
#: it.
_NAMES = {
    "largest constant": "all steps",
    "step": "a step",
    "layer": "a layer",
    "1024": "1,024",
    "32": "32",
}


def ladder_chart(table: pd.DataFrame) -> Chart:
    """The table of `apscope.ladder` of one trace as a chart.

    Parameters
    ----------
    table : DataFrame
        Rungs that are not on the line from coarse to fine are left out.

    Returns
    -------
    Chart
        One point per measured rung; with overflow it is an arrow at the upper edge. Diamonds: the
        best constant, which may clip; the line begins with the largest that never saturates. A
        line's name says how many times smaller the error of the finest
        scale is than that of the coarsest, if that is more than `NO_MATTER`; the axis says so. With
        several reductions, lines of the one that has the least error are solid, others dashed and
        named.
    """
    column, unit = RANKS, MEASURES[RANKS]
    # A step with overflow counts as lost in the figure; a point that never wins is not on the line.
    table = table.assign(**{column: table[column].where(table["overflowed"] == 0, np.inf)})
    rungs = [r.name for r in RUNGS if r.name in _NAMES and (table["rung"] == r.name).any()]
    places = {name: i for i, name in enumerate(rungs)}
    clipping = table[(table["rung"] == "best constant") & (table[column] > 0)]
    table = table[table["rung"].isin(rungs) & table[column].notna()]
    values = np.append(table[column].to_numpy(float), clipping[column].to_numpy(float))
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (finite.min() / 1.6, finite.max() * 1.6) if len(finite) else (0.1, 1.0)
    best = better_reduction(table) if len(table) else ""
    lines, points = [], []
    looks = {
        name: FORMATS[i % len(FORMATS)] for i, name in enumerate(dict.fromkeys(table["format"]))
    }
    for (reduction, name), part in table.groupby(["topology", "format"], sort=False):
        look, called = looks[name], str(name) if reduction == best else f"{name}, {reduction}"
        measured = [(places[r.rung], float(getattr(r, column)), r) for r in part.itertuples()]
        drawn = [(float(x), y) for x, y, _ in measured if np.isfinite(y) and y > 0]
        gain = drawn[0][1] / drawn[-1][1] if drawn else 1.0
        lines.append(
            Line(
                drawn,
                look,
                f"{called} ÷{number(gain)}" if gain > NO_MATTER else called,
                dashed=reduction != best,
            )
        )
        constants = clipping[(clipping["format"] == name) & (clipping["topology"] == reduction)]
        marks = [(float(x), r, "circle", "") for x, y, r in measured if y > 0]
        marks += [
            (0.0, r, "diamond", "best constant" if r.Index == clipping.index[0] else "")
            for r in constants.itertuples()
        ]
        for x, r, symbol, label in marks:
            y = float(getattr(r, column))
            over = not np.isfinite(y)
            points.append(
                Point(
                    x, min(y, high), look, symbol, _says(r, y, unit), hollow=over,
                    faint=reduction != best, label=label, beyond="above" if over else "",
                )
            )  # fmt: skip
    summary = "; ".join(
        f"{line.label} {number(line.points[0][1])} to {number(line.points[-1][1])}"
        for line in lines
        if line.points
    )
    return Chart(
        title="Finer scales", says=f"{unit} by reduction and format, from one scale for all "
                                   f"steps to finer ones: {summary}. Diamonds: the best constant.",
        x=Band("one scale for ...\n÷N: N times less error at the right than at the left", [_NAMES[r] for r in rungs]),
        y=Log(unit, low, high, powers(low, high)),
        lines=lines, points=points,
    )  # fmt: skip


def _says(row: Any, value: float, unit: str) -> str:
    spread = ""
    if row.factor == row.factor and row.factor_low == row.factor_low:
        spread = (
            f"\n÷ {row.factor:.2g} [{row.factor_low:.2g}, {row.factor_high:.2g}] of the "
            "coarser scale"
        )
    if row.reduction_factor == row.reduction_factor:
        spread += f"\n÷ {row.reduction_factor:.2g} of {row.other_reduction}"
    reduction = f", {row.topology}" if row.topology else ""
    return f"{row.scheme}{reduction}\n{unit} {number(value, 3) if np.isfinite(value) else 'overflow'}{spread}"
