"""Shannon's lower bound of recorded values, by NumPy: docs/limit.md, walked literally, in another
way than the C++ code. All events are sorted together for each width, and logarithms are libm's."""

import math

import numpy as np

from .statistics import fixed_shape_sum

#: The widths of the blur.
WIDTHS = np.array([2.0 ** (j / 2) for j in range(-24, 5)])


def entropy(values: np.ndarray, width: float) -> float:
    """The differential entropy in bits of a value, each with the same probability, plus a uniform
    number of (-width / 2, width / 2)."""
    n = len(values)
    at = np.concatenate([values - width / 2, values + width / 2])
    change = np.repeat([1, -1], n)
    order = np.argsort(at, kind="stable")
    boxes = np.cumsum(change[order])[:-1]
    lengths = np.diff(at[order])
    there = boxes > 0
    density = boxes[there] / (n * width)
    return -math.fsum(lengths[there] * density * np.log2(density))


def rate_limit(values: np.ndarray, bits: float, widths: np.ndarray = WIDTHS) -> float:
    """The least mean squared error that `bits` per value leave."""
    return max(
        0.0,
        *(
            2.0 ** (2 * (entropy(values, w) - bits)) / (2 * math.pi * math.e) - w * w / 12
            for w in widths
        ),
    )


def normalized(row: np.ndarray, block: int) -> np.ndarray:
    """The nonzero finite elements of a row, each divided by the power of two below the root mean
    square of its block's finite elements."""
    found = []
    for first in range(0, len(row), block):
        part = row[first : first + block].astype(np.float64)
        part = part[np.isfinite(part)]
        if not part.any():
            continue
        # of exact squares: the fixed shape of the sum decides only where it is rounded
        mean = fixed_shape_sum(part * part) / len(part)
        found.append(part[part != 0] / 2.0 ** math.floor(math.log2(mean) / 2))
    return np.concatenate(found) if found else np.zeros(0)
