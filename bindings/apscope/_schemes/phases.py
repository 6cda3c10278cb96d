"""Reductions whose messages are all decoded before they are added, and the room that they need."""

from __future__ import annotations

from .scheme import Scheme


def is_phased(topology: str) -> bool:
    """Whether every message is decoded before it is added, in all levels of a hierarchy."""
    inner = topology.partition("(")[2].removesuffix(")") if topology[:12] == "hierarchical" else ""
    levels = [level.strip() for level in inner.split(",")] if inner else [topology]
    return all(level.startswith(("two_phase", "reduce_scatter")) for level in levels)


def leaves_none(scheme: Scheme, topology: str) -> bool:
    """Whether APS's scale leaves no room for the sum, whatever its headroom.

    In two phases a layer's scale, and a finer one, are each worker's and each shard's own.
    """
    alone = scheme.name == "aps" and not scheme.keys["unit"].startswith(("model", "bucket"))
    return alone and is_phased(topology)
