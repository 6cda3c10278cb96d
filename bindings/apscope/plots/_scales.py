"""Scales over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from .._charts.colours import COLOURS
from .._charts.kinds import KINDS
from .._results.comparison import scheme_in
from .._results.pooling import headline_topology, wire_of
from .._text import count_of
from ._maps import title
from ._names import shown
from ._requested import layers_of, rows_of, steps_of
from ._style import axes, colour, label_lines, looks, mark, note, step_axis, styled


@styled
def scale_series(
    results: Any,
    scheme: Any,
    *,
    layer: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Exponent s of the scale 2^s of every layer, or of one, over the steps.

    Crosses mark skipped steps.

    Layers that share one scale throughout are one line. More than eight different lines are
    coloured by the layer's role. For schemes without a power-of-two scale the plot says that there
    is none.
    """
    frame = rows_of(results, trace, layer)
    spec = scheme_in(frame, scheme)
    rows = frame[(frame["scheme"] == spec) & wire_of(frame, headline_topology(frame))]
    steps = steps_of(rows)
    ax = axes(ax, height=2.4)
    ax.set_ylabel(KINDS["scale"].y.label)
    step_axis(ax, steps, max_labels=5)
    title(ax, spec)
    if "scale_exponent" not in rows or not rows["scale_exponent"].notna().any():
        ax.set_yticks([])
        note(ax, "no power-of-two scale")
        return ax
    wide = rows.pivot_table(
        index="step", columns="tensor", values="scale_exponent", aggfunc="first", dropna=False
    )
    wide = wide.reindex(index=steps, columns=layers_of(rows)).astype("Float64").astype(float)
    roles = dict(zip(rows["tensor"], rows["role"]))
    x = np.arange(len(steps))
    family = looks([spec])[spec].colour
    if wide.shape[1] == 1:
        lines = [(wide.iloc[:, 0], str(wide.columns[0]), family)]
    elif wide.apply(lambda column: column.equals(wide.iloc[:, 0])).all():
        lines = [(wide.iloc[:, 0], "all layers", family)]
    elif wide.shape[1] <= 8:
        lines = [(wide[t], t, colour(i)) for i, t in enumerate(wide)]
    else:
        known = list(dict.fromkeys(roles[t] for t in wide))
        lines = [(wide[t], roles[t], colour(known.index(roles[t]))) for t in wide]
    ends: dict[str, tuple[list[float], str]] = {}
    for values, name, line_colour in lines:
        y = values.to_numpy(float)
        symbol = None if len(steps) > 3 else "o"
        ax.plot(x, y, color=line_colour, linewidth=1.2, alpha=0.9, marker=symbol)
        last = y[np.isfinite(y)]
        if len(last):
            ends.setdefault(name, ([], line_colour))[0].append(last[-1])
    low, high = np.nanmin(wide.to_numpy()), np.nanmax(wide.to_numpy())
    pad = max(1.0, 0.1 * (high - low))
    ax.set_ylim(low - pad, high + pad)
    skipped = [
        steps.index(int(s)) for s in sorted(set(rows.loc[rows["skipped"].astype(bool), "step"]))
    ]
    if skipped:
        mark(ax, skipped, np.full(len(skipped), low - 0.6 * pad), "x", COLOURS[1])
        title(ax, spec, f"{len(skipped)} of {count_of(len(steps), 'step')} skipped")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.grid(axis="y")
    labels = [(x[-1], float(np.mean(v)), shown(name, 24), of) for name, (v, of) in ends.items()]
    label_lines(ax, labels)
    return ax
