"""The errors of encoding and of adding, separately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .. import _core
from .._charts.fill import additions
from .._charts.kinds import KINDS
from .._results.comparison import scheme_in
from .._results.pooling import is_own, pool, topologies_of, whole_sums
from ._maps import title
from ._names import shown, width_beside, wrapped
from ._numbers import logarithmic
from ._requested import layers_of, rows_of, specs_in
from ._style import ARROWS, WIDTH, axes, colour, legend_below, mark, marker, note, styled


@styled
def accumulation_error(
    results: Any,
    schemes: Iterable[Any] | None = None,
    *,
    layer: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """NMSE of the reduced gradient: a bar for encoding, one marker per topology for the additions.

    The bar is the row ``exact`` (codes added without rounding): the error of encoding alone. A
    marker is a topology's reduced NMSE minus that of ``exact``: the error of its rounded additions.
    Hollow: the difference is negative (its size is drawn). Differences that are too small for the
    axis are arrows at its left end, such as those of schemes that gather and add in fp32. A cross
    at the right: values overflowed in that topology's sums, or on the wire, so it has no finite
    NMSE. All layers, or one, `layer`, and all steps pooled.
    """
    frame = rows_of(results, trace, layer)
    specs = specs_in(frame, schemes)
    ax = _split(
        frame[frame["scheme"].isin(specs)], "scheme", specs, [wrapped(s) for s in specs], ax
    )
    if layer is not None:
        title(ax, layer)
    return ax


@styled
def accumulation_by_layer(
    results: Any, scheme: Any, *, trace: str | None = None, ax: Axes | None = None
) -> Axes:
    """`accumulation_error` of one scheme, a bar and markers for every layer, all steps pooled."""
    frame = rows_of(results, trace)
    spec, layers = scheme_in(frame, scheme), layers_of(frame)
    ax = _split(
        frame[frame["scheme"] == spec], "tensor", layers, [shown(layer) for layer in layers], ax
    )
    title(ax, spec)
    return ax


def _split(
    frame: pd.DataFrame, by: str, groups: Sequence[str], names: Sequence[str], ax: Axes | None
) -> Axes:
    """The plot, one row per group of the column `by`."""
    reduced = frame[frame["stage"] == "reduced"].reset_index(drop=True)
    if not len(reduced):
        raise ValueError(
            "the results have no reduced rows, because the trace was not recorded before an "
            "all-reduce; record local gradients"
        )
    reduced = whole_sums(reduced)
    topologies = [t for t in topologies_of(reduced) if t != "exact" and _core.is_order(t)]
    crossing = [t for t in topologies if not is_own(t)]
    lines = max(name.count("\n") + 1 for name in names)
    ax = axes(
        ax,
        width_beside(names, WIDTH),
        1.3 + min(max(0.3 if by == "tensor" else 0.42, 0.155 * lines) * max(len(groups), 2), 20.0),
    )
    table = additions(pool(reduced, [by, "topology"]), by)
    places = {group: y for y, group in enumerate(groups)}
    values = table["exact"].to_list()
    values = [v for v in values if np.isfinite(v) and v > 0]
    ax.set_yticks(range(len(groups)), names, parse_math=False)
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlabel(KINDS["order"].x.label)
    if not values:
        ax.set_xticks([])
        over = (table["overflow"] > 0).any()
        note(ax, "overflow in every row" if over else "no error in any exact row")
        return ax
    low = min(values) / 8
    high = 4 * max([*values, *(abs(v) for v in table["added"] if np.isfinite(v))])
    logarithmic(ax.xaxis)
    ax.set_xlim(low, high)
    for group, t, overflow, exact, value in table.itertuples(index=False):
        y = float(places[group])
        if t == "exact":
            if 0 < exact < np.inf:
                ax.barh(y, exact - low, left=low, height=0.66, color="#d0d0d0", zorder=1)
            continue
        i = topologies.index(t)
        if t in crossing and len(crossing) > 1:
            y += 0.16 * (crossing.index(t) - (len(crossing) - 1) / 2)
        if np.isfinite(value) and value != 0:
            symbol = ARROWS["left"] if abs(value) < low else marker(i)
            mark(ax, max(abs(value), low), y, symbol, colour(i), hollow=value < 0)
        if overflow > 0:
            mark(ax, high / 1.2, y, "x", colour(i), size=4.5)
    ax.grid(axis="x")
    entries = [(t, colour(i), marker(i), "") for i, t in enumerate(topologies)]
    if (table["overflow"] > 0).any():
        entries.append(("overflowed", "#444444", "x", ""))
    legend_below(ax, entries, 3)
    return ax
