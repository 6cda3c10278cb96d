"""What encoding costs and what adding costs, apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..labels import short_labels, two_lines
from ..pooling import OWN_REDUCTIONS, frame_of, one_trace, pool, topologies_of, whole_sums
from .numbers import logarithmic
from .style import WIDTH, axes, colour, marker, note, styled


@styled
def accumulation_error(results: Any, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """NMSE of the reduced gradient, split: a bar for encoding, a marker a topology for the additions.

    The bar is the row ``exact`` (codes added without rounding): what encoding alone costs. A marker
    is a topology's reduced NMSE minus the ``exact`` one: what its rounded additions add. Hollow: the
    difference is negative (its size is shown). Differences too small for the axis stand at its left
    end, as those of schemes that gather and add in fp32 do. A cross at the right: values overflowed
    in that topology's sums and are missing from its NMSE. All layers and steps pooled.
    """
    frame = one_trace(frame_of(results), trace)
    specs = list(dict.fromkeys(frame["scheme"]))
    names = short_labels(specs)
    reduced = frame[frame["stage"] == "reduced"]
    topologies = [t for t in topologies_of(reduced) if t != "exact"]
    lines = max(two_lines(n).count("\n") + 1 for n in names.values())
    ax = axes(ax, WIDTH, 1.3 + max(0.42, 0.155 * lines) * max(len(specs), 2))
    table = pool(whole_sums(reduced), ["scheme", "topology"]).set_index(["scheme", "topology"])
    rows, values = [], []
    for y, scheme in enumerate(specs):
        if (scheme, "exact") not in table.index:
            continue
        exact = table.at[(scheme, "exact"), "nmse"]
        rows.append((y, "exact", exact, 0))
        values.append(exact)
        for t in topologies:
            if (scheme, t) in table.index:
                rows.append((y, t, table.at[(scheme, t), "nmse"] - exact, table.at[(scheme, t), "overflow"]))
    values = [v for v in values if np.isfinite(v) and v > 0]
    ax.set_yticks(range(len(specs)), [two_lines(names[s]) for s in specs])
    ax.set_ylim(len(specs) - 0.5, -0.5)
    ax.set_xlabel("NMSE: bar = encoding, marker = additions")
    if not values:
        note(ax, "no error in any exact row")
        return ax
    low = min(values) / 8
    high = 4 * max([*values, *(abs(v) for _, _, v, _ in rows if np.isfinite(v))])
    logarithmic(ax.xaxis)
    ax.set_xlim(low, high)
    for y, t, value, overflow in rows:
        if t == "exact":
            if value > 0:
                ax.barh(y, value - low, left=low, height=0.66, color="#d0d0d0", zorder=1)
            continue
        i = topologies.index(t)
        alone = t in OWN_REDUCTIONS or len(topologies) == 1
        place = y if alone else y + 0.16 * (i - (len([k for k in topologies if k not in OWN_REDUCTIONS]) - 1) / 2)
        if np.isfinite(value) and value != 0:
            ax.plot(max(abs(value), low), place, marker(i), color=colour(i), markerfacecolor=colour(i) if value > 0 else "white",
                    markersize=5, zorder=3, clip_on=False)
        if overflow > 0:
            ax.plot(high / 1.2, place, "x", color=colour(i), markersize=4.5, zorder=3, clip_on=False)
    ax.grid(axis="x")
    handles = [Line2D([], [], marker=marker(i), color=colour(i), linestyle="", label=t) for i, t in enumerate(topologies)]
    if any(overflow > 0 for *_, overflow in rows):
        handles.append(Line2D([], [], marker="x", color="#444444", linestyle="", label="overflowed"))
    ax.figure.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.1, columnspacing=1.0)
    return ax
