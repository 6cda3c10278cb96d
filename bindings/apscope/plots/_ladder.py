"""The ladder of scales as a picture: what finer scaling buys, and whether it matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .._results.ladder import RUNGS
from .._results.ladder import ladder as ladder_table
from .._results.pooling import one_trace
from ._asked import rows_of
from ._style import axes, colour, label_lines, marker, styled

#: Rungs that lie on one line from coarse to fine; the others stand beside it.
_MAIN = ("constant", "step", "layer", "1024", "32")

_NAMES = {
    "constant": "all\nsteps",
    "step": "a step",
    "bucket": "a bucket",
    "layer": "a layer\n(APS)",
    "row": "a row",
    "1024": "1,024",
    "32": "32",
    "16": "16",
}


@styled
def ladder(results: Any, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """Error in units of the noise of the batch against the rung of the ladder of scales, a line a format.

    The line at 1 is the noise of the batch, the dotted one at 0.1 what a batch smaller by 9 % costs. Of a trace of one worker the axis is the
    NMSE of a step. A cross at the upper edge: something overflowed there. Only rungs that the table holds are drawn.

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
    ax = axes(ax, 5.2, 3.4)
    noisy = table["error_over_noise"].notna().any()
    column = "error_over_noise" if noisy else "step_nmse"
    rungs = [r.name for r in RUNGS if r.name in _MAIN and (table["rung"] == r.name).any()]
    places = {name: i for i, name in enumerate(rungs)}
    values = table.loc[table["rung"].isin(rungs), column]
    finite = values[np.isfinite(values) & (values > 0)]
    top = max(2.0, 1.6 * finite.max()) if noisy and len(finite) else (1.6 * finite.max() if len(finite) else 1.0)
    bottom = 0.6 * finite.min() if len(finite) else 0.1
    labels = []
    for i, (name, part) in enumerate(table[table["rung"].isin(rungs)].groupby("format", sort=False)):
        x = part["rung"].map(places).to_numpy()
        y = part[column].to_numpy(float)
        ax.plot(x, np.where(np.isfinite(y), y, np.nan), color=colour(i), marker=marker(i))
        over = ~np.isfinite(y) & ~np.isnan(y)
        ax.plot(x[over], np.full(over.sum(), top), color=colour(i), marker="x", linestyle="", clip_on=False)
        if np.isfinite(y).any():
            last = np.flatnonzero(np.isfinite(y))[-1]
            labels.append((float(x[last]), float(y[last]), str(name), colour(i)))
    ax.set_yscale("log")
    ax.set_ylim(bottom, top)
    ax.set_xlim(-0.3, len(rungs) - 0.7)
    ax.set_xticks(range(len(rungs)), [_NAMES[r] for r in rungs])
    ax.set_xlabel("one scale for")
    if noisy:
        ax.axhline(1.0, color="#888888", linewidth=1)
        ax.axhline(0.1, color="#bbbbbb", linewidth=1, linestyle=":")
        ax.text(-0.25, 1.06, "the noise of the batch", color="#666666", fontsize=8, va="bottom")
        if bottom < 0.1:
            ax.text(-0.25, 0.106, "costs as much as 9 % fewer samples", color="#888888", fontsize=8, va="bottom")
    ax.set_ylabel("error over noise" if noisy else "NMSE of a step")
    ax.set_title(str(table["trace"].iloc[0]))
    label_lines(ax, labels)
    return ax
