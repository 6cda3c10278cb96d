"""Formats with values that fp32 does not hold, and numbers that no fp64 number is: rounded once."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apscope
from tests.reference.casts import UNIT, Rounding, cast, cast_units
from tests.reference.formats import EXOTIC, FORMATS, FP64_FORMATS
from tests.reference.nans import with_nans
from tests.reference.points import numbers
from tests.reference.random_words import QUANTIZE, random_integers, words_of
from tests.reference.rounding import DETERMINISTIC, MODES, UNDERFLOWS

EVERY = FORMATS | EXOTIC | FP64_FORMATS
SEED = 20


def same_bits(got, expected):
    return got.dtype == expected.dtype and got.tobytes() == expected.tobytes()


def settings_of(f, mode, rng):
    overflow = rng.choice(
        ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan
    )
    underflow = rng.choice(UNDERFLOWS) if f.smallest_normal else "gradual"
    return Rounding(mode, str(overflow), int(rng.choice([1, 8, 17, 52, 62])), str(underflow))


def keywords(r):
    return dict(
        rounding=r.mode, overflow=r.overflow, random_bits=r.bits, underflow=r.underflow, seed=SEED
    )


def drawn(x, r):
    """The integers that `quantize` draws for these elements, None where it draws none."""
    if not r.is_stochastic:
        return None
    return random_integers(words_of(SEED), np.arange(x.size), r.drawn_bits, QUANTIZE)


def expected_values(x, f, r, keep_payload=False):
    return with_nans(cast(x, f, r, drawn(x, r)), x, f, keep_payload)


@pytest.mark.parametrize("name", FP64_FORMATS)
def test_every_rounding_is_the_specification(name):
    f, rng = FP64_FORMATS[name], np.random.default_rng(zlib.crc32(name.encode()))
    x = numbers(f, np.float64, rng, 2)
    for mode in MODES:
        for r in (Rounding(mode), settings_of(f, mode, rng), settings_of(f, mode, rng)):
            for keep in (False, True):
                got, expected = (
                    apscope.quantize(x, name, **keywords(r), keep_payload=keep),
                    expected_values(x, f, r, keep),
                )
                wrong = got.view(np.uint64) != expected.view(np.uint64)
                assert got.dtype == np.float64
                assert not wrong.any(), (
                    r,
                    keep,
                    x[wrong][0].hex(),
                    got[wrong][0].hex(),
                    expected[wrong][0].hex(),
                    wrong.sum(),
                )


@pytest.mark.parametrize("name", FP64_FORMATS)
def test_narrow_inputs_give_fp64_results(name):
    f, rng = FP64_FORMATS[name], np.random.default_rng(1)
    special = np.uint32([1, 0x80000001, 0x007FFFFF, 0x7F7FFFFF, 0x7F800000, 0x80000000])
    bits = np.concatenate([rng.integers(0, 2**32, 40, dtype=np.uint32), special])
    x = bits.view(np.float32)
    x = x[~np.isnan(x)]
    for mode in ["ties_to_even", "away_from_zero", "stochastic"]:
        r = Rounding(mode)
        assert same_bits(
            apscope.quantize(x, name, **keywords(r)), expected_values(x.astype(np.float64), f, r)
        )
    half = x.astype(np.float64).clip(-60000, 60000).astype(np.float16)
    r = Rounding("ties_to_zero")
    assert same_bits(
        apscope.quantize(half, name, **keywords(r)), expected_values(half.astype(np.float64), f, r)
    )


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=16),
    st.sampled_from(MODES),
    st.sampled_from(UNDERFLOWS),
)
@settings(max_examples=60, deadline=None)
def test_fp64_is_the_identity_but_for_flushes_and_nans(patterns, mode, underflow):
    x = np.array(patterns, np.uint64).view(np.float64)
    expected = np.where(np.isnan(x), np.nan, x)
    if underflow != "gradual":
        expected = np.where(np.abs(x) < 2.0**-1022, np.copysign(0.0, x), expected)
    assert same_bits(apscope.quantize(x, "fp64", rounding=mode, underflow=underflow), expected)
    if underflow == "gradual":
        nan = np.isnan(x)
        kept = apscope.quantize(x, "fp64", rounding=mode, keep_payload=True).view(np.uint64)
        quieted = x.view(np.uint64) | np.where(nan, np.uint64(1 << 51), np.uint64(0))
        np.testing.assert_array_equal(kept, quieted)
        codes = apscope.encode(x, "fp64", rounding=mode, keep_payload=True)
        assert codes.dtype == np.uint64
        np.testing.assert_array_equal(codes, quieted)


@pytest.mark.parametrize(
    "name",
    """
        e11m51 e9m30 e10m10b601 e11m51nosub e11m51sub-1023 e11m4b1070nosub bf16 e5m2
    """.split(),
)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_bit_patterns_beside_values_and_middles(name, data):
    f = EVERY[name]
    code = data.draw(st.integers(0, f.top))
    low, high = f.value(code), f.value(code + 1)
    near = np.array(
        [float(v) for v in (low, (low + high) / 2, low + (high - low) / 4) if v < 2**1024 - 2**970]
    )
    ulps = data.draw(st.integers(-2, 2))
    near = (np.maximum(near.view(np.int64) + ulps, 0)).view(np.float64)
    patterns = data.draw(st.lists(st.integers(0, 2**64 - 1), max_size=6))
    x = np.concatenate([near, -near, np.array(patterns, np.uint64).view(np.float64)])
    r = Rounding(
        data.draw(st.sampled_from(MODES)),
        data.draw(st.sampled_from(["ieee", "saturate", "propagate"])),
        30,
    )
    got, expected = apscope.quantize(x, name, **keywords(r)), expected_values(x, f, r)
    assert same_bits(got, expected), (r, [v.hex() for v in x], got, expected)


INTEGERS = [
    *(2**k + d for k in (24, 25, 31, 32, 53, 54, 55, 61, 62) for d in (-3, -2, -1, 0, 1, 2, 3)),
    *(2**62 + 2**j + d for j in (8, 9, 10, 37, 38, 39, 50, 51, 52) for d in (-1, 0, 1)),
    *(2**62 + 3 * 2**j + d for j in (8, 9, 10, 38) for d in (-1, 0, 1)),
    *(2**63 - 1 - d for d in (0, 1, 255, 256, 511, 512, 513, 2**38)),
    0,
    1,
    7,
]
UNSIGNED = [
    2**64 - 1,
    2**64 - 2,
    *(2**64 - 2**j + d for j in (10, 11, 39, 40, 52) for d in (-1, 0, 1)),
    *(2**63 + 2**j + d for j in (10, 11, 39) for d in (-1, 0, 1)),
]


def assert_integers(x, name, r):
    f = EVERY[name]
    k = np.empty(x.size, object)
    k[:] = [int(v) << UNIT for v in x.tolist()]
    expected = cast_units(k, x.astype(np.float64), f, r, drawn(x, r))
    got = apscope.quantize(x, name, **keywords(r))
    assert got.dtype == np.float64
    wrong = got.view(np.uint64) != expected.view(np.uint64)
    assert not wrong.any(), (name, r, x[wrong][0], got[wrong][0], expected[wrong][0])


@pytest.mark.parametrize("mode", MODES[:-1])
@pytest.mark.parametrize(
    "name",
    ["fp64", "e11m51", "e9m30", "fp32", "bf16", "e8m22nosub", "e4m3fn", "e8m0fnu", "e11m20u"],
)
def test_integers_of_64_bits_are_rounded_once(name, mode):
    signed = np.array([*INTEGERS, *(-v for v in INTEGERS), -(2**63)], np.int64)
    unsigned = np.array([*INTEGERS, *UNSIGNED], np.uint64)
    for overflow in ("ieee", "saturate"):
        assert_integers(signed, name, Rounding(mode, overflow, 13))
        assert_integers(unsigned, name, Rounding(mode, overflow, 62))


@pytest.mark.parametrize(
    "setting",
    [
        {"rounding": "stochastic_exact"},
        {"rounding": "stochastic", "random": np.array([1])},
        {"underflow": "flush_input"},
        {"underflow": "flush_both"},
    ],
)
def test_what_integers_beyond_fp64_cannot_have_is_refused(setting):
    for call in (apscope.quantize, apscope.encode):
        with pytest.raises(ValueError, match=r"integers beyond 2\^53"):
            call(np.array([2**53 + 1]), "e4m3", **setting)
        call(np.array([2**53]), "e4m3", **setting)


def test_a_python_integer_and_codes_of_integers_are_rounded_once_too():
    assert apscope.quantize(2**53 + 1, "fp64", rounding="toward_positive") == 2.0**53 + 2
    tie = 2**62 + 2**38 + 1  # above a tie of fp32 by less than fp64 tells
    codes = apscope.encode(np.array([tie]), "fp32")
    assert codes.dtype == np.uint32 and codes[0] == np.float32(2.0**62 + 2.0**39).view(np.uint32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_narrower_integers_are_exact(mode, dtype):
    info = np.iinfo(dtype)
    x = (
        np.unique(np.linspace(info.min, info.max, 99).astype(np.int64))
        .clip(info.min, info.max)
        .astype(dtype)
    )
    for name in ("fp64", "bf16", "e4m3"):
        assert_integers(x, name, Rounding(mode, "saturate"))
