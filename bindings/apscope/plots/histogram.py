"""Exponents of the gradients over the ranges of a format, before and after scaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .._core import FloatFormat
from ..labels import short_labels
from ..pooling import frame_of, one_trace
from .style import axes, note, styled

_BEFORE, _AFTER = "#555555", "#0072B2"
#: Name, fill and place of a format's ranges, from small to large.
_RANGES = (("underflow", "#f4c7a8"), ("subnormal", "#fbe9c6"), ("normal", "#d5ecdf"), ("overflow", "#eec3d3"))


@styled
def exponent_histogram(
    results: Any, format: FloatFormat | str, *, scheme: str | None = None, trace: str | None = None, ax: Axes | None = None
) -> Axes:
    """Histogram of floor(log2 abs(g)), all workers, layers and steps of a trace together.

    Parameters
    ----------
    results : Results
        Its ``histograms`` are drawn; its ``frame`` knows the scales.
    format : FloatFormat or str
        Its ranges are shaded: underflow (below half the smallest value: rounding to nearest gives 0),
        subnormal, normal, overflow (above the largest value).
    scheme : str, optional
        Draws a second line: exponents after this scheme's scale (each histogram moved by the
        ``scale_exponent`` of its layer and step). Rows without one, skipped steps included, are left
        out of it.
    trace : str, optional
        Needed where the results hold several.

    Returns
    -------
    Axes
        y: share of all finite nonzero values, in percent a binade.
    """
    f = FloatFormat(format) if isinstance(format, str) else format
    ax = axes(ax)
    table = one_trace(results.histograms, trace)
    finite = table[table["kind"] == "finite"]
    lines = [("before", finite["exponent"].astype(int), finite["count"].astype(float), _BEFORE)]
    if scheme is not None:
        moved = _after(finite, frame_of(results), scheme)
        lines.append(("after scaling", moved["exponent"], moved["count"], _AFTER))
    lines = [(name, _shares(e, c), line_colour) for name, e, c, line_colour in lines if len(e)]
    if not lines:
        note(ax, "no finite nonzero value")
        return ax

    edges = _edges(f)
    # Far tails are cut where they hold less than 2 values in 1000; the ranges stay in view.
    low = min(min(_visible(shares)[0] for _, shares, _ in lines), math.floor(edges[0]) - 2)
    high = max(max(_visible(shares)[1] for _, shares, _ in lines) + 1, math.ceil(edges[-1]) + 2)
    top = 1.42 * max(shares.max() for _, shares, _ in lines)
    bounds = [low, *edges, high]
    for (name, fill), left, right in zip(_RANGES, bounds, bounds[1:]):
        if right <= left:
            continue
        ax.axvspan(left, right, facecolor=fill, edgecolor="none", zorder=0)
        wide = (right - left) > 0.17 * (high - low)
        ax.text((left + right) / 2, top * 0.985, name, ha="center", va="top", fontsize=8,
                color="#444444", rotation=0 if wide else 90)
    for name, shares, line_colour in lines:
        bins = np.arange(low, high)
        heights = shares.reindex(bins, fill_value=0.0).to_numpy()
        ax.stairs(heights, np.append(bins, high), color=line_colour, linewidth=1.6, fill=False, zorder=3)
        if name == "before" and len(lines) > 1:
            ax.stairs(heights, np.append(bins, high), color=line_colour, alpha=0.22, fill=True, zorder=2)
        peak = int(shares.idxmax())
        ax.annotate(name, xy=(peak + 0.5, shares.max()), xytext=(0, 4), textcoords="offset points",
                    ha="center", va="bottom", color=line_colour, fontsize=8.5, fontweight="bold", zorder=4)
    _apart(ax)
    ax.set_xlim(low, high)
    ax.set_ylim(0, top)
    ax.set_xlabel("exponent of the value, log2 |g|")
    ax.set_ylabel("share of values, % a binade")
    label = "" if scheme is None else f", {short_labels(dict.fromkeys(frame_of(results)['scheme']))[scheme]}"
    ax.set_title(f"{f.name}{label}")
    return ax


def _edges(f: FloatFormat) -> list[float]:
    """log2 of half the smallest value, the smallest normal and the largest value."""
    return [math.log2(f.smallest_positive) - 1, max(math.log2(f.smallest_normal), math.log2(f.smallest_positive) - 1),
            math.log2(f.largest)]


def _after(finite: pd.DataFrame, frame: pd.DataFrame, scheme: str) -> pd.DataFrame:
    if "scale_exponent" not in frame:
        raise ValueError("the results have no column scale_exponent, so no histogram after scaling")
    rows = frame[(frame["scheme"] == scheme) & (frame["stage"] == "wire") & ~frame["skipped"].astype(bool)]
    scales = rows[["trace", "step", "tensor", "scale_exponent"]].dropna(subset="scale_exponent")
    moved = finite.merge(scales, on=["trace", "step", "tensor"])
    return pd.DataFrame({
        "exponent": moved["exponent"].astype(int) + moved["scale_exponent"].astype(int), "count": moved["count"].astype(float),
    })


def _shares(exponents: pd.Series, counts: pd.Series) -> pd.Series:
    """Exponent -> percent of all counts."""
    sums = counts.groupby(exponents.to_numpy()).sum()
    return 100.0 * sums / sums.sum()


def _visible(shares: pd.Series) -> tuple[int, int]:
    """First and last bin, a tail of 0.2 % at either end left out."""
    below = shares.sort_index().cumsum()
    inside = below.index[(below > 0.2) & (below - shares.sort_index() < 99.8)]
    return int(min(inside)), int(max(inside))


def _apart(ax: Axes) -> None:
    """Moves the two names to the outer sides of their peaks where the peaks are close."""
    names = [t for t in ax.texts if t.get_text() in ("before", "after scaling")]
    if len(names) < 2:
        return
    first, second = sorted(names, key=lambda t: t.xy[0])
    if abs(first.xy[0] - second.xy[0]) < 9:
        first.set_ha("right")
        second.set_ha("left")
