"""The messages of every rank in a collective operation, one by one; definitions.md, section 12.

Every function gives, per rank, how much of the vector it sends: a pair of fractions, in partial
sums (or whole messages) and in results. Chunks are equal parts. `hierarchical` gives these between
the nodes, and then inside them.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction

from . import nodes

Sent = list[list[Fraction]]  # per rank: of partial sums, of results


def nothing(workers: int) -> Sent:
    return [[Fraction(0), Fraction(0)] for _ in range(workers)]


def sent_in(collective: Callable[[int], list[nodes.Stage]]) -> Callable[[int], Sent]:
    """What every rank sends in a collective of `nodes`."""

    @functools.cache
    def sent(workers: int) -> Sent:
        found = nothing(workers)
        for rank, _, partial, result in nodes.messages(collective(workers)):
            found[rank][0] += partial
            found[rank][1] += result
        return found

    return sent


ring, tree, halving = sent_in(nodes.ring), sent_in(nodes.tree), sent_in(nodes.halving)
shards, gather = sent_in(nodes.shards), sent_in(nodes.all_gather)
pat, double_tree = sent_in(nodes.pat), sent_in(nodes.double_tree)


def hierarchical(workers: int, group: int) -> tuple[Sent, Sent]:
    """Rings inside the nodes leave each worker a part; rings between the nodes' holders of a piece;
    rings inside again."""
    groups = [list(range(first, min(first + group, workers))) for first in range(0, workers, group)]
    between, inside = nothing(workers), nothing(workers)
    for members in groups:
        for rank, (partial, result) in zip(members, ring(len(members))):
            inside[rank][0] += partial
            inside[rank][1] += result
    # So small that each has one holder per node.
    count = len(groups)
    pieces = math.lcm(count, *map(len, groups)) * count
    for piece in range(pieces):
        chunk = piece % count
        for phase in (0, 1):
            for hop in range(count - 1):
                members = groups[(chunk + 1 + phase * (count - 1) + hop) % count]
                between[members[piece * len(members) // pieces]][phase] += Fraction(1, pieces)
    return between, inside


def busiest(sent: Sent, partial: float, result: float) -> float:
    """Bytes of the rank that sends most, where the whole vector is so many bytes."""
    return max(float(p) * partial + float(r) * result for p, r in sent)
