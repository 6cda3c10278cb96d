"""Charts as SVG text in the page's font and colours, light and dark, with tooltips."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree import ElementTree

from .._text import short_names
from .colours import BANDS
from .describe import Band, Bars, Cells, Chart, Line, Linear, Log, Point, number
from .letters import fit, width_of
from .places import Box, Name, forms_of, meet, places
from .spread import spread

#: Font size in pixels.
_SIZE = 10.5
_TOP, _BOTTOM, _LEFT = 17.0, 29.0, 34.0
#: Half the width of a mark with its outline and the air around it.
_MARK = 5.5
#: The share of a map's width that reasons and remedies have at most.
_BESIDE_MAP = 0.42
#: A name at most as far from its point needs no line to it.
_BESIDE = 13.0
#: Marks of about 8 pixels around 0, 0.
_SYMBOLS = {
    "bar": "M-4.4-2.4h8.8v4.8h-8.8z", "circle": "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",
    "square": "M-3.2-3.2h6.4v6.4h-6.4z", "triangle": "M0-4.2L4 3H-4z",
    "diamond": "M0-4.4L4 0 0 4.4-4 0z",
    "times": "M-3.4-3.4L3.4 3.4M-3.4 3.4L3.4-3.4", "plus": "M-4 0H4M0-4V4",
    "cross": "M-3.6-1.2h2.4v-2.4h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4z",
    "star": "M0-4.6L1.3-1.4 4.6-1.4 2 .8 2.9 4.2 0 2.2-2.9 4.2-2 .8-4.6-1.4-1.3-1.4z",
    "line": "M-5 0H5", "dashes": "M-5 0H-1M1 0H5",
    "wye": "M0 4.2L4-3H-4z", "asterisk": "M0-4V4M-3.5-2L3.5 2M-3.5 2L3.5-2",
    # Arrows whose points are at 0, 0.
    "below": "M0-10V-1M-3-5L0-.5 3-5z", "above": "M0 10V1M-3 5L0 .5 3 5z",
}  # fmt: skip


def _round(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _plain(text: str) -> float:
    return width_of(text, _SIZE)


def _bold(text: str) -> float:
    return width_of(text, _SIZE, bold=True)


def symbol_path(symbol: str) -> str:
    """The path of a mark, for a legend."""
    return _SYMBOLS[symbol]


class _Pen:
    """An SVG element that others are added to."""

    def __init__(self, element: ElementTree.Element) -> None:
        self.element = element

    def add(self, tag: str, text: str = "", title: str = "", **attributes: Any) -> _Pen:
        named = {
            k.rstrip("_").replace("_", "-"): _round(v) if isinstance(v, float) else str(v)
            for k, v in attributes.items()
        }
        made = ElementTree.SubElement(self.element, tag, named)
        if title:
            ElementTree.SubElement(made, "title").text = title
        if text:
            made.text = text
        return _Pen(made)

    def text(self, text: str, x: float, y: float, kind: str = "tick", **attributes: Any) -> _Pen:
        attributes = ({"class_": kind} if kind else {}) | attributes
        return self.add("text", text, x=x, y=y, **attributes)

    def line(self, x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> None:
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)

    def rect(self, x: float, y: float, right: float, bottom: float, **attributes: Any) -> None:
        self.add("rect", x=x, y=y, width=right - x, height=bottom - y, **attributes)


def _picture(width: float, height: float, says: str, kind: str) -> _Pen:
    return _Pen(
        ElementTree.Element(
            "svg",
            {
                "class": f"chart {kind}",
                "viewBox": f"0 0 {_round(width)} {_round(height)}",
                "role": "img",
                "aria-label": says,
            },
        )
    )


def _text_of(pen: _Pen) -> str:
    return ElementTree.tostring(pen.element, encoding="unicode")


def _places(scale: Log | Linear | Band, start: float, end: float) -> Callable[[float], float]:
    if isinstance(scale, Band):
        step = (end - start) / max(len(scale.names), 1)
        return lambda place: start + step * (place + 0.5)
    if isinstance(scale, Linear):
        unit = (end - start) / (scale.high - scale.low)
        return lambda value: start + unit * (value - scale.low)
    low, high = math.log(scale.low), math.log(scale.high)
    return lambda value: start + (end - start) * (math.log(value) - low) / (high - low)


def chart_svg(chart: Chart, width: float, height: float) -> str:
    """A chart as one ``svg`` element.

    Parameters
    ----------
    chart : Chart
    width, height : float
        Natural size in CSS pixels; the chart can be scaled.
    """
    pen = _picture(width, height, chart.says, "xy")
    ends = [line for line in chart.lines if line.label and line.points and not line.inside]
    right = width - (
        6 + max((_bold(line.label) for line in ends), default=0.0) + (10 if ends else 0)
    )
    bottom = height - _BOTTOM
    x, y = _places(chart.x, _LEFT, right), _places(chart.y, bottom, _TOP)
    pen.text(fit(chart.y.label, width - 4, _SIZE), 2.0, 10.0, "unit")
    shown = [rule for rule in chart.rules if rule.y < chart.y.high]
    for rule in shown:
        if rule.limit:
            pen.rect(_LEFT, _TOP, right, y(rule.y), class_="limit")
    for value, label in chart.y.ticks:
        pen.line(_LEFT, y(value), right, y(value), class_="grid")
        pen.text(label, _LEFT - 4, y(value) + 3.5, text_anchor="end")
    ticks = list(enumerate(chart.x.names)) if isinstance(chart.x, Band) else chart.x.ticks
    for value, label in ticks:
        if not isinstance(chart.x, Band):
            pen.line(x(value), _TOP, x(value), bottom, class_="grid")
        pen.text(label, x(value), bottom + 12, text_anchor="middle")
    pen.text(chart.x.label, (_LEFT + right) / 2, height - 3, text_anchor="middle")
    beyond = {point.beyond for point in chart.points} - {""}
    if beyond:
        arrows = ", ".join(f"{'↓↑'[way == 'above']} {way} the axis" for way in sorted(beyond))
        pen.text(arrows, 2.0, height - 3)
    for rule in shown:
        kind = "rule" if rule.limit else "rule soft"
        pen.line(_LEFT, y(rule.y), right, y(rule.y), class_=kind)
        pen.text(rule.label, _LEFT + 3, y(rule.y) - 3, "said")
    for line in chart.lines:
        if line.points:
            way = "M" + "L".join(f"{_round(x(px))} {_round(y(py))}" for px, py in line.points)
            kind = "line dashed" if line.dashed else "line"
            stroke = {"stroke": line.colour} if line.label or line.inside else {}
            pen.add("path", d=way, fill="none", class_=kind, **stroke)
    for point in sorted(chart.points, key=lambda p: not p.faint):
        _mark(pen, point, x(point.x), y(point.y))
    marks = [_around(x(p.x), y(p.y), p.beyond) for p in chart.points]
    for line in chart.lines:
        if line.points and line.label and line.inside:
            marks.append(_name_inside(pen, line, x, y, marks))
    lines = [_between(x, y, a, b) for n in chart.lines for a, b in zip(n.points, n.points[1:])]
    room = (_LEFT + 3, _TOP - 4, right + 4, bottom - 1)
    _name_points(pen, chart.points, marks, lines, x, y, room)
    ends.sort(key=lambda line: y(line.points[-1][1]))
    middles = [y(line.points[-1][1]) for line in ends]
    placed = spread(middles, [_SIZE + 1] * len(ends), _TOP - 4, bottom + 4)
    for line, middle, at in zip(ends, middles, placed):
        end = x(line.points[-1][0]) + 5
        pen.line(end, middle, right + 3, at, stroke=line.colour, class_="leader")
        pen.text(line.label, right + 6, at + 3.5, "name", style=f"fill:{line.colour}")
    return _text_of(pen)


def _mark(pen: _Pen, point: Point, x: float, y: float) -> None:
    place = pen.add("a", href=f"#{point.link}") if point.link else pen
    kind = "mark" + (" faint" if point.faint else "") + (" hollow" if point.hollow else "")
    place.add(
        "path",
        title=point.says,
        d=_SYMBOLS[point.beyond or point.symbol],
        transform=f"translate({_round(x)} {_round(y)})",
        fill=point.colour,
        stroke=point.colour,
        class_=kind,
    )


def _around(x: float, y: float, beyond: str) -> Box:
    """The box of a mark, or of an arrow to an edge."""
    up = {"below": 2 * _MARK, "above": 0.0}.get(beyond, _MARK)
    return x - _MARK, y - up, x + _MARK, y - up + 2 * _MARK


def _between(
    x: Callable[[float], float], y: Callable[[float], float], a: tuple[float, float],
    b: tuple[float, float],
) -> Box:  # fmt: skip
    """The box of a piece of a line."""
    (left, right), (top, bottom) = sorted((x(a[0]), x(b[0]))), sorted((y(a[1]), y(b[1])))
    return left - 1, top - 1, right + 1, bottom + 1


def _name_inside(
    pen: _Pen, line: Line, x: Callable[[float], float], y: Callable[[float], float],
    marks: Sequence[Box],
) -> Box:  # fmt: skip
    """The name of a line to the left of it, as near to its end as no mark is; its box."""
    wide = _bold(line.label)
    boxes = []
    for px, py in reversed(line.points):
        # right of the axis's ticks
        end, base = max(x(px) - 18, _LEFT + 4 + wide), y(py) - 3
        boxes.append((end - wide, base - 0.8 * _SIZE, end, base + 0.2 * _SIZE))
    box = next((one for one in boxes if not any(meet(one, mark) for mark in marks)), boxes[0])
    style = f"fill:{line.colour}"
    pen.text(line.label, box[2], box[3] - 0.2 * _SIZE, "name", style=style, text_anchor="end")
    return box


def _name_points(
    pen: _Pen, points: Sequence[Point], marks: Sequence[Box], lines: Sequence[Box],
    x: Callable[[float], float], y: Callable[[float], float], room: Box,
) -> None:  # fmt: skip
    """Names beside their points, where they cover no mark; a distant one has a line to its point.

    The point with the least error is named first. A long name without such a place is shortened; a
    name without any is in the tooltip only.
    """
    named = sorted((p for p in points if p.label), key=lambda p: (p.y, p.x))
    forms = [forms_of(p.label) for p in named]
    names = [
        Name(x(p.x), y(p.y), [_bold(form) for form in texts]) for p, texts in zip(named, forms)
    ]
    for point, name, texts, place in zip(
        named, names, forms, places(names, marks, lines, room, _SIZE)
    ):
        if place is None:
            continue
        near, middle = place.end
        if math.hypot(near - name.x, middle - name.y) > _BESIDE:
            pen.line(name.x, name.y, near, middle, stroke=point.colour, class_="leader")
        anchor = "end" if near < name.x else "start"
        full = point.label if place.form else ""
        pen.text(texts[place.form], near, place.base, "name", text_anchor=anchor, title=full)


def bars_svg(bars: Bars, width: float, height: float, most: float = 10.0) -> str:
    """Bars as one ``svg`` element: headings, names at the left, factors at the right ends.

    It is lower than `height` where the bars need less. The longest bar is `most`, or the largest
    factor if that is larger.
    """
    count = sum(1 + len(group) for _, group in bars.groups)
    line = min((height - 14) / max(count, 1), 19.0)
    pen = _picture(width, 14 + count * line, bars.says, "bars")
    known = [b.factor for _, g in bars.groups for b in g if 0 < b.factor < math.inf]
    most = max([most, *known])
    left = min(
        0.56 * width,
        max((_plain(b.name) for _, group in bars.groups for b in group), default=0.0) + 6,
    )
    right = width - _plain("overflow") - 6
    place = _places(Log("", 1.0, most, ()), left, right)
    unit = pen.text("times the error with another", 2.0, 10.0, "unit")
    for kind, colour in bars.kinds:
        unit.add("tspan", "■", dx=5.0, fill=colour, style=f"fill:{colour}")
        unit.add("tspan", kind, dx=2.0)
    top = 14.0
    for heading, group in bars.groups:
        shown = fit(heading, width - 4, _SIZE, bold=True)
        pen.text(shown, 2.0, top + line / 2 + 3.5, "name", title=heading)
        top += line
        for bar in group:
            end, base = place(min(max(bar.factor, 1.0), most)), top + line / 2 + 3.5
            name = fit(bar.name, left - 6, _SIZE)
            pen.text(name, left - 5, base, text_anchor="end", title=bar.says)
            pen.rect(left, top + 0.18 * line, max(end, left + 1.0), top + 0.82 * line,
                     fill=bar.colour, class_="bar", title=bar.says)  # fmt: skip
            shown = "overflow" if math.isinf(bar.factor) else number(bar.factor)
            pen.text(shown, max(end, left + 1) + 4, base, "")
            top += line
    return _text_of(pen)


def cells_svg(cells: Cells, width: float, height: float) -> str:
    """A map as one ``svg`` element.

    The worst layers are framed, with names at the left, and reason and remedy at the right; other
    layers have names if there is room. Every row is a group whose attributes ``data-worst`` and
    ``data-model`` place it in the two orders.
    """
    pen = _picture(width, height, cells.says, "cells")
    marked = [row for row in cells.rows if row.reason]
    remarks = [row.reason for row in marked]
    # Without room for both, the remedy is written.
    if max(map(_plain, remarks), default=0.0) + 8 > 0.4 * width:
        remarks = [row.reason.partition("; ")[2] or row.reason for row in marked]
    remarks = [fit(text, _BESIDE_MAP * width - 8, _SIZE) for text in remarks]
    right = width - max(map(_plain, remarks), default=0.0) - 8
    # The names have what the cells and the remedies leave.
    room = max(right - 0.3 * width, 0.25 * width)
    longest = max((len(row.name) for row in cells.rows), default=0)
    while longest > 4 and max(map(_plain, _short(cells, longest)), default=0.0) + 6 > room:
        longest -= 1
    names = [fit(name, room - 6, _SIZE) for name in _short(cells, longest)]
    left = max(map(_plain, names), default=0.0) + 6
    bottom = height - _BOTTOM
    _legend(pen, cells, width)
    tops, heights = _rows(len(cells.rows), len(marked), bottom - _TOP)
    columns = _columns(cells.steps, right - left)
    edges = [edge for edge, _ in cells.edges]
    even = (bottom - _TOP) / max(len(cells.rows), 1)
    model = {worst: place for place, worst in enumerate(cells.order)}
    for i, row in enumerate(cells.rows):
        at, other = (
            f"translate({_round(left)} {y:.2f}) scale(1 {h:.3f})"
            for y, h in ((_TOP + tops[i], heights[i]), (_TOP + even * model.get(i, i), even))
        )
        group = pen.add(
            "g", title=row.says, transform=at, data_worst=at, data_model=other, data_layer=row.name
        )
        for band, colour in enumerate(BANDS):
            way = "".join(
                f"M{_round(a)} 0h{_round(b - a)}v1h-{_round(b - a)}z"
                for (a, b), v in zip(columns, row.values)
                if bisect_right(edges, v) == band and not math.isnan(v)
            )
            if way:
                group.add("path", d=way, fill=colour)
    for i, row in enumerate(cells.rows):
        top, base = _TOP + tops[i], _TOP + tops[i] + heights[i] / 2 + 3.5
        of = {"data_of": row.name}
        if heights[i] >= 9 or row.reason:
            pen.text(names[i], left - 4, base, title=row.name, text_anchor="end", **of)
        if row.reason:
            pen.rect(left, top, right, top + heights[i], class_="box", **of)
            pen.text(remarks[i], right + 5, base, title=row.says, **of)
    for place in _labelled(len(cells.steps), right - left):
        step = str(cells.steps[place])
        pen.text(step, left + sum(columns[place]) / 2, bottom + 12, text_anchor="middle")
    pen.text("recorded steps", (left + right) / 2, height - 3, text_anchor="middle")
    return _text_of(pen)


def _short(cells: Cells, longest: int) -> list[str]:
    return short_names([row.name for row in cells.rows], longest)


def _legend(pen: _Pen, cells: Cells, width: float) -> None:
    """The bands' colours in a line, their edges below the colours' ends."""
    wide = 26.0
    start = width - wide * len(BANDS) - 4
    named = f"{cells.unit}, {cells.title}"
    least, label = cells.edges[0]
    known = [v for row in cells.rows for v in row.values if not math.isnan(v)]
    if known and max(known) < least:  # one colour: a map that looks empty says why
        named = f"{cells.unit}, all below {label}"
    pen.text(fit(named, start - 8, _SIZE), 2.0, 10.0, "unit", title=named)
    for i, colour in enumerate(BANDS):
        pen.rect(start + wide * i, 2.0, start + wide * (i + 1), 6.0, fill=colour)
    for i, (_, label) in enumerate(cells.edges):
        pen.text(label, start + wide * (i + 1), 14.5, "edge", text_anchor="middle")


def _rows(count: int, marked: int, room: float) -> tuple[list[float], list[float]]:
    """Tops and heights: equal if names fit; else marked rows fit a name, others share the rest."""
    heights = [room / max(count, 1)] * count
    name = 11.0
    if count > marked and room / count < name:
        heights = [name] * marked + [max(room - name * marked, 8.0) / (count - marked)] * (
            count - marked
        )
    tops = [sum(heights[:i]) for i in range(count)]
    return tops, heights


def _gaps(steps: Sequence[int]) -> list[bool]:
    """Steps followed by a gap: the distance before is the smallest, the next one is larger."""
    apart = [b - a for a, b in zip(steps, steps[1:])]
    least = min(apart, default=0)
    return [
        distance > least and (i == 0 or apart[i - 1] == least) for i, distance in enumerate(apart)
    ]


def _columns(steps: Sequence[int], width: float) -> list[tuple[float, float]]:
    gaps = _gaps(steps)
    gap = min(2.0, 0.2 * width / max(sum(gaps), 1))
    wide = (width - gap * sum(gaps)) / max(len(steps), 1)
    edges, at = [], 0.0
    for i in range(len(steps)):
        edges.append((at, at + wide))
        at += wide + (gap if i < len(gaps) and gaps[i] else 0.0)
    return edges


def _labelled(count: int, width: float) -> list[int]:
    """Places of the steps whose numbers fit, including the first and the last."""
    most = min(count, 1 + int(width * (count - 1) / (40 * max(count, 1))))
    return sorted({round(i * (count - 1) / max(most - 1, 1)) for i in range(most)})
