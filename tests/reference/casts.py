"""One rounding of many exact numbers: wire values or hops of a reduction.

A number is a Python integer of units of 2^-1074, the smallest fp64 number, so products with a scale
and sums of two values are exact whatever their exponents. Read from the bottom: `project` rounds an
array, `neighbours` brackets a magnitude. `rounding.py` says the same of one input in fractions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from .random_words import EXACT_BITS
from .rounding import STOCHASTIC, Format, clamps, goes_up, out_of_range

UNIT = 1074


@dataclass(frozen=True)
class Rounding:
    mode: str = "ties_to_even"
    overflow: str = "ieee"
    bits: int = 32  #: N of stochastic rounding
    underflow: str = "gradual"

    @property
    def is_stochastic(self) -> bool:
        return self.mode in STOCHASTIC

    @property
    def drawn_bits(self) -> int:
        """Bits of a random integer: `stochastic_exact` takes all that any number needs."""
        return EXACT_BITS if self.mode == "stochastic_exact" else self.bits

    @property
    def flushes_input(self) -> bool:
        return self.underflow in ("flush_input", "flush_both")

    @property
    def flushes_result(self) -> bool:
        return self.underflow in ("flush_result", "flush_both")

    def with_mode(self, mode: str) -> Rounding:
        return replace(self, mode=mode)


def exact(x: np.ndarray) -> np.ndarray:
    """fp64 numbers as integers of 2^-1074; 0 for those that are not finite."""
    fraction, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    significand = (fraction * 2.0**53).astype(np.int64)
    result = np.empty(x.shape, object)
    for i, (s, e) in enumerate(zip(significand.ravel().tolist(), exponent.ravel().tolist())):
        shift = e - 53 + UNIT  # negative for subnormal fp64 numbers, whose last bits are zeros
        result.flat[i] = s << shift if shift >= 0 else s >> -shift
    return result


def units(value: Fraction) -> int:
    whole = value * (1 << UNIT)
    assert whole.denominator == 1
    return whole.numerator


def as_float(magnitude: int) -> float:
    """Correctly rounded, as a quotient of integers is; exact for the values of a format."""
    return magnitude / (1 << UNIT)


def exact_total(terms: Sequence[Fraction]) -> Fraction:
    """The exact sum, over one common denominator: quicker than a fraction reduced at each step."""
    unit = math.lcm(*(t.denominator for t in terms))
    return Fraction(sum(t.numerator * (unit // t.denominator) for t in terms), unit)


@dataclass(frozen=True)
class Limits:
    """The fields of a format that `neighbours` needs, as units."""

    f: Format
    largest: int
    smallest: int  #: the smallest positive value
    lowest_binade: int  #: where the hidden bit begins, though its code may be taken
    quantum: int  #: of subnormal values
    smallest_normal: int  #: what underflow rules compare with; 0 if there is none

    @staticmethod
    @functools.cache
    def of(f: Format) -> Limits:
        emin = 1 - f.bias if f.subnormals else -f.bias
        subnormal = emin if f.subnormal_exponent is None else f.subnormal_exponent
        quantum = 1 << subnormal - f.mantissa_bits + UNIT
        return Limits(
            f,
            units(f.value(f.top)),
            units(f.smallest_positive),
            1 << emin + UNIT,
            quantum,
            units(f.smallest_normal),
        )

    def neighbours(self, v: int) -> tuple[int, int, bool]:
        """The values lo <= v < hi of the format, continued above its largest; is lo's code odd?"""
        m = self.f.mantissa_bits
        if v < self.smallest:
            return 0, self.smallest, False
        if v < self.lowest_binade:
            fraction = min(v // self.quantum, (1 << m) - 1)
            top = fraction == (1 << m) - 1
            return (
                fraction * self.quantum,
                self.lowest_binade if top else (fraction + 1) * self.quantum,
                fraction % 2 == 1,
            )
        exponent = v.bit_length() - 1
        step = exponent - m
        lo = v >> step << step
        if m == 0:
            odd = (exponent - UNIT + self.f.bias) % 2 == 1 if self.f.even_code_ties else True
        else:
            odd = lo >> step & 1 == 1
        return lo, lo + (1 << step), odd

    def probability_up(self, v: int, mode: str, bits: int) -> tuple[int, int, Fraction]:
        """(lo, hi, probability of hi) of stochastic rounding with `bits` random bits."""
        lo, hi, _ = self.neighbours(v)
        if mode == "stochastic_exact":
            return lo, hi, Fraction(v - lo, hi - lo)
        return lo, hi, Fraction(count_up(v - lo, hi - lo, mode, bits), 1 << bits)

    def round_magnitude(self, v: int, mode: str, negative: bool, random: int, bits: int) -> int:
        lo, hi, odd = self.neighbours(v)
        if v == lo:
            return lo
        twice, width = 2 * (v - lo), hi - lo
        if mode == "stochastic_exact":
            up = random * width < (v - lo) << bits
        elif mode in STOCHASTIC:
            up = count_up(v - lo, width, mode, bits) + random >= 1 << bits
        else:
            up = goes_up(mode, (twice > width) - (twice < width), odd, negative)
        return hi if up else lo


def count_up(discarded: int, width: int, mode: str, bits: int) -> int:
    """The count of definitions.md section 6, eta being discarded / width."""
    if mode == "stochastic_equal":
        return 1 << bits - 1 if discarded else 0
    count, rest = divmod(discarded << bits, width)
    half = (
        2 * rest >= width
        if mode == "stochastic_b"
        else 2 * rest > width or (2 * rest == width and count % 2 == 1)
    )
    return count + half if mode in ("stochastic_b", "stochastic_c") else count


def project(
    k: np.ndarray, rough: np.ndarray, f: Format, r: Rounding, random: list[int] | None = None
) -> np.ndarray:
    """Each exact number as the format holds it, in fp64.

    `k` are units; `rough` are the same numbers in fp64, read only where they are NaN, infinite or
    zero (for the sign).
    """
    limits, has_minus_zero = Limits.of(f), f.zero == "both_signs"
    result = np.empty(k.shape)
    for i in range(k.size):
        v, x = k.flat[i], float(rough.flat[i])
        negative = v < 0 or (v == 0 and math.copysign(1.0, x) < 0)
        if math.isnan(x):
            y = math.nan
        elif math.isinf(x):
            y = out_of_range(f, r.mode, r.overflow, x < 0, finite=False)
        elif f.zero == "none" and v == 0:
            y = math.nan if f.has_nan and not clamps(r.overflow) else as_float(limits.smallest)
        elif f.zero == "none" and v < 0:
            y = out_of_range(f, r.mode, r.overflow, True, finite=True)
        else:
            magnitude = limits.round_magnitude(
                abs(v), r.mode, negative, random[i] if random else 0, r.drawn_bits
            )
            magnitude = magnitude or (limits.smallest if f.zero == "none" else 0)
            if r.flushes_result and magnitude < limits.smallest_normal:
                magnitude = 0
            if magnitude == 0:
                y = -0.0 if negative and has_minus_zero else 0.0
            elif magnitude > limits.largest or (negative and not f.is_signed):
                y = out_of_range(f, r.mode, r.overflow, negative, finite=True)
            else:
                y = -as_float(magnitude) if negative else as_float(magnitude)
        result.flat[i] = y
    return result


def cast(x: np.ndarray, f: Format, r: Rounding, random: list[int] | None = None) -> np.ndarray:
    """fp64 numbers to a format; `random` holds one integer per element for stochastic rounding."""
    x = np.asarray(x, np.float64)
    return cast_units(exact(x), x, f, r, random)


def cast_units(
    k: np.ndarray, rough: np.ndarray, f: Format, r: Rounding, random: list[int] | None = None
) -> np.ndarray:
    """`project` for numbers that come from outside: small ones are flushed first where the rule
    says so."""
    return project(*flushed(k, rough, f, r), f, r, random)


def flushed(
    k: np.ndarray, rough: np.ndarray, f: Format, r: Rounding
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs as a cast, an operation or an addition takes them: those below the smallest normal as
    zeros."""
    if not r.flushes_input:
        return k, rough
    least = Limits.of(f).smallest_normal
    small = np.array([abs(v) < least for v in k.flat], bool).reshape(k.shape)
    return np.where(small, 0, k), np.where(
        small & np.isfinite(rough), np.copysign(0.0, rough), rough
    )


def moments(k: np.ndarray, rounded: np.ndarray, f: Format, r: Rounding) -> tuple[list, list, bool]:
    """Per element E[y] - v and Var[y] over the draws, exact; and whether some draw may not be
    finite.

    `rounded` is what `project` gave, which a deterministic rounding always gives. Gradual underflow
    only.
    """
    assert r.underflow == "gradual"
    scale, zero = 1 << UNIT, Fraction(0)
    if not r.is_stochastic:
        return (
            [Fraction(e, scale) for e in exact(rounded) - k],
            [zero] * k.size,
            not np.isfinite(rounded).all(),
        )
    limits, bias, variance, can_overflow = Limits.of(f), [], [], False
    for v in k.flat:
        lo, hi, p = limits.probability_up(abs(v), r.mode, r.bits)
        if (hi if p > 0 else lo) > limits.largest:
            can_overflow |= not math.isfinite(
                out_of_range(f, r.mode, r.overflow, v < 0, finite=True)
            )
            lo, hi = min(lo, limits.largest), min(hi, limits.largest)
        n, d = p.numerator, p.denominator  # integers throughout: one fraction reduced a result
        e = Fraction(d * (lo - abs(v)) + n * (hi - lo), d * scale)
        bias.append(-e if v < 0 else e)
        variance.append(Fraction(n * (d - n) * (hi - lo) ** 2, (d * scale) ** 2))
    return bias, variance, can_overflow
