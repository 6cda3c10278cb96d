"""Volumes, relative to the bytes of an fp32 ring, and their classes: a quarter, a half."""

from __future__ import annotations

from typing import Any

__all__ = ["SIDE", "at_most"]

#: Of fp32's bytes. Side information below this does not change a volume's class;
#: docs/definitions.md, section 12.
SIDE = 0.001


def at_most(volume: Any, limit: Any) -> Any:
    """Whether volumes are at most `limit`, apart from side information; False if there is none."""
    return volume <= limit + SIDE
