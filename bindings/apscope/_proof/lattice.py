"""The format of an unknown cast, from its fixed points: the values it returns unchanged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._arrays.casts import decode
from .._core import FloatFormat

Run = Callable[[np.ndarray], np.ndarray]


def infer_format(run: Run) -> FloatFormat | None:
    """The signed format with subnormals whose values are the fixed points of a cast.

    Parameters
    ----------
    run : callable
        float32 array to float64 values of the same shape.

    Returns
    -------
    FloatFormat or None
        Precision from 2^e (1 + 2^-j) being fixed for j up to precision - 1; emin is the lowest e
        with full precision; then the largest fixed value; infinity and NaN as returned by the cast,
        the remaining top codes counted as NaN. None if that is not a format.
    """
    e = np.arange(-149, 128)
    j = np.arange(1, 24)
    powers = _fixed(run, 2.0**e)
    if not powers.any():
        return None
    grid = 2.0 ** e[:, None] * (1 + 2.0 ** -j[None, :])
    exact = grid.astype(np.float32).astype(np.float64) == grid
    fixed = _fixed(run, grid.ravel()).reshape(grid.shape) & exact
    width = np.cumprod(fixed, axis=1).sum(axis=1) * powers
    mantissa_bits = int(width.max())
    emin = int(e[(width == mantissa_bits) & powers][0])
    emax = int(e[powers][-1])
    largest = 2.0**emax
    for i in range(1, mantissa_bits + 1):
        if _fixed(run, np.array([largest + 2.0 ** (emax - i)]))[0]:
            largest += 2.0 ** (emax - i)
    fraction = int((largest / 2.0**emax - 1) * 2**mantissa_bits)
    top = (emax - emin + 1 << mantissa_bits) + fraction
    ends = run(np.array([np.inf, 3e38, np.nan, -0.0], np.float32))
    has_infinity = bool(np.isinf(ends[:2]).any())
    exponent_bits = max((top + has_infinity).bit_length() - mantissa_bits, 0)
    spare = (1 << exponent_bits + mantissa_bits) - 1 - top - has_infinity
    # IEEE 754's, saturating: infinity is never shown.
    if spare == 1 << mantissa_bits and not has_infinity:
        has_infinity, spare = True, spare - 1
    one_zero = not np.signbit(ends[3])
    at_zero = bool(np.isnan(ends[2])) and spare == 0 and one_zero
    try:
        f = FloatFormat(
            exponent_bits=exponent_bits, mantissa_bits=mantissa_bits, bias=1 - emin,
            nan_codes=spare,
            has_infinity=has_infinity, zero="single" if at_zero else "both_signs",
            nan_at_negative_zero=at_zero,
        )  # fmt: skip
    except ValueError:
        return None
    return f if f.fits_fp32 else None


def _fixed(run: Run, values: np.ndarray) -> np.ndarray:
    x = values.astype(np.float32)
    return run(x) == x


def is_lattice(run: Run, f: FloatFormat) -> bool:
    """Whether a cast returns the normal values of a format unchanged, and nothing between them.

    One exception in twenty is allowed, for example a cast that is wrong at the largest value.
    """
    bits = f.storage_bits - f.is_signed
    codes = (
        np.arange(2**bits, dtype=np.uint32)
        if bits <= 15
        else np.arange(2**15, dtype=np.uint32) << np.uint32(bits - 15)
    )
    values = decode(codes, f).astype(np.float64)
    values = values[np.isfinite(values) & (values >= f.smallest_normal)]
    if not values.size or np.mean(_fixed(run, values)) < 0.95:
        return False
    # Midpoints; fp32 has none in fp32.
    between = values + 2.0 ** (np.frexp(values)[1] - 1 - f.precision)
    between = between[between.astype(np.float32).astype(np.float64) == between]
    return not between.size or np.mean(_fixed(run, between)) <= 0.05
