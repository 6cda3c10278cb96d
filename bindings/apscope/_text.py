"""Names and numbers as people can read them, in terminals, pages and pictures."""

from __future__ import annotations

import math

__all__ = ["clip", "count_of", "printable", "raised"]

_RAISED = str.maketrans("0123456789-\N{MINUS SIGN}", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


def clip(name: str, longest: int = 60) -> str:
    """A name that fits: what is too long keeps its beginning and its end."""
    return name if len(name) <= longest else f"{name[: math.ceil(longest * 0.55)]}…{name[-math.floor(longest * 0.4) :]}"


def printable(name: str, longest: int = 200) -> str:
    """A name on one line of a terminal: what would steer the terminal is written by its code, and what is too long is clipped."""
    if not name.isprintable():
        name = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    return clip(name, longest)


def raised(exponent: int | str) -> str:
    """An integer in superscripts."""
    return str(exponent).translate(_RAISED)


def count_of(count: int, noun: str) -> str:
    """1 step, 1,000 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
