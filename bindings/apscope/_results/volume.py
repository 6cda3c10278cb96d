"""Volumes, shares of the bytes of an fp32 ring: which of them count as a quarter or a half."""

from __future__ import annotations

from typing import Any

__all__ = ["SIDE", "at_most"]

#: Of fp32's bytes. Side information below this does not change a volume's class; docs/definitions.md, section 12.
SIDE = 0.001


def at_most(volume: Any, limit: Any) -> Any:
    """Whether a volume, or each of several, is at most `limit`, but for side information; False where there is none."""
    return volume <= limit + SIDE
