"""Divides a replay among the machines of a cluster in proportion to their threads.

A part has as few steps as possible: a file of a trace has all tensors of a worker at a step, so a
machine with whole steps never opens the files of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby


@dataclass(frozen=True)
class Item:
    """A unit of work: a tensor at a step, or at all steps in order."""

    tensor: int  # place in the selection
    step: int | None  # index in the selection; None: all steps
    cost: float  # seconds of one thread
    values: int  # visited values
    pair: int | None = None  # step * tensors + tensor: its statistics are read in the same part
    place: int | None = None  # index in the work list of pass 2


@dataclass
class Part:
    """The work of one machine."""

    threads: int
    items: list[Item] = field(default_factory=list)
    cost: float = 0.0  # of the items

    def add(self, *items: Item) -> None:
        self.items += items
        self.cost += sum(item.cost for item in items)

    def end(self, cost: float) -> float:
        """The time at which it ends, with more work of this cost."""
        return (self.cost + cost) / self.threads

    @property
    def pairs(self) -> list[int]:
        """The pairs whose statistics it computes in pass 1, ascending."""
        return sorted(item.pair for item in self.items if item.pair is not None)

    @property
    def places(self) -> list[int]:
        """Its items of pass 2, as indices in the work list, ascending."""
        return sorted(item.place for item in self.items if item.place is not None)

    def steps(self, count: int) -> list[int]:
        """The selected steps whose files it reads."""
        steps = {item.step for item in self.items}
        return sorted(range(count) if None in steps else {s for s in steps if s is not None})


def parts_by_cost(items: Sequence[Item], threads: Sequence[int]) -> list[Part]:
    """Assigns items to machines so that all end at about the same time.

    First the items that need all steps, longest first, each to the machine that would finish it
    first. Then whole steps, as long as a machine can finish one within the ideal time; the others
    fill the machines one after another, step by step. Items that fit nowhere are assigned one by
    one, again longest first. There is a part per machine, possibly without items.
    """
    parts = [Part(count) for count in threads]
    # The ideal time; with a margin for rounding.
    end = sum(item.cost for item in items) / sum(threads) * (1 + 1e-9)

    def one_by_one(left: list[Item]) -> None:
        for item in sorted(left, key=lambda item: -item.cost):
            min(parts, key=lambda part: (part.end(item.cost), len(part.items))).add(item)

    one_by_one([item for item in items if item.step is None])
    left: list[Item] = []
    by_step = sorted(
        (item for item in items if item.step is not None), key=lambda item: (item.step, -item.cost)
    )
    for _, group in groupby(by_step, key=lambda item: item.step):
        of_step = list(group)
        cost = sum(item.cost for item in of_step)
        part = min(parts, key=lambda part: part.end(cost))
        if part.end(cost) <= end:
            part.add(*of_step)
        else:
            left += of_step
    for part in sorted(parts, key=lambda part: part.end(0.0)):
        left = _filled(part, left, end)
    one_by_one(left)
    return parts


def _filled(part: Part, left: list[Item], end: float) -> list[Item]:
    """Fills a machine step by step until an item does not fit; returns the remaining items."""
    rest: list[Item] = []
    for _, group in groupby(left, key=lambda item: item.step):
        fits = not rest
        for item in group:
            if fits and part.end(item.cost) <= end:
                part.add(item)
            else:
                rest.append(item)
    return rest
