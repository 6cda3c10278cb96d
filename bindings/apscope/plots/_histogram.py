"""Exponents of the gradients over the ranges of a format, before and after scaling."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.text import Text

from .._charts.fill import shares as shares_of
from .._charts.kinds import KINDS
from .._core import FloatFormat
from .._results.comparison import scheme_in
from .._results.pooling import headline_topology, wire_of
from ._maps import TITLE, colour_bar, map_axes
from ._names import name_ticks, shown
from ._numbers import Numbers
from ._requested import float_format, histograms_of, layers_of, rows_of
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
#: A range with at most this share of the axis has no room for its name as a whole.
_NARROW = 0.17
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
    finite, moved, f, spec = _counts(results, format, scheme, trace, layer)
    ax = axes(ax)
    counted = [("before", finite, _BEFORE), ("after scaling", moved, _AFTER)]
    lines = [(name, _shares(t), c) for name, t, c in counted if t is not None and len(t)]
    if not lines:
        note(ax, "no finite nonzero value")
        return ax
    low, high, narrow = _shade(ax, f, [shares for _, shares, _ in lines], 0.985, "top", 8)
    for text in narrow:
        text.set_rotation(90)
    # Room for vertical names.
    top = (1.9 if narrow else 1.6) * max(shares.max() for _, shares, _ in lines)
    edges = np.arange(low, high + 1)
    for name, shares, colour in lines:
        heights = shares.reindex(edges[:-1], fill_value=0.0).to_numpy()
        ax.stairs(heights, edges, color=colour, linewidth=1.6, zorder=3)
        if name == "before" and len(lines) > 1:
            ax.stairs(heights, edges, color=colour, alpha=0.22, fill=True, zorder=2)
        ax.annotate(
            name, (shares.idxmax() + 0.5, shares.max()), (0, 4), textcoords="offset points",
            ha="center", va="bottom", color=colour, fontsize=8.5, fontweight="bold", zorder=4,
        )  # fmt: skip
    if len(lines) > 1:
        _apart(ax.texts[-2:])
    ax.set_ylim(0, top)
    ax.set_ylabel(KINDS["exponents"].y.label)
    ax.set_title(_title(f, spec, layer), parse_math=False)
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
    finite, moved, f, spec = _counts(results, format, scheme, trace)
    layers = layers_of(histograms_of(results, trace))
    table = finite if moved is None else moved
    shares = {t: _shares(rows) for t, rows in table.groupby("tensor", sort=False)}
    ax = map_axes(ax, layers, 5.6)
    ax.set_ylim(len(layers) - 0.5, -0.5)
    name_ticks(ax.yaxis, layers)
    ax.set_title(_title(f, spec, None), parse_math=False, pad=16)
    if not shares:
        ax.set_xlabel(KINDS["exponents"].x.label)
        ax.set_xticks([])
        note(ax, "no finite nonzero value" if moved is None else "no power-of-two scale")
        return ax
    low, high, narrow = _shade(ax, f, shares.values(), 1.01, "bottom", 7.5)
    for text in narrow:
        text.set_text(text.get_text().removesuffix("flow").removesuffix("normal"))
    bins = np.arange(low, high)
    none = pd.Series(dtype=float)
    cells = np.array([shares.get(layer, none).reindex(bins, fill_value=0.0) for layer in layers])
    image = ax.pcolormesh(
        np.arange(low, high + 1), np.arange(len(layers) + 1) - 0.5, np.ma.masked_equal(cells, 0.0),
        cmap=_INK, norm=PowerNorm(0.6, 0.0, cells.max()), rasterized=True, zorder=1,
    )  # fmt: skip
    for edge in _edges(f):
        ax.axvline(edge, color="#444444", linewidth=0.8, zorder=2)
    colour_bar(ax, image, KINDS["exponents"].y.label, format=Numbers())
    return ax


def _counts(
    results: Any, format: Any, scheme: Any, trace: str | None, layer: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame | None, FloatFormat, str | None]:
    """Counts of finite values, those after the scale of a scheme; the format; the scheme's spec."""
    table = histograms_of(results, trace, layer)
    finite = table[table["kind"] == "finite"]
    if scheme is None:
        return finite, None, float_format(format), None
    frame = rows_of(results, trace, layer)
    spec = scheme_in(frame, scheme)
    f = float_format(format, frame, spec)
    return finite, _after(finite, frame, spec), f, spec


def _shade(
    ax: Axes, f: FloatFormat, drawn: Collection[pd.Series], y: float, va: str, size: float
) -> tuple[int, int, list[Text]]:
    """Shades and names the format's ranges, with the names at a height.

    Returns
    -------
    low, high : int
        The ends of the axis: all ranges and the drawn shares, without their tails.
    narrow : list of Text
        Names of ranges that have little room.
    """
    edges = _edges(f)
    low = min(math.floor(edges[0]) - 2, *(_visible(shares)[0] for shares in drawn))
    high = max(math.ceil(edges[-1]) + 2, *(_visible(shares)[1] + 1 for shares in drawn))
    bounds, narrow = [low, *edges, high], []
    for (name, fill), left, right in zip(_RANGES, bounds, bounds[1:]):
        if right > left:
            ax.axvspan(left, right, facecolor=fill, edgecolor="none", zorder=0)
            text = ax.text(
                (left + right) / 2, y, name, transform=ax.get_xaxis_transform(), ha="center",
                va=va, fontsize=size, color="#444444",
            )  # fmt: skip
            narrow += [text] if right - left <= _NARROW * (high - low) else []
    ax.set_xlim(low, high)
    beyond = any(shares.index.min() < low or shares.index.max() >= high for shares in drawn)
    cut_off = f"\n(tails up to {_TAIL} % are cut off)" if beyond else ""
    ax.set_xlabel(KINDS["exponents"].x.label + cut_off)
    return low, high, narrow


def _title(f: FloatFormat, spec: str | None, layer: str | None) -> str:
    parts = [
        f"ranges of {f.name}",
        *(["scaled by " + shown(spec, TITLE - 10)] if spec is not None else []),
        *([shown(layer)] if layer is not None else []),
    ]
    joined = ", ".join(parts)
    return joined if len(joined) < 48 else "\n".join(parts)


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


def _shares(table: pd.DataFrame) -> pd.Series:
    """In percent."""
    return 100.0 * shares_of(table["exponent"].astype(int), table["count"].astype(float))


def _visible(shares: pd.Series) -> tuple[int, int]:
    """First and last bin, without a tail of `_TAIL` at each end."""
    below = shares.sort_index().cumsum()
    inside = below.index[(below > _TAIL) & (below - shares.sort_index() < 100 - _TAIL)]
    return int(min(inside)), int(max(inside))


def _apart(names: Iterable[Any]) -> None:
    """Moves the two names to the outer sides of their peaks if the peaks are close."""
    first, second = sorted(names, key=lambda name: name.xy[0])
    if abs(first.xy[0] - second.xy[0]) < 9:
        for name, side, shift in ((first, "right", 3), (second, "left", -3)):
            name.set(horizontalalignment=side)
            name.xyann = (shift if abs(first.xy[0] - second.xy[0]) > 4 else -shift, 4)
