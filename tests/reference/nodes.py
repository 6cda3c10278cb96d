"""Collectives on workers that nodes hold, message by message; definitions.md, section 12.

Worker w is on node w // (W/G). A collective is a list of stages, one after another; a stage a list
of rounds; a round the messages that leave together: (source, target, share of a partial sum or of
a worker's message, share of the result). Chunks are equal parts.
"""

from collections.abc import Iterator
from fractions import Fraction

Message = tuple[int, int, Fraction, Fraction]
Stage = list[list[Message]]

#: Latencies, so that a sum of fewer than 1000 messages inside a node is told from one between two.
BETWEEN, INSIDE = 1000, 1


def around(members: list[int], phase: int) -> Stage:
    """Chunk c starts one further on than place c and visits all; phase 1 starts where 0 ended."""
    n = len(members)
    share = (Fraction(1, n), Fraction(0)) if phase == 0 else (Fraction(0), Fraction(1, n))
    return [
        [
            (members[(c + 1 - phase + hop) % n], members[(c + 2 - phase + hop) % n], *share)
            for c in range(n)
        ]
        for hop in range(n - 1)
    ]


def ring(workers: int) -> list[Stage]:
    return [around(list(range(workers)), 0) + around(list(range(workers)), 1)]


def all_gather(workers: int) -> list[Stage]:
    """Everyone's message goes round the ring."""
    return [
        [
            [
                ((w + hop) % workers, (w + hop + 1) % workers, Fraction(1), Fraction(0))
                for w in range(workers)
            ]
            for hop in range(workers - 1)
        ]
    ]


def shards(workers: int) -> list[Stage]:
    """Each worker sends each other one its part, then the reduced parts go round the ring."""
    flat = [
        [(w, (w + far) % workers, Fraction(1, workers), Fraction(0)) for w in range(workers)]
        for far in range(1, workers)
    ]
    return [flat, around(list(range(workers)), 1)]


def mirrored(rounds: Stage) -> Stage:
    """The way back of results."""
    return [[(b, a, Fraction(0), share) for a, b, share, _ in sent] for sent in reversed(rounds)]


def tree(workers: int) -> list[Stage]:
    rounds, level = [], list(range(workers))
    while len(level) > 1:
        rounds.append([(b, a, Fraction(1), Fraction(0)) for a, b in zip(level[::2], level[1::2])])
        level = level[::2]
    return [rounds + mirrored(rounds)]


def halving(workers: int) -> list[Stage]:
    """The farthest partners first; ranks in excess of a power of two give all to a neighbour."""
    power = 1 << workers.bit_length() - 1
    excess = workers - power
    rounds = []
    if excess:
        rounds.append([(2 * k, 2 * k + 1, Fraction(1), Fraction(0)) for k in range(excess)])
    left = [2 * k + 1 for k in range(excess)] + list(range(2 * excess, workers))
    distance, part = power // 2, Fraction(1, 2)
    while distance:
        rounds.append([(left[i], left[i ^ distance], part, Fraction(0)) for i in range(power)])
        distance, part = distance // 2, part / 2
    return [rounds + mirrored(rounds)]


def double_tree(workers: int) -> list[Stage]:
    """NCCL's: half of the message in each of two trees, the second of other ranks."""
    levels: dict[int, list[Message]] = {}
    for place in range(1, workers):
        low = place & -place
        parent = (place - low) | (2 * low)
        if parent >= workers:
            parent = place - low
        for other in (False, True):
            a, b = (
                (workers - 1 - s if workers % 2 == 0 else (s + 1) % workers) if other else s
                for s in (place, parent)
            )
            levels.setdefault(low, []).append((a, b, Fraction(1, 2), Fraction(0)))
    rounds = [levels[low] for low in sorted(levels)]
    return [rounds + mirrored(rounds)]


def pat(workers: int) -> list[Stage]:
    """In the tree of chunk k place s is rank k - s, its parent the place less its lowest bit."""
    levels: dict[int, list[Message]] = {}
    for chunk in range(workers):
        for place in range(1, workers):
            low = place & -place
            a, b = ((chunk - s) % workers for s in (place, place - low))
            levels.setdefault(low, []).append((a, b, Fraction(1, workers), Fraction(0)))
    rounds = [levels[low] for low in sorted(levels)]
    return [rounds + mirrored(rounds)]


def together(stages: list[Stage]) -> Stage:
    """Disjoint rings of one length, at once."""
    return [[m for sent in rounds for m in sent] for rounds in zip(*stages, strict=True)]


def hierarchical(workers: int, nodes: int, flat: bool = False) -> list[Stage]:
    """Rings inside the nodes leave each worker a part; the workers with the same part reduce it
    between the nodes, in a ring or (`flat`) by parts of parts; rings inside share it."""
    each = workers // nodes
    inside = [list(range(first, first + each)) for first in range(0, workers, each)]
    between = [list(range(k, workers, each)) for k in range(each)]

    def part(stage: Stage) -> Stage:
        return [[(a, b, p / each, r / each) for a, b, p, r in sent] for sent in stage]

    def exchange(members: list[int]) -> Stage:
        if not flat:
            return around(members, 0)
        return [
            [(members[a], members[b], p, r) for a, b, p, r in sent]
            for sent in shards(len(members))[0]
        ]

    return [
        together([around(members, 0) for members in inside]),
        part(together([exchange(members) for members in between])),
        part(together([around(members, 1) for members in between])),
        together([around(members, 1) for members in inside]),
    ]


def messages(stages: list[Stage]) -> Iterator[Message]:
    for stage in stages:
        for sent in stage:
            yield from sent


def node_bytes(stages: list[Stage], each: int, nodes: int, partial: float, result: float) -> float:
    """What the busiest node sends to the others."""
    out = [0.0] * nodes
    for a, b, p, r in messages(stages):
        if a // each != b // each:
            out[a // each] += float(p) * partial + float(r) * result
    return max(out)


def intra_bytes(stages: list[Stage], each: int, partial: float, result: float) -> float:
    """What the busiest worker sends inside its node."""
    out: dict[int, float] = {0: 0.0}
    for a, b, p, r in messages(stages):
        if a // each == b // each:
            out[a] = out.get(a, 0.0) + float(p) * partial + float(r) * result
    return max(out.values())


def latency(a: int, b: int, each: int) -> int:
    return INSIDE if a // each == b // each else BETWEEN


def followed(stage: Stage, each: int) -> int:
    """Of a ring: the longest way of a message, which each worker passes on."""
    ways = []
    for start in range(len(stage[0]) if stage else 0):
        at, total = stage[0][start][0], 0
        for sent in stage:
            a, b = next((a, b) for a, b, *_ in sent if a == at)
            total, at = total + latency(a, b, each), b
        ways.append(total)
    return max(ways, default=0)


def in_turn(stage: Stage, each: int) -> int:
    """Every worker's own messages, one after another."""
    totals: dict[int, int] = {0: 0}
    for sent in stage:
        for a, b, *_ in sent:
            totals[a] = totals.get(a, 0) + latency(a, b, each)
    return max(totals.values())


def by_rounds(stage: Stage, each: int) -> int:
    """Every round takes its slowest message."""
    return sum(max((latency(a, b, each) for a, b, *_ in sent), default=0) for sent in stage)
