"""Underflow by layer and step, as a map."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from .._results.comparison import scheme_in
from ._asked import rows_of
from ._maps import box, draw_bands, grid_of, largest, map_axes, title
from ._style import note, styled

#: Percent. Below 0.5, to 2 and to 4 are the bands that users of scaling recipes act upon; above, steps that a look tells apart.
BANDS = (0.0, 0.5, 2.0, 4.0, 10.0, 25.0, 50.0, 100.0)
_COLOURS = ListedColormap([matplotlib.colormaps["YlGnBu"](x) for x in (0.0, 0.16, 0.32, 0.48, 0.64, 0.82, 1.0)])


@styled
def underflow_heat_map(results: Any, scheme: Any, *, trace: str | None = None, stage: str = "wire", worst: int = 5, ax: Axes | None = None) -> Axes:
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
        So many cells, those of the largest rates, are framed.
    ax : Axes, optional
        Drawn into, where given.

    Returns
    -------
    Axes
        One cell a layer and step, in the bands `BANDS`. Hatched: step skipped, or no nonzero value.

    Raises
    ------
    TypeError, ValueError
        What is not there, in a sentence.
    """
    frame = rows_of(results, trace)
    spec = scheme_in(frame, scheme)
    if stage not in ("wire", "exact"):
        raise ValueError(f"stage={stage!r} is neither 'wire' nor 'exact'")
    rows = frame[(frame["scheme"] == spec) & (frame["stage"] == "wire" if stage == "wire" else frame["topology"] == "exact")]
    if not len(rows):
        raise ValueError(f"the results hold no rows of '{spec}' at stage {stage}")
    grid = grid_of(rows, 100.0 * rows["underflow_rate"].astype("Float64").astype(float))
    ax = map_axes(ax, grid.index)
    title(ax, spec)
    where = "sent" if stage == "wire" else "summed"
    draw_bands(ax, grid, BANDS, _COLOURS, f"nonzero values {where} as 0, %", [f"{edge:g}" for edge in BANDS])
    box(ax, largest(grid, worst))
    if grid.isna().to_numpy().all():
        note(ax, "every step skipped, or no value but 0")
    return ax
