"""The reductions of production libraries, definitions.md, section 1: played by their own rules, and
not as lists of additions.

`add` rounds to the scheme's accumulator, or adds exactly (a function without formats).
"""

from __future__ import annotations

import numpy as np

from . import traffic
from .casts import Rounding
from .formats import FORMATS
from .rounding import Format


def butterfly(codes, narrow, wide, elements):
    """Recursive halving: a rank and its partner each keep half of the vector that both have."""
    workers, n = codes.shape
    power = 1 << workers.bit_length() - 1
    ranks, hop = [], 0
    for w in range(workers):
        if w < 2 * (workers - power):
            if w % 2:  # the even one before it gives its vector
                ranks.append(narrow(codes[w], codes[w - 1], hop, elements))
                hop += 1
        else:
            ranks.append(codes[w])
    vectors = [v.copy() for v in ranks]
    parts = [np.arange(n)] * power
    distance = power // 2
    while distance:
        before = [v.copy() for v in vectors]
        for i in range(power):
            partner = i ^ distance
            lower, upper = np.array_split(parts[i], 2)
            parts[i] = upper if i & distance else lower
            kept = parts[i]
            vectors[i][kept] = narrow(
                before[i][kept], before[partner][kept], hop + i % distance, elements[kept]
            )
        hop += distance
        distance //= 2
    result = np.empty(n)
    for i in range(power):
        result[parts[i]] = vectors[i][parts[i]]
    return result


def steps_of_pat(workers: int) -> list[tuple[int, int | None]]:
    """NCCL's steps of a reduce-scatter, in time: (a rank's distance before the owner of what it
    adds to, that of the rank it has received from). None: it only has its own."""
    power = 1 << (workers - 1).bit_length()
    together, depth = 1, 8
    while depth > 1 and together < workers // 2:
        together, depth = 2 * together, depth // 2
    apart, steps = power // together, []

    def mirrored(i, most):
        return int(f"{i ^ (most - 1):0{most.bit_length() - 1}b}"[::-1], 2) if most > 1 else 0

    def receive(s, bit):
        if s - bit < workers:
            steps.append((s - bit, s if s < workers else None))

    def lowest(s):
        return s & -s

    for a in range(apart - 1, 0, -1):
        groups = [mirrored(i, together) * apart + a for i in range(together)]
        if a % 2:
            steps += [(s, None) for s in groups if s < workers]
        if a > 1:
            for s in groups:
                receive(s, lowest(s))
    scale = 1
    while together > 1 and scale < together:
        most = together // (2 * scale)
        groups = [(2 * mirrored(i, most) + 1) * scale * apart for i in range(most)]
        for s in groups:
            receive(s + 1, 1)
        for s in groups:
            receive(s, lowest(s))
        scale *= 2
    if workers > 1:
        steps.append((0, 1))
    return steps


def pat(codes, narrow, wide, elements):
    """What a rank sends is rounded at every step; the owner's own sum is not."""
    workers, n = codes.shape
    received: dict[int, list] = {s: [] for s in range(workers)}
    for place, source in steps_of_pat(workers):
        received[place].append(source)
    result = np.empty(n)
    for owner in range(workers):
        chunk = slice(owner * n // workers, (owner + 1) * n // workers)
        where = elements[chunk]
        hop = 0

        def value(s, owner=owner, chunk=chunk, where=where):
            nonlocal hop
            total = codes[(owner - s) % workers, chunk]
            fresh = True
            for source in received[s]:
                if source is not None:
                    message = value(source)
                    total = (narrow if s else wide)(total, message, hop, where)
                    hop += 1
                elif fresh and s:
                    total = narrow.alone(total, hop, where) if hasattr(narrow, "alone") else total
                    hop += 1
                fresh = False
            return total

        result[chunk] = value(0)
    return result


def in_order(codes, narrow, wide, elements):
    total = codes[0]
    for hop, code in enumerate(codes[1:]):
        total = wide(total, code, hop, elements)
    last = len(codes) - 1
    return narrow.alone(total, last, elements) if last and hasattr(narrow, "alone") else total


def one_by_one(codes, narrow, wide, elements):
    total = codes[0]
    for hop, code in enumerate(codes[1:]):
        total = narrow(total, code, hop, elements)
    return total


def ring(codes, narrow, wide, elements):
    workers, n = codes.shape
    result = np.empty(n)
    for k in range(workers):
        chunk = slice(k * n // workers, (k + 1) * n // workers)
        total = codes[(k + 1) % workers, chunk]
        for j in range(2, workers + 1):
            total = narrow(total, codes[(k + j) % workers, chunk], j - 2, elements[chunk])
        result[chunk] = total
    return result


def parent(workers: int, rank: int) -> int | None:
    """In NCCL's tree: among 1, 5, 9, ... the even number between two of them, and so on."""
    if rank == 0:
        return None
    bit = rank & -rank
    up = (rank - bit) | 2 * bit
    return up if up < workers else rank - bit


def trees(workers: int) -> list[list[int]]:
    """The ranks in the places of both trees."""
    ranks = list(range(workers))
    return [ranks, ranks[::-1] if workers % 2 == 0 else ranks[1:] + ranks[:1]]


def double_tree(codes, narrow, wide, elements):
    workers, n = codes.shape
    result, half = np.empty(n), n // 2
    for chunk, ranks in zip((slice(0, half), slice(half, n)), trees(workers)):
        children: dict[int | None, list[int]] = {}
        for place in range(workers):
            children.setdefault(parent(workers, place), []).append(place)
        hop = 0

        def value(place, chunk=chunk, ranks=ranks, children=children):
            nonlocal hop
            total = codes[ranks[place], chunk]
            for child in children.get(place, []):
                message = value(child)
                total = narrow(total, message, hop, elements[chunk])
                hop += 1
            return total

        result[chunk] = value(0)
    return result


def bits(f: Format) -> int:
    return f.is_signed + f.exponent_bits + f.mantissa_bits


def nccl(f: Format) -> Rounding:
    return Rounding(overflow="saturate" if bits(f) <= 8 else "ieee")


ORDERS = {
    "butterfly": butterfly,
    "fp32_accumulate": in_order,
    "pat": pat,
    "nccl:ring": ring,
    "nccl:tree": double_tree,
    "nccl:symmetric": in_order,
    "nccl:nvls": in_order,
    "torch:one_shot": one_by_one,
    "torch:two_shot": one_by_one,
}
#: Reductions that round in a wider format what was added before, and so what was drawn.
WIDE = {"fp32_accumulate": "first", "pat": "last", "nccl:symmetric": "first", "nccl:nvls": "first"}


#: What each worker sends of its message, or of partial sums, and of the result.
SENT = {
    "butterfly": traffic.halving,
    "fp32_accumulate": traffic.shards,
    "pat": traffic.pat,
    "nccl:ring": traffic.ring,
    "nccl:tree": traffic.double_tree,
    "nccl:symmetric": traffic.shards,
    "torch:one_shot": traffic.gather,
    "torch:two_shot": traffic.shards,
}


def widths(topology: str, message: float, wide: float, fp32: float) -> tuple[float, float]:
    """Bytes of a whole vector of what is sent before the sum, and of the sum, given those of a
    message, of a vector of partial sums and of fp32."""
    if SENT[topology] in (traffic.shards, traffic.gather):
        return message, wide
    return wide, fp32 if topology == "pat" else wide


def draws(topology: str) -> bool:
    return not topology.startswith(("nccl:", "torch:"))


def rounds_what_was_drawn(topology: str, messages_are: bool) -> bool:
    """Whether a sum in a wider format follows a draw, so that no expectation is known."""
    return WIDE.get(topology) == "last" or (topology in WIDE and messages_are)


def reduce(codes, topology: str, add, elements):
    if not hasattr(add, "of"):  # exact sums
        return ORDERS[topology](codes, add, add, elements)
    narrow, wide = add, add.of(FORMATS["fp32"], Rounding())
    if topology.startswith("nccl:"):
        narrow = add.of(add.f, nccl(add.f))
    if topology.startswith("torch:"):
        narrow = add.of(add.f, Rounding())
    if topology == "nccl:nvls":
        if bits(add.f) <= 8:
            wide = add.of(FORMATS["fp16"], Rounding())
        elif add.f == FORMATS["bf16"]:
            cut = Rounding("toward_zero")
            narrow, wide = add.of(add.f, cut), add.of(FORMATS["fp32"], cut)
        elif add.f == FORMATS["fp32"]:
            return narrow.all(codes) if len(codes) > 1 else codes[0]
    return ORDERS[topology](codes, narrow, wide, elements)
