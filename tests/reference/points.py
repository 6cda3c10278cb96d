"""Numbers at which casts go wrong: values of a format, middles, quarters, their neighbours, edges,
NaNs."""

from fractions import Fraction

import numpy as np

from .rounding import Format


def some_codes(f: Format, rng: np.random.Generator, n: int) -> list[int]:
    """Codes at both ends of both lowest binades and of the range, and n others."""
    first = 1 << f.mantissa_bits
    codes = {0, 1, first - 1, first, first + 1, f.top - 1, f.top, f.top // 2}
    codes |= {int(c) for c in rng.integers(0, f.top + 1, n)}
    return sorted(c for c in codes if 0 <= c <= f.top)


def magnitudes(f: Format, rng: np.random.Generator, n: int) -> list[Fraction]:
    found = [f.value(0) / 4, f.value(0) / 2, f.value(f.top + 1), f.smallest_normal]
    for code in some_codes(f, rng, n):
        low, high = f.value(code), f.value(code + 1)
        found += [low + (high - low) * quarter / 4 for quarter in range(4)]
    return found


def nans(dtype) -> np.ndarray:
    """Quiet and signaling, of both signs, payloads at both ends."""
    if np.dtype(dtype) == np.float32:
        bits = [
            0x7FC00000,
            0xFFC00000,
            0x7F800001,
            0xFFBFFFFF,
            0xFFFFFFFF,
            0x7FD55555,
            0xFFA00000,
            0x7FEAAAAA,
        ]
        return np.array(bits, np.uint32).view(np.float32)
    bits = [
        0x7FF8 << 48,
        0xFFF8 << 48,
        0x7FF0 << 48 | 1,
        (0xFFF8 << 48) - 1,
        (1 << 64) - 1,
        0x7FFAAAAAAAAAAAAA,
        0xFFF4 << 48,
    ]
    return np.array(bits, np.uint64).view(np.float64)


def numbers(f: Format, dtype, rng: np.random.Generator, n: int = 3) -> np.ndarray:
    """fp32 or fp64 numbers of both signs; those that `dtype` does not hold are rounded to it."""
    largest = float(np.finfo(dtype).max)
    x = np.array(
        sorted({float(v) for v in magnitudes(f, rng, n) if v <= Fraction(largest)})
    ).astype(dtype)
    zero, up = dtype(0), dtype(np.inf)
    with np.errstate(all="ignore"):
        x = np.concatenate([x, np.nextafter(x, zero), np.nextafter(x, up)])
    info = np.finfo(dtype)
    edges = np.array([0, np.inf, info.max, info.tiny, info.smallest_subnormal, 1], dtype)
    x = np.unique(np.concatenate([x, edges]))
    return np.concatenate([x, -x, nans(dtype)])
