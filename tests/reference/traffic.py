"""The messages of every rank in a collective operation, one by one; definitions.md, section 12.

Every function gives, per rank, how much of the vector it sends: a pair of fractions, in partial
sums (or whole messages) and in results. Chunks are equal parts. `hierarchical` gives these between
the nodes, and then inside them.
"""

import math
from fractions import Fraction

Sent = list[list[Fraction]]  # per rank: of partial sums, of results


def nothing(workers: int) -> Sent:
    return [[Fraction(0), Fraction(0)] for _ in range(workers)]


def ring(workers: int) -> Sent:
    """Chunk c starts at rank c + 1 and passes on, summed up, to rank c, which has the result; that
    goes round again."""
    sent = nothing(workers)
    for chunk in range(workers):
        rank = (chunk + 1) % workers
        for phase in (0, 1):
            for _ in range(workers - 1):
                sent[rank][phase] += Fraction(1, workers)
                rank = (rank + 1) % workers
    return sent


def tree(workers: int) -> Sent:
    """Neighbours pair at each level, an odd last one waits for the next; the root's result goes
    back the same way."""
    sent, level = nothing(workers), list(range(workers))
    while len(level) > 1:
        for leader, other in zip(level[::2], level[1::2]):
            sent[other][0] += 1
            sent[leader][1] += 1
        level = level[::2]
    return sent


def halving(workers: int) -> Sent:
    """Each partner keeps half of what both have, until every one of a power of two of ranks has a
    part; then the same backwards. An even rank in excess gives its vector to the next one before,
    and gets the result after."""
    sent, power = nothing(workers), 1 << workers.bit_length() - 1
    excess = workers - power
    for pair in range(excess):
        sent[2 * pair][0] += 1
        sent[2 * pair + 1][1] += 1
    part = Fraction(1)
    while part > Fraction(1, power):
        part /= 2
        for rank in range(workers):
            if rank >= 2 * excess or rank % 2:
                sent[rank][0] += part
                sent[rank][1] += part
    return sent


def shards(workers: int) -> Sent:
    """Everyone sends everyone else a part of its message, and then its part of the result."""
    return [[Fraction(workers - 1, workers)] * 2 for _ in range(workers)]


def gather(workers: int) -> Sent:
    """Everyone's message goes round the ring."""
    sent = nothing(workers)
    for source in range(workers):
        for hop in range(workers - 1):
            sent[(source + hop) % workers][0] += 1
    return sent


def hierarchical(workers: int, group: int) -> tuple[Sent, Sent]:
    """Rings inside the nodes leave each worker a part; rings between the nodes' holders of a piece;
    rings inside again."""
    nodes = [list(range(first, min(first + group, workers))) for first in range(0, workers, group)]
    between, inside = nothing(workers), nothing(workers)
    for members in nodes:
        for rank, (partial, result) in zip(members, ring(len(members))):
            inside[rank][0] += partial
            inside[rank][1] += result
    # So small that each has one holder per node.
    pieces = math.lcm(len(nodes), *map(len, nodes)) * len(nodes)
    for piece in range(pieces):
        chunk = piece % len(nodes)
        for phase in (0, 1):
            for hop in range(len(nodes) - 1):
                members = nodes[(chunk + 1 + phase * (len(nodes) - 1) + hop) % len(nodes)]
                between[members[piece * len(members) // pieces]][phase] += Fraction(1, pieces)
    return between, inside


def busiest(sent: Sent, partial: float, result: float) -> float:
    """Bytes of the rank that sends most, where the whole vector is so many bytes."""
    return max(float(p) * partial + float(r) * result for p, r in sent)
