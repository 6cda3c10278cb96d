"""Common parts of maps: layers down, steps across, one colour per cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patches import Rectangle

from .._charts.kinds import Bands
from ._names import name_ticks, shown, width_beside, wrapped
from ._requested import layers_of, steps_of
from ._style import WIDTH, axes, note, step_axis

#: Height in inches of a map's row, and the maximum of all rows together.
_ROW, _TALLEST = 0.2, 14.0
#: Number of letters of a title on one line.
TITLE = 40
#: Replaces infinity, which a mask would hide.
_BEYOND = 1e300


def grid_of(rows: pd.DataFrame, values: pd.Series) -> pd.DataFrame:
    """Values of rows, one per layer and step, as a table of layers by steps; NaN if missing."""
    table = rows[["tensor", "step"]].assign(value=np.asarray(values, float))
    wide = table.pivot_table(
        index="tensor", columns="step", values="value", aggfunc="first", dropna=False
    )
    return wide.reindex(index=layers_of(rows), columns=steps_of(rows))


def map_axes(ax: Axes | None, layers: Sequence[str], width: float = WIDTH) -> Axes:
    """`ax`, or new Axes that are as high as the layers need."""
    return axes(
        ax,
        width_beside([shown(str(layer)) for layer in layers], width),
        1.15 + min(_ROW * max(len(layers), 3), _TALLEST),
    )


def draw_map(
    bands: Bands | None,
    grid: pd.DataFrame,
    ax: Axes | None = None,
    empty: str = "nothing measured: steps skipped or empty",
) -> Axes:
    """Numbers, layers down and steps across, in bands of one colour each; their edges on a bar.

    Parameters
    ----------
    bands : Bands
        Shares are drawn in percent if the bands say so.
    grid : DataFrame
        NaN is hatched; infinite numbers are in the outermost bands.
    ax : Axes, optional
        The Axes to draw into; by default new ones, as high as the layers need.
    empty : str
        The text that is drawn if every number is NaN.
    """
    assert bands is not None  # of a kind that is a map
    ax = map_axes(ax, grid.index)
    ax.set_facecolor("#eeeeee")
    ax.patch.set_hatch("////")
    ax.patch.set_edgecolor("#bbbbbb")
    scale = 100.0 if bands.percent else 1.0
    edges = [scale * edge for edge in bands.edges]
    image = ax.pcolormesh(
        np.arange(grid.shape[1] + 1) - 0.5, np.arange(grid.shape[0] + 1) - 0.5,
        np.ma.masked_invalid((scale * grid).to_numpy(float).clip(-_BEYOND, _BEYOND)),
        norm=BoundaryNorm(edges, len(bands.light), extend="both"),
        cmap=ListedColormap(bands.light), rasterized=True,
    )  # fmt: skip
    ax.set_ylim(grid.shape[0] - 0.5, -0.5)
    name_ticks(ax.yaxis, [str(layer) for layer in grid.index])
    ax.tick_params(length=2)
    step_axis(ax, [int(step) for step in grid.columns], max_labels=6)
    bar = colour_bar(
        ax, image, bands.label, spacing="uniform", ticks=edges, extendrect=True, extendfrac="auto"
    )
    bar.ax.set_yticklabels(list(bands.ticks))
    bar.ax.minorticks_off()
    if grid.isna().to_numpy().all():
        note(ax, empty)
    return ax


def colour_bar(ax: Axes, image: Any, label: str, **options: Any) -> Colorbar:
    """A bar of the colours of an image, to the right of its axes."""
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=14, fraction=0.08, **options)
    bar.set_label(label)
    bar.outline.set_visible(False)
    return bar


def frame_cells(
    ax: Axes, row: int, column: int, count: int = 1, colour: str = "#e3000f", linewidth: float = 1.3
) -> None:
    """A frame around cells of a row, from a column on."""
    ax.add_patch(
        Rectangle(
            (column - 0.5, row - 0.5), count, 1, fill=False, edgecolor=colour,
            linewidth=linewidth, zorder=4, clip_on=False,
        )
    )  # fmt: skip


def largest(grid: pd.DataFrame, count: int) -> list[tuple[int, int]]:
    """Places of the largest value of each row, if above 0, the largest first.

    At most one per row, so that five cells are not those of one layer.
    """
    values = np.nan_to_num(grid.to_numpy(float), nan=-1.0)
    columns = values.argmax(axis=1)
    worst = values[np.arange(len(values)), columns]
    rows = np.argsort(-worst, kind="stable")[:count]
    return [(int(row), int(columns[row])) for row in rows if worst[row] > 0]


def title(ax: Axes, text: str, *below: str) -> None:
    """A title, and under it further lines."""
    lines = filter(None, [wrapped(text, TITLE, 2), *below])
    ax.set_title("\n".join(lines), parse_math=False)
