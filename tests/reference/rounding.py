"""Casts in exact fractions: the executable specification of apscope's rounding.

Read it from the bottom: `project` is a cast of a number, `round_magnitude` the choice between two
neighbours. Nothing here is fast, and nothing here rounds but the lines that say so.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

TWO = Fraction(2)
HALF = Fraction(1, 2)
DETERMINISTIC = (
    "ties_to_even ties_to_away ties_to_zero toward_zero toward_positive "
    "toward_negative away_from_zero to_odd"
).split()
COUNTED = [
    "stochastic",
    "stochastic_b",
    "stochastic_c",
    "stochastic_equal",
]  #: up if count + R >= 2^N
STOCHASTIC = [*COUNTED, "stochastic_exact"]
MODES = [*DETERMINISTIC, *STOCHASTIC]
OVERFLOWS = ["ieee", "saturate", "propagate", "infinity", "nan"]
UNDERFLOWS = ["gradual", "flush_result", "flush_input", "flush_both"]


@dataclass(frozen=True)
class Format:
    exponent_bits: int
    mantissa_bits: int
    bias: int
    is_signed: bool = True
    subnormals: bool = True  #: False: exponent field 0 is an ordinary binade
    subnormal_exponent: int | None = None  #: of field 0; 1 - bias if None
    zero: str = "both_signs"  #: or "single", "none"
    nan_codes: int = 0  #: codes per sign that are NaN, at the top
    has_infinity: bool = False  #: the code below them
    nan_at_negative_zero: bool = False
    even_code_ties: bool = False  #: precision 1: ties to the even code

    @property
    def magnitude_codes(self) -> int:
        return 1 << self.exponent_bits + self.mantissa_bits

    @property
    def top(self) -> int:
        return self.magnitude_codes - 1 - self.nan_codes - self.has_infinity

    @property
    def has_nan(self) -> bool:
        return self.nan_codes > 0 or self.nan_at_negative_zero

    @property
    def storage_bits(self) -> int:
        return self.is_signed + self.exponent_bits + self.mantissa_bits

    @property
    def smallest_positive(self) -> Fraction:
        return self.value(0 if self.zero == "none" else 1)

    @property
    def smallest_normal(self) -> Fraction:
        """Without subnormals the smallest value; 0 if all values are subnormal."""
        if not self.subnormals:
            return self.smallest_positive
        first = 1 << self.mantissa_bits  # field 1, fraction 0
        return self.value(first) if first <= self.top else Fraction(0)

    def value(self, code: int) -> Fraction:
        """The magnitude of a code without its sign; codes go on above the largest finite one."""
        field, fraction = divmod(code, 1 << self.mantissa_bits)
        if field == 0 and self.subnormals:
            expval = 1 - self.bias if self.subnormal_exponent is None else self.subnormal_exponent
            return TWO ** (expval - self.mantissa_bits) * fraction
        if code == 0 and self.zero != "none":
            return Fraction(0)
        return TWO ** (field - self.bias) * (1 + Fraction(fraction, 1 << self.mantissa_bits))

    def decode(self, code: int) -> float:
        negative, magnitude = divmod(code, self.magnitude_codes)
        if negative and magnitude == 0 and self.zero == "single":
            return math.nan if self.nan_at_negative_zero else 0.0
        if magnitude > self.top:
            return (
                (-math.inf if negative else math.inf)
                if self.has_infinity and magnitude == self.top + 1
                else math.nan
            )
        return -float(self.value(magnitude)) if negative else float(self.value(magnitude))


@dataclass(frozen=True)
class Random:
    """N random bits as an integer R in [0, 2^N); for `stochastic_exact` the first N digits of U."""

    integer: int
    bits: int

    @property
    def two_to_n(self) -> int:
        return 1 << self.bits


def floor_log2(x: Fraction) -> int:
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if TWO**k <= x else k - 1


def count_of(eta: Fraction, mode: str, bits: int) -> int:
    """How many of the 2^N random integers round up: the largest ones."""
    scaled = eta * (1 << bits)
    match mode:
        case "stochastic":
            return math.floor(scaled)
        case "stochastic_b":
            return math.floor(scaled + HALF)
        case "stochastic_c":
            return round(scaled)  # a Fraction's ties go to the even integer
        case "stochastic_equal":
            return 1 << bits - 1 if eta else 0
    raise ValueError(f"unknown mode {mode}")


def code_below(x: Fraction, f: Format) -> int:
    """The largest code whose value is at most x; -1 if there is none."""
    if x < f.value(0):
        return -1
    expval = floor_log2(x) if x else -f.bias
    field = max(expval + f.bias, 0)
    if field == 0 or f.value(field << f.mantissa_bits) > x:  # ... in binade 0
        field, base, step = 0, f.value(0), f.value(1) - f.value(0)
        # Code 0 is zero, the others lie in an ordinary binade.
        if not f.subnormals and f.zero != "none":
            base, step = TWO**-f.bias, TWO ** (-f.bias - f.mantissa_bits)
    else:
        base = f.value(field << f.mantissa_bits)
        step = base / (1 << f.mantissa_bits)
    significand = math.floor((x - base) / step)
    return (field << f.mantissa_bits) + min(max(significand, 0), (1 << f.mantissa_bits) - 1)


def goes_up(mode: str, against_half: int, odd: bool, negative: bool) -> bool:
    """Whether a mode that draws nothing takes the upper neighbour of an inexact magnitude.

    `against_half` compares the magnitude with the midpoint (-1, 0, 1), `odd` is the lower
    neighbour's parity.
    """
    match mode:
        case "ties_to_even":
            return against_half > 0 or (against_half == 0 and odd)
        case "ties_to_away":
            return against_half >= 0
        case "ties_to_zero":
            return against_half > 0
        case "away_from_zero":
            return True
        case "toward_zero":
            return False
        case "toward_positive":
            return not negative
        case "toward_negative":
            return negative
        case "to_odd":
            return not odd
    raise ValueError(f"unknown mode {mode}")


def round_magnitude(
    x: Fraction, f: Format, mode: str, negative: bool, random: Random | None
) -> Fraction:
    """|x| rounded to a value of the format, or to one of those that would follow the largest."""
    code = code_below(x, f)
    lower, upper = (f.value(code) if code >= 0 else Fraction(0)), f.value(code + 1)
    if x == lower:
        return lower
    delta = (x - lower) / (upper - lower)
    odd = code % 2 == 1 if code >= 0 else False
    if f.mantissa_bits == 0 and not f.even_code_ties:
        odd = lower != 0  # the significand of every power of two is 1
    if mode == "stochastic_exact":
        away = Fraction(random.integer, random.two_to_n) < delta
    elif mode in COUNTED:
        away = count_of(delta, mode, random.bits) + random.integer >= random.two_to_n
    else:
        away = goes_up(mode, (delta > HALF) - (delta < HALF), odd, negative)
    return upper if away else lower


def project(
    x: float | int,
    f: Format,
    mode: str = "ties_to_even",
    overflow: str = "ieee",
    random: Random | None = None,
    underflow: str = "gradual",
) -> float:
    """x as the format holds it; an integer may have more digits than a float."""
    if math.isnan(x):
        return math.nan
    negative = math.copysign(1.0, x) < 0
    if math.isinf(x):
        return out_of_range(f, mode, overflow, negative, finite=False)
    exact = abs(Fraction(x))
    if underflow in ("flush_input", "flush_both") and exact < f.smallest_normal:
        exact = Fraction(0)
    return project_magnitude(exact, negative, f, mode, overflow, random, underflow)


def project_magnitude(
    exact: Fraction,
    negative: bool,
    f: Format,
    mode: str,
    overflow: str,
    random: Random | None,
    underflow: str,
) -> float:
    """A magnitude and a sign as the format holds them."""
    if f.zero == "none" and exact == 0:
        return math.nan if f.has_nan and not clamps(overflow) else float(f.value(0))
    if f.zero == "none" and negative:
        return out_of_range(f, mode, overflow, negative, finite=True)
    magnitude = round_magnitude(exact, f, mode, negative, random)
    if f.zero == "none" and magnitude == 0:
        magnitude = f.value(0)  # nothing lies below it
    if underflow in ("flush_result", "flush_both") and magnitude < f.smallest_normal:
        magnitude = Fraction(0)
    if magnitude == 0:
        return -0.0 if negative and f.zero == "both_signs" else 0.0
    if magnitude > f.value(f.top) or (negative and not f.is_signed):
        return out_of_range(f, mode, overflow, negative, finite=True)
    return -float(magnitude) if negative else float(magnitude)


def clamps(overflow: str) -> bool:
    return overflow in ("saturate", "propagate")


def out_of_range(f: Format, mode: str, overflow: str, negative: bool, finite: bool) -> float:
    below = negative and not f.is_signed  # of an unsigned format
    bound = (
        float(f.value(0)) if below else math.copysign(float(f.value(f.top)), -1 if negative else 1)
    )
    infinity = (-math.inf if negative else math.inf) if f.has_infinity and not below else None
    if overflow == "propagate" and not finite and infinity is not None:
        return infinity
    inward = mode in ("toward_zero", "to_odd", "toward_positive" if negative else "toward_negative")
    if clamps(overflow) or (overflow == "ieee" and inward and finite):
        return bound
    if overflow == "nan":
        return math.nan
    if infinity is not None:
        return infinity
    return math.nan if f.has_nan else bound
