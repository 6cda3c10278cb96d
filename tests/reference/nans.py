"""NaNs: the result of a NaN in a format, and its bits as an fp32 or fp64 number and as a code.

A NaN is its sign and 52 fraction bits, as fp64 has them; narrower ones stand at the left. Only here
do bits of a NaN matter: everywhere else any NaN is `math.nan`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rounding import Format

QUIET = 1 << 51


@dataclass(frozen=True)
class NaN:
    negative: bool = False
    fraction: int = QUIET

    @staticmethod
    def of_bits(bits: int, exponent_bits: int, mantissa_bits: int) -> NaN:
        """Of a code with IEEE 754's fields."""
        fraction = bits & (1 << mantissa_bits) - 1
        return NaN(bool(bits >> exponent_bits + mantissa_bits & 1), fraction << 52 - mantissa_bits)

    def bits(self, exponent_bits: int, mantissa_bits: int) -> int:
        sign = int(self.negative) << exponent_bits + mantissa_bits
        return (
            sign | (1 << exponent_bits) - 1 << mantissa_bits | self.fraction >> 52 - mantissa_bits
        )


def has_every_nan(f: Format) -> bool:
    """IEEE 754's set: the top exponent field with every fraction but infinity's."""
    return (
        not f.nan_at_negative_zero
        and f.has_infinity
        and f.nan_codes == (1 << f.mantissa_bits) - 1
        and f.is_signed
        and f.nan_codes > 0
    )


def kept(nan: NaN, f: Format, keep_payload: bool = True) -> NaN:
    """The NaN of the format that an input NaN becomes."""
    if not keep_payload or not f.is_signed or f.nan_codes == 0 or f.nan_at_negative_zero:
        return NaN()
    if not has_every_nan(f):
        return NaN(nan.negative)
    unkept = 52 - f.mantissa_bits
    return NaN(nan.negative, (nan.fraction | QUIET) >> unkept << unkept)


def code(nan: NaN, f: Format) -> int:
    """The code of a NaN that `kept` gave."""
    sign = f.magnitude_codes if nan.negative else 0
    if has_every_nan(f):
        return sign | f.top + 1 | nan.fraction >> 52 - f.mantissa_bits
    if f.nan_at_negative_zero:
        return f.magnitude_codes
    return sign | (f.top + 1 + (f.nan_codes + 1) // 2 if f.has_infinity else f.magnitude_codes - 1)


def of_code(c: int, f: Format, keep_payload: bool = True) -> NaN:
    """The NaN that a NaN's code is read as."""
    negative = c >= f.magnitude_codes
    if f.nan_at_negative_zero and c == f.magnitude_codes:
        return NaN()
    fraction = (c & (1 << f.mantissa_bits) - 1) << 52 - f.mantissa_bits
    return kept(NaN(negative, fraction), f, keep_payload)


def with_nans(values: np.ndarray, x: np.ndarray, f: Format, keep_payload: bool) -> np.ndarray:
    """`values` in fp32 or fp64, its NaNs those that x's NaNs become; others are canonical."""
    fields = (8, 23) if values.dtype == np.float32 else (11, 52)
    input_fields = (8, 23) if x.dtype == np.float32 else (11, 52)
    unsigned = np.uint32 if values.dtype == np.float32 else np.uint64
    bits, source = (
        values.copy().view(unsigned),
        x.view(np.uint32 if x.dtype == np.float32 else np.uint64),
    )
    for i in np.flatnonzero(np.isnan(values)):
        nan = (
            kept(NaN.of_bits(int(source[i]), *input_fields), f, keep_payload)
            if np.isnan(x[i])
            else NaN()
        )
        bits[i] = nan.bits(*fields)
    return bits.view(values.dtype)
