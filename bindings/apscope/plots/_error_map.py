"""Where a scheme loses: the error of every layer at every step."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from .._charts.colours import BANDS
from .._charts.kinds import Bands
from .._charts.layers import layer_map
from .._results.comparison import scheme_in
from .._results.pooling import headline_rows
from ._maps import draw_map, frame_cells, title
from ._requested import rows_of
from ._style import styled


@styled
def error_map(
    results: Any, scheme: Any, *, trace: str | None = None, ax: Axes | None = None
) -> Axes:
    """The error of every layer at every step, the worst layer first.

    The five worst layers are framed, with the largest part of their error.

    Returns
    -------
    Axes
        The error over the noise of the layer's blocks, or the NMSE if the noise is unknown; of the
        scheme's own reduction, else of the first topology replayed. Hatched: no number. The report
        draws the same map.
    """
    frame = rows_of(results, trace)
    scheme = scheme_in(frame, scheme)
    cells = layer_map(headline_rows(frame.reset_index(drop=True)), scheme)
    edges, ticks = zip(*cells.edges)
    bands = Bands(cells.unit, edges, ticks, BANDS, BANDS)
    values = [row.values for row in cells.rows]
    grid = pd.DataFrame(values, [row.name for row in cells.rows], list(cells.steps))
    ax = draw_map(bands, grid, ax, "no step has a number")
    title(ax, scheme)
    for place, row in enumerate(cells.rows):
        if row.part and row.reason:
            frame_cells(ax, place, 0, len(cells.steps), colour="#333333", linewidth=1.0)
            ax.annotate(
                row.part,
                (len(cells.steps) - 0.7, place), ha="right", va="center", fontsize=7.5,
                color="#222222", zorder=5,
                bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.6},
            )  # fmt: skip
    return ax
