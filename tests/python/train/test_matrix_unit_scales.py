"""Operands of a matrix unit under a scale of the whole tensor, by hand: elements by NumPy and
ml_dtypes, their sums by the units' reference, the scales after the sum in fp32."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")
from torch import nn  # noqa: E402

import apscope  # noqa: E402
from apscope.train import Cast, Recipe, Sum, quantization, quantize_model, recipes  # noqa: E402
from tests.python.train import model_reference as reference  # noqa: E402
from tests.python.train.test_matrix_unit_recipes import (  # noqa: E402
    added_in_order,
    dot,
    operands,
    refused,
)
from tests.python.train.test_quantized_layers import assert_same_bits, found_of  # noqa: E402
from tests.reference import matrix_units  # noqa: E402

ONE = np.float32(1)
#: Fraction bits, the exponent of the smallest normal number, the largest number.
E4M3, E5M2 = (3, -6, np.float32(448)), (2, -14, np.float32(57344))
#: 16 products of e2m1fn numbers, and their sum, are exact.
FP4 = "unit:k=16,fraction=25,result=23,promote=16"


def under(x, form, amax=None):
    """Elements of x times largest / amax, and that scale; the amax of x by default."""
    bits, smallest, largest = form
    scale = largest / (np.abs(x).max() if amax is None else amax)
    product = x.astype(float) * float(scale)
    unit = np.exp2(np.maximum(np.frexp(product)[1] - 1, smallest) - bits)
    return np.clip(np.rint(product / unit) * unit, -largest, largest).astype(np.float32), scale


def times(a, b, form="e4m3fn", **keys):
    """The product of elements by wgmma, then both inverses."""
    (x, of_x), (y, of_y) = a, b
    return dot("h100:fp8", x, y, form, **keys) * ((ONE / of_x) * (ONE / of_y))


def turned(operand):
    return operand[0].T, operand[1]


@pytest.mark.parametrize("keys", [{}, {"promote": 64}], ids=str)
def test_current_scaling_of_a_linear_layer(keys):
    layer, x, g = operands(70, 150, 9)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    order = "h100:fp8" + "".join(f",{key}={value}" for key, value in keys.items())
    quantize_model(layer, dataclasses.replace(recipes()["te_current"], accumulate=order), say=None)
    xq, wq, gq = under(x, E4M3), under(w, E4M3), under(g, E5M2)
    mixed = ("e5m2", "e4m3fn")
    expected = [
        times(xq, turned(wq), **keys) + bias,
        times(gq, wq, mixed, **keys),
        times(turned(gq), xq, mixed, **keys),
        added_in_order(g),
    ]
    assert_same_bits(found_of(layer, x, g), expected)


def test_delayed_scaling_takes_the_scale_of_the_past():
    """An evaluation between the steps leaves the scales as they are."""
    layer, x, g = operands(70, 150, 9)
    w = layer.weight.detach().numpy()
    order = "h100:fp8,promote=128"
    quantize_model(layer, dataclasses.replace(recipes()["te_delayed"], accumulate=order), say=None)
    past = {"x": E4M3[2], "w": E4M3[2], "g": E5M2[2]}  # the first scale is 1
    for step in range(3):
        x_now, g_now = (t * np.float32(3.0**step) for t in (x, g))
        xq, wq = under(x_now, E4M3, past["x"]), under(w, E4M3, past["w"])
        gq = under(g_now, E5M2, past["g"])
        layer.zero_grad()
        y, dx, dw, _ = found_of(layer, x_now, g_now)
        assert (y == times(xq, turned(wq), promote=128) + layer.bias.detach().numpy()).all()
        assert (dx == times(gq, wq, ("e5m2", "e4m3fn"), promote=128)).all()
        assert (dw == times(turned(gq), xq, ("e5m2", "e4m3fn"), promote=128)).all()
        layer.eval()
        with torch.no_grad():
            layer(torch.full((5, 150), 1e6))
        layer.train()
        past = {"x": np.abs(x_now).max(), "w": np.abs(w).max(), "g": np.abs(g_now).max()}


def test_a_convolution_under_a_scale_of_the_tensor():
    """Elements are numbers of the formats, so a layer of them without scales has their sums."""
    torch.manual_seed(2)
    layer, elements = (nn.Conv2d(4, 6, 3, groups=2) for _ in range(2))
    x, g = torch.randn(2, 4, 8, 8).numpy(), torch.randn(2, 6, 6, 6).numpy()
    bias = layer.bias.detach().numpy()[:, None, None]
    (xq, of_x), (gq, of_g) = under(x, E4M3), under(g, E5M2)
    wq, of_w = under(layer.weight.detach().numpy(), E4M3)
    with torch.no_grad():
        elements.weight.copy_(torch.from_numpy(wq))
        elements.bias.zero_()
    preset = recipes()["te_current"]
    quantize_model(layer, dataclasses.replace(preset, accumulate="h100:fp8"), say=None)
    unscaled = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2", accumulate="h100:fp8")
    quantize_model(elements, unscaled, say=None)
    y, dx, dw, _ = found_of(elements, xq, gq)
    inverse_x, inverse_w, inverse_g = (ONE / scale for scale in (of_x, of_w, of_g))
    expected = [
        y * (inverse_x * inverse_w) + bias,
        dx * (inverse_g * inverse_w),
        dw * (inverse_g * inverse_x),
    ]
    assert_same_bits(found_of(layer, x, g)[:3], expected)


def runs(x, axis):
    """NVFP4's elements and scales of runs of 16 along an axis, and the tensor's scale."""
    parts, back = reference._blocks(np.float32(x), axis, 16)
    codes, scales, tensor = nvfp4_parts(parts, np.abs(x).max())
    return back(codes), back(np.broadcast_to(scales, codes.shape)), tensor


def tiles(w):
    """Likewise of tiles of 16 x 16."""
    codes, scales = np.empty_like(w), np.empty_like(w)
    for row in range(0, w.shape[0], 16):
        for column in range(0, w.shape[1], 16):
            place = slice(row, row + 16), slice(column, column + 16)
            part = w[place]
            made = nvfp4_parts(part.reshape(1, -1), np.abs(w).max())
            codes[place], scales[place], tensor = made[0].reshape(part.shape), made[1], made[2]
    return codes, scales, tensor


def nvfp4_parts(parts, whole):
    tensor = np.float32(448 * 6) / np.float32(whole)
    amax = np.abs(parts).max(-1, keepdims=True)
    ratio = np.clip(amax * np.float32(tensor * np.float32(1 / 6)), 0, 448)
    scales = ratio.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    encode = np.where(scales > 0, ONE / (np.maximum(scales, 2**-9) * (ONE / tensor)), 0)
    scaled = np.clip(parts * np.float32(encode), -6, 6)
    return scaled.astype(ml_dtypes.float4_e2m1fn).astype(np.float32), scales, tensor


def in_chains(a, b):
    """Chains of 16 terms, times the product of both scales, added in fp32; then both inverses."""
    (x, of_x, tensor_x), (y, of_y, tensor_y) = a, b
    total = None
    for first in range(0, x.shape[1], 16):
        part = slice(first, first + 16)
        chain = x[:, part] @ y[part]
        scaled = chain * (of_x[:, first : first + 1] * of_y[first : first + 1])
        total = scaled if total is None else total + scaled
    return total * ((ONE / tensor_x) * (ONE / tensor_y))


def swapped(operand):
    return operand[0].T, operand[1].T, operand[2]


def test_blocks_with_a_scale_of_the_tensor():
    layer, x, g = operands(37, 150, 20)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    rotated = Cast("nvfp4", hadamard=True)
    recipe = Recipe(
        input="nvfp4", weight=Cast("nvfp4", tile=(16, 16)), grad_output="nvfp4", accumulate=FP4,
        uses={"weight_gradient.grad_output": rotated, "weight_gradient.input": rotated},
    )  # fmt: skip
    quantize_model(layer, recipe, say=None)
    of_g, of_x = (runs(reference.hadamard(t, 0), 0) for t in (g, x))
    expected = [
        in_chains(runs(x, -1), swapped(tiles(w))) + bias,
        in_chains(runs(g, -1), tiles(w)),
        in_chains(swapped(of_g), of_x),
        added_in_order(g),
    ]
    assert_same_bits(found_of(layer, x, g), expected)


def in_unit(a, b):
    """B200's FP4 instructions, which get the scales; then both inverses."""
    (x, of_x, tensor_x), (y, of_y, tensor_y) = a, b
    rest = -x.shape[1] % 64
    rows = [np.pad(t, [(0, 0), (0, rest)]) for t in (x, of_x)]
    columns = [np.pad(t.T, [(0, 0), (0, rest)]) for t in (y, of_y)]
    m, n = len(x), len(columns[0])
    parts = [np.repeat(t, n, 0) for t in rows], [np.tile(t, (m, 1)) for t in columns]
    elements, scales = ([t[i] for t in parts] for i in (0, 1))
    sums = matrix_units.fp4(*elements, *(t[:, ::16] for t in scales), np.zeros(m * n))
    return sums.reshape(m, n) * ((ONE / tensor_x) * (ONE / tensor_y))


def test_a_unit_that_takes_scales():
    layer, x, g = operands(37, 150, 20)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    recipe = Recipe(
        input="nvfp4", weight=Cast("nvfp4", tile=(16, 16)), grad_output="nvfp4",
        accumulate="b200:nvfp4",
    )  # fmt: skip
    quantize_model(layer, recipe, say=None)
    expected = [
        in_unit(runs(x, -1), swapped(tiles(w))) + bias,
        in_unit(runs(g, -1), tiles(w)),
        in_unit(swapped(runs(g, 0)), runs(x, 0)),
        added_in_order(g),
    ]
    assert_same_bits(found_of(layer, x, g), expected)
    mx = Recipe(
        input="mxfp8_e4m3", weight="mxfp8_e4m3", grad_output="mxfp8_e5m2", accumulate="b200:mxfp8"
    )
    with_unit, _, _, _ = found_of(quantized_copy(layer, mx), x, g)
    without, _, _, _ = found_of(
        quantized_copy(layer, dataclasses.replace(mx, accumulate=None)), x, g
    )
    np.testing.assert_allclose(with_unit, without, atol=1e-5)


def test_scales_of_another_format_are_refused_before_the_first_product():
    for blocks, unit, scales in (
        ("mxfp4", "b200:nvfp4", "scales of e4m3fn, not of e8m0fnu, those of mxfp4"),
        ("nvfp4", "b200:mxfp4", "scales of e8m0fnu, not of e4m3fn, those of nvfp4"),
    ):
        recipe = Recipe(input=blocks, weight=blocks, accumulate=unit)
        assert scales in refused(recipe, nn.Linear(64, 8), torch.ones(4, 64))


def test_a_block_with_a_nan_has_one_scale():
    """The block's scale is NaN, for all of its elements."""
    layer, x, _ = operands(37, 150, 20)
    x[1, 40] = np.nan
    for sums in ("unit:k=32,fraction=25,result=23,promote=32", "b200:mxfp8"):
        recipe = Recipe(input="mxfp8_e4m3", weight="mxfp8_e4m3", accumulate=sums)
        y = quantized_copy(layer, recipe)(torch.from_numpy(x)).detach().numpy()
        assert np.isnan(y[1]).all() and np.isfinite(np.delete(y, 1, 0)).all()


def quantized_copy(layer, recipe):
    torch.manual_seed(1)
    made = nn.Linear(layer.in_features, layer.out_features)
    quantize_model(made, recipe, say=None)
    return made


@pytest.mark.parametrize("name", ["te_current", "te_delayed", "nvfp4"])
def test_the_values_are_those_without_the_unit(name):
    """Products without a unit beside one that has it are those of the preset, bit for bit."""
    preset = dataclasses.replace(recipes()[name], where={})
    order = FP4 if name == "nvfp4" else "h100:fp8"
    found = []
    for sums in ({"weight_gradient": order}, {"weight_gradient": Sum("fp32")}):
        layer, x, g = operands(20, 256, 20)
        quantized = quantization(
            quantize_model(layer, dataclasses.replace(preset, accumulate=sums), say=None)
        )
        for _ in range(2):
            layer.zero_grad()
            taken = found_of(layer, x, g)
            quantized.advance()
        found.append(taken)
    (y, dx, dw, _), (y_fp32, dx_fp32, dw_fp32, _) = found
    assert (y == y_fp32).all() and (dx == dx_fp32).all()
    near = np.abs(dw - dw_fp32).max()
    assert near < 2**-8 * np.abs(dw_fp32).max() and (name == "nvfp4" or near > 0)


def test_stochastic_rounding_draws_what_it_draws_without_the_unit():
    """Sums of one term are exact, so the layer shows its elements."""
    x = np.random.default_rng(3).normal(0, 1, (64, 1)).astype(np.float32)
    found = []
    for sums in ("h100:fp8", None):
        torch.manual_seed(0)
        layer = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            layer.weight.fill_(1)
        recipe = Recipe(input="none:e4m3fn,rounding=stochastic", weight="e4m3fn", accumulate=sums)
        quantize_model(layer, recipe, say=None)
        found.append(layer(torch.from_numpy(x)).detach().numpy())
    assert (found[0] == found[1]).all() and (found[0] != apscope.quantize(x, "e4m3fn")).any()


@pytest.mark.parametrize("format", ["e4m3fn", "e5m2,overflow=ieee"])
@pytest.mark.parametrize(
    "numbers", [[0, 0], [np.nan] * 2, [np.inf] * 2, [0, np.nan], [1.3, np.nan], [0.7, -np.inf]]
)
def test_numbers_without_a_scale(numbers, format):
    """Zeros, NaNs and infinities beside other numbers or alone: as without the unit."""
    x = np.tile(
        np.diag(np.float32(numbers)) if np.inf in np.abs(numbers) else np.float32([numbers]), 16
    )
    found = []
    for sums in ("h100:fp8", None):
        torch.manual_seed(0)
        layer = nn.Linear(32, 8)
        spec = f"current_scaling:{format}"
        quantize_model(layer, Recipe(input=spec, weight="e4m3fn", accumulate=sums), say=None)
        found.append(layer(torch.from_numpy(x)).detach().numpy())
    np.testing.assert_allclose(*found, rtol=2**-8, atol=2**-8)


def test_schemes_that_a_unit_cannot_take():
    x = torch.randn(4, 256)
    for scheme in ("mx", "qsgd"):
        recipe = Recipe(input=scheme, weight="e4m3fn", accumulate="h100:fp8")
        assert "a scheme of a float format" in refused(recipe, nn.Linear(256, 8), x)
    several = "current_scaling:e4m3fn,block=128"
    recipe = Recipe(input=several, weight="e4m3fn", accumulate="h100:fp8")
    told = refused(recipe, nn.Linear(256, 8), x)
    assert several in told and "one scale" in told
    recipe = Recipe(input="nvfp4", weight="nvfp4", accumulate="unit:k=16,fraction=25,result=23")
    assert "have several scales" in refused(recipe, nn.Linear(256, 8), x)
    recipe = Recipe(input="nvfp4", weight="nvfp4", accumulate="h100:fp8,promote=16")
    assert "not of e2m1fn" in refused(recipe, nn.Linear(256, 8), x)
