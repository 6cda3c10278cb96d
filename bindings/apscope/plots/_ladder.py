"""The ladder of scales as a picture: what finer scaling buys, and whether it matters."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from .._charts.ladder import ladder_chart
from .._results.ladder import ladder as ladder_table
from .._results.pooling import one_trace
from ._asked import rows_of
from ._drawn import draw_chart
from ._style import styled


@styled
def ladder(results: Any, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """Error in units of the noise of the batch against the rung of the ladder of scales, a line a format.

    The line at 1 is the noise of the batch, the dotted one at 0.1 what a batch smaller by 9 %
    costs. Of a trace of one worker the axis is the NMSE of a step. Hollow, at the upper edge:
    something overflowed there. Only rungs that the table holds are drawn.

    Parameters
    ----------
    results : Results or DataFrame
        A table of `apscope.ladder`, or what it takes.
    trace : str, optional
        Needed where there are several.
    ax : Axes, optional
        Drawn into, where given.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        Neither a Results nor a table.
    ValueError
        No such trace, or several and none named; no two rungs.
    """
    if isinstance(results, pd.DataFrame) and "rung" in results:
        table = results
    else:
        rows_of(results, trace)  # says what is not there
        table = ladder_table(results)
    table = one_trace(table, trace)
    ax = draw_chart(ladder_chart(table), ax)
    ax.set_title(str(table["trace"].iloc[0]))
    return ax
