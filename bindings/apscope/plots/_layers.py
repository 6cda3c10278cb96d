"""NMSE by layer: of all schemes, and of one over another, step by step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .._charts.kinds import KINDS
from .._results.comparison import ratios, scheme_in
from .._results.pooling import headline_rows
from .._results.summary import by_scheme
from ._maps import TITLE, draw_map, grid_of, title
from ._names import name_ticks, shown, width_beside, wrapped
from ._numbers import logarithmic
from ._requested import layers_of, rows_of, specs_in, steps_of
from ._style import (
    ARROWS,
    FLOOR,
    axes,
    legend_below,
    looks,
    mark,
    note,
    overflow_marks,
    styled,
)


def layer_losses(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean over the steps of every layer's NMSE, by scheme; of one trace.

    Columns: scheme, layer, step_nmse, overflowed (steps with overflow).

    The rules are those of `Results.summary`: a skipped step counts as 1, a step with overflow as at
    least 1, a step with a reference of zero is left out. Rows of the scheme's own reduction, else
    of the headline topology; the wire's for a trace without reduced rows.
    """
    rows, summary = by_scheme(headline_rows(frame.reset_index(drop=True)), "layer")
    names = {"scheme": "scheme", "layer": "tensor"}
    cells = {name: rows.cells(column, summary["first"]) for name, column in names.items()}
    return pd.DataFrame(cells | {n: summary["figures"][n] for n in ("step_nmse", "overflowed")})


@styled
def nmse_by_layer(
    results: Any,
    schemes: Iterable[Any] | None = None,
    *,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """NMSE of every layer, the mean over the steps: layers down, one mark per scheme.

    Returns
    -------
    Axes
        Numbers of `layer_losses`. Colours are those of families; an arrow at the left end is a
        layer without error, or with one below `FLOOR`. Hollow: a step overflowed and counts as at
        least 1.
    """
    frame = rows_of(results, trace)
    specs, layers = specs_in(frame, schemes), layers_of(frame)
    by_place = layer_losses(frame[frame["scheme"].isin(specs)]).set_index(["scheme", "layer"])
    table, overflowed = by_place["step_nmse"], by_place["overflowed"] > 0
    legend = [wrapped(s, 46, 2) for s in specs]
    room = 0.15 * sum(text.count("\n") + 1 for text in legend)
    ax = axes(
        ax,
        width_beside([shown(layer) for layer in layers], 5.4),
        0.9 + room + min(max(0.24, 0.07 * len(specs)) * max(len(layers), 3), 14.0),
    )
    values = table.to_numpy()
    positive = values[np.isfinite(values) & (values > 0)]
    ax.set_ylim(len(layers) - 0.5, -0.5)
    name_ticks(ax.yaxis, layers)
    ax.set_xlabel(
        "NMSE, mean over the steps" + ("; hollow: a step overflowed" if overflowed.any() else "")
    )
    if not len(positive):
        ax.set_xticks([])
        note(ax, "no layer with an error above 0")
        return ax
    logarithmic(ax.xaxis)
    low = max(positive.min() / 2, FLOOR)
    high = max(positive.max() * 2, low * 10)
    ax.set_xlim(low, high)
    shapes = looks(specs)
    apart = 0.7 / max(len(specs), 2)  # schemes with the same error are drawn below each other
    for i, spec in enumerate(specs):
        y = np.array([table.get((spec, layer), np.nan) for layer in layers])
        beyond = y < low
        look, places = shapes[spec], np.arange(len(layers)) + apart * (i - (len(specs) - 1) / 2)
        flawed = np.array([bool(overflowed.get((spec, layer), False)) for layer in layers])
        for which, symbol, hollow in (
            (~flawed & ~beyond, look.marker, False),
            (flawed & ~beyond, look.marker, True),
            (beyond, ARROWS["left"], False),
        ):
            if which.any():  # the layout would take no points for one at the figure's corner
                x = np.maximum(y[which], low)
                mark(ax, x, places[which], symbol, look.colour, hollow=hollow)
    ax.hlines(np.arange(len(layers)), low, high, color="#e6e6e6", linewidth=0.7, zorder=0)
    ax.grid(axis="x")
    entries = [(text, shapes[s].colour, shapes[s].marker, "") for s, text in zip(specs, legend)]
    legend_below(ax, entries, 1 if max(map(len, legend)) > 30 else 2)
    return ax


@styled
def nmse_ratio(
    results: Any,
    a: Any,
    b: Any,
    *,
    topology: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The NMSE of scheme `a` divided by that of `b`, at every layer and step.

    Teal: `a` has less error; magenta: `b` has.

    Parameters
    ----------
    results : Results or its frame
    a, b : Scheme or str
        In any spelling.
    topology : str, optional
        As in `Results.compare`; ``wire`` compares what is sent.
    trace : str, optional
        Required if the results have several.
    ax : Axes, optional
        The Axes to draw into; by default new ones.

    Returns
    -------
    Axes
        One cell per layer and step, in bands of the ratio. Hatched: a reference of zero, or no
        numbers. Crosses: one of the two overflowed and counts as at least 1.
    """
    frame = rows_of(results, trace)
    a, b = scheme_in(frame, a), scheme_in(frame, b)
    table = ratios(frame, a, b, topology)
    grid = grid_of(table.rename(columns={"layer": "tensor"}), table["ratio"])
    ax = draw_map(
        KINDS["ratio"].bands,
        grid.reindex(index=layers_of(frame), columns=steps_of(frame)),
        ax,
        "no step in which both have numbers",
    )
    names = dict.fromkeys([*table["topology_a"], *table["topology_b"]])
    title(ax, a, wrapped(f"against {b}", TITLE, 2), ", ".join(names))
    over = table[(table["overflow_a"] > 0) | (table["overflow_b"] > 0)]
    steps, layers = pd.Index(steps_of(frame)), pd.Index(layers_of(frame))
    overflow_marks(ax, steps.get_indexer(over["step"]), layers.get_indexer(over["layer"]))
    return ax
