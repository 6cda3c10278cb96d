"""What a scheme keeps against what it sends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from .._results.pooling import headline_rows, headline_topology, pool
from .._results.summary import ranked
from .._text import count_of
from ._asked import rows_of, specs_in
from ._names import shown, wrapped
from ._numbers import logarithmic
from ._style import FLOOR, WIDTH, axes, label_lines, looks, note, room_for, styled

#: More schemes than these have their names in one column beside the axes.
CROWD = 12


#: What a scheme costs, and how its axis is called.
_COSTS = {"volume": "bytes of the busiest rank, of those of an fp32 ring all-reduce", "time": "modelled seconds a step"}


@styled
def nmse_against_cost(
    results: Any, schemes: Iterable[Any] | None = None, *, against: str = "volume", trace: str | None = None, ax: Axes | None = None
) -> Axes:
    """NMSE of a step against what a step costs, one point a scheme; the line joins those that no other beats in both.

    Parameters
    ----------
    results : Results or its frame
    schemes : sequence of Scheme or str, optional
        In any spelling; by default all.
    against : {"volume", "time"}
        The column of `Results.summary`.
    trace : str, optional
        Needed where the results hold several.
    ax : Axes, optional
        Drawn into, where given.

    Returns
    -------
    Axes
        ``step_nmse`` of the scheme's own reduction, else of the first topology replayed. Hollow: a step
        overflowed or was skipped. Errors below `FLOOR` stand at it. A scheme without an error, or whose reduction nobody runs, has no point.

    Raises
    ------
    TypeError, ValueError
        What is not there, in a sentence.
    """
    if against not in _COSTS:
        raise ValueError(f"against={against!r} is neither 'volume' nor 'time'")
    frame = rows_of(results, trace)
    specs = specs_in(frame, schemes)
    table = ranked(frame[frame["scheme"].isin(specs)]).set_index("scheme")
    shapes, names = looks(specs), {s: wrapped(s) for s in specs}
    shown_rows = table[(table["step_nmse"] > 0) & (table[against] > 0)]
    crowd = len(shown_rows) > CROWD
    ax = axes(ax, 6.4 if crowd else 5.4, room_for([names[s] for s in shown_rows.index], 3.6))
    ax.set_xlabel(_COSTS[against])
    ax.set_ylabel("NMSE of a step")
    if not len(shown_rows):
        note(ax, f"no scheme with an error and a {against}")
        return ax
    x, y = shown_rows[against].to_numpy(float), shown_rows["step_nmse"].to_numpy(float)
    logarithmic(ax.xaxis)
    logarithmic(ax.yaxis)
    ax.set_xlim(x.min() / 1.5, x.max() * 1.5)
    if against == "volume":
        eighths = [2.0**k for k in range(math.ceil(math.log2(x.min() / 1.5)), math.floor(math.log2(x.max() * 1.5)) + 1)]
        ax.set_xticks(eighths, [f"{tick:g}" for tick in eighths])
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(max(y.min() / 2, FLOOR), max(y.max() * 2, 10 * FLOOR))
    y = np.maximum(y, FLOOR)
    ax.grid()
    order = np.lexsort([y, x])
    front = [i for k, i in enumerate(order) if not any(y[j] <= y[i] for j in order[:k])]
    ax.plot(x[front], y[front], color="#999999", linewidth=1.0, drawstyle="steps-post", zorder=1)
    flawed = ((shown_rows["overflowed"] > 0) | (shown_rows["skipped"] > 0)).to_numpy(bool)
    ends = []
    for i, spec in enumerate(shown_rows.index):
        look = shapes[spec]
        ax.plot(x[i], y[i], look.marker, color=look.colour, markerfacecolor="white" if flawed[i] else look.colour, markersize=6, zorder=3)
        ends.append((x[i], y[i], names[spec], look.colour))
    label_lines(ax, ends)
    return ax


@styled
def sqnr_against_bits(
    results: Any, schemes: Iterable[Any] | None = None, *, layer: str | None = None, trace: str | None = None, ax: Axes | None = None
) -> Axes:
    """SQNR in dB against bits a value, one point a scheme at the wire and one after the reduction.

    Bits a value: payload and side information of one worker over the number of elements; what a
    reduction moves over the links is another matter. Filled: reduced gradient (headline topology, or
    the scheme's own reduction); hollow: each worker's values as sent. All layers, or one, `layer`, and all steps
    pooled; a scheme without error (``inf``), with overflow (``-inf``) or without a kept step has no point.
    """
    frame = rows_of(results, trace, layer)
    specs = specs_in(frame, schemes)
    frame = frame[frame["scheme"].isin(specs)].reset_index(drop=True)
    names, shapes = {s: wrapped(s) for s in specs}, looks(specs)
    crowd = len(specs) > CROWD
    ax = axes(ax, 6.4 if crowd else WIDTH, room_for(list(names.values()), 3.4) if crowd else 3.4)
    wire = pool(frame[frame["stage"] == "wire"], ["scheme"]).set_index("scheme")
    reduced = pool(headline_rows(frame), ["scheme"]).set_index("scheme")
    ends, seen = [], []
    for scheme in specs:
        look = shapes[scheme]
        for table, filled in ((wire, False), (reduced, True)):
            if scheme not in table.index or not np.isfinite(table.at[scheme, "sqnr_db"]):
                continue
            x, y = table.at[scheme, "bits_per_value"], table.at[scheme, "sqnr_db"]
            seen.append((x, y))
            ax.plot(x, y, look.marker, color=look.colour, markerfacecolor=look.colour if filled else "white", markersize=6.5, zorder=3)
            if filled or scheme not in reduced.index:
                ends.append((x, y, names[scheme], look.colour))
    ax.set_xlabel("bits a value (payload and side information)")
    ax.set_ylabel("SQNR, dB")
    overflowed = sum(s in reduced.index and reduced.at[s, "overflow"] > 0 for s in specs)
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
    told = f"hollow: at the wire; filled: reduced ({headline_topology(frame)})"
    told += f"; not drawn: {count_of(overflowed, 'scheme')} with overflow" if overflowed else ""
    ax.set_title(told if layer is None else f"{shown(layer)}; {told}", fontweight="normal", fontsize=8.5, parse_math=False)
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
