"""DynamiQ: groups of 16 elements with 2, 4 or 8 bits, chosen per super-group of 16 groups.

Every worker divides its vector by W (fp32). Of every super-group, its mean is subtracted, and its
sum of squares before that, F, is computed; both are bf16 numbers, which the workers add up. The sum
of the means is added back at the end. F decides on the width of the super-group, the same for all
workers. A hop decodes the message that arrived, adds the worker's own bf16 values, rounds the sum to
bf16, and encodes it with new scales.

Two quantizers of a group with b bits, R = 2^(b-1) - 1, r a random number of [0, 1):

    AEE: scale = amax / R + 1e-7;     x / scale = l + fraction, up if r <= fraction
    MEE: scale = amax / m(R) + 1e-7;  x / scale = m(l + fraction), the same in l
         m(l) = ((1 + 2 e^2)^l - 1) / (2 e^2) (1 + e^2), odd in l

Source: Han et al., DynamiQ, SIGCOMM 2026, arXiv 2602.08923; CharlesHan24/DynamiQ at 737b1847
(testbed_evaluation/new_comm_hooks, cuda_kernels, simulations_llm). Where the paper and the code
differ, an argument has both.
"""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

F = np.float32
GROUP = 16
SUPER = 256

#: e of MEE per width; two other sets of the code are 0.23, 0.23, 0.1 and 0.25, 0.25, 0.1.
EPSILON = {2: 0.27, 4: 0.20, 8: 0.08}

#: Budget in bits -> shares of super-groups with 8, 4 and 2 bits; other budgets use that of 5.
SHARES = {
    3: (1 / 40, 13 / 40, 26 / 40),
    4: (0.05, 0.6, 0.35),
    5: (0.35, 0.45, 0.2),
    6: (0.55, 0.35, 0.1),
    7: (0.75, 0.22, 0.03),
}

#: The paper's ratios of the thresholds of F between widths 1|2, 2|4, 4|8 and 8|16.
THRESHOLD_RATIOS = {(1, 2, 4): 5 / 32, (2, 4, 8): 17 / 512, (4, 8, 16): 257 / 2**17}

#: c of the code, and of the paper.
FACTORS = {"code": 4 / (512 / 17), "paper": 4 / math.log2(512 / 17)}


def bf16(x: np.ndarray) -> np.ndarray:
    """To nearest even."""
    return np.asarray(x, F).astype(ml_dtypes.bfloat16).astype(F)


def tree_sum(x: np.ndarray) -> np.ndarray:
    """Of the last axis, a power of two, fp32: the second half is added to the first until one is
    left. The published kernel's tree is not known here."""
    x = np.asarray(x, F)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


def super_groups(x: np.ndarray) -> np.ndarray:
    """(count, 256), padded by zeros, an assumption."""
    return np.pad(np.asarray(x, F), (0, -len(x) % SUPER)).reshape(-1, SUPER)


@dataclass
class Statistics:
    centred: np.ndarray  #: (W, count, 256), divided by W
    mean: np.ndarray  #: (count,), the sum over the workers
    energy: np.ndarray  #: (count,), F, the sum over the workers


def statistics(rows: np.ndarray, global_mean: bool = False) -> Statistics:
    """The bf16 sums over the workers are in rank order, rounded after every addition, and a worker
    subtracts its bf16 mean: assumptions. global_mean: the paper's rule, the mean over all workers'
    gradients, so the sum of the workers' means over W for every worker."""
    workers = len(rows)
    x = np.stack([super_groups(row) for row in np.asarray(rows, F) / F(workers)])
    means, energies = bf16(tree_sum(x) / F(SUPER)), bf16(tree_sum(x * x))
    mean, energy = means[0], energies[0]
    for w in range(1, workers):
        mean, energy = bf16(mean + means[w]), bf16(energy + energies[w])
    taken = np.broadcast_to(mean / F(workers), means.shape) if global_mean else means
    return Statistics(x - taken[:, :, None], mean, energy)


def fixed_widths(energy: np.ndarray, budget: int) -> np.ndarray:
    """By a stable descending sort of F: the first share has 8 bits, the last 2, the rest 4. Shares
    are rounded down, an assumption."""
    eight, _, two = SHARES.get(budget, SHARES[5])
    n = len(energy)
    order = np.argsort(-np.asarray(energy, np.float64), kind="stable")
    widths = np.full(n, 4)
    widths[order[: int(n * eight)]] = 8
    widths[order[n - int(n * two) :]] = 2
    return widths


def dynamic_widths(energy: np.ndarray, u: float, factor: float = FACTORS["code"]) -> np.ndarray:
    """2^z, z = floor(log2(factor log2(max(F, 1e-20)) + u)) within 1..3."""
    inner = factor * np.log2(np.maximum(np.asarray(energy, np.float64), 1e-20)) + u
    z = np.floor(np.log2(np.maximum(inner, 1e-20)))
    return (2 ** np.clip(z, 1, 3)).astype(int)


@dataclass
class Level:
    """u, which makes the mean width b - 0.625: bisected first, then moved by the difference."""

    budget: float = 5.0
    factor: float = FACTORS["code"]
    u: float = 60.0
    started: bool = False

    def missing(self, energy: np.ndarray, u: float) -> float:
        return self.budget - 0.625 - float(dynamic_widths(energy, u, self.factor).mean())

    def update(self, energy: np.ndarray) -> float:
        """After a step. The later rule halves the move until the difference after it has the sign
        of the one before, or the move is at most 0.1; whether the 0.1 is of the move or of the
        difference is not known here."""
        if not self.started:
            self.started = True
            self.u = self.bisected(energy)
            return self.u
        before = self.missing(energy, self.u)
        move = before
        while abs(move) > 0.1 and before * self.missing(energy, self.u + move) < 0:
            move /= 2
        self.u += move
        return self.u

    def bisected(self, energy: np.ndarray) -> float:
        low, high = -10.0, 60.0
        middle = (low + high) / 2
        for _ in range(32):
            middle = (low + high) / 2
            missing = self.missing(energy, middle)
            if abs(missing) <= 0.1:
                break
            low, high = (middle, high) if missing > 0 else (low, middle)
        return middle


def lattice(l: np.ndarray, e: float) -> np.ndarray:
    """m(l)."""
    l, step = np.asarray(l, np.float64), 1 + 2 * e * e
    return np.sign(l) * (step ** np.abs(l) - 1) / (2 * e * e) * (1 + e * e)


def position(t: np.ndarray, e: float) -> np.ndarray:
    """l of m(l) = t."""
    t = np.asarray(t, np.float64)
    return np.sign(t) * np.log(np.abs(t) * 2 * e * e / (1 + e * e) + 1) / math.log(1 + 2 * e * e)


def largest_level(bits: int) -> int:
    return 2 ** (bits - 1) - 1


def group_scales(x: np.ndarray, bits: int, e: float | None) -> np.ndarray:
    """Of groups (..., 16); e None: AEE."""
    R = largest_level(bits)
    top = F(R) if e is None else F(lattice(R, e))
    return np.abs(np.asarray(x, F)).max(axis=-1) / top + F(1e-7)


def hierarchical(scales: np.ndarray, r: np.ndarray | None = None) -> tuple[np.ndarray, F]:
    """The 16 scales of a super-group as integers q of 1..255 times a unit, bf16: q is rounded up,
    as in the code, or stochastically by r, as in the paper (up if r < fraction)."""
    most = np.asarray(scales, F).max()
    exact = np.asarray(scales, F) / most * F(255)
    q = np.ceil(exact) if r is None else np.floor(exact) + (r < exact - np.floor(exact))
    return np.clip(q, 1, 255).astype(int), F(bf16(most / F(255)))


def levels(
    x: np.ndarray,
    scale: np.ndarray,
    bits: int,
    e: float | None,
    r: np.ndarray,
    unbiased: bool = False,
) -> np.ndarray:
    """l of every element, -R..R; the code is l + R. Beyond R, which a scale that was rounded down
    permits, it is R, an assumption. unbiased: MEE between two values, as in the paper; the code
    rounds in l."""
    t = np.asarray(x, F) / np.asarray(scale, F)
    at = t.astype(np.float64) if e is None else position(t, e)
    low = np.floor(at)
    fraction = at - low
    if unbiased and e is not None:
        below, above = lattice(low, e), lattice(low + 1, e)
        fraction = (t - below) / (above - below)
    R = largest_level(bits)
    return np.clip(low + (r <= fraction), -R, R).astype(int)


def values(l: np.ndarray, scale: np.ndarray, e: float | None) -> np.ndarray:
    return (l.astype(F) if e is None else lattice(l, e).astype(F)) * np.asarray(scale, F)


@dataclass(frozen=True)
class Quantizer:
    mee: bool = True
    hierarchical: bool = True
    unbiased: bool = False

    def sent(self, x: np.ndarray, widths: np.ndarray, r: np.ndarray) -> np.ndarray:
        """What super-groups x (count, 256) decode to, by r of the same shape."""
        out = np.zeros_like(x)
        for i, bits in enumerate(widths):
            e = EPSILON[int(bits)] if self.mee else None
            groups = x[i].reshape(-1, GROUP)
            scale = group_scales(groups, int(bits), e)
            if self.hierarchical:
                q, unit = hierarchical(scale)
                scale = q.astype(F) * unit
            l = levels(
                groups, scale[:, None], int(bits), e, r[i].reshape(groups.shape), self.unbiased
            )
            out[i] = values(l, scale[:, None], e).reshape(-1)
        return out


def correlated(order: np.ndarray, gamma: np.ndarray, stored: bool = True) -> np.ndarray:
    """r of every worker, (W, ...): (order + gamma) / W; order: per element a permutation of
    0..W-1 along the first axis, gamma: uniforms. The code tabulates r as bf16 (stored)."""
    r = (np.asarray(order, F) + np.asarray(gamma, F)) / F(len(order))
    return bf16(r) if stored else r


def hop(arrived: np.ndarray, own: np.ndarray) -> np.ndarray:
    return bf16(arrived + bf16(own))


def along_ring(
    x: np.ndarray, widths: np.ndarray, r: np.ndarray, order: list[int], how: Quantizer
) -> np.ndarray:
    """The decoded sum of x (W, count, 256) that passes the workers in this order; the last one
    encodes it for all. r: (W, count, 256), by the worker that encodes."""
    total = bf16(x[order[0]])
    for w, following in zip(order, order[1:], strict=False):
        total = hop(how.sent(total, widths, r[w]), x[following])
    return how.sent(total, widths, r[order[-1]])


def by_butterfly(
    x: np.ndarray,
    widths: np.ndarray,
    r: np.ndarray,
    owner: int,
    distances: list[int],
    how: Quantizer,
) -> np.ndarray:
    """The decoded sum that `owner` encodes for all, W a power of two: at every distance a worker
    adds its partner's message. The order of the distances is not known here."""

    def held(w: int, rounds: int) -> np.ndarray:
        if rounds == 0:
            return bf16(x[w])
        other = w ^ distances[rounds - 1]
        message = how.sent(held(other, rounds - 1), widths, r[other])
        return bf16(message + held(w, rounds - 1))

    return how.sent(held(owner, len(distances)), widths, r[owner])


def mean_of_all(decoded: np.ndarray, found: Statistics, n: int) -> np.ndarray:
    """The workers' mean gradient: the decoded sum plus the sum of the means."""
    return (decoded + found.mean[:, None]).reshape(-1)[:n]


def payload_bytes(widths: np.ndarray) -> int:
    """Of one message: per super-group 16 (16 b / 8 + 1) + 2."""
    return int(sum(16 * (GROUP * int(b) // 8 + 1) + 2 for b in widths))


def statistics_bytes(count: int) -> int:
    """Per message of the statistics' sum: two bf16 numbers per super-group."""
    return 4 * count
