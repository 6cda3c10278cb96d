"""Names of any kind as labels: short enough, on one line, and in glyphs that a font has."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from matplotlib import font_manager
from matplotlib.axis import Axis

from .._text import broken, clip

#: Maximum length of a name beside an axis; the middle of a longer one is left out.
LONGEST = 30
#: Families with glyphs that DejaVu Sans lacks, used if they are installed.
_WIDER = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Serif CJK SC", "Noto Serif CJK JP",
    "Source Han Sans SC", "WenQuanYi Zen Hei",
    "IPAGothic", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "PingFang SC", "Hiragino Sans",
    "Arial Unicode MS", "Noto Sans Arabic",
)  # fmt: skip


@functools.cache
def font_families() -> tuple[str, ...]:
    """DejaVu Sans, which comes with matplotlib, and then the installed families of `_WIDER`."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in _WIDER if name in installed))


@functools.cache
def _glyphs() -> frozenset[int]:
    glyphs: set[int] = set()
    for family in font_families():
        glyphs |= font_manager.get_font(font_manager.findfont(family)).get_charmap().keys()
    return frozenset(glyphs)


def shown(name: str, longest: int = LONGEST) -> str:
    """The name, without its middle if long, and with codes for characters that no font has."""
    name = clip(str(name), longest)
    return "".join(
        c if c.isprintable() and ord(c) in _glyphs() else c.encode("unicode_escape").decode()
        for c in name
    )


def wrapped(spec: str, width: int = 30, lines: int = 3) -> str:
    """A spec on as few lines as possible, broken after punctuation if there is any.

    The middle of a very long one is left out.
    """
    return "\n".join(broken(shown(spec, width * lines), width))


def width_beside(names: Sequence[str], width: float) -> float:
    """Width in inches of a figure with these names at its left; `width` has room for 14 letters."""
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    return width + 0.085 * max(0, longest - 14)


def name_ticks(axis: Axis, names: Sequence[str]) -> None:
    """Labels the places 0, 1, ... with names; if they are too many, every second, third, ..."""
    stride = -(-len(names) // 60)  # most labels
    places = range(0, len(names), stride)
    axis.set_ticks(places, [shown(names[i]) for i in places], parse_math=False)
