"""Widths of texts in pictures that a page draws in a font of its reader, and what fits."""

from __future__ import annotations

from .._text import clip

#: Shares of the size, in DejaVu Sans: the widest of the fonts that pages have.
_NARROW, _WIDE = frozenset("ijlI.,:;'|!/ "), frozenset("mwMW%@…=×÷+<>→")
_BOLD = 1.11


def width_of(text: str, size: float, bold: bool = False) -> float:
    """The width of a text in letters of this size; rather more than less."""
    return size * (_BOLD if bold else 1.0) * sum(map(_share, text))


def _share(letter: str) -> float:
    if letter in _NARROW:
        return 0.33
    if letter in _WIDE or ord(letter) > 0x2FFF:
        return 1.0 if letter in _WIDE else 1.1
    if letter in "frt()[]-":
        return 0.41
    return 0.74 if letter.isupper() else 0.63


def fit(text: str, room: float, size: float, bold: bool = False) -> str:
    """The text, without its middle if it is wider than `room`."""
    told, longest = text, len(text)
    while width_of(told, size, bold) > room and longest > 3:
        longest -= 1
        told = clip(text, longest)
    return told
