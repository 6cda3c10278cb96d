"""Training where the model lives: on a GPU that only seems to be one (tests/python/on_device.py),
with the host's functions as kernels, so that losses and parameters are those of the CPU, bit for bit."""

import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
from apscope.torch import LowPrecisionWeights, matmul  # noqa: E402
from apscope.torch._devices import _warn  # noqa: E402
from apscope.train import (  # noqa: E402
    HALP,
    Cast,
    DoubleSampledLinear,
    LossScale,
    Recipe,
    Sum,
    Workers,
    cpd,
    quantize_model,
    recipes,
)
from apscope.train._exchanger import Exchanger  # noqa: E402
from apscope.train._quantized.fp32_products import fp32_products  # noqa: E402
from tests.python.on_device import CUDA, on_device, same, values  # noqa: E402
from tests.python.train.quantized_cases import EVERYTHING, FP8, batch, net, quantized_of  # noqa: E402


def trained(quantized, batches):
    losses = []
    for x, y in batches:
        loss = F.cross_entropy(quantized.model(x), y)
        losses.append(loss.detach())
        quantized.step(loss)
    return [losses, quantized.state_dict()]


RECIPES = {**recipes(), **EVERYTHING}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains_there_as_on_the_cpu(name, gpu):
    batches = [batch(step, 8) for step in range(4)]
    expected = trained(quantized_of(net(), RECIPES[name], seed=3), batches)
    moved = [(on_device(x), on_device(y)) for x, y in batches]
    quantized = quantized_of(on_device(net()), RECIPES[name], seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trained(quantized, moved)
    assert found[0][0].device == CUDA and next(quantized.model.parameters()).device == CUDA
    same(found, expected)


def test_the_seeming_gpu_refuses_what_cuda_refuses(gpu):
    x = on_device(torch.ones(3))
    with pytest.raises(RuntimeError, match="same device"):
        _ = x + torch.ones(3)
    with pytest.raises(TypeError, match="cuda:0"):
        x.numpy()
    assert not gpu
    assert float(x.sum()) == 3 and bool((x.cpu() == torch.ones(3).to(CUDA).cpu()).all())
    assert gpu == {"numbers": 1, "to the CPU": 2, "to the GPU": 1}
    # CUDA's quotient by a number is a product with its fp32 inverse.
    assert float((on_device(torch.tensor(5.0)) / 49.0).cpu()) != float(torch.tensor(5.0) / 49.0)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("mxfp8", {}),
        ("nvfp4", {}),
        ("deepseek", {}),
        (Recipe(input=Cast("e4m3", rounding="stochastic"), accumulate="bf16"), {}),
        # A scheme's scale comes from the amax: of three operands of two layers.
        ("te_delayed", {"numbers": 6}),
        # Of a dynamic loss scale: whether a gradient is not finite, and the next scale.
        (Recipe(input="e4m3", loss_scale=LossScale()), {"numbers": 2}),
    ],
)
def test_a_step_neither_copies_nor_waits(recipe, expected, gpu):
    quantized = quantized_of(on_device(net()), recipe)
    x, y = (on_device(t) for t in batch(0))
    quantized.step(F.cross_entropy(quantized.model(x), y))
    gpu.clear()
    quantized.step(F.cross_entropy(quantized.model(x), y))
    assert gpu == expected


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(input="qsgd"), "the exchange of the scheme qsgd.*"),
        (
            Recipe(input="current_scaling:e4m3fn", weight="e4m3fn", accumulate="h100:fp8"),
            "elements and scales, apart, of the scheme current_scaling:e4m3fn",
        ),
        (Recipe(input="e4m3", accumulate=Sum("bf16", order="exact")), "order=exact"),
        (Recipe(input="nvfp4", weight="nvfp4", accumulate="b200:nvfp4"), "order=unit:b200:nvfp4"),
    ],
)
def test_what_a_gpu_does_not_compute_is_said_once(recipe, words, gpu):
    _warn.cache_clear()
    model = on_device(nn.Sequential(nn.Linear(32, 4)))
    quantize_model(model, recipe, say=None)
    with pytest.warns(UserWarning, match=f"{words}.* on the CPU") as warned:
        model(on_device(torch.ones(2, 32))).sum()
    assert len({str(w.message) for w in warned}) == len(warned)
    model(on_device(torch.ones(2, 32)))


class Mixed(nn.Module):
    """Embedding, attention, LSTM, norms and a convolution over tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.embedding = nn.Embedding(11, 16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm, self.lstm = nn.LayerNorm(16), nn.LSTM(16, 8, batch_first=True)
        self.grouped, self.out = nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.Linear(4 * 6 * 4, 10)

    def forward(self, tokens):
        x = self.embedding(tokens)
        mask = torch.ones(6, 6, dtype=torch.bool, device=tokens.device).triu(1)
        y, _ = self.attention(self.norm(x), x, x, attn_mask=mask, need_weights=False)
        y, _ = self.lstm(y)
        y = self.grouped(y.reshape(len(y), 6, 2, 4).transpose(1, 2))
        return self.out(y.flatten(1))


@pytest.mark.parametrize("accumulate", [None, "h100:fp8,promote=32", Sum("bf16", order="pairwise")])
def test_every_kind_of_layer(accumulate, gpu):
    recipe = Recipe(
        input=Cast("e4m3fn"), weight="e4m3fn", grad_output=Cast("e5m2", rounding="stochastic"),
        accumulate=accumulate, also=("LayerNorm", "Embedding"),
    )  # fmt: skip
    g = torch.Generator().manual_seed(0)
    batches = [
        (torch.randint(0, 11, (4, 6), generator=g), torch.randint(0, 10, (4,), generator=g))
        for _ in range(3)
    ]
    expected = trained(quantized_of(Mixed(), recipe), batches)
    moved = [(on_device(x), on_device(y)) for x, y in batches]
    same(trained(quantized_of(on_device(Mixed()), recipe), moved), expected)


@pytest.mark.parametrize("name", ["nvfp4", "te_blockwise", FP8, "te_delayed"])
def test_statistics_and_records_are_those_of_the_cpu(name, gpu, tmp_path):
    tables, traces = [], []
    for place in ("cpu", "gpu"):
        put = on_device if place == "gpu" else torch.clone
        quantized = quantized_of(net() if place == "cpu" else on_device(net()), name)
        quantized.observe()
        with warnings.catch_warnings(), quantized.record(tmp_path / place):
            warnings.simplefilter("ignore")
            for step in range(2):
                x, y = (put(t) for t in batch(step))
                quantized.step(F.cross_entropy(quantized.model(x), y))
        tables.append(quantized.statistics)
        traces.append([f.read_bytes() for f in sorted((tmp_path / place).rglob("*.bin"))])
    for column in tables[0]:
        if tables[0][column].dtype.kind == "f":  # sums are added in another order
            np.testing.assert_allclose(tables[1][column], tables[0][column], rtol=1e-12)
        else:
            assert list(tables[1][column]) == list(tables[0][column])
    assert traces[0] == traces[1]


@pytest.mark.parametrize(
    "update", ["nearest", "stochastic", "stochastic_normal", "kahan", "residual"]
)
@pytest.mark.parametrize("format", ["bf16", "e4m3"])
def test_weights_kept_in_a_format(update, format, gpu):
    states = []
    for put in (torch.clone, on_device):
        g = torch.Generator().manual_seed(0)
        weights = [nn.Parameter(put(torch.randn(n, generator=g))) for n in (5, 64)]
        kept = LowPrecisionWeights(
            torch.optim.SGD(weights, lr=2.0**-5, momentum=0.875), format, update=update, seed=2
        )
        gpu.clear()
        for step in range(6):
            for w in weights:
                w.grad = put(torch.randn(w.shape, generator=g))
            kept.step()
            if step == 2:  # a state from the CPU goes to the parameters' device
                kept.load_state_dict(values(kept.state_dict()))
            if step == 3:  # weights that the format does not have
                with torch.no_grad():
                    weights[1].mul_(1.0 + 2.0**-11)
        states.append([list(weights), kept.state_dict()])
    same(*states)
    assert gpu["numbers"] == 0
    with pytest.raises(TypeError, match="kahan of a parameter of torch.float64"):
        LowPrecisionWeights(
            torch.optim.SGD([on_device(torch.ones(2).double())]), "bf16", update="kahan"
        )


def on_the_gpu(state):
    """A checkpoint that was loaded with map_location="cuda"."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, on_device, values(state))


@pytest.mark.parametrize("name", ["te_delayed", FP8])
def test_a_state_loaded_onto_the_gpu_is_taken(name, gpu):
    batches = [(on_device(x), on_device(y)) for x, y in (batch(step, 8) for step in range(4))]
    whole = quantized_of(on_device(net()), name, seed=3)
    trained(whole, batches[:2])
    first, second = (quantized_of(on_device(net()), name, seed=3) for _ in range(2))
    trained(first, batches[:2])
    second.load_state_dict(on_the_gpu(first.state_dict()))
    same(trained(second, batches[2:]), trained(whole, batches[2:]))
    exchanger = Exchanger("delayed_scaling:e5m2", {"a": (3,)}, workers=2)
    rows, out = on_device(torch.ones(2, 3)), on_device(torch.ones(3))
    exchanger.run([exchanger.sent(rows)], [out])
    state = exchanger.state_dict()
    exchanger.load_state_dict(on_the_gpu(state))
    same(exchanger.state_dict(), state)


def test_leading_axes_of_products_broadcast_there(gpu):
    g = torch.Generator().manual_seed(0)
    for left, right in [((4, 8, 16), (16, 5)), ((3, 1, 2, 4), (5, 4, 2)), ((2, 4), (6, 4, 3))]:
        a, b = torch.randn(left, generator=g), torch.randn(right, generator=g)
        same(matmul(on_device(a), on_device(b), "fp16"), matmul(a, b, "fp16"))


def test_arrays_of_one_call_must_be_where_the_input_is(gpu):
    x = on_device(torch.ones(3))
    with pytest.raises(ValueError, match="out is not in a GPU's memory"):
        apscope.quantize(x, "e4m3", out=torch.ones(3))


def test_what_runs_on_the_cpu_is_said(gpu):
    _warn.cache_clear()
    model = on_device(nn.Linear(4, 2))
    workers = Workers(
        model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), workers=2,
        node=cpd.EmulatedNode(2, True, 4, 3), divide=False, batched=False,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="CPD's emulated node: computed on the CPU"):
        workers.step(on_device(torch.ones(4, 4)), on_device(torch.ones(4, 2)))
    quantized = quantized_of(on_device(net()), Recipe(input="current_scaling:e4m3fn"))
    quantized.observe()
    x = on_device(batch(0)[0])
    with pytest.warns(UserWarning, match="the bits of current_scaling:e4m3fn, which are observed"):
        quantized.model(x)


def test_double_samples_under_autocast():
    layer, x = DoubleSampledLinear(6, 3), torch.randn(5, 6)
    layer(x).square().sum().backward()
    expected = [layer.weight.grad.clone()]
    layer.weight.grad, layer.calls = None, 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).square().sum().backward()
    same([layer.weight.grad], expected)


def test_parameters_must_be_on_one_device(gpu):
    model = nn.Sequential(nn.Linear(4, 4), on_device(nn.Linear(4, 4)))
    with pytest.raises(TypeError, match="are on cpu and cuda:0; .* on one device"):
        quantize_model(model, "mxfp8", say=None)
    with pytest.raises(TypeError, match="fp32 parameters on the CPU or on a CUDA GPU"):
        quantize_model(nn.Linear(4, 4, device="meta"), "mxfp8", say=None)


def test_products_are_never_in_tf32_nor_in_half_precision():
    cudnn = torch.backends.cudnn.conv
    before = cudnn.fp32_precision
    with fp32_products(CUDA):
        assert cudnn.fp32_precision == "ieee"
    assert cudnn.fp32_precision == before
    # Threads whose products overlap: the first to enter is the first to leave.
    entered, left = threading.Event(), threading.Event()

    def other():
        with fp32_products(CUDA):
            entered.set()
            left.wait(60)
            seen.append(cudnn.fp32_precision)

    seen, thread = [], threading.Thread(target=other)
    with fp32_products(CUDA):
        thread.start()
        assert entered.wait(60)
    left.set()
    thread.join()
    assert seen == ["ieee"] and cudnn.fp32_precision == before
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(RuntimeError, match="on a GPU are in tf32"), fp32_products(CUDA):
            pass
        with fp32_products(torch.device("cpu")):
            pass
    finally:
        torch.set_float32_matmul_precision("highest")
    model = quantized_of(nn.Linear(8, 4), "mxfp8").model
    x = torch.randn(2, 8)
    expected = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(model(x), expected)


@pytest.mark.parametrize("options", [{}, {"bits": "fp16", "momentum": 0.9}, {"delta": 0.037}])
def test_halp_steps_there(options, gpu):
    states = []
    for put in (torch.clone, on_device):
        g = torch.Generator().manual_seed(0)
        rows = put(torch.randn(8, 5, generator=g))
        w = put(torch.randn(5, generator=g)).requires_grad_()
        halp = HALP([w], 0.07, mu=0.4, seed=3, **options)
        for _ in range(2):
            halp.centre(lambda w=w, rows=rows: (rows @ w).square().mean())
            for i in range(8):
                halp.step(lambda w=w, row=rows[i]: (row @ w).square())
        halp.load_state_dict(values(halp.state_dict()))
        states.append([w, halp.state_dict()])
    same(*states)
    assert halp.state_dict()["z"][0].is_cuda
