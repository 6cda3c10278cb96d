"""A format's ranges on an axis of exponents, as a small SVG, for light and dark notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._arrays.casts import decode
from .._core import FloatFormat
from .words import number, power, told

WIDTH, LEFT, RIGHT = 640, 12, 628  # pixels: of the picture, and of its axis
#: Fills are half transparent, so that text stays readable on any background.
_FILLS = {
    "underflow": "#f08a4b",
    "subnormal": "#f2c14e",
    "normal": "#3fae7a",
    "overflow": "#d64f87",
}
#: Formats with more bits have too many values for a tick each.
_TICKED_BITS = 8
#: Approximate width of a letter in pixels.
_LETTER = 6.1


class Range(NamedTuple):
    """A kind of magnitudes, from `low` to `high`, both log2."""

    kind: str
    low: float
    high: float


def ranges_of(f: FloatFormat) -> list[Range]:
    """The ranges of magnitudes, rounded to nearest, from small to large.

    Underflow up to half the smallest value, below which numbers round to 0 (not in a format without
    a zero); then subnormal numbers, if the format has any; normal ones; and overflow above the
    largest value. The two outer ranges are unbounded.
    """
    smallest, largest = math.log2(f.smallest_positive), math.log2(f.largest)
    normal = math.log2(f.smallest_normal) if 0 < f.smallest_normal <= f.largest else largest
    bottom = smallest - 1 if f.zero != "none" else smallest
    ranges = [Range("underflow", -math.inf, bottom)] if f.zero != "none" else []
    start = bottom
    if f.smallest_positive < min(f.smallest_normal or math.inf, f.largest) or normal == largest:
        ranges.append(Range("subnormal", bottom, normal))
        start = normal
    if start < largest:
        ranges.append(Range("normal", start, largest))
    return [*ranges, Range("overflow", largest, math.inf)]


def ruler(f: FloatFormat) -> str:
    """The picture: ranges, ticks for all values (up to 8 bits) or binades, log2, and the limits."""
    ranges = ranges_of(f)
    edges = [r.high for r in ranges[:-1]]
    lowest = min(edges[0], math.log2(f.smallest_positive))
    pad = max(2.0, 0.125 * (edges[-1] - lowest))
    low, high = lowest - pad, edges[-1] + pad

    def at(exponent: float) -> float:
        return round(
            LEFT + (RIGHT - LEFT) * (min(max(exponent, low), high) - low) / (high - low), 1
        )

    parts = [
        f'<svg viewBox="0 0 {WIDTH} 92" width="{WIDTH}" height="92" role="img" '
        'style="max-width:100%;height:auto;color:inherit" font-family="sans-serif" '
        f'font-size="11" fill="currentColor"><title>{html.escape(told(f))}</title>'
    ]
    becomes = {
        "underflow": "0",
        "overflow": "inf" if f.has_infinity else "NaN" if f.has_nan else "largest",
    }
    for kind, left, right in ranges:
        x, width = at(left), at(right) - at(left)
        parts.append(
            f'<rect x="{x}" y="17" width="{width:.1f}" height="26" fill="{_FILLS[kind]}" '
            'fill-opacity="0.5"/>'
        )
        middle = f'x="{x + width / 2:.1f}" text-anchor="middle"'
        if width > _LETTER * len(kind):
            parts.append(f'<text {middle} y="12">{kind}</text>')
        if kind in becomes and width > _LETTER * len(becomes[kind]):
            parts.append(f'<text {middle} y="34">{becomes[kind]}</text>')
    ticks = "".join(f"M{at(e)} 43v-{12 if is_power else 7}" for e, is_power in _ticks(f))
    parts.append(
        f'<path d="M{LEFT} 43H{RIGHT}{ticks}" stroke="currentColor" stroke-width="0.8" '
        'fill="none"/>'
    )
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if (high - low) / s <= 11)
    numbers = [
        e
        for e in range(math.ceil(low / step) * step, math.floor(high) + 1, step)
        if LEFT + 8 < at(e) < RIGHT - 44
    ]
    parts += [
        f'<text x="{at(e)}" y="55" text-anchor="middle" '
        f'opacity="0.7">{str(e).replace("-", "−")}</text>'
        for e in numbers
    ]
    parts.append(f'<text x="{RIGHT}" y="55" text-anchor="end" opacity="0.7">log2|x|</text>')
    parts += _limits(f, at)
    return "".join([*parts, "</svg>"])


def _limits(f: FloatFormat, at: Callable[[float], float]) -> list[str]:
    """The format's limits, each with a line to its position; the largest is right-aligned."""
    values = [("smallest", f.smallest_positive), ("largest", f.largest)]
    if f.smallest_positive < f.smallest_normal <= f.largest:
        values.insert(1, ("smallest normal", f.smallest_normal))
    parts, ends = [], {72: 0.0, 87: 0.0}  # right end of each line of text
    for name, value in values:
        x, text = at(math.log2(value)), f"{name} {number(value)} = {power(value)}"
        width = _LETTER * len(text)
        left = x - 3 - width if name == "largest" or x + 3 + width > WIDTH else x + 3
        # The smallest is below the smallest normal, so that no line crosses a text.
        y = next(
            (
                line
                for line, end in ends.items()
                if left > end and (len(values) < 3 or name != "smallest" or line == 87)
            ),
            87,
        )
        ends[y] = max(left + width, ends[y])
        parts.append(
            f'<path d="M{x} 43V{y}" stroke="currentColor" stroke-width="0.8"/><text '
            f'x="{max(left, 0):.1f}" y="{y}">{text}</text>'
        )
    return parts


def format_html(f: FloatFormat) -> str:
    """A line of numbers and the ruler, for `FloatFormat._repr_html_`."""
    return (
        f"<div><div><code>{html.escape(f.name)}</code> {html.escape(told(f))}</div>{ruler(f)}</div>"
    )


def _ticks(f: FloatFormat) -> list[tuple[float, bool]]:
    """log2 of positive values, and if a power of two; of wide formats about 60 powers of two."""
    if f.storage_bits <= _TICKED_BITS:
        values = np.unique(
            decode(np.arange(2**f.storage_bits, dtype=np.uint8), f).astype(np.float64)
        )
        values = values[np.isfinite(values) & (values > 0)]
        if len(values) <= 130:
            return list(zip(np.log2(values).tolist(), (np.frexp(values)[0] == 0.5).tolist()))
    first, last = math.ceil(math.log2(f.smallest_positive)), math.floor(math.log2(f.largest))
    return [(float(e), True) for e in range(first, last + 1, 1 + (last - first) // 60)]
