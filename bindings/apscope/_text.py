"""Names out of traces as people can read them, in terminals and pages."""

from __future__ import annotations

import math

__all__ = ["clip", "printable"]


def clip(name: str, most: int = 60) -> str:
    """A name that fits: what is too long keeps its beginning and its end."""
    return name if len(name) <= most else f"{name[: math.ceil(most * 0.55)]}…{name[-math.floor(most * 0.4) :]}"


def printable(name: str, most: int = 200) -> str:
    """A name on one line of a terminal: what would steer the terminal is written by its code, and what is too long is clipped."""
    if not name.isprintable():
        name = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    return clip(name, most)
