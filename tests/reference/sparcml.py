"""SparCML: sparse streams that become dense, and their all-reduce by recursive doubling.

A stream of dimension n is a count and either that many (index, value) pairs in ascending order or,
if the count is n, a dense array. The sum of two streams is dense if asked for, or if

    (count1 + count2)(index bytes + value bytes) >= n value bytes,

which is decided before the overlap is known; else it is a merged list. Equal indices: first +
second in the type of the values.

Source: Renggli, Ashkboos, Aghagolzadeh, Alistarh and Hoefler, SparCML: High-Performance Sparse
Communication for Machine Learning, SC 2019; its C++ headers (scl.h, scl_allreduce, c_allreduce_big)
in a public copy.
"""

import math
from dataclasses import dataclass

import numpy as np

F = np.float32


@dataclass
class Stream:
    n: int
    values: np.ndarray
    indices: np.ndarray | None = None  #: None: dense

    @property
    def count(self) -> int:
        return self.n if self.indices is None else len(self.indices)

    def bytes(self, index: int = 4, value: int = 4, header: int = 4) -> int:
        """header: the count. The size of its type is not known here."""
        return header + (self.n * value if self.is_dense else self.count * (index + value))

    @property
    def is_dense(self) -> bool:
        return self.count == self.n

    def dense(self) -> np.ndarray:
        if self.indices is None:
            return self.values
        out = np.zeros(self.n, self.values.dtype)
        out[self.indices] = self.values
        return out


def sparse(x: np.ndarray) -> Stream:
    """Of the nonzero elements."""
    at = np.flatnonzero(x)
    return Stream(len(x), np.asarray(x, F)[at], at)


def added(a: Stream, b: Stream, dense: bool = False, index: int = 4, value: int = 4) -> Stream:
    if dense or (a.count + b.count) * (index + value) >= a.n * value:
        return Stream(a.n, a.dense() + b.dense())
    # below the threshold both are sparse
    merged = np.union1d(a.indices, b.indices)
    out = np.zeros(len(merged), a.values.dtype)
    out[np.searchsorted(merged, a.indices)] = a.values
    out[np.searchsorted(merged, b.indices)] += b.values
    return Stream(a.n, out, merged)


def sparse_rounds(n: int, k: int, index: int = 4, value: int = 4) -> int:
    """T = max(1, floor(log2(n / (d k 3)))), d = (index bytes + value bytes) / value bytes as
    integers, k the nonzero elements of one rank; of ranks with different k the source does not
    tell which counts. k = 0 counts as 1, an assumption."""
    d = (index + value) // value
    ratio = n / (d * max(k, 1) * 3)
    return max(1, math.floor(math.log2(ratio))) if ratio >= 1 else 1


@dataclass
class Exchange:
    result: np.ndarray
    sent: list[int]  #: bytes per rank
    stayed_sparse: bool


def halved(rows: list[np.ndarray], least: int) -> tuple[np.ndarray, list[int]]:
    """Reduce-scatter by halves over the distances from the largest to `least`, and the all-gather
    back: the sum, and the elements that every rank sends. Below `least` the ranks' vectors are
    equal. The rank with the lower number keeps the first half, which has one element less of an odd
    number; both are assumptions."""
    n, size = len(rows[0]), len(rows)
    rows, parts, sent = [row.copy() for row in rows], [(0, n)] * size, [0] * size
    distances = [1 << i for i in reversed(range(size.bit_length() - 1)) if 1 << i >= least]
    for distance in distances:
        before = [row.copy() for row in rows]
        for v in range(size):
            lo, hi = parts[v]
            middle = lo + (hi - lo) // 2
            parts[v] = (middle, hi) if v & distance else (lo, middle)
            sent[v] += (hi - lo) - (parts[v][1] - parts[v][0])
            mine = slice(*parts[v])
            rows[v][mine] = before[v][mine] + before[v ^ distance][mine]
    for distance in reversed(distances):
        before, bounds = [row.copy() for row in rows], list(parts)
        for v in range(size):
            (lo, hi), (other_lo, other_hi) = bounds[v], bounds[v ^ distance]
            rows[v][other_lo:other_hi] = before[v ^ distance][other_lo:other_hi]
            parts[v] = min(lo, other_lo), max(hi, other_hi)
            sent[v] += hi - lo
    return rows[0], sent


def power_below(workers: int) -> int:
    return 1 << workers.bit_length() - 1


def recursive_doubling(
    rows: list[np.ndarray], k: int | None = None, index: int = 4, value: int = 4, header: int = 4
) -> Exchange:
    """The sum of the ranks' vectors. The first 2 (W - 2^p) ranks form pairs whose even one sends to
    the next odd one and waits for the result; 2^p remain. T rounds at distances 1, 2, 4, ... add
    streams; the remaining distances run from the largest to the smallest as a dense reduce-scatter
    by halves, then from the smallest as an all-gather. k: by default the most of any rank."""
    streams = [sparse(row) for row in rows]
    n, workers = streams[0].n, len(rows)
    size, sent = power_below(workers), [0] * workers
    extra = workers - size
    k = max(s.count for s in streams) if k is None else k

    for odd in range(1, 2 * extra, 2):
        sent[odd - 1] += streams[odd - 1].bytes(index, value, header)
        streams[odd] = added(streams[odd], streams[odd - 1], False, index, value)
    ranks = [*range(1, 2 * extra, 2), *range(2 * extra, workers)]

    distance, last_sparse = 1, 1 << sparse_rounds(n, k, index, value)
    while distance < min(size, last_sparse):
        before = [streams[rank] for rank in ranks]
        for v, rank in enumerate(ranks):
            sent[rank] += before[v].bytes(index, value, header)
            streams[rank] = added(before[v], before[v ^ distance], False, index, value)
        distance *= 2

    if distance < size:
        total, spent = halved([streams[rank].dense() for rank in ranks], distance)
        for rank, elements in zip(ranks, spent, strict=True):
            sent[rank] += elements * value
            streams[rank] = Stream(n, total)

    for odd in range(1, 2 * extra, 2):
        sent[odd] += streams[odd].bytes(index, value, header)
        streams[odd - 1] = streams[odd]
    return Exchange(streams[ranks[0]].dense(), sent, not streams[ranks[0]].is_dense)


def split(n: int, workers: int) -> list[tuple[int, int]]:
    """Regions of n // W elements; the last has the remainder as well."""
    length = n // workers
    return [(r * length, n if r == workers - 1 else (r + 1) * length) for r in range(workers)]


def split_allreduce(
    rows: list[np.ndarray], arrivals: list[list[int]], index: int = 4, value: int = 4
) -> Exchange:
    """The form for many elements: every region's owner keeps a dense array of its own part and
    adds the other ranks' pairs in their order of arrival, arrivals[owner]; dense regions are then
    gathered by all. Sizes are without headers."""
    n, workers = len(rows[0]), len(rows)
    result, sent = np.zeros(n, F), [0] * workers
    for owner, (lo, hi) in enumerate(split(n, workers)):
        total = np.asarray(rows[owner][lo:hi], F).copy()
        for rank in arrivals[owner]:
            part = np.asarray(rows[rank][lo:hi], F)
            at = np.flatnonzero(part)
            total[at] = total[at] + part[at]
            sent[rank] += len(at) * (index + value)
        result[lo:hi] = total
        sent[owner] += (hi - lo) * value * (workers - 1)
    return Exchange(result, sent, False)
