"""Which part of a replay each machine of a cluster does: as much of the cost as it has threads, and of as few steps as that allows.

A file of a trace has all tensors of a worker at a step, so a machine that does whole steps opens the others' files never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

__all__ = ["Item", "Part", "parts_by_cost"]


@dataclass(frozen=True)
class Item:
    """What is done in one go: a tensor at a step, or at all steps in their order."""

    tensor: int  # place in the selection
    step: int | None  # place in the selection; None: all steps
    cost: float  # seconds of one thread
    values: int  # that are visited
    pair: int | None = None  # step * tensors + tensor, whose statistics are read with it
    place: int | None = None  # in the work list: what pass 2 does of it


@dataclass
class Part:
    """What one machine does."""

    threads: int
    items: list[Item] = field(default_factory=list)
    cost: float = 0.0  # of the items

    def add(self, *items: Item) -> None:
        self.items += items
        self.cost += sum(item.cost for item in items)

    def end(self, cost: float) -> float:
        """When it has done its items, and others of this cost."""
        return (self.cost + cost) / self.threads

    @property
    def pairs(self) -> list[int]:
        """Whose statistics it reads in pass 1, ascending."""
        return sorted(item.pair for item in self.items if item.pair is not None)

    @property
    def places(self) -> list[int]:
        """What it does in pass 2, as places in the work list, ascending."""
        return sorted(item.place for item in self.items if item.place is not None)

    def steps(self, count: int) -> list[int]:
        """Of these many selected steps those whose files it reads."""
        found = {item.step for item in self.items}
        return list(range(count)) if None in found else sorted(step for step in found if step is not None)


def parts_by_cost(items: Sequence[Item], threads: Sequence[int]) -> list[Part]:
    """Shares items out to machines, so that all end at about the same time.

    First what goes through all steps, the dearest first, each to who would end it first. Then steps, whole where a machine has
    time for one before all could have ended; of the others machine after machine what still fits, step by step. What fits nowhere is given
    out item by item, again the dearest first.

    Parameters
    ----------
    items : sequence of Item
    threads : sequence of int
        Of the machines, each at least 1.

    Returns
    -------
    list of Part
        One a machine, without items where nothing is left for it.
    """
    parts = [Part(count) for count in threads]
    end = sum(item.cost for item in items) / sum(threads) * (1 + 1e-9)  # of all, at best; sums are rounded

    def one_by_one(left: list[Item]) -> None:
        for item in sorted(left, key=lambda item: -item.cost):
            min(parts, key=lambda part: (part.end(item.cost), len(part.items))).add(item)

    one_by_one([item for item in items if item.step is None])
    left: list[Item] = []
    by_step = sorted((item for item in items if item.step is not None), key=lambda item: (item.step, -item.cost))
    for _, group in groupby(by_step, key=lambda item: item.step):
        whole = list(group)
        cost = sum(item.cost for item in whole)
        part = min(parts, key=lambda part: part.end(cost))
        if part.end(cost) <= end:
            part.add(*whole)
        else:
            left += whole
    for part in sorted(parts, key=lambda part: part.end(0.0)):
        left = _filled(part, left, end)
    one_by_one(left)
    return parts


def _filled(part: Part, left: list[Item], end: float) -> list[Item]:
    """Fills a machine up with items, step by step until one does not fit; the others."""
    rest: list[Item] = []
    for _, group in groupby(left, key=lambda item: item.step):
        fits = not rest
        for item in group:
            if fits and part.end(item.cost) <= end:
                part.add(item)
            else:
                rest.append(item)
    return rest
