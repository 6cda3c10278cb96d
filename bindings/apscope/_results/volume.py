"""Volumes, relative to the bytes of an fp32 ring, and their classes: a quarter, a half."""

from __future__ import annotations

from typing import Any

#: Of fp32's bytes. Side information below this does not change a volume's class;
#: docs/definitions.md, section 12.
SIDE = 0.001
#: Reductions send the same bytes if their volumes differ by at most this factor: scales of blocks,
#: and a scale for each of many shards, come on top. A gather sends W / 2 times as much as a ring.
_SAME = 1.5


def at_most(volume: Any, limit: Any) -> Any:
    """Whether volumes are at most `limit`, apart from side information; False if there is none."""
    return volume <= limit + SIDE


def in_class(volume: Any, share: Any) -> Any:
    """Whether volumes are at most those of a payload of `share`, with its side information."""
    return volume <= _SAME * share


def same_bytes(one: float, other: float) -> bool:
    """Whether two volumes are the same but for side information."""
    low, high = sorted((one, other))
    return in_class(high, low)
