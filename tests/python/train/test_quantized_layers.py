"""Quantized layers against the reference of model_reference.py, bit for bit: output and all
gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")
from torch import nn  # noqa: E402

import apscope  # noqa: E402
from apscope.train import Cast, Recipe, Sum, quantization, quantize_model, recipes  # noqa: E402
from tests.python.train import model_reference as reference  # noqa: E402

e4m3fn = reference.pointwise(ml_dtypes.float8_e4m3fn, 448)
e5m2 = reference.pointwise(ml_dtypes.float8_e5m2, 57344)
b11 = reference.pointwise(ml_dtypes.float8_e4m3b11fnuz, 30)
half = reference.pointwise(np.float16)
mxfp8 = reference.mx(ml_dtypes.float8_e4m3fn, 448, 8)
mxfp4 = reference.mx(ml_dtypes.float4_e2m1fn, 6, 2)
runs, tiles, turned = reference.nvfp4(), reference.nvfp4(tile=True), reference.nvfp4(turned=True)


def both(fi, fw, g, **more):
    return reference.Casts(fi, fw, g, fw, g, fi, **more)


NVFP4 = Recipe(
    input="nvfp4", weight=Cast("nvfp4", tile=(16, 16)), grad_output="nvfp4",
    uses={"weight_gradient.grad_output": Cast("nvfp4", hadamard=True),
          "weight_gradient.input": Cast("nvfp4", hadamard=True)},
)  # fmt: skip
RECIPES = {
    "fp8": (
        Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2"),
        both(e4m3fn, e4m3fn, e5m2),
    ),
    "hfp8": (
        Recipe(input="e4m3b11fnuz", weight="e4m3b11fnuz", grad_output="e5m2"),
        both(b11, b11, e5m2),
    ),
    "fp16": (recipes()["mixed_precision"], both(half, half, half, result=half)),
    "mxfp8": (recipes()["mxfp8"], both(mxfp8, mxfp8, mxfp8)),
    "mxfp4": (recipes()["mxfp4"], both(mxfp4, mxfp4, mxfp4)),
    "nvfp4": (NVFP4, reference.Casts(runs, tiles, runs, tiles, turned, turned)),
}
ORDERS = {"exact": reference.exact, "sequential": reference.sequential}


def with_sums(recipe, order):
    import dataclasses

    return dataclasses.replace(recipe, accumulate=Sum("fp32", order=order), loss_scale=None)


def found_of(layer, x, g):
    """Output and gradients of a quantized layer."""
    given = torch.from_numpy(x).requires_grad_()
    y = layer(given)
    y.backward(torch.from_numpy(g))
    grads = [given.grad, layer.weight.grad, layer.bias.grad]
    return [t.detach().numpy() for t in (y, *grads)]


def assert_same_bits(found, expected):
    for name, a, b in zip(("output", "input", "weight", "bias"), found, expected):
        a, b = (np.ascontiguousarray(t, np.float32) for t in (a, b))
        same = (a.view(np.int32) == b.view(np.int32)) | ((a == 0) & (b == 0))
        assert a.shape == b.shape and same.all(), f"{name}: {np.count_nonzero(~same)} of {a.size}"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_linear_layer_is_the_references(name, order):
    recipe, casts = RECIPES[name]
    r = np.random.default_rng(3)
    torch.manual_seed(0)
    layer = nn.Linear(37, 18)
    x = r.normal(0, 1, (35, 37)).astype(np.float32)
    g = (r.normal(0, 1, (35, 18)) * np.exp2(r.integers(-12, 1, (35, 1)))).astype(np.float32)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    quantize_model(layer, with_sums(recipe, order), say=None)
    assert_same_bits(found_of(layer, x, g), reference.linear(casts, ORDERS[order], x, w, bias, g))


@pytest.mark.parametrize("stride, padding", [(1, 1), (2, 0)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_convolution_is_the_references(name, order, stride, padding):
    recipe, casts = RECIPES[name]
    r = np.random.default_rng(4)
    torch.manual_seed(0)
    layer = nn.Conv2d(5, 4, 3, stride=stride, padding=padding)
    x = r.normal(0, 1, (3, 5, 5, 6)).astype(np.float32)
    size = [(x.shape[2 + i] + 2 * padding - 3) // stride + 1 for i in (0, 1)]
    g = r.normal(0, 0.01, (3, 4, *size)).astype(np.float32)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    quantize_model(layer, with_sums(recipe, order), say=None)
    expected = reference.convolution(casts, ORDERS[order], x, w, bias, g, stride, padding)
    assert_same_bits(found_of(layer, x, g), expected)


def test_sums_of_pytorch_differ_at_most_by_their_rounding():
    """Without accumulate= the operands are the same, the order of the sums PyTorch's."""
    r = np.random.default_rng(5)
    x = r.normal(0, 1, (6, 8, 9, 9)).astype(np.float32)
    g = r.normal(0, 1, (6, 12, 5, 5)).astype(np.float32)
    found = []
    for accumulate in (None, Sum("fp32", order="exact")):
        torch.manual_seed(0)
        layer = nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=4)
        recipe = Recipe(
            input="e4m3fn", weight="mxfp8_e4m3", grad_output="mxfp8_e5m2", accumulate=accumulate
        )
        quantize_model(layer, recipe, say=None)
        found.append(found_of(layer, x, g))
    for a, b in zip(*found):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [
    dict(stride=2, padding=1), dict(padding="same", dilation=2),
    dict(padding=2, padding_mode="reflect"),
    dict(stride=(2, 1), padding=(0, 2), dilation=(1, 2), groups=2),
    dict(padding="valid", bias=False),
    dict(stride=3, padding=0),
])  # fmt: skip
def test_convolutions_of_every_shape_are_pytorchs_in_fp32(options):
    """With casts to fp32 nothing is rounded, so only shapes and orders are tested."""
    r = np.random.default_rng(6)
    x = torch.from_numpy(r.normal(0, 1, (2, 4, 8, 9)).astype(np.float32))
    for accumulate in (None, Sum("fp32", order="exact")):
        torch.manual_seed(0)
        plain, layer = nn.Conv2d(4, 6, 3, **options), nn.Conv2d(4, 6, 3, **options)
        layer.load_state_dict(plain.state_dict())
        quantize_model(layer, Recipe(input="fp32", weight="fp32", accumulate=accumulate), say=None)
        results = []
        for m in (plain, layer):
            given = x.clone().requires_grad_()
            y = m(given)
            y.square().sum().backward()
            results.append([y, given.grad, *(p.grad for p in m.parameters())])
        for a, b in zip(*results):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
    assert layer(x[0]).shape == plain(x[0]).shape


@pytest.mark.parametrize("name", ["delayed_scaling", "current_scaling"])
def test_a_scheme_is_run_with_one_worker(name):
    """Scales by Transformer Engine's formulas, in fp32; the cast by ml_dtypes."""
    torch.manual_seed(0)
    layer = nn.Linear(16, 8, bias=False)
    quantize_model(layer, Recipe(input=f"{name}:e4m3fn"), say=None)
    w = layer.weight.detach().numpy()
    history = []
    for step in range(4):
        x = np.random.default_rng(step).normal(0, 3.0**step, (5, 16)).astype(np.float32)
        amax = np.abs(x).max()
        past = history if name == "delayed_scaling" else [amax]
        scale = np.float32(448) / max(past) if past else np.float32(1)
        scaled = np.clip(x.astype(np.float64) * np.float64(scale), -448, 448)
        q = np.float32(
            scaled.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
            / np.float64(scale)
        )
        y = layer(torch.from_numpy(x))
        wanted = torch.from_numpy(q.astype(np.float64) @ w.T.astype(np.float64))
        torch.testing.assert_close(y.double(), wanted, rtol=0, atol=1e-5 * float(np.abs(q).max()))
        layer.eval()
        with torch.no_grad():
            layer(torch.full((5, 16), 1e6))  # an evaluation leaves no trace in the history
        layer.train()
        history.append(amax)


def test_stochastic_rounding_repeats_by_name_step_and_call():
    drawn = Recipe(input=Cast("e4m3fn", rounding="stochastic"))
    x = torch.full((64, 32), 1.05)

    def run(seed=0, evaluate=False):
        layer = nn.Linear(32, 1, bias=False)
        with torch.no_grad():
            layer.weight.fill_(1 / 32)
        quantized = quantization(quantize_model(layer, drawn, seed=seed, say=None))
        found = []
        for _ in range(3):
            if evaluate:
                layer.eval()(x)
                layer.train()
            found += [layer(x).detach(), layer(x).detach()]
            quantized.advance()
        return torch.stack(found)

    one = run()
    assert torch.equal(one, run()) and torch.equal(one, run(evaluate=True))
    assert not torch.equal(one, run(seed=1))
    assert len({tuple(c.flatten().tolist()) for c in one}) == 6
    # 1.05 is between 1 and 1.125: mean of 6 x 64 x 32 draws, 5 standard errors
    assert abs(float(one.mean()) - 1.05) < 5 * 0.0612 / (6 * 64 * 32) ** 0.5


def test_tiles_and_hadamard_keep_what_they_should():
    from apscope.train._quantized.transforms import hadamard, with_block

    torch.manual_seed(0)
    a, b = torch.randn(40, 7), torch.randn(40, 5)
    turned = hadamard(a, 0).T @ hadamard(b, 0)
    assert hadamard(a, 0).shape == (48, 7)
    assert torch.allclose(turned, a.T @ b, atol=1e-4)
    names = ["nvfp4", "mxfp4,rule=even", "mxfp8_e4m3,block=128,rule=rceil", "bfp:8:16"]
    for name in names:
        given = apscope.BlockFormat(name)
        made = with_block(given, 256)
        assert made.block_size == 256
        assert {**made.to_dict(), "block_size": 0} == {**given.to_dict(), "block_size": 0}
