"""Charts, described in `_charts`, drawn with matplotlib."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from .._charts.describe import Band, Chart, Linear, Log
from ._names import shown, wrapped
from ._style import ARROWS, LINE_OF, MARKER_OF, axes, ink, label_lines, legend_below, mark, note

#: With a longer name in a legend it has four columns, not five.
_LONG = 20


def draw_chart(
    chart: Chart, ax: Axes | None = None, width: float = 5.2, height: float = 3.4
) -> Axes:
    """The chart in `ax`, or in a new figure of this size in inches."""
    ax = axes(ax, width, height)
    _scale(ax, chart.x, "x")
    _scale(ax, chart.y, "y")
    if not chart.points:
        note(ax, chart.says)
        return ax
    ends = []
    for line in chart.lines:
        if line.points:
            x, y = np.array(line.points).T
            ax.plot(
                x,
                y,
                color=line.colour or "#999999",
                linestyle="--" if line.dashed else "-",
                linewidth=None if line.label and not line.inside else 1.0,
                zorder=2 if line.label else 1,
            )
            if line.label and line.inside:
                ax.annotate(
                    shown(line.label), (x[-1], y[-1]), (-12, 2), textcoords="offset points",
                    color=ink(line.colour), fontsize=8, ha="right", va="bottom",
                )  # fmt: skip
            elif line.label:
                ends.append((float(x[-1]), float(y[-1]), shown(line.label), line.colour))
    for point in chart.points:
        symbol = ARROWS[point.beyond] if point.beyond else MARKER_OF[point.symbol]
        mark(ax, point.x, point.y, symbol, point.colour, hollow=point.hollow, size=5.5)
        ends += [(point.x, point.y, wrapped(point.label), point.colour)] if point.label else []
    if chart.legend:
        entries = [
            (name, colour, MARKER_OF.get(symbol, ""), LINE_OF.get(symbol, ""))
            for name, colour, symbol in chart.legend
        ]
        wide = any(len(name) > _LONG for name, *_ in chart.legend)
        legend_below(ax, entries, min(len(entries), 4 if wide else 5))
    if not isinstance(chart.x, Band):
        ax.grid()
    label_lines(ax, ends)
    return ax


def _scale(ax: Axes, scale: Log | Linear | Band, which: str) -> None:
    axis = getattr(ax, f"{which}axis")
    getattr(ax, f"set_{which}label")(scale.label)
    if isinstance(scale, Band):
        getattr(ax, f"set_{which}lim")(-0.3, max(len(scale.names) - 0.7, 0.3))
        axis.set_ticks(range(len(scale.names)), scale.names)
        return
    getattr(ax, f"set_{which}scale")("linear" if isinstance(scale, Linear) else "log")
    getattr(ax, f"set_{which}lim")(scale.low, scale.high)
    axis.set_ticks([value for value, _ in scale.ticks], [text for _, text in scale.ticks])
    axis.set_minor_locator(NullLocator())
