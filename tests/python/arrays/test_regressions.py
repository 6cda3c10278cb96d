"""Mistakes that emulators make, each as literal inputs and outputs.

The letters name the root causes: (a) no sticky bit when shifting into subnormals; (b) overflow
tested before rounding; (c) NaN pushed through integer rounding; (d) a shift that is wrong at full
precision; (f) rounding twice; (g) the sign of zero lost; (h) ties at precision 1; (i) random bits
that depend on time or threads; (j) the caller's array overwritten.
"""

import math

import numpy as np
import pytest

import apscope

SIGNED_ZERO = ["fp32", "tf32", "bf16", "fp16", "fp16_ahp", "e5m2", "e4m3", "e3m4", "e4m3fn",
               "e3m4fn", "e3m2fn",
               "e2m3fn", "e2m1fn", "e3m0", "dlfloat16", "hfp8_forward"]  # fmt: skip
WITH_NAN = ["fp32", "tf32", "bf16", "fp16", "dlfloat16", "e5m2", "e4m3", "e3m4", "e4m3fn", "e3m4fn",
            "e4m3fnuz",
            "e4m3b11fnuz", "e5m2fnuz", "e8m0fnu", "binary8p3se", "binary8p4se",
                "binary8p1uf"]  # fmt: skip
WITHOUT_NAN = ["fp16_ahp", "hfp8_forward", "e3m2fn", "e2m3fn", "e2m1fn", "e3m0"]
MODES = """
    ties_to_even ties_to_away toward_zero toward_positive toward_negative to_odd stochastic
""".split()


def cast(x, format, rounding="ties_to_even", overflow="ieee"):
    """One number, given as a float or as bits, through the array path."""
    value = (
        np.array([x], np.uint32).view(np.float32)
        if isinstance(x, int)
        else np.array([x], np.float32)
    )
    return apscope.quantize(
        value, apscope.FloatFormat(format), rounding=rounding, overflow=overflow
    )[0]


def assert_is(got, expected):
    """The same number with the same sign of zero."""
    assert got == expected and math.copysign(1, got) == math.copysign(1, expected), (got, expected)


def test_a_sticky_bit_below_a_subnormal_tie_rounds_up():  # (a)
    assert_is(cast(0x3A800001, "e4m3"), 2.0**-9)
    assert_is(cast(0x37000001, "e5m2"), 2.0**-16)
    assert_is(cast(0x3A800000, "e4m3"), 0.0)  # the tie itself: to even
    assert_is(cast(0x37000000, "e5m2"), 0.0)


@pytest.mark.parametrize("x", [248.0, 250.0, 255.0, 255.99])
def test_what_rounds_past_the_largest_value_overflows(x):  # (b)
    assert_is(cast(x, "e4m3"), math.inf)
    assert_is(cast(-x, "e4m3"), -math.inf)
    assert_is(cast(x, "e4m3", overflow="saturate"), 240.0)
    assert_is(cast(247.99, "e4m3"), 240.0)


def test_overflow_of_e5m2_and_fp16_begins_half_a_step_above_the_largest_value():  # (b)
    assert_is(cast(61440.0, "e5m2"), math.inf)
    assert_is(cast(61439.996, "e5m2"), 57344.0)
    assert_is(cast(65520.0, "fp16"), math.inf)
    assert_is(cast(65519.996, "fp16"), 65504.0)


@pytest.mark.parametrize("x", [65536.0, 98304.0, 131071.0])
def test_the_binade_above_fp16_is_infinity_or_truncates_to_the_largest(x):  # (b)
    assert_is(cast(x, "fp16"), math.inf)
    assert_is(cast(x, "fp16", "toward_zero"), 65504.0)


@pytest.mark.parametrize("format", [f for f in SIGNED_ZERO if f not in ("fp32", "tf32", "bf16")])
def test_a_tiny_negative_number_rounds_to_negative_zero(format):  # (g)
    assert_is(cast(-1e-40, format), -0.0)


def test_fp32_subnormals_are_not_zero_in_formats_with_eight_exponent_bits():  # (g)
    assert_is(cast(-1e-40, "bf16"), -(2.0**-133))
    assert_is(cast(-1e-40, "tf32"), -9 * 2.0**-136)
    assert_is(cast(2.0**-127, "bf16"), 2.0**-127)


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("bits", [0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("format", WITH_NAN)
def test_every_nan_stays_a_nan(format, bits, rounding):  # (c)
    for overflow in ("ieee", "saturate"):
        assert math.isnan(cast(bits, format, rounding, overflow))


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("format", WITHOUT_NAN)
# (c).
def test_a_nan_into_a_format_without_one_is_kept_by_quantize_and_refused_by_encode(format, bits):
    assert math.isnan(cast(bits, format))
    with pytest.raises(ValueError):
        apscope.encode(np.array([bits], np.uint32).view(np.float32), apscope.FloatFormat(format))


@pytest.mark.parametrize("rounding", MODES)
def test_fp32_to_itself_is_the_identity(rounding):  # (d)
    bits = np.random.default_rng(3).integers(0, 0x7F800000, 10000, dtype=np.uint32)
    bits = np.concatenate(
        [bits, bits | 0x80000000, np.uint32([0x3F800001, 0, 0x80000000, 1, 0x7F7FFFFF])]
    )
    got = apscope.quantize(bits.view(np.float32), apscope.FloatFormat("fp32"), rounding=rounding)
    np.testing.assert_array_equal(got.view(np.uint32), bits)


def test_a_number_just_above_one_survives_full_precision():  # (d)
    for rounding in ("ties_to_even", "ties_to_away"):
        assert_is(cast(0x3F800001, "fp32", rounding), float.fromhex("0x1.000002p0"))


def test_one_digit_ties_go_to_the_larger_magnitude_or_to_the_even_code():  # (h)
    assert_is(cast(1.5, "e3m0"), 2.0)
    assert_is(cast(-1.5, "e3m0"), -2.0)
    assert_is(cast(12.0, "e3m0"), math.inf)
    assert_is(cast(12.0, "e3m0", overflow="saturate"), 8.0)
    assert_is(cast(1.5, "binary8p1uf"), 1.0)  # P3109
    assert_is(cast(3.0, "binary8p1uf"), 4.0)


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("format", sorted({*SIGNED_ZERO, *WITH_NAN, "binary4p2sf"}))
def test_one_is_exact_in_every_mode(format, rounding):
    assert_is(cast(1.0, format, rounding), 1.0)


def test_ties_away_and_ties_to_even_are_not_exchanged():
    x = -(1 + 2.0**-11)
    assert_is(cast(x, "fp16", "ties_to_away"), -(1 + 2.0**-10))
    assert_is(cast(x, "fp16", "ties_to_even"), -1.0)
    assert_is(cast(x, "fp16", "toward_zero"), -1.0)


def test_a_float64_is_rounded_once():  # (f)
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert apscope.quantize(x, apscope.FloatFormat("bf16"))[0] == 1.0078125  # 1.0 through fp32


@pytest.mark.parametrize("format", SIGNED_ZERO)
def test_rounding_up_keeps_the_sign_of_zero(format):  # (g)
    assert_is(cast(-0.0, format, "toward_positive"), -0.0)
    if format != "fp32":  # where it is a value
        assert_is(cast(0x80000001, format, "toward_positive"), -0.0)


def test_random_bits_depend_on_the_seed_and_the_place_only():  # (i)
    x = np.random.default_rng(4).standard_normal(100_003).astype(np.float32)
    format = apscope.FloatFormat("e4m3")
    first = apscope.quantize(x, format, rounding="stochastic", seed=7)
    np.testing.assert_array_equal(first, apscope.quantize(x, format, rounding="stochastic", seed=7))
    np.testing.assert_array_equal(
        first[:1001], apscope.quantize(x[:1001], format, rounding="stochastic", seed=7)
    )
    assert (first != apscope.quantize(x, format, rounding="stochastic", seed=8)).any()


def test_the_callers_array_is_not_overwritten():  # (j)
    x = np.linspace(-300, 300, 4099, dtype=np.float32)
    before = x.copy()
    for rounding in MODES:
        apscope.quantize(x, apscope.FloatFormat("e4m3"), rounding=rounding)
        apscope.encode(x, apscope.FloatFormat("e4m3"), rounding=rounding)
    np.testing.assert_array_equal(x.view(np.uint32), before.view(np.uint32))
