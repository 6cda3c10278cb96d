"""Stochastic rounding counted, not sampled: which of all 2^N random integers round up."""

import bisect
import functools
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.reference.formats import EXOTIC, FORMATS, FP64_FORMATS
from tests.reference.rounding import COUNTED, Format, count_of, out_of_range

SMALL = {name: f for name, f in (FORMATS | EXOTIC).items() if f.storage_bits <= 8}
TINY = Fraction(
    1, 1 << 43
)  #: of an interval: far less than any N here tells, yet fp64 holds the sum


def etas(bits: int) -> list[Fraction]:
    """Multiples of 2^-N, halves of it, their neighbours, and the two ends."""
    unit = Fraction(1, 1 << bits)
    grid = {0, unit, unit * ((1 << bits) // 2), unit * ((1 << bits) * 2 // 3), 1 - unit}
    halves = {g + unit / 2 for g in grid}
    return sorted(
        {e for g in grid | halves for e in (g - TINY, g, g + TINY) if 0 <= e < 1} | {1 - TINY}
    )


def intervals(f: Format) -> list[tuple[Fraction, Fraction]]:
    """Normal, subnormal, next to zero, the irregular gap, beyond the largest."""
    first = 1 << f.mantissa_bits
    codes = {0, 1, first - 1, first, (first + f.top) // 2, f.top - 1, f.top}
    found = [(f.value(c), f.value(c + 1)) for c in sorted(codes) if 0 <= c <= f.top]
    return found + [(Fraction(0), f.value(0))] * (f.zero == "none")


def bracket(x: Fraction, values: list[Fraction]) -> tuple[Fraction, Fraction]:
    at = bisect.bisect_right(values, x)
    return values[at - 1], values[at]


def result(magnitude: Fraction, negative: bool, f: Format, overflow: str) -> float:
    if f.zero == "none":
        magnitude = max(magnitude, f.value(0))
        if negative:
            return out_of_range(f, "stochastic", overflow, True, finite=True)
    if magnitude == 0:
        return -0.0 if negative and f.zero == "both_signs" else 0.0
    if magnitude > f.value(f.top) or (negative and not f.is_signed):
        return out_of_range(f, "stochastic", overflow, negative, finite=True)
    return -float(magnitude) if negative else float(magnitude)


@functools.cache
def places(name: str, bits: int) -> list[tuple[float, Fraction, Fraction, Fraction]]:
    """(x, its neighbours, eta), eta being that of x, which fp64 may have rounded."""
    f = SMALL[name]
    values = [Fraction(0)] * (f.zero == "none") + [f.value(c) for c in range(f.top + 2)]
    found = []
    for x in {float(low + eta * (high - low)) for low, high in intervals(f) for eta in etas(bits)}:
        if x == 0 and f.zero == "none":
            continue  # no rounding there
        lower, upper = bracket(Fraction(x), values)
        found.append((x, lower, upper, (Fraction(x) - lower) / (upper - lower)))
    return found


def cases(name: str, bits: int, mode: str, overflow: str) -> list[tuple[float, int, float, float]]:
    """(x, count, what x becomes without the draw, and with it)."""
    return [
        (
            -x if negative else x,
            count_of(eta, mode, bits),
            *(result(v, negative, SMALL[name], overflow) for v in (lower, upper)),
        )
        for x, lower, upper, eta in places(name, bits)
        for negative in (False, True)
    ]


@pytest.mark.parametrize("mode", COUNTED)
@pytest.mark.parametrize("name", SMALL)
def test_exactly_the_largest_count_integers_round_up(name, mode):
    for bits in (1, 4, 8):
        for overflow in ("ieee", "saturate") if bits == 4 else ("ieee",):
            x, count, down, up = (
                np.array(column) for column in zip(*cases(name, bits, mode, overflow))
            )
            integers = np.arange(1 << bits)
            repeated, random = np.meshgrid(x, integers, indexing="ij")
            expected = np.where(
                integers >= (1 << bits) - count[:, None], up[:, None], down[:, None]
            )
            got = apscope.quantize(
                repeated, name, rounding=mode, overflow=overflow, random_bits=bits, random=random
            )
            np.testing.assert_array_equal(
                got.view(np.uint64), expected.view(np.uint64), f"{bits} bits, {overflow}"
            )
            with np.errstate(over="ignore"):
                fp32 = x.astype(np.float32) == x
            expected = expected[fp32].astype(np.float32)
            got = apscope.quantize(
                repeated[fp32].astype(np.float32),
                name,
                rounding=mode,
                overflow=overflow,
                random_bits=bits,
                random=random[fp32],
            )
            np.testing.assert_array_equal(
                got.view(np.uint32), expected.view(np.uint32), f"fp32, {bits} bits, {overflow}"
            )


@pytest.mark.parametrize("mode", COUNTED)
@pytest.mark.parametrize(
    "name", ["e4m3", "e5m2ub10nosub", "e3m3ub3sub-3", "bf16", "e8m0fnu", "e11m4b1070nosub", "fp32"]
)
def test_the_first_integer_that_rounds_up_at_every_number_of_bits(name, mode):
    """R = 2^N - count is up, one less is not."""
    f, rng = (FORMATS | EXOTIC | FP64_FORMATS)[name], np.random.default_rng(3)
    first = 1 << f.mantissa_bits
    most = 62 if mode in ("stochastic_b", "stochastic_c") else 64
    for bits in [*range(1, 18), 24, 31, 32, 33, 47, 53, 61, 62, 63, 64]:
        if bits > most:
            continue
        x, random, expected = [], [], []
        for code in {0, first // 2, first, f.top - 1}:
            low, high = f.value(code), f.value(code + 1)
            for eta in [
                *rng.random(3),
                2.0**-bits,
                1.5 * 2.0**-bits,
                1 - 2.0 ** -min(bits + 1, 40),
            ]:
                v = float(low + Fraction(eta) * (high - low))
                if not low < Fraction(v) < high:
                    continue
                count = count_of((Fraction(v) - low) / (high - low), mode, bits)
                for r in {0, (1 << bits) - 1, (1 << bits) - count, (1 << bits) - count - 1}:
                    if 0 <= r < 1 << bits:
                        x.append(v)
                        random.append(r)
                        expected.append(float(high if count + r >= 1 << bits else low))
        got = apscope.quantize(
            np.array(x), name, rounding=mode, random_bits=bits, random=np.array(random, np.uint64)
        )
        wrong = got != np.array(expected)
        assert not wrong.any(), (
            bits,
            np.array(x)[wrong][0].hex(),
            np.array(random, np.uint64)[wrong][0],
            got[wrong][0],
        )
