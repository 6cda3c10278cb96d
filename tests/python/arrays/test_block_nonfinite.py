"""What an infinity or a NaN does to its block: the rules that libraries run, and the scale rule
`nearest`."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import apscope
from apscope import BlockFormat, decode_blocks, encode_blocks, quantize_blocks
from tests.reference import block_peers
from tests.reference import blocks as ref
from tests.reference.compare import assert_same as same

RULES = ["floor", "ceil", "rceil", "even", "nearest"]
NONFINITE = ["apart", "torchao", "torchao_0.18", "transformer_engine"]
SPECIAL = [[math.inf], [-math.inf], [math.nan], [math.nan, math.inf], [math.inf, -math.inf]]


def special_blocks(size, seed):
    """Lines of `size` numbers about one binade, each with some of SPECIAL, and one that is all
    special."""
    rng = np.random.default_rng(seed)
    lines = []
    for values in SPECIAL * 4:
        x = (rng.standard_normal(size) * 2.0 ** rng.integers(-60, 60)).astype(np.float32)
        x[rng.permutation(size)[: len(values)]] = values[:size]
        lines.append(x)
    lines.append(np.resize(np.float32([math.inf, math.nan]), size))
    lines.append(np.full(size, -math.inf, np.float32))
    lines.append(np.full(size, np.finfo(np.float32).max, np.float32))
    lines[-1][0] = math.inf
    return np.stack(lines)


@pytest.mark.parametrize("nonfinite", NONFINITE)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", list(ref.BLOCKS))
def test_blocks_with_special_values_are_the_reference_s(name, rule, nonfinite):
    b = replace(ref.BLOCKS[name], rule=rule, nonfinite=nonfinite)
    f = BlockFormat(f"{name},rule={rule},nonfinite={nonfinite}")
    x = special_blocks(b.size, RULES.index(rule))
    with np.errstate(over="ignore"):
        for numbers in (x, x.astype(np.float64)):
            wanted = np.stack([ref.quantize_line(line, b) for line in numbers])
            same(quantize_blocks(numbers, f), wanted)
    encoded = encode_blocks(x, f)
    same(decode_blocks(encoded.codes, encoded.scales, f), quantize_blocks(x, f))


@pytest.mark.parametrize("nonfinite", ["apart", "transformer_engine"])
@pytest.mark.parametrize("mode", ["ties_to_even", "toward_negative"])
def test_nvfp4_with_special_values_is_the_reference_s(mode, nonfinite):
    f = BlockFormat(f"nvfp4,nonfinite={nonfinite}")
    for seed in range(3):
        x = special_blocks(16, seed).ravel()[: 16 * 20]
        for values in (x, np.where(np.isinf(x), np.float32(3), x)):  # under an infinite amax, not
            wanted = ref.quantize_nvfp4(values, mode, nonfinite)
            same(quantize_blocks(values, f, rounding=mode), wanted)
            e = encode_blocks(values, f, rounding=mode)
            same(decode_blocks(e.codes, e.scales, f, tensor_scale=e.tensor_scale), wanted)


def test_what_an_infinity_and_a_nan_are_in_nvfp4_of_transformer_engine():
    # An infinity: S = 1, its block under 448, so that what is beside it vanishes; a NaN is 6.
    x = np.float32([math.inf, 1.0] + [0.5] * 14 + [math.nan, 3.0] + [0.0] * 14)
    encoded = encode_blocks(x, "nvfp4,nonfinite=transformer_engine")
    assert encoded.tensor_scale == 1.0
    assert apscope.decode(encoded.scales, "e4m3fn").tolist() == [448.0, 0.5]
    y = quantize_blocks(x, "nvfp4,nonfinite=transformer_engine")
    assert y[:3].tolist() == [2688.0, 0.0, 0.0] and y[16:18].tolist() == [3.0, 3.0]


ELEMENTS = {"mxfp8_e4m3": (8, 448.0), "mxfp8_e5m2": (15, 57344.0), "mxfp4": (2, 6.0)}


@pytest.mark.parametrize("rule", ["floor", "ceil", "rceil"])
@pytest.mark.parametrize("name", list(ELEMENTS))
def test_scale_codes_are_torchao_s(name, rule):
    emax, _ = ELEMENTS[name]
    for newest in (False, True):
        nonfinite = "torchao" if newest else "torchao_0.18"
        x = special_blocks(32, 7)
        codes = encode_blocks(x, f"{name},rule={rule},nonfinite={nonfinite}").scales[:, 0]
        wanted = [block_peers.torchao(line, emax, rule, newest) for line in x]
        np.testing.assert_array_equal(codes, wanted)


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2"])
def test_scale_codes_are_transformer_engine_s(name):
    x = special_blocks(32, 8)
    codes = encode_blocks(x, f"{name},rule=rceil,nonfinite=transformer_engine").scales[:, 0]
    wanted = [block_peers.transformer_engine(line, ELEMENTS[name][1]) for line in x]
    np.testing.assert_array_equal(codes, wanted)
    assert 254 in wanted and len(set(wanted)) > 3


def test_what_one_infinity_does_to_its_31_neighbours():
    x = np.ones(32, np.float32)
    x[3] = math.inf
    beside = np.arange(32) != 3

    def values(nonfinite, rule="floor"):
        return quantize_blocks(x, f"mxfp8_e4m3,rule={rule},nonfinite={nonfinite}")

    assert values("apart")[3] == 1.75 and (values("apart")[beside] == 1).all()
    assert np.isnan(values("torchao")).all()
    for rule in ("floor", "ceil", "even"):
        y = values("torchao_0.18", rule)
        assert y[3] == math.inf and (y[beside] == 0).all()
        f = f"mxfp8_e4m3,rule={rule},nonfinite=torchao_0.18"
        assert encode_blocks(x, f).scales[0] == 127 + 120
    y = values("transformer_engine")
    assert y[3] == math.inf and (y[beside] == 0).all()


def test_a_nan_stays_alone_in_transformer_engine_and_takes_its_block_in_torchao():
    x = np.ones(32, np.float32)
    x[5] = math.nan
    for nonfinite, lost in [("transformer_engine", 1), ("torchao", 32), ("torchao_0.18", 32)]:
        y = quantize_blocks(x, f"mxfp8_e5m2,nonfinite={nonfinite}")
        assert np.isnan(y[5]) and np.isnan(y).sum() == lost
    y = quantize_blocks(x, "mxfp4,nonfinite=transformer_engine")  # no NaN: the largest, satfinite
    assert y[5] == 6 / 4 and (y[:5] == 1).all()


def test_finite_blocks_have_no_rule():
    x = np.random.default_rng(3).standard_normal(4096).astype(np.float32)
    for name in [*ref.BLOCKS, "nvfp4"]:
        for nonfinite in ["transformer_engine"] if name == "nvfp4" else NONFINITE:
            same(quantize_blocks(x, f"{name},nonfinite={nonfinite}"), quantize_blocks(x, name))


def test_the_rule_is_a_field_with_a_name():
    f = BlockFormat("mxfp4,nonfinite=torchao_0.18")
    assert f.nonfinite == "torchao_0.18" and f.name == "mxfp4,nonfinite=torchao_0.18"
    assert BlockFormat.from_json(f.to_json()) == f != BlockFormat("mxfp4")
    assert BlockFormat("nvfp4").nonfinite == "apart"
    for name, says in [
        ("mxfp4,nonfinite=zero", "unknown rule for non-finite elements 'zero'; use one of apart, "),
        ("nvfp4,nonfinite=torchao", "belongs to the rules that give powers of two"),
    ]:
        with pytest.raises(ValueError, match=says) as error:
            BlockFormat(name)
        assert "\n" not in str(error.value)


# ---- The scale rule `nearest` ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp4", "mxint8", "blocks:e7m0"])
def test_nearest_is_log2_of_amax_over_the_largest_rounded(name):
    f = BlockFormat(f"{name},block=1,rule=nearest")
    largest = f.element.largest
    x = np.random.default_rng(4).uniform(1, 2, 4000) * 2.0 ** np.arange(-20, 20).repeat(100)
    k = np.log2(x / largest)
    away = np.abs(k - np.floor(k) - 0.5) > 1e-9
    scales = encode_blocks(x, f).scales.astype(int) - 127
    np.testing.assert_array_equal(scales[away], np.rint(k[away]))
    assert away.all()


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp4", "mxint8", "blocks:e7m0"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_turns_at_the_square_root_exactly(name, dtype):
    f = BlockFormat(f"{name},block=1,rule=nearest")
    for k in (-9, 0, 12):
        middle = dtype(f.element.largest * math.sqrt(2) * 2.0**k)
        numbers = [middle]
        for _ in range(3):
            numbers = [
                np.nextafter(numbers[0], dtype(0)),
                *numbers,
                np.nextafter(numbers[-1], dtype(np.inf)),
            ]
        scales = encode_blocks(np.array(numbers, dtype), f).scales.astype(int) - 127
        square = [(Fraction(float(v)) / Fraction(f.element.largest)) ** 2 for v in numbers]
        above = [s >= Fraction(2) ** (2 * k + 1) for s in square]
        assert set(above) == {False, True}
        np.testing.assert_array_equal(scales, [k + 1 if up else k for up in above])
