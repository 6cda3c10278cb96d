"""All-reduce topologies, addition by addition, by definitions.md, section 1.

Every function takes the workers' values (W, n) and an `add(a, b, hop, elements)` that rounds one
exact sum; the hop counts the additions of the topology from 0, subtractions of Kahan's sum
included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import production, traffic


def sequential(codes, add, elements, hop=0):
    total = codes[0]
    for j, code in enumerate(codes[1:]):
        total = add(total, code, hop + j, elements)
    return total


def kahan(codes, add, elements, hop=0):
    total, e = codes[0], np.zeros_like(codes[0])
    for code in codes[1:]:
        y = add(code, -e, hop, elements)
        t = add(total, y, hop + 1, elements)
        e = add(add(t, -total, hop + 2, elements), -y, hop + 3, elements)
        total, hop = t, hop + 4
    return total


def ring(codes, add, elements):
    workers, n = codes.shape
    result = np.empty(n)
    for k in range(workers):
        chunk = slice(k * n // workers, (k + 1) * n // workers)
        order = [(k + 1 + j) % workers for j in range(workers)]
        result[chunk] = sequential(codes[order, chunk], add, elements[chunk])
    return result


def tree(codes, add, elements):
    level, hop = list(codes), 0
    while len(level) > 1:
        above = []
        for j in range(0, len(level) - 1, 2):
            above.append(add(level[j], level[j + 1], hop, elements))
            hop += 1
        level = above + level[len(level) & ~1 :]  # an odd last one passes up
    return level[0]


def hierarchical(codes, add, elements, group, inner=sequential, cost=1):
    """`cost` additions an addend; `inner` sums a group, and then the groups' sums."""
    sums, hop = [], 0
    for start in range(0, len(codes), group):
        members = codes[start : start + group]
        sums.append(inner(members, add, elements, hop))
        hop += cost * (len(members) - 1)
    return inner(np.array(sums), add, elements, hop)


def reduce(codes: np.ndarray, topology: str, add) -> np.ndarray:
    """The sum of the workers' codes; every topology but `exact` and `gather`."""
    elements = np.arange(codes.shape[1])
    name, _, suffix = topology.partition("+")
    name, _, group = name.partition(":")
    if name == "nccl":
        name = topology
    inner, cost = (kahan, 4) if suffix == "kahan" else (sequential, 1)
    if name == "hierarchical":
        return hierarchical(codes, add, elements, int(group), inner, cost)
    if name == "sequential":
        return inner(codes, add, elements)
    if topology in production.ORDERS:
        return production.reduce(codes, topology, add, elements)
    return ORDERS[name](codes, add, elements)


#: Topologies without a parameter, and what each worker sends.
ORDERS = {"ring": ring, "tree": tree}
COLLECTIVES: dict[str, Callable[[int], traffic.Sent]] = {
    "ring": traffic.ring,
    "tree": traffic.tree,
    "gather": traffic.gather,
}


def rank_order_sum(values: np.ndarray, dtype=np.float64) -> np.ndarray:
    """((v0 + v1) + ...) in fp64 or fp32: the references, `exact` and `gather`."""
    values = values.astype(dtype)
    total = values[0]
    for v in values[1:]:
        total = total + v
    return total.astype(np.float64)


def volumes(
    topology: str,
    workers: int,
    n: int,
    wire_bits: int,
    side_bits: int,
    sum_bits: int | None,
    agreed: bool,
) -> tuple[float | None, float | None]:
    """The columns volume and intra_volume of a float scheme or qsgd; sum_bits: of a value of a
    partial sum, None for exact ones."""
    name, _, group = topology.partition("+")[0].partition(":")
    if topology in production.ORDERS:
        name = topology
    if (
        workers == 1
        or n == 0
        or (name != "hierarchical" and name not in COLLECTIVES and name not in production.SENT)
        or (name not in ("gather", "torch:one_shot") and sum_bits is None)
    ):
        return None, None
    message = (wire_bits + (0 if agreed else side_bits)) / 8
    wide = message if name in ("gather", "torch:one_shot") else n * sum_bits / 8
    side = traffic.busiest(traffic.ring(workers), side_bits / 8, side_bits / 8) if agreed else 0.0
    fp32 = traffic.busiest(traffic.ring(workers), 4 * n, 4 * n)
    if name in production.SENT:
        sent = production.SENT[name](workers)
        sizes = production.widths(name, message, wide, 4 * n)
        return (traffic.busiest(sent, *sizes) + side) / fp32, None
    if name == "hierarchical":
        between, inside = traffic.hierarchical(workers, int(group))
        if int(group) >= workers:  # a single node: its links are the busiest
            between = inside
        return (traffic.busiest(between, wide, wide) + side) / fp32, traffic.busiest(
            inside, wide, wide
        ) / fp32
    return (traffic.busiest(COLLECTIVES[name](workers), wide, wide) + side) / fp32, None
