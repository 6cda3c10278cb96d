"""The ladder of scales as a plot: the gain of a reduction, a format and finer scales."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from .._charts.ladder import ladder_chart
from .._replay.ladder import ladder as ladder_table
from .._results.pooling import one_trace
from ._drawn import draw_chart
from ._requested import rows_of
from ._style import styled


@styled
def ladder(results: Any, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """Step NMSE against the rung of the ladder of scales, by reduction and format.

    One line per reduction and format: those of the reduction with the least error are solid, others
    dashed.

    Hollow marks at the upper edge: something overflowed. Only rungs in the table are drawn.

    Parameters
    ----------
    results : Results or DataFrame
        A table of `apscope.ladder`, or an argument of it.
    trace : str, optional
        Required if there are several.
    ax : Axes, optional
        The Axes to draw into; by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        Neither a Results nor a table.
    ValueError
        No such trace, or several and none given; fewer than two rungs.
    """
    if isinstance(results, pd.DataFrame) and "rung" in results:
        table = results
    else:
        rows_of(results, trace)  # raises an error if rungs are missing
        table = ladder_table(results)
    table = one_trace(table, trace)
    ax = draw_chart(ladder_chart(table), ax)
    ax.set_title(str(table["trace"].iloc[0]))
    return ax
