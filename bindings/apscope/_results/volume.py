"""Volumes, relative to the bytes of an fp32 ring, and their classes: a quarter, a half."""

from __future__ import annotations

from typing import Any

__all__ = ["BLOCKS", "SIDE", "at_most", "in_class"]

#: Of fp32's bytes. Side information below this does not change a volume's class;
#: docs/definitions.md, section 12.
SIDE = 0.001
#: Side information of blocks, of the payload: at most a scale of 8 bits for 16 elements of 4, an
#: eighth.
BLOCKS = 0.125


def at_most(volume: Any, limit: Any) -> Any:
    """Whether volumes are at most `limit`, apart from side information; False if there is none."""
    return volume <= limit + SIDE


def in_class(volume: Any, share: Any) -> Any:
    """Whether the payload's share is at most `share`, the scales of blocks apart."""
    return at_most(volume, share * (1 + BLOCKS))
