"""A format in words: its special values, its limits as numbers and as powers of two."""

from __future__ import annotations

import math

from .._core import FloatFormat
from .._text import raised


def specials_of(f: FloatFormat) -> str:
    """The format's infinities, NaNs, zeros and missing features, in words."""
    words = []
    if f.has_infinity:
        words.append("inf")
    if f.has_nan:
        words.append(
            "NaN at -0"
            if f.nan_at_negative_zero
            else f"{f.nan_codes} NaN"
            if f.nan_codes < 8
            else "NaN"
        )
    words.append({"both_signs": "+-0", "single": "0", "none": "no 0"}[f.zero])
    if not f.subnormals:
        words.append("no subnormals")
    if not f.is_signed:
        words.append("unsigned")
    return ", ".join(words)


def told(f: FloatFormat) -> str:
    """Its fields, precision, range and special values in one line."""
    return (
        f"{f.storage_bits} bits: {f.exponent_bits} exponent, {f.mantissa_bits} mantissa, bias "
        f"{f.bias}; precision {f.precision}; {number(f.smallest_positive)} to {number(f.largest)}; "
        f"{specials_of(f)}"
    )


def number(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"


def power(value: float) -> str:
    """1.75×2⁸, 2⁻⁹, (2−2⁻²³)×2¹²⁷: exact, unlike the decimal digits."""
    mantissa, exponent = math.frexp(value)
    binade = "2" + raised(exponent - 1)
    if mantissa == 0.5:
        return binade
    short = f"{2 * mantissa:.6g}"
    if float(short) == 2 * mantissa:
        return f"{short}×{binade}"
    return f"(2−{power(2 - 2 * mantissa)})×{binade}"
