"""Recipes whose sums are those of a matrix unit, against the units' reference, bit for bit."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import apscope  # noqa: E402
from apscope.train import Recipe, Sum, quantize_model, recipes  # noqa: E402
from tests.python.train.test_quantized_layers import (  # noqa: E402
    assert_same_bits,
    e4m3fn,
    found_of,
)
from tests.reference.matrix_units import UNITS  # noqa: E402

FP8 = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e4m3fn")
DEEPSEEK = dataclasses.replace(recipes()["deepseek"], accumulate="h100:fp8,promote=128")


def operands(rows, terms, outputs):
    r = np.random.default_rng(7)
    torch.manual_seed(0)
    layer = nn.Linear(terms, outputs)
    x = r.normal(0, 1, (rows, terms)).astype(np.float32)
    g = (r.normal(0, 1, (rows, outputs)) * np.exp2(r.integers(-6, 1, (rows, 1)))).astype(np.float32)
    return layer, x, g


def dot(name, a, b, form="e4m3fn", **keys):
    """The product of (m, k) and (k, n) by the reference of a unit, from +0."""
    rows, columns = np.broadcast_arrays(a[:, None], b.T[None])
    c = np.zeros(rows.shape[:2], np.float32)
    return UNITS[name].dot(rows, columns, c, form, **keys)


def added_in_order(rows):
    """A bias's gradient: fp32 sums, row by row."""
    return np.add.accumulate(rows, axis=0, dtype=np.float32)[-1]


@pytest.mark.parametrize("keys", [{}, {"promote": 64}], ids=str)
@pytest.mark.parametrize("name", ["h100:fp8", "h100:mma_fp8", "ada:fp8"])
def test_a_linear_layer_in_a_float_format(name, keys):
    layer, x, g = operands(70, 150, 9)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    order = name + "".join(f",{key}={value}" for key, value in keys.items())
    quantize_model(layer, dataclasses.replace(FP8, accumulate=order), say=None)
    xq, wq, gq = (e4m3fn(t, -1) for t in (x, w, g))
    expected = [
        dot(name, xq, wq.T, **keys) + bias,
        dot(name, gq, wq, **keys),
        dot(name, gq.T, xq, **keys),
        added_in_order(g),
    ]
    assert_same_bits(found_of(layer, x, g), expected)


def test_an_operand_has_the_exponents_of_its_own_format():
    """Subnormal numbers of e4m3fn that are normal numbers of e5m2."""
    recipe = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2", accumulate="h100:fp8")
    layer, x, _ = operands(70, 150, 33)
    r = np.random.default_rng(5)
    g = r.choice(np.float32([1, -1.25, 1.5]), (70, 33)) * np.float32(2**-7)
    with torch.no_grad():
        layer.weight.mul_(torch.from_numpy(np.exp2(r.integers(-3, 10, (33, 150)))))
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    quantize_model(layer, recipe, say=None)
    xq, wq = e4m3fn(x, -1), e4m3fn(w, -1)
    expected = [
        dot("h100:fp8", xq, wq.T) + bias,
        dot("h100:fp8", g, wq, ("e5m2", "e4m3fn")),
        dot("h100:fp8", g.T, xq, ("e5m2", "e4m3fn")),
        added_in_order(g),
    ]
    assert (expected[1] != dot("h100:fp8", g, wq)).any()  # the first format that has all values
    assert_same_bits(found_of(layer, x, g), expected)

    image = nn.Conv2d(150, 33, 1, bias=False)
    with torch.no_grad():
        image.weight.copy_(torch.from_numpy(w)[:, :, None, None])
    quantize_model(image, recipe, say=None)
    given = torch.from_numpy(x.T.copy()).reshape(1, 150, 7, 10).requires_grad_()
    image(given).backward(torch.from_numpy(g.T.copy()).reshape(1, 33, 7, 10))
    assert (given.grad.reshape(150, 70).T.numpy() == expected[1]).all()
    assert (image.weight.grad.reshape(33, 150).numpy() == expected[2]).all()


def runs(x, axis):
    """Elements in e4m3fn and scales of runs of 128, 2^ceil(log2(amax / 448)), NumPy's way."""
    x = np.moveaxis(x, axis, -1)
    elements, scales = np.empty_like(x), np.empty_like(x)
    for first in range(0, x.shape[-1], 128):
        run = x[..., first : first + 128]
        scale = np.exp2(np.ceil(np.log2(np.abs(run).max(-1, keepdims=True) / np.float32(448))))
        scales[..., first : first + 128] = scale
        elements[..., first : first + 128] = e4m3fn(run / scale, -1)
    return np.moveaxis(elements, -1, axis), np.moveaxis(scales, -1, axis)


def tiles(w):
    """Likewise in tiles of 128 x 128."""
    elements, scales = np.empty_like(w), np.empty_like(w)
    for row in range(0, w.shape[0], 128):
        for column in range(0, w.shape[1], 128):
            place = slice(row, row + 128), slice(column, column + 128)
            scale = np.exp2(np.ceil(np.log2(np.abs(w[place]).max() / np.float32(448))))
            scales[place], elements[place] = scale, e4m3fn(w[place] / scale, -1)
    return elements, scales


def in_chains(a, b):
    """Chains of 128 terms as wgmma adds them, times both scales, added in fp32."""
    (x, of_x), (y, of_y) = a, b
    total = None
    for first in range(0, x.shape[1], 128):
        part = slice(first, first + 128)
        chain = dot("h100:fp8", x[:, part], y[part])
        scaled = chain * (of_x[:, first : first + 1] * of_y[first : first + 1])
        total = scaled if total is None else total + scaled
    return total


def test_deepseeks_blocks_on_an_h100():
    layer, x, g = operands(140, 300, 131)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    quantize_model(layer, DEEPSEEK, say=None)
    tiled, of_tiles = tiles(w)
    of_g, of_x = runs(g, 0), runs(x, 0)
    expected = [
        in_chains(runs(x, -1), (tiled.T, of_tiles.T)) + bias,
        in_chains(runs(g, -1), (tiled, of_tiles)),
        in_chains((of_g[0].T, of_g[1].T), of_x),
        added_in_order(g),
    ]
    assert_same_bits(found_of(layer, x, g), expected)


def test_the_casts_are_those_without_the_unit():
    layer, x, g = operands(130, 256, 20)
    plain = nn.Linear(256, 20)
    plain.load_state_dict(layer.state_dict())
    quantize_model(layer, DEEPSEEK, say=None)
    quantize_model(plain, recipes()["deepseek"], say=None)
    for one, other in zip(found_of(layer, x, g), found_of(plain, x, g)):
        size = np.abs(other).max()
        assert 0 < np.abs(one - other).max() < 2**-8 * size or (one == other).all()


def test_a_product_without_the_unit_takes_the_values():
    layer, x, g = operands(20, 256, 20)
    plain = nn.Linear(256, 20)
    plain.load_state_dict(layer.state_dict())
    only = dataclasses.replace(
        DEEPSEEK, accumulate={"weight_gradient": "h100:fp8,promote=128", "forward": Sum("fp32")}
    )
    without = dataclasses.replace(DEEPSEEK, accumulate={"forward": Sum("fp32")})
    quantize_model(layer, only, say=None)
    quantize_model(plain, without, say=None)
    unit, fp32 = found_of(layer, x, g), found_of(plain, x, g)
    assert (unit[0] == fp32[0]).all()
    assert (unit[2] != fp32[2]).any()


def refused(recipe, layer, x):
    with pytest.raises(ValueError) as caught:
        quantize_model(layer, recipe, say=None)(x)
    return str(caught.value)


def test_what_a_unit_cannot_take():
    sums = {"accumulate": "h100:fp8,promote=128"}
    x = torch.randn(4, 256)
    linear, image = nn.Linear(256, 8), torch.randn(2, 3, 8, 8)
    told = refused(Recipe(input="mxfp8_e4m3", weight="mxfp8_e4m3", **sums), nn.Linear(256, 8), x)
    assert "terms 0 to 127 of a sum have several scales" in told and "promote=128" in told
    told = refused(DEEPSEEK, nn.Conv2d(3, 4, 3), image)
    assert "several scales in a chain of a convolution" in told
    told = refused(Recipe(input="e3m4", weight="e4m3fn", accumulate="h100:fp8"), linear, x)
    assert "takes operands of e4m3fn or e5m2, not of e3m4" in told
    told = refused(Recipe(weight="e4m3fn", accumulate="h100:fp8"), nn.Linear(256, 8), x)
    assert "e4m3fn" in told and "a matrix unit" not in told


def test_the_names_of_units_stand_for_sums():
    assert Recipe(accumulate="h100:fp8").accumulate["forward"] == Sum("fp32", order="unit:h100:fp8")
    assert Recipe(accumulate="v100:fp16").accumulate["forward"].format == apscope.FloatFormat(
        "fp16"
    )
    own = Recipe(accumulate="unit:k=16,fraction=25,result=10,format=fp16").accumulate["forward"]
    assert own.format == apscope.FloatFormat("fp16")
    with pytest.raises(ValueError, match="h200:fp4"):
        Recipe(accumulate="unit:h200:fp4")


def test_an_empty_batch_and_results_in_fp16():
    layer = nn.Linear(256, 8)
    quantize_model(layer, dataclasses.replace(DEEPSEEK, accumulate="h100:fp8"), say=None)
    x = torch.zeros(0, 256, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad.abs().sum() == 0
    layer, x, g = operands(300, 16, 2)
    half = Recipe(input="fp16", weight="fp16", grad_output="fp16", accumulate="h100:fp16")
    quantize_model(layer, half, say=None)
    *_, of_bias = found_of(layer, x, np.full_like(g, 1.001))
    assert (of_bias == np.float16(added_in_order(np.full_like(g, 1.001)))).all()


def test_a_convolution_in_a_float_format_uses_the_unit():
    torch.manual_seed(2)
    layer, x = nn.Conv2d(3, 4, 3, bias=False), torch.randn(2, 3, 8, 8)
    w = e4m3fn(layer.weight.detach().numpy().reshape(4, -1), -1)
    patches = nn.functional.unfold(torch.from_numpy(e4m3fn(x.numpy(), -1)), 3)
    quantize_model(layer, dataclasses.replace(FP8, accumulate="h100:fp8"), say=None)
    found = layer(x).detach().numpy().reshape(2, 4, -1)
    for image, columns in zip(found, patches.numpy()):
        assert (image == dot("h100:fp8", w, columns)).all()
