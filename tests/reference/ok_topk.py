"""Ok-Topk: a sparse all-reduce with thresholds that are kept between steps.

A step after the dense ones, for worker w with x_w = gradient + residual and k = int(n density):

1. Local threshold: every 32 steps the k-th largest |x_w|; else the last one, times 1.03 at most
   5 times while more than 4 k / 3 magnitudes exceed it.
2. Regions: every 64 steps, from the workers' indices that exceed their thresholds; else kept.
3. Worker w sends what exceeds its threshold, strictly, of region r to worker r, which adds it.
   Then the threshold is divided by 1.012 if fewer than 2 k / 3 were sent, multiplied by 1.012 if
   more than 5 k / 4 were; this counts in the next step.
4. Global threshold: every 32 steps the k-th largest |sum|, and the result is the k largest sums;
   else the sums above it, after which it is divided by 1.008 below 2 k / 3 of them and multiplied
   by 1.008 above 4 k / 3.
5. The result is divided by W. Residual: x_w, but 0 where an index was sent by w and is in the result.

Source: Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, PPoPP 2022;
Shigangli/Ok-Topk at 9763dccb (VGG/allreducer.py, VGG/compression.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

F = np.float32

#: (worker, W) -> the workers whose parts the owner adds, in this order.
Order = Callable[[int, int], list[int]]


def ring_from_own(owner: int, workers: int) -> list[int]:
    """The owner's part first, then those of the next workers. That the published order is shifted
    by the owner is known, its direction is not known here."""
    return [(owner + i) % workers for i in range(workers)]


def kth_largest(size: np.ndarray, k: int) -> F:
    """Of fewer than k the smallest; infinite for k = 0."""
    if k == 0 or size.size == 0:
        return F(np.inf)
    return F(np.sort(size)[-min(k, size.size)])


def raised(size: np.ndarray, threshold: F, k: int) -> F:
    """The threshold reused by a step."""
    for _ in range(5):
        if 3 * int((size > threshold).sum()) <= 4 * k:
            break
        threshold = threshold * F(1.03)
    return threshold


def adjusted(threshold: F, count: int, k: int, few: float, many: float, factor: float) -> F:
    if count < few * k:
        return threshold / F(factor)
    return threshold * F(factor) if count > many * k else threshold


def bounds_of_one(selected: np.ndarray, workers: int, n: int) -> np.ndarray:
    """W - 1 inner bounds of a worker's ascending selected indices in W equal chunks: the index at
    i count // W. Without any index, equal parts of n; both are assumptions."""
    at = np.arange(1, workers)
    if selected.size == 0:
        return at * n // workers
    return selected[at * selected.size // workers]


def regions(selected: list[np.ndarray], n: int) -> np.ndarray:
    """W + 1 bounds: the workers' integer sums // W between 0 and n."""
    workers = len(selected)
    inner = sum(bounds_of_one(s, workers, n) for s in selected) // workers
    return np.concatenate([[0], inner, [n]]).astype(np.int64)


def largest_indices(total: np.ndarray, k: int) -> np.ndarray:
    """Of the k largest nonzero magnitudes, ascending; of equal ones the lower indices first."""
    order = np.argsort(-np.abs(total), kind="stable")[:k]
    return np.sort(order[total[order] != 0])


@dataclass
class Step:
    result: np.ndarray  #: fp32, the same for all workers
    sent: list[np.ndarray]  #: selected indices per worker
    kept: np.ndarray  #: indices of the result
    pairs_up: np.ndarray  #: (W, W) pairs from a worker to an owner, its own excluded
    pairs_down: np.ndarray  #: (W,) pairs of the result per owner, gathered by all others
    gathered: int  #: nonzero sums gathered for an exact global threshold, else 0
    dense: bool = False

    def bytes_up(self, pair: int = 8) -> np.ndarray:
        """Per sender; pair: index and value. Counts of pairs and bounds are not included."""
        return self.pairs_up.sum(axis=1) * pair

    def bytes_down(self, pair: int = 8) -> np.ndarray:
        """Per owner, which every other worker receives; the exact steps gather all nonzero sums."""
        return self.pairs_down * pair


@dataclass
class OkTopk:
    """All workers over the steps. The first `dense_steps` add up densely and keep no residual, an
    assumption; step numbers count from 0, and 'every N steps' are their multiples."""

    workers: int
    n: int
    density: float
    dense_steps: int = 512
    every_threshold: int = 32
    every_region: int = 64
    order: Order = ring_from_own
    step_number: int = 0
    residual: np.ndarray = field(init=False)
    local: list[F] = field(init=False)
    bounds: np.ndarray = field(init=False)
    world: F = field(init=False)

    def __post_init__(self) -> None:
        self.residual = np.zeros((self.workers, self.n), F)
        self.local = [F(np.inf)] * self.workers
        self.bounds = np.arange(self.workers + 1) * self.n // self.workers
        self.world = F(np.inf)

    @property
    def k(self) -> int:
        return int(self.n * self.density)

    def step(self, gradients: np.ndarray) -> Step:
        g, t = np.asarray(gradients, F), self.step_number
        self.step_number += 1
        if t < self.dense_steps:
            return self.dense(g)
        x = g + self.residual
        sent = self.select(x, t)
        if t % self.every_region == 0 or t == self.dense_steps:
            self.bounds = regions(sent, self.n)
        total, pairs_up = self.add(x, sent)
        for w, indices in enumerate(sent):
            self.local[w] = adjusted(self.local[w], len(indices), self.k, 2 / 3, 5 / 4, 1.012)
        kept, gathered = self.choose(total, t)
        result = np.zeros(self.n, F)
        result[kept] = total[kept] / F(self.workers)
        self.residual = x
        for w, indices in enumerate(sent):
            self.residual[w, np.intersect1d(indices, kept)] = 0
        down = np.histogram(kept, self.bounds)[0] if self.n else np.zeros(self.workers, np.int64)
        return Step(result, sent, kept, pairs_up, down, gathered)

    def dense(self, g: np.ndarray) -> Step:
        total = g[0]
        for row in g[1:]:
            total = total + row
        everything = np.arange(self.n)
        none = np.zeros((self.workers, self.workers), np.int64)
        result = total / F(self.workers)
        return Step(result, [everything] * self.workers, everything, none, none[0], 0, True)

    def select(self, x: np.ndarray, t: int) -> list[np.ndarray]:
        """Exact at the first sparse step as well."""
        sent = []
        for w, size in enumerate(np.abs(x)):
            if t % self.every_threshold == 0 or t == self.dense_steps:
                self.local[w] = kth_largest(size, self.k)
            else:
                self.local[w] = raised(size, self.local[w], self.k)
            sent.append(np.flatnonzero(size > self.local[w]))
        return sent

    def add(self, x: np.ndarray, sent: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Of every region at its owner, and the pairs that it received."""
        total = np.zeros(self.n, F)
        pairs = np.zeros((self.workers, self.workers), np.int64)
        for r in range(self.workers):
            lo, hi = self.bounds[r], self.bounds[r + 1]
            for w in self.order(r, self.workers):
                part = sent[w][(sent[w] >= lo) & (sent[w] < hi)]
                total[part] = total[part] + x[w, part]
                pairs[w, r] = len(part) if w != r else 0
        return total, pairs

    def choose(self, total: np.ndarray, t: int) -> tuple[np.ndarray, int]:
        size = np.abs(total)
        if t % self.every_threshold == 0 or t == self.dense_steps:
            kept = largest_indices(total, self.k)
            # Without any sum 0, an assumption: the next steps may then have a result.
            self.world = kth_largest(size[size > 0], self.k) if total.any() else F(0)
            return kept, int((total != 0).sum())
        kept = np.flatnonzero(size > self.world)
        self.world = adjusted(self.world, len(kept), self.k, 2 / 3, 4 / 3, 1.008)
        return kept, 0
