"""quantize(..., scale=S): round(x S) / S, in exact rational arithmetic and as a loss scale does."""

from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.reference.compare import assert_same as same

RNG = np.random.default_rng(0)
SCALES = [1.0, 2.0**16, 2.0**-20, 2.0**130, 3.0, 1.1, 0.1, 1e-3]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3e38]


def numbers(dtype):
    x = RNG.standard_normal(400) * 2.0 ** RNG.integers(-30, 10, 400)
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, x]).astype(dtype)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("format", ["e4m3", "e2m1fn", "bf16", "e5m2"])
def test_float32_is_rounded_once_between_exact_products_and_one_quotient(scale, format):
    """In rationals: the product of a float32 and a short scale has no error, the quotient one."""
    scale = scale if np.frexp(scale)[0] == 0.5 else float(np.float32(scale))  # short: 24 bits
    x = numbers(np.float32)
    given = x.copy()
    y = apscope.quantize(x, format, scale=scale, overflow="saturate")
    np.testing.assert_array_equal(x.view(np.uint32), given.view(np.uint32))
    assert y.dtype == np.float32
    for a, b in zip(x.tolist(), y.tolist()):
        if not np.isfinite(a):
            continue
        product = Fraction(a) * Fraction(scale)
        assert Fraction(float(product)) == product  # float(product) is a float64 number, whole
        code = apscope.quantize(float(product), format, overflow="saturate")
        expected = (
            np.float32(0.0) if code == 0 else nearest_float32(Fraction(code) / Fraction(scale))
        )
        assert b == expected, (a, b, expected)
        assert np.signbit(b) == np.signbit(a)


def nearest_float32(value):
    """A rational rounded to float32: the nearest of the neighbours of its float64 quotient."""
    near = np.float32(float(value))
    if np.isinf(near):
        return near
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    around = [a for a in around if np.isfinite(a)]
    best = min(abs(Fraction(float(a)) - value) for a in around)
    ties = [a for a in around if abs(Fraction(float(a)) - value) == best]
    return next((a for a in ties if a.view(np.uint32) % 2 == 0), ties[0])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "rounding", ["ties_to_even", "toward_zero", "stochastic", "stochastic_exact"]
)
def test_float64_is_what_numpy_computes(scale, rounding):
    x = numbers(np.float64)
    options = {"rounding": rounding, "seed": 7, "overflow": "saturate"}
    with np.errstate(over="ignore", invalid="ignore"):
        expected = apscope.quantize(x * scale, "e5m10", **options) / scale
    expected[np.isnan(x)] = apscope.quantize(x, "e5m10", **options)[np.isnan(x)]
    same(apscope.quantize(x, "e5m10", scale=scale, **options), expected)


@pytest.mark.parametrize("spec_scale", ["2^12", "0.75"])
def test_a_scaled_cast_is_the_message_of_a_constant_loss_scale(spec_scale):
    scale = 2.0**12 if spec_scale == "2^12" else 0.75
    g = (RNG.standard_normal((1, 3000)) * 1e-3).astype(np.float32)
    sent = apscope.exchange(f"loss_scaling:e4m3fn,scale={scale!r}", g, topology="exact")
    reduced = getattr(sent, "reduced", sent)
    same(
        apscope.quantize(g[0], "e4m3fn", scale=scale),
        np.asarray(reduced, np.float64).astype(np.float32).reshape(-1),
    )


def test_a_scale_of_one_is_no_scale():
    for dtype in (np.float32, np.float64, np.float16):
        x = numbers(dtype)
        for options in ({}, {"rounding": "stochastic", "seed": 3}, {"keep_payload": True}):
            same(
                apscope.quantize(x, "e5m2", scale=1, **options),
                apscope.quantize(x, "e5m2", **options),
            )


def test_random_words_threads_and_out_are_as_without_a_scale():
    x = RNG.standard_normal((300, 700)).astype(np.float32)
    words = RNG.integers(0, 2**32, x.shape, dtype=np.uint64)
    options = {"rounding": "stochastic", "scale": 8.0}
    given = apscope.quantize(x, "e3m2", random=words, **options)
    same(
        given,
        apscope.quantize(x * np.float32(8), "e3m2", rounding="stochastic", random=words)
        / np.float32(8),
    )
    one = apscope.quantize(x, "e3m2", seed=5, threads=1, **options)
    same(one, apscope.quantize(x, "e3m2", seed=5, threads=3, **options))
    out = np.empty_like(x)
    assert apscope.quantize(x, "e3m2", seed=5, out=out, **options) is out
    same(out, one)
    same(apscope.quantize(x.T, "e3m2", scale=8.0), apscope.quantize(x, "e3m2", scale=8.0).T.copy())
    same(apscope.quantize(x[:0], "e3m2", scale=8.0), x[:0])


def test_a_tensor_and_a_number_stay_what_they_are():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1e-5, -3e-6], dtype=torch.bfloat16)
    y = apscope.quantize(x, "e4m3", scale=2.0**16)
    assert isinstance(y, torch.Tensor) and y.dtype == torch.float32 and (y != 0).all()
    assert apscope.quantize(1e-5, "e4m3", scale=np.float32(2**16)) == pytest.approx(
        1e-5, rel=1 / 16
    )


def test_a_product_beyond_float64_overflows():
    x = np.array([1e300, -1e300])
    np.testing.assert_array_equal(apscope.quantize(x, "e5m2", scale=1e30), [np.inf, -np.inf])
    saturated = apscope.quantize(x, "e5m2", scale=1e30, overflow="saturate")
    np.testing.assert_array_equal(saturated, np.array([57344.0, -57344.0]) / 1e30)
    np.testing.assert_array_equal(apscope.quantize(np.array([1e-300]), "e5m2", scale=1e-30), [0.0])


@pytest.mark.parametrize(
    ("scale", "error", "sentence"),
    [
        (0, ValueError, "scale=0.0 must be a positive finite number"),
        (-2.0, ValueError, "scale=-2.0 must be"),
        (np.inf, ValueError, "scale=inf must be"),
        (np.nan, ValueError, "scale=nan must be"),
        ("2", TypeError, "scale='2' must be a number"),
        (True, TypeError, "scale=True must be a number"),
        ([2.0], TypeError, r"scale=\[2.0\] must be a number"),
        (np.ones(3), TypeError, r"scale=an array of shape \(3,\) must be a number"),
    ],
)
def test_other_scales_are_refused(scale, error, sentence):
    with pytest.raises(error, match=sentence):
        apscope.quantize(np.float32([1.0]), "e4m3", scale=scale)


def test_wide_integers_are_refused():
    with pytest.raises(ValueError, match="integers beyond 2\\^53, which do not support scale="):
        apscope.quantize(np.array([2**60 + 1]), "bf16", scale=2.0)
    with pytest.raises(ValueError, match="2\\^53"):
        apscope.quantize(np.array([2**53 + 1]), "e4m3", underflow="flush_input")


def test_a_cast_that_loses_small_numbers_is_told_by_its_statistics():
    x = (RNG.standard_normal(1000) * 1e-4).astype(np.float32)
    lost = apscope.cast_statistics(x, "e4m3")
    assert lost.underflow_rate > 0.9 and (apscope.quantize(x, "e4m3") == 0).mean() > 0.9
    scaled = apscope.cast_statistics(x * np.float32(2**16), "e4m3")
    y = apscope.quantize(x, "e4m3", scale=2.0**16)
    assert scaled.underflow_rate == (y[x != 0] == 0).mean() < 0.01
    for function in (apscope.quantize, apscope.cast_statistics):
        assert "underflow_rate" in function.__doc__
    assert "cast_statistics" in apscope.quantize.__doc__
