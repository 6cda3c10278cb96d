"""Places of names beside the points of a chart: where no mark and no other name is.

page/places.js has the same functions for the page's own charts; test_page_places.py compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._text import clip

#: A box in pixels: left, top, right, bottom.
Box = tuple[float, float, float, float]
#: Distances of a name from its point: to the side, and of its middle up or down.
_ASIDE = (7, 16, 28, 44, 64, 88, 116, 148)
_BESIDE = tuple(4 * k for k in range(-26, 27))
#: The cost of a shorter form of a name, the left side and a line, as squared pixels of distance.
_SHORTER, _LEFTWARD, _ON_A_LINE = 900, 24, 900
#: Letters of a name of one part that has no place as a whole.
_SHORT = 26
#: Half the height of a name and the base line below its middle, as shares of the letters' size.
_HALF, _BASE = 0.5, 0.27


@dataclass(frozen=True)
class Name:
    """A point's place, and the widths of its name's forms, the preferred one first."""

    x: float
    y: float
    widths: Sequence[float]


@dataclass(frozen=True)
class Place:
    """The form that fits, its left end and its base line; where a line from the point ends."""

    form: int
    left: float
    base: float
    end: tuple[float, float]


def forms_of(name: str) -> list[str]:
    """A name, then shorter forms of it: without its last parts, or with a gap in its middle."""
    parts = name.split(", ")
    cut = [", ".join(parts[:k]) + "…" for k in range(len(parts) - 1, 0, -1)]
    return list(dict.fromkeys([name, *(cut or [clip(name, _SHORT)])]))


def places(
    names: Sequence[Name], marks: Sequence[Box], lines: Sequence[Box], room: Box, size: float
) -> list[Place | None]:
    """A place for each name, in the order of the names; None if everything is taken.

    Parameters
    ----------
    names : sequence of Name
    marks : sequence of Box
        What no name may cover.
    lines : sequence of Box
        What a name covers only if it is far from its point elsewhere.
    room : Box
    size : float
        Of the letters, in pixels.

    Returns
    -------
    list
        Names that are above one another are in the order of their points. The lines from points to
        names meet no name and no other line.
    """
    forms = max((len(name.widths) for name in names), default=0)
    offsets = sorted(
        (aside * aside + beside * beside + _SHORTER * form + (_LEFTWARD if sign < 0 else 0), form,
         sign * aside, beside)
        for form in range(forms) for beside in _BESIDE for aside in _ASIDE for sign in (1, -1)
    )  # fmt: skip
    taken: list[tuple[Box, Box]] = []
    placed: list[Place | None] = []
    for name in names:
        best: tuple[int, Place, Box, Box] | None = None
        for cost, form, aside, beside in offsets:
            if best is not None and cost > best[0] + _ON_A_LINE:
                break
            if form >= len(name.widths):
                continue
            wide, middle, near = name.widths[form], name.y + beside, name.x + aside
            left = near if aside > 0 else near - wide
            box = (left, middle - _HALF * size, left + wide, middle + _HALF * size)
            way = (name.x, name.y, near, middle)
            if (
                box[0] < room[0] or box[1] < room[1] or box[2] > room[2] or box[3] > room[3]
                or any(meet(box, mark) for mark in marks)
                or any(_conflict(box, way, *other) for other in taken)
            ):  # fmt: skip
                continue
            free = not any(meet(box, line) for line in lines)
            if best is None or free:
                best = cost, Place(form, left, middle + _BASE * size, (near, middle)), box, way
            if free:
                break
        if best is not None:
            taken.append(best[2:])
        placed.append(None if best is None else best[1])
    return placed


def meet(a: Box, b: Box) -> bool:
    """Whether two boxes have a common inside."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _conflict(box: Box, way: Box, other: Box, others_way: Box) -> bool:
    """Whether names or lines meet, or names above one another are not in their points' order."""
    if meet(box, other) or _through(way, other) or _through(others_way, box):
        return True
    above, over = way[3] - others_way[3], way[1] - others_way[1]
    if box[0] < other[2] and other[0] < box[2] and abs(over) >= 1 and above * over < 0:
        return True
    return _cross(way, others_way)


def _through(way: Box, box: Box) -> bool:
    """Whether a line from one point to another meets a box."""
    x, y, dx, dy = way[0], way[1], way[2] - way[0], way[3] - way[1]
    start, end = 0.0, 1.0
    for at, step, low, high in ((x, dx, box[0], box[2]), (y, dy, box[1], box[3])):
        if step == 0:
            if not low < at < high:
                return False
            continue
        one, two = (low - at) / step, (high - at) / step
        start, end = max(start, min(one, two)), min(end, max(one, two))
    return start < end


def _cross(a: Box, b: Box) -> bool:
    """Whether two lines cross."""

    def side(line: Box, x: float, y: float) -> float:
        return (line[2] - line[0]) * (y - line[1]) - (line[3] - line[1]) * (x - line[0])

    return (
        side(a, b[0], b[1]) * side(a, b[2], b[3]) < 0
        and side(b, a[0], a[1]) * side(b, a[2], a[3]) < 0
    )
