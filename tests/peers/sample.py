"""The sample of float32 and float64 inputs that the fast tests use instead of all."""

import functools

import numpy as np

from .compare import EDGES, values_of

# Quiet and signalling, the payload in the highest, the lowest and the middle bits, all bits, one
# sign.
NANS = (
    0x7F800001,
    0x7F80FFFF,
    0x7F810000,
    0x7FA00000,
    0x7FBFFFFF,
    0x7FC00000,
    0x7FC00001,
    0x7FE00000,
    0x7FFFE000,
    0x7FFFFFFF,
)


def points_of(format: str) -> np.ndarray:
    """The non-negative values of a format, the midpoints between them and what would follow the
    largest."""
    values = np.unique(np.abs(values_of(format)[np.isfinite(values_of(format))]))
    beyond = 2 * values[-1] - values[-2]
    middles = (values[1:] + values[:-1]) / 2
    # In a format without zero the last halvings to zero are points too.
    return np.concatenate([values, middles, [values[0] / 2, beyond, (values[-1] + beyond) / 2]])


@functools.cache
def float32_sample(format: str) -> np.ndarray:
    """Ascending patterns: one in 65537 of all, every point of the format with its neighbours,
    edges, NaNs; both signs."""
    with np.errstate(over="ignore"):
        points = points_of(format).astype(np.float32).view(np.uint32).astype(np.int64)
    half = np.concatenate([points, EDGES[:4], NANS])
    half = (half[:, None] + np.arange(-2, 3)).ravel()
    half = half[(half >= 0) & (half < 2**31)]
    every = np.arange(0, 2**32, 2**16 + 1)
    return np.unique(np.concatenate([every, half, half | 0x80000000])).astype(np.uint32)


@functools.cache
def float64_sample(format: str) -> np.ndarray:
    """float64 values: every point of the format with its float64 neighbours, a spread of exponents;
    both signs.

    The neighbours are what float32 cannot hold: a cast by way of float32 rounds them twice.
    """
    points = np.concatenate([points_of(format), 2.0 ** np.arange(-1074, 1024, 7.0), [0.0, np.inf]])
    near = np.concatenate([np.nextafter(points, 0), points, np.nextafter(points, np.inf)])
    return np.concatenate([near, -near, [np.nan, -np.nan]])
