"""Every rounding, overflow and underflow rule of quantize and encode against the executable
specification."""

import functools
import zlib

import numpy as np
import pytest

import apscope
from tests.reference.casts import Rounding, cast
from tests.reference.formats import EXOTIC, FORMATS
from tests.reference.nans import with_nans
from tests.reference.points import numbers
from tests.reference.random_words import QUANTIZE, random_integers, words_of
from tests.reference.rounding import DETERMINISTIC, MODES, UNDERFLOWS, Format

FP32_FORMATS = FORMATS | EXOTIC
SEED = 0x0123456789ABCDEF


def overflows(f: Format) -> list[str]:
    return ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan


def underflows(f: Format) -> list[str]:
    return UNDERFLOWS if f.smallest_normal else ["gradual"]


def anything(words: type, rng: np.random.Generator) -> np.ndarray:
    """Numbers of any bits."""
    bits = rng.integers(0, np.iinfo(words).max, 60, dtype=words, endpoint=True)
    return bits.view(words(0).dtype.str.replace("u", "f"))


def generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


@functools.cache
def drawn(count: int, bits: int) -> list[int]:
    return random_integers(words_of(SEED), np.arange(count), bits, QUANTIZE)


def bits_of(x: np.ndarray) -> np.ndarray:
    return x.view(np.uint32 if x.dtype == np.float32 else np.uint64)


def assert_same_bits(got, expected, x, setting):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    wrong = bits_of(got) != bits_of(expected)
    first = [a[wrong][0] for a in (x, got, expected)] if wrong.any() else []
    assert not first, "{}: {!r} gives {!r}, not {!r}".format(setting, *first)


def expected_values(
    x: np.ndarray, f: Format, r: Rounding, dtype, keep_payload: bool = False
) -> np.ndarray:
    random = drawn(x.size, r.drawn_bits) if r.is_stochastic else None
    with np.errstate(invalid="ignore"):
        values = cast(x, f, r, random).astype(dtype)
    return with_nans(values, x, f, keep_payload)


@pytest.mark.parametrize("name", FP32_FORMATS)
def test_every_rounding_with_every_overflow_and_underflow_rule(name):
    f, rng = FP32_FORMATS[name], generator(name)
    x = np.append(numbers(f, np.float32, rng, 1), anything(np.uint32, rng))
    for mode in MODES:
        for overflow in overflows(f):
            for underflow in underflows(f):
                r = Rounding(mode, overflow, int(rng.choice([3, 16, 32, 62])), underflow)
                part = (
                    x[rng.random(x.size) < 0.15]
                    if (overflow, underflow) != ("ieee", "gradual")
                    else x
                )
                settings = dict(
                    rounding=mode,
                    overflow=overflow,
                    underflow=underflow,
                    seed=SEED,
                    random_bits=r.bits,
                )
                got = apscope.quantize(part, name, **settings)
                assert_same_bits(got, expected_values(part, f, r, np.float32), part, r)


@pytest.mark.parametrize("name", FP32_FORMATS)
def test_fp64_inputs_are_rounded_once(name):
    f, rng = FP32_FORMATS[name], generator(name)
    x = np.append(numbers(f, np.float64, rng, 2), anything(np.uint64, rng))
    for mode in MODES:
        overflow, underflow = str(rng.choice(overflows(f))), str(rng.choice(underflows(f)))
        r = Rounding(mode, overflow, int(rng.choice([1, 8, 33, 61])), underflow)
        got = apscope.quantize(
            x,
            name,
            rounding=mode,
            overflow=overflow,
            underflow=underflow,
            seed=SEED,
            random_bits=r.bits,
        )
        assert_same_bits(got, expected_values(x, f, r, np.float64), x, r)


@pytest.mark.parametrize("name", FP32_FORMATS)
def test_codes_are_those_of_the_quantized_values(name):
    f, rng = FP32_FORMATS[name], generator(name)
    for dtype in (np.float32, np.float64):
        x = numbers(f, dtype, rng, 2)
        for mode in MODES:
            overflow, underflow = str(rng.choice(overflows(f))), str(rng.choice(underflows(f)))
            settings = dict(
                rounding=mode, overflow=overflow, underflow=underflow, seed=SEED, random_bits=24
            )
            values = apscope.quantize(x, name, **settings)
            codes = apscope.encode(x, name, **settings, nan=None if f.has_nan else 0)
            if not f.has_nan:
                with pytest.raises(ValueError, match="is NaN"):
                    apscope.encode(x, name, **settings)
            back = apscope.decode(codes, name)
            compared = slice(None) if f.has_nan else ~np.isnan(values)
            assert_same_bits(
                back[compared], values.astype(np.float32)[compared], x[compared], settings
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FP32_FORMATS)
def test_payloads_are_kept_as_far_as_the_format_has_codes(name, dtype):
    f = FP32_FORMATS[name]
    x = numbers(f, dtype, generator(name), 0)
    for mode in ["ties_to_even", "stochastic", "stochastic_exact", "to_odd"]:
        for overflow in overflows(f):
            r = Rounding(mode, overflow)
            got = apscope.quantize(
                x, name, rounding=mode, overflow=overflow, keep_payload=True, seed=SEED
            )
            assert_same_bits(got, expected_values(x, f, r, dtype, keep_payload=True), x, r)


def test_long_arrays_are_rounded_as_short_ones_are():
    """Whole vectors, their tails and threads: element i of an array alone decides."""
    rng = np.random.default_rng(5)
    for name in ["e4m3", "bf16", "e8m0fnu", "e4m3fnnosub", "binary8p3se"]:
        f = FP32_FORMATS[name]
        x = np.resize(rng.permutation(numbers(f, np.float32, rng)), 4099)
        for mode in MODES:
            for underflow in UNDERFLOWS:
                settings = dict(
                    rounding=mode, overflow="propagate", underflow=underflow, keep_payload=True
                )
                whole = apscope.quantize(x, name, **settings, seed=SEED, threads=2)
                r = Rounding(mode, "propagate", 32, underflow)
                part = slice(0, 150) if mode in DETERMINISTIC else slice(0, 70)
                assert_same_bits(
                    whole[part], expected_values(x[part], f, r, np.float32, True), x[part], settings
                )
                if mode in DETERMINISTIC:
                    for begin in (1, 17, 4000):
                        alone = apscope.quantize(x[begin:], name, **settings)
                        assert_same_bits(whole[begin:], alone, x[begin:], settings)


@pytest.mark.parametrize(
    ("name", "x", "setting", "expected"),
    [
        # The definitions by example, worked by hand.
        ("e4m3", 1.0625, {"rounding": "ties_to_zero"}, 1.0),
        ("e4m3", -1.0626, {"rounding": "ties_to_zero"}, -1.125),
        ("e4m3", 1.0001, {"rounding": "away_from_zero"}, 1.125),
        ("e4m3", -1e-30, {"rounding": "away_from_zero"}, -(2.0**-9)),
        ("e4m3", 240.1, {"rounding": "away_from_zero"}, np.inf),
        ("e4m3", 1e9, {"overflow": "propagate"}, 240.0),
        ("e4m3", -np.inf, {"overflow": "propagate"}, -np.inf),
        ("e4m3", -np.inf, {"overflow": "saturate"}, -240.0),
        ("e4m3fn", -np.inf, {"overflow": "propagate"}, -448.0),
        ("e4m3u", -np.inf, {"overflow": "propagate"}, 0.0),
        ("e4m3u", -5.0, {"overflow": "propagate"}, 0.0),
        ("e8m0fnu", 0.0, {"overflow": "propagate"}, 2.0**-127),
        ("e8m0fnu", 0.0, {}, np.nan),
        ("e8m0fnu", -1.0, {"overflow": "propagate"}, 2.0**-127),
        ("e8m0fnu", 2.0**-128, {"underflow": "flush_input"}, np.nan),
        ("e8m0fnu", 2.0**-128, {"underflow": "flush_input", "overflow": "saturate"}, 2.0**-127),
        ("e8m0fnu", 2.0**-128, {"underflow": "flush_result"}, 2.0**-127),
        ("e4m3", 2.0**-7, {"underflow": "flush_result"}, 0.0),
        ("e4m3", -(2.0**-7), {"underflow": "flush_result"}, -0.0),
        ("e4m3", 2.0**-6 * 0.97, {"underflow": "flush_result"}, 2.0**-6),
        ("e4m3", 2.0**-6 * 0.97, {"underflow": "flush_input"}, 0.0),
        (
            "e4m3",
            -(2.0**-6) * 0.97,
            {"underflow": "flush_both", "rounding": "away_from_zero"},
            -0.0,
        ),
        ("e4m3fnnosub", 2.0**-7 * 1.1, {"underflow": "flush_input"}, 0.0),
        ("e4m3fnnosub", 2.0**-7 * 1.1, {"underflow": "flush_result"}, 2.0**-7 * 1.125),
        ("e4m3fnuz", -(2.0**-9), {"underflow": "flush_input"}, 0.0),
        ("e4m3u", -(2.0**-7), {"underflow": "flush_result"}, 0.0),
        # Mistakes that emulators make. No sticky bit below a subnormal tie; the tie itself.
        ("e4m3", 2.0**-10 * (1 + 2.0**-23), {}, 2.0**-9),
        ("e4m3", 2.0**-10, {}, 0.0),
        ("e5m2", 2.0**-17 * (1 + 2.0**-23), {}, 2.0**-16),
        ("e5m2", 2.0**-17, {}, 0.0),
        # Overflow tested before rounding: it begins half a step above the largest value.
        ("e4m3", 247.99, {}, 240.0),
        ("e4m3", 248.0, {}, np.inf),
        ("e4m3", -255.99, {}, -np.inf),
        ("e4m3", 255.99, {"overflow": "saturate"}, 240.0),
        ("e5m2", 61439.996, {}, 57344.0),
        ("e5m2", 61440.0, {}, np.inf),
        ("fp16", 65519.996, {}, 65504.0),
        ("fp16", 65520.0, {}, np.inf),
        ("fp16", 131071.0, {"rounding": "toward_zero"}, 65504.0),
        # The sign of a zero lost, and fp32's subnormal numbers where they are values.
        ("e4m3", -1e-40, {}, -0.0),
        ("fp16_ahp", -0.0, {"rounding": "toward_positive"}, -0.0),
        ("e3m0", -(2.0**-149), {"rounding": "toward_positive"}, -0.0),
        ("bf16", -9 * 2.0**-136, {}, -(2.0**-133)),
        ("tf32", -9 * 2.0**-136, {}, -9 * 2.0**-136),
        # A shift that is wrong at full precision.
        ("fp32", 1 + 2.0**-23, {"rounding": "ties_to_away"}, 1 + 2.0**-23),
        # Ties at precision 1: to the larger magnitude, or in P3109 to the even code.
        ("e3m0", -1.5, {}, -2.0),
        ("e3m0", 12.0, {}, np.inf),
        ("e3m0", 12.0, {"overflow": "saturate"}, 8.0),
        ("binary8p1uf", 1.5, {}, 1.0),
        ("binary8p1uf", 3.0, {}, 4.0),
        # Ties away and ties to even exchanged.
        ("fp16", -(1 + 2.0**-11), {"rounding": "ties_to_away"}, -(1 + 2.0**-10)),
        ("fp16", -(1 + 2.0**-11), {}, -1.0),
    ],
)
def test_the_rules_by_example(name, x, setting, expected):
    for dtype in (np.float32, np.float64):
        got = apscope.quantize(np.array([x], dtype), name, **setting)
        assert_same_bits(got, np.array([expected], dtype), np.array([x], dtype), setting)
