"""Widths of texts in pictures that a page draws in a font of its reader, and what fits."""

from __future__ import annotations

from .._text import clip

#: Hundredths of the size: letters of that width in DejaVu Sans, the widest font that pages ask for.
_WIDTHS = {
    28: "'ijl", 30: "IJ", 32: " ,.·", 34: "/:;|", 36: "-f", 39: "()[]", 40: "!t⁰¹²³⁴⁵⁶⁷⁸⁹", 42: "r",
    46: '"', 50: "*_–", 53: "sz?⁻", 56: "cL", 58: "Fk", 61: "vxyPTYaeo", 70: "ABCKRVXZ",
    79: "DGHNOQU&", 84: "w#+<=>^~×÷→≤−", 87: "M", 99: "mW%@…½¼",
}  # fmt: skip
_WIDTH_OF = {letter: width / 100 for width, letters in _WIDTHS.items() for letter in letters}
#: The same of digits and of other letters up to U+2FFF; beyond, where letters are square.
_OTHER, _SQUARE = 0.64, 1.0
_BOLD = 1.12


def width_of(text: str, size: float, bold: bool = False) -> float:
    """The width of a text in letters of this size."""
    shares = (_WIDTH_OF.get(c, _OTHER if ord(c) < 0x3000 else _SQUARE) for c in text)
    return size * (_BOLD if bold else 1.0) * sum(shares)


def fit(text: str, room: float, size: float, bold: bool = False) -> str:
    """The text, without its middle if it is wider than `room`."""
    # Every letter is wider than a quarter of the size: more than these never fit.
    shortened, longest = text, min(len(text), max(int(4 * room / size), 0) + 5)
    while width_of(shortened, size, bold) > room and longest > 3:
        longest -= 1
        shortened = clip(text, longest)
    return shortened
