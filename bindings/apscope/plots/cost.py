"""What a scheme keeps against what it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..labels import short_labels, two_lines
from ..pooling import frame_of, headline_rows, headline_topology, one_trace, pool
from .style import axes, colour, label_lines, marker, note, styled


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
    ax = axes(ax)
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
    ax.set_xlabel("bits a value, one worker's payload and side information")
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
    label_lines(ax, ends)
    ax.set_title(f"hollow: at the wire; filled: reduced ({headline_topology(frame)})", fontweight="normal", fontsize=8.5)
    return ax
