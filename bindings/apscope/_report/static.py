"""Figures for readers without scripts: NMSE against volume, and the widest comparison by layer; one SVG a trace."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from .._results.families import FAMILIES
from .._text import clip
from ..plots import ladder

__all__ = ["figures", "ladder_figure"]


def figures(rows: pd.DataFrame, frame: pd.DataFrame) -> Iterator[str]:
    """One SVG a trace.

    Parameters
    ----------
    rows : DataFrame
        From `answer.headline`.
    frame : DataFrame
        The rows of the results, for underflow by layer.
    """
    for i, (trace, own) in enumerate(rows.groupby("trace", sort=False)):
        figure = Figure(figsize=(10, 4.4))
        canvas = FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2, gridspec_kw={"left": 0.07, "right": 0.98, "wspace": 0.45, "bottom": 0.22, "top": 0.88})
        figure.suptitle(clip(str(trace), 80), parse_math=False)
        _frontier(left, own)
        _layers(right, frame[frame["trace"] == trace], list(own["scheme"]))
        yield _svg(canvas, f"figure-{i}-")


def ladder_figure(table: pd.DataFrame) -> str:
    """The ladder of scales of one trace as an SVG."""
    figure = Figure(figsize=(5.4, 2.7))
    canvas = FigureCanvasSVG(figure)
    ladder(table, ax=figure.subplots(gridspec_kw={"left": 0.13, "right": 0.85, "bottom": 0.25, "top": 0.9}))
    return _svg(canvas, f"ladder-{table['trace'].iloc[0]}-")


def _frontier(ax: Axes, own: pd.DataFrame) -> None:
    own = own[(own["volume"] > 0) & (own["step_nmse"] > 0)]
    for family, part in own.groupby("family", sort=False):
        look = FAMILIES[str(family)]
        ax.plot(part["volume"], part["step_nmse"].clip(lower=1e-8), look.marker, color=look.colour, label=family)
        over = part[part["overflowed"] > 0]
        ax.plot(over["volume"], over["step_nmse"], look.marker, color=look.colour, markerfacecolor="white")
    hollow = "; hollow: a step overflowed" if (own["overflowed"] > 0).any() else ""
    ax.set(xlabel=f"volume (fp32 ring = 1){hollow}", ylabel="step NMSE", title="Error against volume")
    if len(own):
        ax.set(xscale="log", yscale="log")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(mpl.ticker.NullFormatter())
        ax.legend(fontsize="small")


def _layers(ax: Axes, rows: pd.DataFrame, schemes: list[str], max_names: int = 40) -> None:
    """Underflow on the wire, every scheme by layer, all steps together."""
    wire = rows[(rows["stage"] == "wire") & ~rows["skipped"].astype(bool)]
    sums = wire.assign(u=wire["underflow"].to_numpy(float, na_value=0.0), n=wire["nonzero"].to_numpy(float, na_value=0.0))
    sums = sums.groupby(["scheme", "tensor"], sort=False)[["u", "n"]].sum()
    rate = (
        (sums["u"] / sums["n"].where(sums["n"] > 0))
        .unstack()
        .reindex([s for s in schemes if s in sums.index.get_level_values(0)])
        .iloc[:max_names, :max_names]
    )
    if not rate.size:
        ax.set_axis_off()
        return
    scale = mpl.colors.BoundaryNorm([0, 0.005, 0.02, 0.04, 0.1, 0.2, 0.4, 0.8, 1], 256)
    image = ax.imshow(rate.to_numpy(float), aspect="auto", cmap="YlOrRd", norm=scale)
    ax.set_title("Underflow on the wire, by scheme and layer")
    for axis, names in ((ax.yaxis, rate.index), (ax.xaxis, rate.columns)):
        axis.set_ticks(np.arange(len(names)), [clip(str(n), 26) for n in names], fontsize=5, rotation=90 if axis is ax.xaxis else 0)
        for label in axis.get_ticklabels():
            label.set_parse_math(False)
    ax.figure.colorbar(image, ax=ax, format=mpl.ticker.PercentFormatter(1, decimals=1))


def _svg(canvas: FigureCanvasSVG, prefix: str) -> str:
    """The picture without the declarations that belong to a file of its own, its ids made unique."""
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}), warnings.catch_warnings():
        # Letters that matplotlib's font lacks are drawn by the browser's.
        warnings.filterwarnings("ignore", message=r"Glyph \d+", category=UserWarning)
        canvas.print_svg(out, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' xmlns:xlink="[^"]*"| xmlns="[^"]*"', "", text).replace("xlink:href", "href")
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}", text)
