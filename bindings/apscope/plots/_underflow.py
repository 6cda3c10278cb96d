"""Underflow by layer and step, as a map."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from .._charts.kinds import KINDS
from .._results.comparison import scheme_in
from ._asked import rows_of
from ._drawn import draw_map
from ._maps import box, grid_of, largest, title
from ._style import styled


@styled
def underflow_heat_map(
    results: Any,
    scheme: Any,
    *,
    trace: str | None = None,
    stage: str = "wire",
    worst: int = 5,
    ax: Axes | None = None,
) -> Axes:
    """Share of nonzero values that a scheme turns into 0: layers down, steps across.

    Parameters
    ----------
    results : Results or its frame
    scheme : Scheme or str
        Its spec, in any spelling.
    trace : str, optional
        Needed where the results hold several.
    stage : {"wire", "exact"}
        What each worker sends, or the workers' sum without rounded additions.
    worst : int
        The largest rates of so many layers, one cell each, are framed.
    ax : Axes, optional
        Drawn into, where given.

    Returns
    -------
    Axes
        One cell a layer and step, in the bands that the report has too. Hatched: step skipped, or
        no nonzero value.

    Raises
    ------
    TypeError, ValueError
        What is not there, in a sentence.
    """
    frame = rows_of(results, trace)
    spec = scheme_in(frame, scheme)
    if stage not in ("wire", "exact"):
        raise ValueError(f"stage={stage!r} is neither 'wire' nor 'exact'")
    rows = frame[
        (frame["scheme"] == spec)
        & (frame["stage"] == "wire" if stage == "wire" else frame["topology"] == "exact")
    ]
    if not len(rows):
        raise ValueError(f"the results hold no rows of '{spec}' at stage {stage}")
    grid = grid_of(rows, rows["underflow_rate"].astype("Float64").astype(float))
    ax = draw_map(KINDS["underflow"], grid, ax, "every step skipped, or no value but 0")
    title(ax, spec, "" if stage == "wire" else "of the workers' sum")
    box(ax, largest(grid, worst))
    return ax
