"""Scales over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..labels import short_labels
from ..pooling import frame_of, one_trace
from .style import axes, colour, label_lines, note, step_axis, styled


@styled
def scale_series(results: Any, scheme: str, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """Exponent s of the scale 2^s of every layer over the steps; crosses mark skipped steps.

    Layers that share one scale throughout are one line. More than eight different lines are coloured
    by the layer's role. Schemes without a power-of-two scale have nothing to draw and say so.
    """
    frame = one_trace(frame_of(results), trace)
    rows = frame[(frame["scheme"] == scheme) & (frame["stage"] == "wire")]
    steps = sorted(set(int(s) for s in rows["step"]))
    ax = axes(ax, height=2.4)
    ax.set_title(short_labels(dict.fromkeys(frame["scheme"])).get(scheme, scheme))
    ax.set_ylabel("scale exponent s")
    step_axis(ax, steps, most=5)
    if "scale_exponent" not in rows or not rows["scale_exponent"].notna().any():
        note(ax, "no power-of-two scale")
        return ax
    wide = rows.pivot_table(index="step", columns="tensor", values="scale_exponent", aggfunc="first", dropna=False)
    wide = wide.reindex(index=steps, columns=list(dict.fromkeys(rows["tensor"]))).astype("Float64").astype(float)
    roles = dict(zip(rows["tensor"], rows["role"]))
    x = np.arange(len(steps))
    if wide.apply(lambda column: column.equals(wide.iloc[:, 0])).all():
        lines = [(wide.iloc[:, 0], "all layers", colour(0))]
    elif wide.shape[1] <= 8:
        lines = [(wide[t], t, colour(i)) for i, t in enumerate(wide)]
    else:
        known = list(dict.fromkeys(roles[t] for t in wide))
        lines = [(wide[t], roles[t], colour(known.index(roles[t]))) for t in wide]
    ends: dict[str, tuple[list[float], str]] = {}
    for values, name, line_colour in lines:
        y = values.to_numpy(float)
        ax.plot(x, y, color=line_colour, linewidth=1.2, alpha=0.9, marker=None if len(steps) > 3 else "o")
        last = y[np.isfinite(y)]
        if len(last):
            ends.setdefault(name, ([], line_colour))[0].append(last[-1])
    low, high = np.nanmin(wide.to_numpy()), np.nanmax(wide.to_numpy())
    pad = max(1.0, 0.1 * (high - low))
    ax.set_ylim(low - pad, high + pad)
    skipped = [steps.index(int(s)) for s in sorted(set(rows.loc[rows["skipped"].astype(bool), "step"]))]
    if skipped:
        ax.plot(skipped, np.full(len(skipped), low - 0.6 * pad), "x", color="#D55E00", markersize=5, markeredgewidth=1.4)
        ax.set_title(f"{ax.get_title(loc='left')}: {len(skipped)} of {len(steps)} steps skipped (crosses)")
    ax.grid(axis="y")
    label_lines(ax, [(len(steps) - 1, float(np.mean(v)), name, line_colour) for name, (v, line_colour) in ends.items()])
    return ax
