"""THC's tables, its stochastic rounding in two steps and its partial rotation.

A table T has K levels, integers 0 = T[0] <= ... <= T[K-1] = g. Level j stands for
(2 j / g - 1) t, where t is the quantile of N(0, 1) at 1 - 1 / (2 q). The published tables are
symmetric (T[K-1-k] = g - T[k]; the first K / 2 integers are distinct and at most g / 2, so that
g / 2 may occur twice) and minimize the variance of stochastic rounding of N(0, 1) on [-t, t],

    sum over neighbours a < b of  integral from a to b of (x - a)(b - x) phi(x) dx.

Source: Li et al., THC: Accelerating Distributed Deep Learning Using Tensor Homomorphic
Compression, NSDI 2024; SophiaLi06/BytePS_THC at a6af970c (byteps/torch/compression.py and the 29
tables of byteps/torch/tables).
"""

import math
from statistics import NormalDist

import numpy as np

#: Published tables: (g, levels below g / 2 and at it, values of q). Mirror images complete them.
HALVES: list[tuple[int, list[int], list[int]]] = [
    (30, [0, 3, 5, 7, 9, 11, 13, 14], [32, 64]),
    (30, [0, 2, 4, 6, 8, 10, 12, 14], [16]),
    (30, [0, 4, 6, 8, 10, 12, 13, 14], [128, 256]),
    (30, [0, 4, 7, 9, 11, 12, 13, 14], [512]),
    (16, [0, 2, 3, 4, 5, 6, 7, 8], [32, 64]),
    (34, [0, 3, 6, 8, 10, 12, 14, 16], [16, 32, 64, 128]),
    (34, [0, 4, 7, 9, 11, 13, 15, 16], [256, 512]),
    (34, [0, 5, 8, 10, 12, 14, 15, 16], [1024]),
    (16, [0, 3, 5, 7], [16, 32, 64, 128, 256, 512]),
    (16, [0, 4, 6, 7], [1024]),
    (34, [0, 6, 11, 15], [16, 32]),
    (34, [0, 7, 11, 15], [64, 128]),
    (34, [0, 13], [512, 1024]),
    (42, [0, 10, 15, 19], [1024]),
]

#: (g, K, q) -> the published table.
PUBLISHED = {
    (g, 2 * len(half), q): half + [g - j for j in reversed(half)]
    for g, half, qs in HALVES
    for q in qs
}

#: A table of the authors' DynamiQ repository (CharlesHan24/DynamiQ at 737b1847), same rule.
IN_DYNAMIQ = {(42, 16, 1024): [0, 6, 9, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 33, 36, 42]}


def grid_points(g: int) -> int:
    """Points of the sender's grid that the published table with granularity g uses."""
    return 10001 if g == 42 else 1001


def threshold(q: float) -> float:
    """t: |N(0, 1)| exceeds it with probability 1 / q. One step of Newton's method makes the
    library's quantile correct to the last digits."""
    t = -NormalDist().inv_cdf(1 / (2 * q))
    return t + (math.erfc(t / math.sqrt(2)) - 1 / q) / (2 * phi(t))


def phi(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def cell(a: float, b: float) -> float:
    """The integral of (x - a)(b - x) phi(x) from a to b: b phi(a) - a phi(b) - (1 + a b) P(a, b)."""
    inside = (math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2))) / 2
    return b * phi(a) - a * phi(b) - (1 + a * b) * inside


def values(table: list[int], t: float) -> list[float]:
    g = table[-1]
    return [(2 * j / g - 1) * t for j in table]


def variance(table: list[int], t: float) -> float:
    v = values(table, t)
    return sum(cell(a, b) for a, b in zip(v, v[1:], strict=False))


def chains(g: int, count: int, t: float) -> list[tuple[float, list[int]]]:
    """For every end j in 0..g the best 0 = j_1 < ... < j_count = j with its sum of cells; an
    infinite sum if there is none. Of equal sums the chain with the lower integers is kept."""
    v = [(2 * j / g - 1) * t for j in range(g + 1)]
    cells = [[cell(v[i], v[j]) for i in range(j)] for j in range(g + 1)]
    best: list[tuple[float, list[int]]] = [(0.0, [0])] + [(math.inf, [])] * g
    for _ in range(count - 1):
        best = [
            min(
                ((best[i][0] + cells[j][i], best[i][1] + [j]) for i in range(j)),
                default=(math.inf, []),
            )
            for j in range(g + 1)
        ]
    return best


def symmetric_table(g: int, K: int, q: float) -> list[int]:
    """The symmetric table with the least variance, K even and at most 2 floor(g / 2) + 2."""
    t = threshold(q)
    halves = [
        (2 * cost + cell((2 * j / g - 1) * t, (1 - 2 * j / g) * t), half)
        for j, (cost, half) in enumerate(chains(g, K // 2, t)[: g // 2 + 1])
        if half
    ]
    half = min(halves)[1]
    return half + [g - j for j in reversed(half)]


def any_table(g: int, K: int, q: float) -> list[int]:
    """The table with the least variance among all, symmetric or not, of distinct integers; of a
    table and its mirror image the one with the lower integers."""
    return chains(g, K, threshold(q))[g][1]


def to_grid(x: np.ndarray, t: float, points: int, u: np.ndarray) -> np.ndarray:
    """The first rounding: x clamped to [-t, t], in steps of 2 t / (points - 1), goes to one of the
    two neighbours on the grid: floor, plus 1 if u < its fraction. Index 0 is -t; fp32."""
    half = (points - 1) // 2
    t = np.float32(t)
    step = np.float32(2) * t / np.float32(points - 1)
    scaled = np.clip(np.asarray(x, np.float32), -t, t) / step
    below = np.floor(scaled)
    up = np.asarray(u, np.float32) < scaled - below
    return np.clip((below + up).astype(np.int64) + half, 0, points - 1)


def sender_table(table: list[int], points: int) -> tuple[np.ndarray, np.ndarray]:
    """Of every grid point: X, the level at or below it (at most K - 2; of equal levels the last),
    and the probability p of X + 1, a quotient of integers in fp64 and then in fp32."""
    at, levels = np.arange(points) * table[-1], np.array(table) * (points - 1)
    X = np.minimum(np.searchsorted(levels, at, side="right") - 1, len(table) - 2)
    return X, ((at - levels[X]) / (levels[X + 1] - levels[X])).astype(np.float32)


def to_levels(table: list[int], index: np.ndarray, points: int, u: np.ndarray) -> np.ndarray:
    """The second rounding: the level X, plus 1 if u < p."""
    X, p = sender_table(table, points)
    return X[index] + (np.asarray(u, np.float32) < p[index])


def round_in_two_steps(
    x: np.ndarray, table: list[int], t: float, points: int, u: np.ndarray
) -> np.ndarray:
    """Levels 0..K-1 of x; u: (2, ...) uniforms in [0, 1), the grid's first."""
    return to_levels(table, to_grid(x, t, points, u[0]), points, u[1])


def butterflies(x: np.ndarray, strides: list[int]) -> np.ndarray:
    """Of every stride s: (a, b) -> (a + b, a - b) of the elements whose indices differ by s, fp32;
    divided by sqrt(2^stages) at the end."""
    out = np.asarray(x, np.float32).copy()
    for s in strides:
        pair = out.reshape(-1, 2, s)
        out = np.stack([pair[:, 0] + pair[:, 1], pair[:, 0] - pair[:, 1]], axis=1).reshape(-1)
    return out / np.float32(math.sqrt(2.0 ** len(strides)))


#: Ten stages: blocks of 1024. Which strides the authors' kernel has, and in which order, is not
#: public.
STRIDES = [1 << i for i in range(10)]


def rotate(x: np.ndarray, signs: np.ndarray, strides: list[int] = STRIDES) -> np.ndarray:
    """Signs +-1, drawn once for a training run, and then the stages. The length of x is a power of
    two; strides that it does not have are omitted."""
    return butterflies(x * signs.astype(np.float32), [s for s in strides if s < len(x)])


def rotate_back(y: np.ndarray, signs: np.ndarray, strides: list[int] = STRIDES) -> np.ndarray:
    """The inverse of `rotate` but for roundings, its stages in the same order."""
    return butterflies(y, [s for s in strides if s < len(y)]) * signs.astype(np.float32)


def padded(x: np.ndarray) -> np.ndarray:
    """With zeros to a power of two."""
    return np.pad(np.asarray(x, np.float32), (0, (1 << (len(x) - 1).bit_length()) - len(x)))


def exchange(
    rows: np.ndarray,
    table: list[int],
    q: float,
    signs: np.ndarray,
    u: np.ndarray,
    points: int = 1001,
    strides: list[int] = STRIDES,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one chunk of all workers, rows (W, n), u (W, 2, d): the mean that all decode, every
    worker's own decoded message (what error feedback subtracts), and the codes. The scale is the
    largest norm over the workers, before padding and rotation, over sqrt(d), d the padded length,
    an assumption; W g is below 256."""
    rows = np.asarray(rows, np.float32)
    workers, n = rows.shape
    t, g = np.float32(threshold(q)), table[-1]
    norm = max(np.float32(np.sqrt((row.astype(np.float64) ** 2).sum())) for row in rows)
    d = len(padded(rows[0]))
    codes = np.zeros((workers, d), np.int64)
    if norm == 0:
        return np.zeros(n, np.float32), np.zeros((workers, n), np.float32), codes
    scale = norm / np.float32(math.sqrt(d))
    for w, row in enumerate(rows):
        x = rotate(padded(row), signs, strides) / scale
        codes[w] = round_in_two_steps(x, table, float(t), points, u[w])
    sent = np.array(table, np.int64)[codes]

    def decode(mean: np.ndarray) -> np.ndarray:
        step = np.float32(2) * t / np.float32(g)
        x = (mean.astype(np.float32) - np.float32(g / 2)) * step * scale
        return rotate_back(x, signs, strides)[:n]

    own = np.stack([decode(row.astype(np.float32)) for row in sent])
    return decode(sent.sum(axis=0).astype(np.float32) / np.float32(workers)), own, codes
