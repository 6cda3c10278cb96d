"""Underflow by layer and step, as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from ..labels import short_labels
from ..pooling import frame_of, one_trace
from .numbers import Numbers
from .style import WIDTH, axes, note, step_axis, styled


@styled
def underflow_heat_map(results: Any, scheme: str, *, trace: str | None = None, most: float = 100.0, ax: Axes | None = None) -> Axes:
    """Share of nonzero values that a scheme sends as 0: layers down, steps across.

    Parameters
    ----------
    results : Results or DataFrame
    scheme : str
        Its spec, as in the table.
    trace : str, optional
        Needed where the results hold several.
    most : float
        Percentage at the end of the colour scale, the same for plots that are compared.

    Returns
    -------
    Axes
        One cell a row of the table at stage ``wire``. Hatched: step skipped, or no nonzero value.
    """
    frame = one_trace(frame_of(results), trace)
    rows = frame[(frame["scheme"] == scheme) & (frame["stage"] == "wire")]
    tensors, steps = list(dict.fromkeys(rows["tensor"])), sorted(set(int(s) for s in rows["step"]))
    ax = axes(ax, WIDTH, 1.15 + 0.2 * max(len(tensors), 3))
    ax.set_title(short_labels(dict.fromkeys(frame["scheme"])).get(scheme, scheme))
    if not len(rows):
        note(ax, "no rows")
        return ax
    rates = rows.pivot_table(index="tensor", columns="step", values="underflow_rate", aggfunc="first", dropna=False)
    values = 100.0 * rates.reindex(index=tensors, columns=steps).to_numpy(float)
    ax.set_facecolor("#eeeeee")
    ax.patch.set_hatch("////")
    ax.patch.set_edgecolor("#bbbbbb")
    image = ax.pcolormesh(
        np.arange(len(steps) + 1) - 0.5, np.arange(len(tensors) + 1) - 0.5, np.ma.masked_invalid(values),
        norm=Normalize(0.0, most), cmap="viridis", rasterized=True,
    )
    ax.set_ylim(len(tensors) - 0.5, -0.5)
    ax.set_yticks(range(len(tensors)), tensors)
    ax.tick_params(length=2)
    step_axis(ax, steps, most=6)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=14, fraction=0.08, format=Numbers())
    bar.set_label("underflow, %")
    bar.outline.set_visible(False)
    if pd.isna(values).all():
        note(ax, "every step skipped")
    return ax
