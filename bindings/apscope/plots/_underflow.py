"""Underflow by layer and step, as a map."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from .._charts.kinds import KINDS
from .._results.comparison import scheme_in
from .._results.pooling import headline_topology, wire_of
from ._maps import draw_map, frame_cells, grid_of, largest, title
from ._requested import rows_of
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
        Required if the results have several.
    stage : {"wire", "exact"}
        Each worker's sent values, or the workers' sum without rounded additions.
    worst : int
        Number of layers whose largest rate is framed, one cell each.
    ax : Axes, optional
        The Axes to draw into; by default new ones.

    Returns
    -------
    Axes
        One cell per layer and step, in the bands of the report. Hatched: the step was skipped, or
        has no nonzero value.
    """
    frame = rows_of(results, trace)
    spec = scheme_in(frame, scheme)
    if stage not in ("wire", "exact"):
        raise ValueError(f"stage={stage!r} is neither 'wire' nor 'exact'")
    rows = frame[
        (frame["scheme"] == spec)
        & (
            wire_of(frame, headline_topology(frame))
            if stage == "wire"
            else (frame["stage"] != "wire") & (frame["topology"] == "exact")
        )
    ]
    if not len(rows):
        raise ValueError(
            f"the results have no rows of '{spec}' at stage {stage}; replay it, or "
            "give the other stage"
        )
    grid = grid_of(rows, rows["underflow_rate"].astype("Float64").astype(float))
    ax = draw_map(KINDS["underflow"].bands, grid, ax, "every step skipped, or no value but 0")
    title(ax, spec, "" if stage == "wire" else "of the workers' sum")
    for row, column in largest(grid, worst):
        frame_cells(ax, row, column)
    return ax
