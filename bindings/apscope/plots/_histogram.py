"""Exponents of the gradients over the ranges of a format, before and after scaling."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.text import Annotation

from .._charts.fill import shares as shares_of
from .._charts.kinds import KINDS
from .._core import FloatFormat
from .._results.comparison import scheme_in
from .._results.pooling import headline_topology, wire_of
from ._asked import float_format, histograms_of, layers_of, rows_of
from ._maps import TITLE, map_axes
from ._names import name_ticks, shown
from ._numbers import Numbers
from ._style import axes, note, styled

_BEFORE, _AFTER = "#555555", "#0072B2"
#: Name, fill and place of a format's ranges, from small to large.
_RANGES = (
    ("underflow", "#f4c7a8"),
    ("subnormal", "#fbe9c6"),
    ("normal", "#d5ecdf"),
    ("overflow", "#eec3d3"),
)
#: Percent of the values that an end of the axis may leave out.
_TAIL = 0.2
#: From transparent to dark, so the ranges are visible behind few values.
_INK = LinearSegmentedColormap.from_list("ink", [(0.05, 0.1, 0.3, 0.04), (0.05, 0.1, 0.3, 1.0)])


@styled
def exponent_histogram(
    results: Any,
    format: Any = None,
    *,
    scheme: Any = None,
    layer: str | None = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of floor(log2 abs(g)), all workers, layers (or one) and steps of a trace together.

    Parameters
    ----------
    results : Results
        Its ``histograms`` are drawn; the scales come from its ``frame``.
    format : FloatFormat, str or dtype
        By default that of `scheme`. Its ranges are shaded: underflow (below half the smallest
        value: rounding to nearest gives 0), subnormal, normal, overflow (above the largest value).
    scheme : Scheme or str, optional
        In any spelling. Draws a second line: exponents after this scheme's scale (each histogram
        moved by the ``scale_exponent`` of its layer and step). Rows without one, skipped steps
        included, are left out of it.
    layer : str, optional
        Only this layer; `exponents_by_layer` draws all.
    trace : str, optional
        Required if the results have several.
    ax : Axes, optional
        The Axes to draw into; by default new ones.

    Returns
    -------
    Axes
        y: share of all finite nonzero values, in percent per binade.
    """
    finite = _finite(results, trace, layer)
    frame = None if scheme is None else rows_of(results, trace, layer)
    spec = None if frame is None else scheme_in(frame, scheme)
    f = float_format(format, frame, spec)
    ax = axes(ax)
    counted = [("before", finite["exponent"].astype(int), finite["count"].astype(float), _BEFORE)]
    if frame is not None and spec is not None:
        moved = _after(finite, frame, spec)
        counted.append(("after scaling", moved["exponent"], moved["count"], _AFTER))
    lines = [(name, _shares(e, c), line_colour) for name, e, c, line_colour in counted if len(e)]
    if not lines:
        note(ax, "no finite nonzero value")
        return ax

    edges = _edges(f)
    # The ranges remain visible.
    low = min(*(_visible(shares)[0] for _, shares, _ in lines), math.floor(edges[0]) - 2)
    high = max(max(_visible(shares)[1] for _, shares, _ in lines) + 1, math.ceil(edges[-1]) + 2)
    bounds = [low, *edges, high]
    wide_ones = [(right - left) > 0.17 * (high - low) for left, right in zip(bounds, bounds[1:])]
    # Room for vertical names.
    top = (1.6 if all(wide_ones) else 1.9) * max(shares.max() for _, shares, _ in lines)
    for (name, fill), left, right, wide in zip(_RANGES, bounds, bounds[1:], wide_ones):
        if right <= left:
            continue
        ax.axvspan(left, right, facecolor=fill, edgecolor="none", zorder=0)
        ax.text(
            (left + right) / 2,
            top * 0.985,
            name,
            ha="center",
            va="top",
            fontsize=8,
            color="#444444",
            rotation=0 if wide else 90,
        )
    for name, shares, line_colour in lines:
        bins = np.arange(low, high)
        heights = shares.reindex(bins, fill_value=0.0).to_numpy()
        ax.stairs(
            heights, np.append(bins, high), color=line_colour, linewidth=1.6, fill=False, zorder=3
        )
        if name == "before" and len(lines) > 1:
            ax.stairs(
                heights, np.append(bins, high), color=line_colour, alpha=0.22, fill=True, zorder=2
            )
        peak = int(shares.idxmax())
        ax.annotate(
            name,
            xy=(peak + 0.5, shares.max()),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=line_colour,
            fontsize=8.5,
            fontweight="bold",
            zorder=4,
        )
    _apart(ax)
    ax.set_xlim(low, high)
    ax.set_ylim(0, top)
    ax.set_xlabel(_label([shares for _, shares, _ in lines], low, high))
    ax.set_ylabel(KINDS["exponents"].y.label)
    ax.set_title("\n".join(_title(f, spec, layer)), parse_math=False)
    return ax


@styled
def exponents_by_layer(
    results: Any,
    format: Any = None,
    *,
    scheme: Any = None,
    trace: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The histograms of `exponent_histogram` by layer, with the format's ranges.

    Layers are rows, exponents columns.

    With `scheme`, exponents after its scale; layers without one are empty rows. Darker: more of the
    layer's values.
    """
    finite, layers = _finite(results, trace, None), layers_of(histograms_of(results, trace))
    frame = None if scheme is None else rows_of(results, trace)
    spec = None if frame is None else scheme_in(frame, scheme)
    f = float_format(format, frame, spec)
    table = finite if frame is None or spec is None else _after(finite, frame, spec)
    shares = {
        t: _shares(rows["exponent"].astype(int), rows["count"].astype(float))
        for t, rows in table.groupby("tensor", sort=False)
    }
    ax = map_axes(ax, layers, 5.6)
    ax.set_ylim(len(layers) - 0.5, -0.5)
    name_ticks(ax.yaxis, layers)
    ax.set_xlabel(_label([], 0, 0))
    ax.set_title("\n".join(_title(f, spec, None)), parse_math=False, pad=16)
    if not shares:
        ax.set_xticks([])
        note(ax, "no finite nonzero value" if frame is None else "no power-of-two scale")
        return ax
    edges = _edges(f)
    low = min([math.floor(edges[0]) - 2, *(_visible(s)[0] for s in shares.values())])
    high = max([math.ceil(edges[-1]) + 2, *(_visible(s)[1] + 1 for s in shares.values())])
    ax.set_xlabel(_label(shares.values(), low, high))
    cells = np.full((len(layers), high - low), np.nan)
    for row, layer in enumerate(layers):
        if layer in shares:
            values = shares[layer].reindex(np.arange(low, high), fill_value=0.0).to_numpy()
            cells[row] = np.where(values > 0, values, np.nan)
    bounds = [low, *edges, high]
    for (name, fill), left, right in zip(_RANGES, bounds, bounds[1:]):
        if right > left:
            ax.axvspan(left, right, facecolor=fill, edgecolor="none", zorder=0)
            wide = (right - left) > 0.16 * (high - low)
            label = name if wide else name.removesuffix("flow").removesuffix("normal")
            ax.text(
                (left + right) / 2,
                1.01,
                label,
                transform=ax.get_xaxis_transform(),
                ha="center",
                va="bottom",
                fontsize=7.5,
                color="#444444",
            )
    image = ax.pcolormesh(
        np.arange(low, high + 1), np.arange(len(layers) + 1) - 0.5, np.ma.masked_invalid(cells),
        cmap=_INK, norm=PowerNorm(0.6, 0.0, np.nanmax(cells)),
        rasterized=True, zorder=1,
    )  # fmt: skip
    for edge in edges:
        ax.axvline(edge, color="#444444", linewidth=0.8, zorder=2)
    ax.set_xlim(low, high)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=14, fraction=0.08, format=Numbers())
    bar.set_label(KINDS["exponents"].y.label)
    bar.outline.set_visible(False)
    return ax


def _finite(results: Any, trace: str | None, layer: str | None) -> pd.DataFrame:
    table = histograms_of(results, trace, layer)
    return table[table["kind"] == "finite"]


def _title(f: FloatFormat, spec: str | None, layer: str | None) -> list[str]:
    parts = [
        f"ranges of {f.name}",
        *(["scaled by " + shown(spec, TITLE - 10)] if spec is not None else []),
        *([shown(layer)] if layer is not None else []),
    ]
    joined = ", ".join(parts)
    return [joined] if len(joined) < 48 else parts


def _edges(f: FloatFormat) -> list[float]:
    """log2 of half the smallest value, the smallest normal and the largest value."""
    return [
        math.log2(f.smallest_positive) - 1,
        max(math.log2(f.smallest_normal), math.log2(f.smallest_positive) - 1),
        math.log2(f.largest),
    ]


def _after(finite: pd.DataFrame, frame: pd.DataFrame, scheme: str) -> pd.DataFrame:
    if "scale_exponent" not in frame:
        raise ValueError("the results have no column scale_exponent, so no histogram after scaling")
    rows = frame[
        (frame["scheme"] == scheme)
        & wire_of(frame, headline_topology(frame))
        & ~frame["skipped"].astype(bool)
    ]
    scales = rows[["trace", "step", "tensor", "scale_exponent"]].dropna(subset="scale_exponent")
    moved = finite.merge(scales, on=["trace", "step", "tensor"])
    return pd.DataFrame(
        {
            "tensor": moved["tensor"],
            "exponent": moved["exponent"].astype(int) + moved["scale_exponent"].astype(int),
            "count": moved["count"].astype(float),
        }
    )


def _shares(exponents: pd.Series, counts: pd.Series) -> pd.Series:
    """In percent."""
    return 100.0 * shares_of(exponents, counts)


def _label(drawn: Iterable[pd.Series], low: int, high: int) -> str:
    """The name of the axis, which says if values lie beyond its ends."""
    beyond = any(shares.index.min() < low or shares.index.max() >= high for shares in drawn)
    return KINDS["exponents"].x.label + (f"\n(tails up to {_TAIL} % are cut off)" if beyond else "")


def _visible(shares: pd.Series) -> tuple[int, int]:
    """First and last bin, without a tail of `_TAIL` at each end."""
    below = shares.sort_index().cumsum()
    inside = below.index[(below > _TAIL) & (below - shares.sort_index() < 100 - _TAIL)]
    return int(min(inside)), int(max(inside))


def _apart(ax: Axes) -> None:
    """Moves the two names to the outer sides of their peaks if the peaks are close."""
    names = [
        t
        for t in ax.texts
        if isinstance(t, Annotation) and t.get_text() in ("before", "after scaling")
    ]
    if len(names) < 2:
        return
    first, second = sorted(names, key=lambda t: t.xy[0])
    if abs(first.xy[0] - second.xy[0]) < 9:
        for name, side, shift in ((first, "right", 3), (second, "left", -3)):
            name.set(horizontalalignment=side)
            name.xyann = (shift if abs(first.xy[0] - second.xy[0]) > 4 else -shift, 4)
