"""Block formats against their executable definition, and the known cases one by one."""

import math
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope import BlockFormat, decode_blocks, encode_blocks, quantize_blocks
from tests.reference import blocks as ref
from tests.reference.compare import assert_same as same

torch = pytest.importorskip("torch")

MODES = "ties_to_even ties_to_away toward_zero toward_positive toward_negative to_odd".split()
RULES = ["floor", "ceil", "rceil", "even"]
NAMES = list(ref.BLOCKS)
FP32 = np.finfo(np.float32)


def samples(n, seed=0):
    """Gaussian blocks at many magnitudes, random bit patterns, boundary values."""
    rng = np.random.default_rng(seed)
    gauss = rng.standard_normal(n) * 2.0 ** np.repeat(rng.integers(-150, 127, n // 8 + 1), 8)[:n]
    bits = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    bits = np.where(np.isfinite(bits), bits, np.float32(0))
    grid = rng.integers(-512, 513, n) / 64.0 * 2.0 ** rng.integers(-3, 4)
    return np.concatenate([gauss.astype(np.float32), bits, grid.astype(np.float32)])


# ---- Against the reference --------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_values_are_the_reference_s(name, mode):
    subnormals = (np.arange(1, 33, dtype=np.uint32) * 1001).view(np.float32)
    x = np.concatenate([samples(100, seed=MODES.index(mode)), subnormals])
    same(quantize_blocks(x, name, rounding=mode), ref.quantize_line(x, ref.BLOCKS[name], mode))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_scale_rules_are_the_reference_s(name, rule):
    rng = np.random.default_rng(5)
    # Blocks of one element: every relevant significand and its neighbours, at many exponents.
    near = np.float32([1, 1.5, 1.75, 1.8125, 1.875, 1.9375, 1.96875, 1.984375, 1.9921875, 2])
    near = np.concatenate(
        [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(4))]
    )
    x = (near[:, None] * np.float32(2.0) ** np.float32([-130, -126, -60, 0, 5, 100, 126])).ravel()
    x = np.concatenate([x, rng.integers(1, 2**31 - 2**24, 200, dtype=np.uint32).view(np.float32)])
    x = np.append(x, [FP32.max, FP32.smallest_subnormal])
    b = replace(ref.BLOCKS[name], size=1, rule=rule)
    f = f"{name.rsplit(':', 1)[0]}:1" if name.startswith("bfp") else f"{name},block=1"
    scales = encode_blocks(x, f"{f},rule={rule}").scales
    np.testing.assert_array_equal(
        scales, [127 + ref.scale_exponent(Fraction(float(v)), b) for v in x]
    )
    with np.errstate(over="ignore"):
        same(quantize_blocks(x, f"{f},rule={rule}"), ref.quantize_line(x, b))


@pytest.mark.parametrize("mode", MODES)
def test_nvfp4_is_the_reference_s(mode):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = (
            rng.standard_normal(400)
            * np.repeat(2.0 ** rng.integers(-12, 3, 25), 16)
            * 2.0 ** rng.integers(-90, 90)
        ).astype(np.float32)
        if seed == 0:  # under the largest tensor scale there is
            x = (x / np.abs(x).max() * np.float32(2.0**-130)).astype(np.float32)
        if seed == 1:
            x[::5] = [FP32.max, -FP32.max, 0.0, -0.0, FP32.smallest_subnormal] * 16
        same(quantize_blocks(x, "nvfp4", rounding=mode), ref.quantize_nvfp4(x, mode))
        encoded = encode_blocks(x, "nvfp4", rounding=mode)
        assert np.float32(encoded.tensor_scale) == ref.nvfp4_tensor_scale(x)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "mxint8"])
def test_fp64_is_rounded_once(name):
    x = samples(60, seed=9).astype(np.float64)
    x += x * 2.0**-40  # never fp32 numbers
    same(quantize_blocks(x, name), ref.quantize_line(x, ref.BLOCKS[name]))


@pytest.mark.parametrize("overflow", ["saturate", "ieee", "nan", "infinity"])
def test_overflow_of_elements_is_the_projection_s(overflow):
    x = np.float32([500.0, -511.0, 1.0, math.inf, -math.inf, 0.1])
    for name in ["mxfp8_e4m3", "mxfp8_e5m2"]:
        if overflow == "infinity" and name == "mxfp8_e4m3":
            with pytest.raises(ValueError, match="infinity"):
                quantize_blocks(x, name, overflow=overflow)
        else:
            same(
                quantize_blocks(x, name, overflow=overflow),
                ref.quantize_line(x, ref.BLOCKS[name], overflow=overflow),
            )


# ---- Known cases ------------------------------------------------------------------------------


def test_e4m3_block_with_amax_500_saturates():
    x = np.float32([500.0, -3.0, 499.0]) * np.float32(2.0**20)
    np.testing.assert_array_equal(
        quantize_blocks(x, "mxfp8_e4m3"), np.float32([448, -3, 448]) * 2.0**20
    )


@pytest.mark.parametrize("name", [*NAMES, "nvfp4"])
def test_a_block_of_zeros_is_zeros(name):
    f = BlockFormat(name)
    x = np.float32([0.0, -0.0] * 20)
    y = quantize_blocks(x, f)
    np.testing.assert_array_equal(y, 0)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x) & (name != "mxint8"))
    encoded = encode_blocks(x, f)
    np.testing.assert_array_equal(encoded.scales, 0)
    assert encoded.tensor_scale == (1.0 if name == "nvfp4" else None)
    same(decode_blocks(encoded.codes, encoded.scales, f, tensor_scale=encoded.tensor_scale), y)


@pytest.mark.parametrize("name", [*NAMES[2:], "nvfp4"])
def test_a_nan_makes_its_block_nan_where_elements_have_none(name):
    f = BlockFormat(name)
    n = f.block_size
    x = np.ones(3 * n, np.float32)
    x[n + 1] = math.nan
    y = quantize_blocks(x, f)
    np.testing.assert_array_equal(np.isnan(y), np.arange(3 * n) // n == 1)
    codes, scales, tensor_scale = vars(encode_blocks(x, f)).values()
    assert scales[1] == f.scale.nan_code and not codes[n : 2 * n].any()
    same(decode_blocks(codes, scales, f, tensor_scale=tensor_scale), y)


def test_an_amax_that_rounds_to_2_to_the_128_is_infinite_in_fp32_only():
    x = np.float32([FP32.max, 1.0])
    assert quantize_blocks(x, "mxfp8_e4m3,rule=rceil")[0] == math.inf
    assert quantize_blocks(x.astype(np.float64), "mxfp8_e4m3,rule=rceil")[0] == 2.0**128
    codes, scales, _ = vars(encode_blocks(x, "mxfp8_e4m3,rule=rceil")).values()
    assert float(apscope.decode(codes, "e4m3fn")[0]) * 2.0 ** (int(scales[0]) - 127) == 2.0**128


def test_nvfp4_s_grid_breaks_ties_to_even():
    q = np.float32(
        [6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5, 0]
    )
    expected = [6, 0, 1, 1, 2, 2, 4, 4, 0, -1, -1, -2, -2, -4, -4, 0]
    # S_enc = 2688/2688 = 1; d = fl(6 fl(1/6)) = 1, so that x_q = x in the second block.
    x = np.concatenate([np.float32([2688.0] + [0.0] * 15), q])
    codes, scales, tensor_scale = vars(encode_blocks(x, "nvfp4")).values()
    assert tensor_scale == 1.0 and apscope.decode(scales, "e4m3fn").tolist() == [448.0, 1.0]
    np.testing.assert_array_equal(apscope.decode(codes[16:], "e2m1fn"), expected)
    np.testing.assert_array_equal(quantize_blocks(x, "nvfp4")[16:], expected)


def test_nvfp4_s_scale_of_448_00006_saturates():
    rng = np.random.default_rng(0)
    amax = rng.uniform(1, 2, 20000).astype(np.float32)
    before = amax * (np.float32(2688) / amax * (np.float32(1) / np.float32(6)))
    worst = amax[before.argmax()]
    assert before.max() > 448
    assert apscope.decode(encode_blocks(worst[None], "nvfp4").scales, "e4m3fn")[0] == 448


def test_mxint8_is_python_s_round_of_x_times_64_over_the_scale():
    x = samples(200, seed=4)
    codes, scales, _ = vars(encode_blocks(x, "mxint8")).values()
    k = np.repeat(scales.astype(int) - 127, 32)[: len(x)]
    expected = [
        min(max(round(Fraction(float(v)) * 64 / Fraction(2) ** int(e)), -127), 127)
        for v, e in zip(x, k)
    ]
    np.testing.assert_array_equal(codes.view(np.int8), expected)
    # -128 is never written, and read as -2.
    assert decode_blocks(np.int8([-128, -127, 127, -1]), np.uint8([127]), "mxint8").tolist() == [
        -2,
        -127 / 64,
        127 / 64,
        -1 / 64,
    ]


def test_elements_are_ml_dtypes_elements():
    for name, dtype in [
        ("mxfp8_e4m3", ml_dtypes.float8_e4m3fn),
        ("mxfp8_e5m2", ml_dtypes.float8_e5m2),
        ("mxfp6_e3m2", ml_dtypes.float6_e3m2fn),
        ("mxfp6_e2m3", ml_dtypes.float6_e2m3fn),
        ("mxfp4", ml_dtypes.float4_e2m1fn),
    ]:
        x = np.random.default_rng(2).standard_normal(3200).astype(np.float32)
        codes, scales, _ = vars(encode_blocks(x, name)).values()
        scale = np.repeat(scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32), 32)
        limit = np.float32(BlockFormat(name).element.largest)
        expected = np.clip(x / scale, -limit, limit).astype(dtype)
        np.testing.assert_array_equal(codes, expected.view(np.uint8))
        # Codes are those dtypes without a copy, and are read back from them.
        same(
            decode_blocks(codes.view(dtype), scales.view(ml_dtypes.float8_e8m0fnu), name),
            quantize_blocks(x, name),
        )


# ---- Shapes, axes, kinds of array -------------------------------------------------------------


@pytest.mark.parametrize("name", ["mxfp4", "mxint8,block=5", "nvfp4", "bfp:4:3"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_blocks_run_along_the_axis(name, axis):
    f = BlockFormat(name)
    x = samples(7 * 35 * 2)[: 7 * 35 * 2].reshape(7, 35, 2) * np.float32(2.0**-20)
    moved = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    same(quantize_blocks(x, f, axis=axis), np.moveaxis(quantize_blocks(moved, f), -1, axis))
    encoded, last = encode_blocks(x, f, axis=axis), encode_blocks(moved, f)
    np.testing.assert_array_equal(encoded.codes, np.moveaxis(last.codes, -1, axis))
    np.testing.assert_array_equal(encoded.scales, np.moveaxis(last.scales, -1, axis))
    assert encoded.scales.shape[axis] == math.ceil(x.shape[axis] / f.block_size)
    same(
        decode_blocks(
            encoded.codes, encoded.scales, f, axis=axis, tensor_scale=encoded.tensor_scale
        ),
        quantize_blocks(x, f, axis=axis),
    )


def test_the_last_block_is_shorter_and_its_own():
    x = np.float32([1.0] * 32 + [1024.0, 1.0])
    codes, scales, _ = vars(encode_blocks(x, "mxfp4")).values()
    assert scales.tolist() == [125, 135] and codes.shape == (34,)
    np.testing.assert_array_equal(quantize_blocks(x, "mxfp4"), [1.0] * 32 + [1024.0, 0.0])


def test_blocks_longer_than_a_buffer_and_many_threads_change_nothing():
    x = samples(50000)
    for name in ["mxfp8_e4m3,block=100000", "mxfp8_e4m3", "nvfp4", "bfp:8:1000"]:
        for rounding in ["ties_to_even", "to_odd", "stochastic"]:
            one = quantize_blocks(x, name, rounding=rounding, seed=3)
            same(quantize_blocks(x, name, rounding=rounding, seed=3, threads=3), one)
            e = encode_blocks(x, name, rounding=rounding, seed=3, threads=2)
            same(
                decode_blocks(e.codes, e.scales, name, tensor_scale=e.tensor_scale, threads=2), one
            )


def test_stochastic_elements_draw_the_words_of_quantize():
    x = np.random.default_rng(3).standard_normal((40, 8)).astype(np.float32)
    for axis in [0, 1]:
        scales = encode_blocks(x, "mxfp6_e3m2,block=1000", axis=axis).scales
        scale = np.broadcast_to(scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float32), x.shape)
        expected = (
            apscope.quantize(
                x / scale, "e3m2fn", rounding="stochastic", overflow="saturate", seed=11
            )
            * scale
        )
        same(
            quantize_blocks(x, "mxfp6_e3m2,block=1000", axis=axis, rounding="stochastic", seed=11),
            expected,
        )


def test_what_comes_in_comes_out_and_is_not_changed():
    x = samples(30)
    before = x.copy()
    expected = quantize_blocks(x, "mxfp4")
    t = torch.from_numpy(x.copy())
    same(quantize_blocks(t, "mxfp4").numpy(), expected)
    encoded = encode_blocks(t, "mxfp4")
    assert encoded.codes.dtype == torch.uint8
    scales = encoded.scales.view(torch.float8_e8m0fnu)
    same(decode_blocks(encoded.codes, scales, "mxfp4").numpy(), expected)
    same(x, before)
    out = np.empty_like(x)
    assert quantize_blocks(x, "mxfp4", out=out) is out
    same(out, expected)
    quantize_blocks(x, "mxfp4", out=x)
    same(x, expected)
    assert quantize_blocks(np.float16([1.0]), "mxfp4").dtype == np.float32
    assert quantize_blocks(np.empty((0, 3), np.float32), "nvfp4").shape == (0, 3)
    assert encode_blocks(np.empty((3, 0), np.float32), "mxfp4").scales.shape == (3, 0)


def test_wrong_arguments_are_refused_in_a_sentence():
    x = np.ones(40, np.float32)
    codes, scales, tensor_scale = vars(encode_blocks(x, "nvfp4")).values()
    for call, says in [
        (lambda: quantize_blocks(x, "mxfp4", axis=1), "axis=1 does not exist"),
        (lambda: quantize_blocks(np.float32(1), "mxfp4"), "no axis"),
        (lambda: quantize_blocks(x.astype(np.float64), "nvfp4"), "float64"),
        (lambda: quantize_blocks(x, "mxfp4", rounding="up"), "unknown rounding"),
        (lambda: quantize_blocks(x, "mxfp4", overflow="nan"), "needs a format with NaN"),
        (
            lambda: quantize_blocks(x, "mxfp4", threads=-1, rounding="stochastic", random_bits=0),
            "random_bits=0",
        ),
        (lambda: quantize_blocks(x, "mxfp4", out=np.empty(3, np.float32)), "out has shape"),
        (lambda: decode_blocks(codes, scales, "nvfp4"), "needs a tensor_scale"),
        (
            lambda: decode_blocks(codes, scales, "mxfp4,block=16", tensor_scale=1.0),
            "has no tensor_scale",
        ),
        (lambda: decode_blocks(codes, scales, "nvfp4", tensor_scale=0.0), "not a positive finite"),
        (lambda: decode_blocks(codes, scales[:2], "nvfp4", tensor_scale=1.0), "scales have shape"),
        (lambda: decode_blocks(codes + 16, scales, "nvfp4", tensor_scale=1.0), "element code"),
    ]:
        with pytest.raises(ValueError, match=says) as error:
            call()
        assert "\n" not in str(error.value)
    for call in [
        lambda: quantize_blocks(x, 4),
        lambda: quantize_blocks(x.astype(complex), "mxfp4"),
        lambda: decode_blocks(x, scales, "mxfp4"),
    ]:
        with pytest.raises(TypeError):
            call()
