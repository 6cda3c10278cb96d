"""Bias and variance of the reduced gradient over the steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .._charts.fill import bias
from .._charts.kinds import KINDS
from .._results.comparison import scheme_in
from .._results.pooling import headline_rows, numbers, pool
from ._maps import draw_map, grid_of, title
from ._names import shown, wrapped
from ._numbers import logarithmic
from ._requested import rows_of, specs_in, steps_of
from ._style import (
    HEIGHT,
    axes,
    label_lines,
    looks,
    note,
    overflow_marks,
    room_for,
    step_axis,
    styled,
)


def _pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of the headline, all layers of a step together, by scheme and step."""
    return pool(headline_rows(frame.reset_index(drop=True)), ["scheme", "step"])


@styled
def bias_over_steps(
    results: Any,
    scheme: Any,
    *,
    layer: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Relative bias of the reduced gradient, step by step, with a band of two standard errors.

    It is sum(sign(x)(y-x)) / sum|x|. All layers of a step are pooled, or one is drawn, `layer`. The
    band assumes independent errors of the elements: a bias is significant if its band does not
    contain zero. Rows are the reduced ones of the headline topology (ring, if replayed), or of the
    scheme's own reduction; the wire's for a trace without reduced rows. A skipped step is a gap; a
    cross is a step with overflow, whose bias is that of the remaining values, without a band. The
    report draws the same for a layer.
    """
    frame = rows_of(results, trace, layer)
    spec, steps = scheme_in(frame, scheme), steps_of(frame)
    ax = axes(ax, height=2.0)
    colour = looks([spec])[spec].colour
    rows = _pooled(frame[frame["scheme"] == spec]).set_index("step").reindex(steps)
    x, drawn = np.arange(len(steps)), 100.0 * bias(rows).astype(float)
    title(ax, spec, "" if layer is None else shown(layer))
    ax.set_ylabel(KINDS["bias"].y.label)
    step_axis(ax, steps)
    if not np.isfinite(drawn["y"]).any():
        ax.set_yticks([])
        note(ax, "nothing measured: steps skipped or empty")
        return ax
    ax.axhline(0, color="#999999", linewidth=0.8)
    ax.fill_between(x, drawn["low"], drawn["high"], color=colour, alpha=0.22, linewidth=0)
    ax.plot(x, drawn["y"].to_numpy(), color=colour, marker=".", markersize=3)
    overflow_marks(ax, x[(rows["overflow"] > 0).to_numpy()])
    return ax


@styled
def bias_by_layer(
    results: Any, scheme: Any, *, trace: str | None = None, ax: Axes | None = None
) -> Axes:
    """Relative bias of the reduced gradient, sum(sign(x)(y-x)) / sum|x|, by layer and step.

    Brown: values shrink; green: they grow. Hatched: the step was skipped, or has only zeros. Rows
    as for `bias_over_steps`.
    """
    frame = rows_of(results, trace)
    spec = scheme_in(frame, scheme)
    rows = headline_rows(frame[frame["scheme"] == spec].reset_index(drop=True))
    ax = draw_map(KINDS["bias"].bands, grid_of(rows, numbers(rows, "relative_bias")), ax)
    title(ax, spec)
    return ax


@styled
def variance_over_steps(
    results: Any,
    schemes: Iterable[Any] | None = None,
    *,
    layer: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Variance of the error of the reduced gradient, step by step, one line per scheme.

    All layers of a step are pooled, or one is drawn, `layer`; ``variance`` is divided by the mean
    square of the reference, so 1 means an error as large as the gradient. Rows as for
    `bias_over_steps`; crosses are steps with overflow, which have no variance.
    """
    frame = rows_of(results, trace, layer)
    specs, steps = specs_in(frame, schemes), steps_of(frame)
    names = {s: wrapped(s) for s in specs}
    ax = axes(ax, height=room_for(list(names.values()), HEIGHT))
    rows, ends, shapes, flawed = _pooled(frame[frame["scheme"].isin(specs)]), [], looks(specs), {}
    # A skipped step has no errors and so no variance.
    rows = rows[rows["skipped_steps"] == 0]
    for spec in specs:
        of_scheme = rows[rows["scheme"] == spec].set_index("step").reindex(steps)
        square = of_scheme["sum_squared_reference"] / of_scheme["counted"]
        y = (of_scheme["variance"] / square.where(square > 0)).to_numpy(float)
        y = np.where((y > 0) & (y < np.inf), y, np.nan)  # a logarithmic axis has no zero
        flawed[spec] = np.flatnonzero(of_scheme["overflow"].to_numpy(float) > 0)
        look = shapes[spec]
        size = 2.8 if len(steps) > 12 else 4.5
        ax.plot(y, look.line, color=look.colour, marker=look.marker, markersize=size)
        if np.isfinite(y).any():
            at = int(np.flatnonzero(np.isfinite(y))[-1])
            ends.append((at, y[at], names[spec], look.colour))
    step_axis(ax, steps, max_labels=5)
    ax.set_ylabel("error variance / mean square")
    if layer is not None:
        title(ax, layer)
    if ends:
        logarithmic(ax.yaxis)
        ax.grid(axis="y")
        label_lines(ax, ends)
    else:
        over = any(map(len, flawed.values()))
        note(ax, "overflow in every step" if over else "no error with a variance above 0")
    for spec, places in flawed.items():
        overflow_marks(ax, places, colour=shapes[spec].colour)
    return ax
