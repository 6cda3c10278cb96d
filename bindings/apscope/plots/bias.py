"""Bias and variance of the reduced gradient over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..labels import short_labels, two_lines
from ..pooling import frame_of, headline_rows, one_trace, pool
from .numbers import logarithmic
from .style import HEIGHT, axes, colour, label_lines, marker, note, room_for, step_axis, styled


def _series(frame: pd.DataFrame) -> pd.DataFrame:
    """Per scheme and step, all layers pooled: bias, its band and the variance, by the reference's RMS."""
    pooled = pool(headline_rows(frame), ["scheme", "step"])
    square = (pooled["sum_squared_reference"] / pooled["counted"]).where(pooled["sum_squared_reference"] > 0)
    pooled["relative"] = 100.0 * pooled["bias"] / np.sqrt(square)
    pooled["band"] = 200.0 * np.sqrt(pooled["variance"] / pooled["counted"] / square)
    pooled["relative_variance"] = pooled["variance"] / square
    return pooled


@styled
def bias_over_steps(results: Any, scheme: str, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """Mean signed error of the reduced gradient, step by step, with a band of two standard errors.

    All layers of a step are pooled; ``bias`` is divided by the root mean square of the reference. The
    band, 2 sqrt(variance / P), takes the elements' errors as independent: a bias outside its own
    width of zero is more than chance. Reduced rows of the headline topology (ring, where replayed),
    or of the scheme's own reduction. A skipped step is a gap.
    """
    frame = one_trace(frame_of(results), trace)
    specs = list(dict.fromkeys(frame["scheme"]))
    steps = sorted(set(int(s) for s in frame["step"]))
    ax = axes(ax, height=2.0)
    line_colour = colour(specs.index(scheme))
    rows = _series(frame)
    rows = rows[rows["scheme"] == scheme].set_index("step").reindex(steps)
    x, bias, band = np.arange(len(steps)), rows["relative"].to_numpy(float), rows["band"].to_numpy(float)
    ax.set_title(short_labels(specs)[scheme])
    ax.set_ylabel("bias, % of RMS")
    step_axis(ax, steps)
    if not np.isfinite(bias).any():
        ax.set_yticks([])
        note(ax, "nothing measured: steps skipped or empty")
        return ax
    ax.axhline(0, color="#999999", linewidth=0.8)
    ax.fill_between(x, bias - band, bias + band, color=line_colour, alpha=0.22, linewidth=0)
    ax.plot(x, bias, color=line_colour, marker=".", markersize=3)
    return ax


@styled
def variance_over_steps(results: Any, *, trace: str | None = None, ax: Axes | None = None) -> Axes:
    """Variance of the error of the reduced gradient, step by step, one line a scheme.

    All layers of a step are pooled; ``variance`` is divided by the mean square of the reference, so 1
    means an error as large as the gradient. Rows as in `bias_over_steps`.
    """
    frame = one_trace(frame_of(results), trace)
    specs = list(dict.fromkeys(frame["scheme"]))
    names = short_labels(specs)
    steps = sorted(set(int(s) for s in frame["step"]))
    ax = axes(ax, height=room_for([two_lines(n) for n in names.values()], HEIGHT))
    rows, ends = _series(frame), []
    for i, scheme in enumerate(specs):
        y = rows[rows["scheme"] == scheme].set_index("step")["relative_variance"].reindex(steps).to_numpy(float)
        y = np.where(y > 0, y, np.nan)  # a logarithmic axis has no zero
        ax.plot(np.arange(len(steps)), y, color=colour(i), marker=marker(i), markersize=2.8 if len(steps) > 12 else 4.5)
        if np.isfinite(y).any():
            at = int(np.flatnonzero(np.isfinite(y))[-1])
            ends.append((at, y[at], two_lines(names[scheme]), colour(i)))
    step_axis(ax, steps, most=5)
    ax.set_ylabel("error variance / mean square")
    if ends:
        logarithmic(ax.yaxis)
        ax.grid(axis="y")
        label_lines(ax, ends)
    else:
        note(ax, "no error with a variance above 0")
    return ax
