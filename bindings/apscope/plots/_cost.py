"""The error of schemes against their cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .._arrays.checks import text
from .._charts.front import front_chart
from .._results.limits import limits_of
from .._results.pooling import compared_rows, headline_topology, pool, wire_of
from .._results.summary import front, summary
from .._schemes.titles import reduction
from .._text import count_of
from ._drawn import draw_chart
from ._names import shown, wrapped
from ._requested import rows_of, specs_in
from ._style import WIDTH, axes, label_lines, looks, mark, note, room_for, styled

#: If there are more points, not all are named.
CROWD = 12


@styled
def nmse_against_cost(
    results: Any,
    schemes: Iterable[Any] | None = None,
    *,
    against: str = "volume",
    error: str = "step_nmse",
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The error against the cost of a step, one point per scheme and reduction; a line joins undominated ones.

    Parameters
    ----------
    results : Results or its frame
    schemes : sequence of Scheme or str, optional
        In any spelling; by default all.
    against : {"volume", "time"}
        The column of `Results.summary`.
    error : {"step_nmse", "error_over_noise"}
        The column of the vertical axis.
    trace : str, optional
        Required if the results have several.
    ax : Axes, optional
        The Axes to draw into; by default new ones.

    Returns
    -------
    Axes
        The error of the front: the first topology replayed that rounds partial sums, two
        phases, and a scheme's own reduction; the symbol is that of the reduction, and the dashed
        line the front of rounded sums alone, where there are several. Hollow: a step overflowed or
        was skipped. An arrow points to an error below 1e-7. A scheme without an error, or with a
        reduction that no real system uses, has no point. If there are more than 12 points, only
        undominated ones are named; a scheme with several reductions with the reduction. Error over
        noise against volume has the limit as a line where the results have it (`Results.limit`),
        the dashed one 0.255 bits above it, which entropy-coded steps reach, and best grids.

    Raises
    ------
    ValueError
        Another `against` or `error`; results of several traces without `trace`.
    """
    if text("error", error) not in ("step_nmse", "error_over_noise"):
        raise ValueError(f"error={error!r} is neither 'step_nmse' nor 'error_over_noise'")
    if text("against", against) not in ("volume", "time"):
        raise ValueError(f"against={against!r} is neither 'volume' nor 'time'")
    frame = rows_of(results, trace)
    specs = specs_in(frame, schemes)
    frame = frame[frame["scheme"].isin(specs)]
    table = summary(results)  # of the results, which know their limits
    table = table[table["trace"].isin(frame["trace"].unique()) & table["scheme"].isin(specs)]
    table = front(table, headline_topology(frame))
    return draw_chart(
        front_chart(
            table,
            against=against,
            error=error,
            all_named=len(table) <= CROWD,
            limit=limits_of(results).get(table["trace"].iloc[0]) if len(table) else None,
        ),
        ax,
        5.4,
        3.6,
    )


@styled
def sqnr_against_bits(
    results: Any,
    schemes: Iterable[Any] | None = None,
    *,
    layer: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """SQNR in dB against bits per value: for each scheme a point at the wire, and one a reduction.

    Bits per value: payload and side information of one worker divided by the number of elements,
    without the traffic of the reduction. Filled: reduced gradient, of every reduction of the front
    (the headline topology, two phases, the scheme's own), named with it where a scheme has several;
    hollow: the values that each worker sends. All layers, or one, `layer`,
    and all steps pooled; a scheme without error (``inf``), with overflow (``-inf``) or without a
    kept step has no point.
    """
    frame = rows_of(results, trace, layer)
    specs = specs_in(frame, schemes)
    frame = frame[frame["scheme"].isin(specs)].reset_index(drop=True)
    names, shapes = {s: wrapped(s) for s in specs}, looks(specs)
    crowd = len(specs) > CROWD
    ax = axes(ax, 6.4 if crowd else WIDTH, room_for(list(names.values()), 3.4) if crowd else 3.4)
    wire = pool(frame[wire_of(frame, headline_topology(frame))], ["scheme"]).set_index("scheme")
    reduced = _reduced(frame)
    ends, seen = [], []
    for scheme in specs:
        look, reductions = shapes[scheme], reduced[reduced["scheme"] == scheme]
        points = [
            (row.bits_per_value, row.sqnr_db, row.topology)
            for row in [*wire[wire.index == scheme].assign(topology="").itertuples(),
                        *reductions.itertuples()]
        ]  # fmt: skip
        for x, y, topology in points:
            if not np.isfinite(y):
                continue
            filled = bool(topology)
            seen.append((x, y))
            mark(ax, x, y, look.marker, look.colour, hollow=not filled, size=6.5)
            if filled or not len(reductions):
                name = names[scheme] + (f", {reduction(topology)}" if len(reductions) > 1 else "")
                ends.append((x, y, name, look.colour))
    ax.set_xlabel("bits per value\n(payload and side information)")
    ax.set_ylabel("SQNR, dB")
    overflowed = reduced.loc[reduced["overflow"] > 0, "scheme"].nunique()
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
    legend = "hollow: at the wire; filled: reduced"
    legend += f"; not drawn: {count_of(overflowed, 'scheme')} with overflow" if overflowed else ""
    ax.set_title(
        legend if layer is None else f"{shown(layer)}; {legend}",
        fontweight="normal",
        fontsize=8.5,
        parse_math=False,
    )
    return ax


def _reduced(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of `pool` by scheme and topology, of the front; a trace without sums has none."""
    rows, headline = compared_rows(frame), headline_topology(frame)
    rows = front(rows[rows["stage"] != "wire"], headline)
    return pool(rows, ["scheme", "topology"]) if len(rows) else rows.assign(overflow=0, sqnr_db=0.0)


def _columns(points: list[tuple], left: float, right: float) -> list[tuple[float, list[tuple]]]:
    """Names and their places in axes fractions: beside the points if free, else further right."""
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
