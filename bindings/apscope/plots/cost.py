"""What a scheme keeps against what it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..labels import short_labels, two_lines
from ..pooling import frame_of, headline_rows, headline_topology, one_trace, pool
from .style import WIDTH, axes, colour, label_lines, marker, note, room_for, styled


#: More schemes than these have their names in one column beside the axes.
CROWD = 12


@styled
def sqnr_against_bits(results: Any, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """SQNR in dB against bits a value, one point a scheme at the wire and one after the reduction.

    Bits a value: payload and side information of one worker over the number of elements; what a
    reduction moves over the links is another matter. Filled: reduced gradient (headline topology, or
    the scheme's own reduction); hollow: each worker's values as sent. All layers and steps pooled;
    a scheme without error (``inf``) or without a kept step has no point.
    """
    frame = one_trace(frame_of(results), trace)
    specs = list(dict.fromkeys(frame["scheme"]))
    names = short_labels(specs)
    crowd = len(specs) > CROWD
    ax = axes(ax, 6.4 if crowd else WIDTH, room_for([two_lines(n) for n in names.values()], 3.4) if crowd else 3.4)
    wire = pool(frame[frame["stage"] == "wire"], ["scheme"]).set_index("scheme")
    reduced = pool(headline_rows(frame), ["scheme"]).set_index("scheme")
    ends, seen = [], []
    for i, scheme in enumerate(specs):
        for table, filled in ((wire, False), (reduced, True)):
            if scheme not in table.index or not np.isfinite(table.at[scheme, "sqnr_db"]):
                continue
            x, y = table.at[scheme, "bits_per_value"], table.at[scheme, "sqnr_db"]
            seen.append((x, y))
            ax.plot(x, y, marker(i), color=colour(i), markerfacecolor=colour(i) if filled else "white", markersize=6.5, zorder=3)
            if filled or scheme not in reduced.index:
                ends.append((x, y, two_lines(names[scheme]), colour(i)))
    ax.set_xlabel("bits a value (payload and side information)")
    ax.set_ylabel("SQNR, dB")
    if not seen:
        note(ax, "no finite SQNR")
        return ax
    xs, ys = zip(*seen)
    span = max(max(xs) - min(xs), 2.0)
    ax.set_xlim(max(0.0, min(xs) - 0.15 * span), max(xs) + 0.12 * span)
    pad = max(0.08 * (max(ys) - min(ys)), 0.5)
    ax.set_ylim(min(ys) - pad, max(ys) + pad)
    ax.grid()
    for place, names_there in [(1.045, ends)] if crowd else _columns(ends, *ax.get_xlim()):
        label_lines(ax, names_there, at=place)
    ax.set_title(f"hollow: at the wire; filled: reduced ({headline_topology(frame)})", fontweight="normal", fontsize=8.5)
    return ax


def _columns(points: list[tuple], left: float, right: float) -> list[tuple[float, list[tuple]]]:
    """Where names stand, in axes fractions, and which: beside their points where the axis is free, else at the next free place to the right."""
    columns: list[tuple[float, list[tuple]]] = []
    waiting: list[tuple] = []
    ordered = sorted(points)
    for i, point in enumerate(ordered):
        waiting.append(point)
        free = (ordered[i + 1][0] - point[0]) / (right - left) if i + 1 < len(ordered) else 1.0
        longest = max(len(line) for *_, text, _ in waiting for line in text.split("\n"))
        last = i + 1 == len(ordered)
        if last or free >= 0.1 + 0.025 * longest:  # about the width of a letter
            columns.append((1.045 if last else (point[0] - left) / (right - left) + 0.06, waiting))
            waiting = []
    return columns
