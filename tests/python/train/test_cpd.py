"""CPD's functions against an independent restatement of its rules (tests/reference/cpd.py)."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from apscope.train import Workers, cpd  # noqa: E402
from tests.reference import cpd as reference  # noqa: E402

FORMATS = [(5, 2), (4, 3), (3, 0), (5, 10), (8, 7), (8, 23)]


def numbers(*shape, seed=0, spread=12):
    """Over many binades, with some zeros."""
    random = np.random.default_rng(seed)
    x = random.normal(size=shape) * 2.0 ** -random.integers(0, spread, shape)
    x[random.random(shape) < 0.05] = 0
    return x.astype(np.float32)


def same(found, wanted):
    a, b = np.asarray(found, np.float32), np.asarray(wanted, np.float32)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a[a == 0]), np.signbit(b[b == 0])
    )


@pytest.mark.parametrize(("exp", "man"), FORMATS)
def test_casts(exp, man):
    x = np.concatenate(
        [
            numbers(300, spread=24),
            np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 61440, 248, 3.4e38]),
        ]
    )
    before = x.copy()
    t = torch.from_numpy(x)
    assert same(cpd.float_quantize(t, exp, man), reference.cast(x, exp, man))
    assert same(x, before)  # CPD's kernel writes into its input
    t = torch.from_numpy(numbers(50)).requires_grad_()
    y = cpd.quantizer(exp, man, 5, 2)(t)
    g = numbers(50, seed=1)
    y.backward(torch.from_numpy(g))
    assert same(y.detach(), reference.cast(t.detach(), exp, man)) and same(
        t.grad, reference.cast(g, 5, 2)
    )
    assert same(cpd.Quantizer(exp, man)(t).detach(), y.detach())


@pytest.mark.parametrize(("exp", "man"), FORMATS)
@pytest.mark.parametrize("shape", [(3, 40, 5), (17, 9, 2), (1, 1, 300), (2, 0, 3)])
def test_products(exp, man, shape):
    m, k, n = shape
    a, b = numbers(m, k), numbers(k, n, seed=1)
    found = cpd.quant_gemm(torch.from_numpy(a), torch.from_numpy(b), man, exp)
    assert same(found, reference.gemm(a, b, exp, man))


@pytest.mark.parametrize(("exp", "man"), [(5, 2), (5, 10)])
def test_layers(exp, man):
    layer = cpd.Quant_Linear(6, 4, exp=exp, man=man)
    x = torch.from_numpy(numbers(5, 6)).requires_grad_()
    g = numbers(5, 4, seed=2)
    layer(x).backward(torch.from_numpy(g))
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    a = x.detach().numpy()
    assert same(layer(x).detach(), reference.gemm(a, w.T, exp, man) + bias)
    assert same(x.grad, reference.gemm(g, w, exp, man))
    assert same(layer.weight.grad, reference.gemm(g.T, a, exp, man))
    assert same(layer.bias.grad, reference.cast(torch.from_numpy(g).sum(0), exp, man))

    conv = cpd.Quant_Conv(2, 3, 3, stride=2, padding=1, exp=exp, man=man)
    image = torch.from_numpy(numbers(2, 2, 5, 7)).requires_grad_()
    found = conv(image)
    rows = F.unfold(image.detach(), 3, padding=1, stride=2).transpose(1, 2).reshape(-1, 18).numpy()
    wanted = reference.gemm(rows, conv.weight.detach().reshape(3, -1).numpy().T, exp, man)
    wanted = (wanted + conv.bias.detach().numpy()).reshape(2, 3, 4, 3).transpose(0, 3, 1, 2)
    assert same(found.detach(), wanted)
    found.sum().backward()
    assert image.grad.shape == image.shape and conv.weight.grad.shape == conv.weight.shape


@pytest.mark.parametrize("aps", [False, True])
@pytest.mark.parametrize("kahan", [False, True])
@pytest.mark.parametrize(("exp", "man"), [(5, 2), (4, 3), (3, 0)])
@pytest.mark.parametrize("workers", [1, 3, 8])
def test_sums(aps, kahan, exp, man, workers):
    rows = numbers(workers, 60, seed=workers)
    found = cpd.reduce_gradients(torch.from_numpy(rows), aps, exp, man, kahan)
    assert same(found, reference.sum_gradients(rows, aps, exp, man, kahan))


@pytest.mark.parametrize("kahan", [False, True])
@pytest.mark.parametrize("workers", [1, 3, 8])
def test_sums_in_fp32(kahan, workers):
    rows = numbers(workers, 60, seed=workers)
    rows[:, 0], rows[:, 1] = -0.0, 1e8
    found = cpd.reduce_gradients(torch.from_numpy(rows), False, 8, 23, kahan)
    assert same(found, reference.sum_gradients(rows, False, 8, 23, kahan))
    other = reference.sum_gradients(rows, False, 8, 23, not kahan)
    assert workers < 8 or not same(found, other)


@pytest.mark.parametrize("aps", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 2.0**-20, 2.0**-120, 0.0])
def test_emulated_nodes(aps, count, size):
    rows = numbers(count, 40, seed=count) * np.float32(size)
    for exp, man in ((5, 2), (4, 3)):
        found = cpd.emulate_node(torch.from_numpy(rows), aps, exp, man)
        assert same(found, reference.emulate_node(rows, aps, exp, man))
    if count == 1:
        cast = cpd.emulate_node(torch.from_numpy(rows), False, 5, 2, casts_alone=True)
        assert same(cast, reference.cast(np.float32(0) + reference.cast(rows[0], 5, 2), 5, 2))


def test_the_deviations_of_the_page():
    zeros = torch.zeros(2, 3)
    assert cpd.reduce_gradients(zeros, True).isnan().all()  # 0 times infinity
    assert (cpd.emulate_node(zeros, True) == 0).all()  # the exponent stayed at -100
    # Without APS the sum over processes takes fp32 numbers, that over micro-batches cast ones.
    x = torch.tensor([[1.0], [0.4]])  # cast to e3m0, 0.4 is 0.5, and 1 + 0.5 ties upwards
    assert cpd.reduce_gradients(x, False, 3, 0) == 1.0
    assert cpd.emulate_node(x, False, 3, 0) == 2.0


def test_two_levels_in_workers():
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    world, batches = 2, 4
    node = cpd.EmulatedNode(batches, True, 4, 3)
    w = Workers(
        model, lambda y, t: F.mse_loss(y, t) / (world * batches),
        torch.optim.SGD(model.parameters(), lr=0.1), workers=world, exchange="cpd:e4m3",
        node=node, divide=False,
    )  # fmt: skip
    w.backward(torch.randn(16, 6), torch.randn(16, 3))
    w.exchange()
    for name, p in model.named_parameters():
        rows = w.gradients[name].numpy()
        assert rows.shape[0] == world * batches
        nodes = [
            reference.emulate_node(part, True, 4, 3) for part in rows.reshape(world, batches, -1)
        ]
        assert same(p.grad.reshape(-1), reference.sum_gradients(np.stack(nodes), True, 4, 3, False))
    with pytest.raises(ValueError, match="cannot be divided among 8 parts"):
        w.step(torch.randn(4, 6), torch.randn(4, 3))


def test_sums_over_processes(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        model = nn.Linear(3, 2)
        model.weight.grad = torch.from_numpy(numbers(2, 3))
        wanted = reference.sum_gradients(numbers(1, 2, 3).reshape(1, -1), True, 5, 2, True)
        cpd.sum_gradients(model, True, 5, 2, True)
        assert same(model.weight.grad.reshape(-1), wanted) and model.bias.grad is None
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: cpd.float_quantize(torch.ones(2), 1, 2), ValueError, "exp=1"),
        (lambda: cpd.float_quantize(torch.ones(2), 5, 23), ValueError, "is not a format of CPD"),
        (lambda: cpd.float_quantize(torch.ones(2).double(), 5, 2), TypeError, "float32 on the CPU"),
        (
            lambda: cpd.quant_gemm(torch.ones(2, 3), torch.ones(2, 3)),
            ValueError,
            "cannot be multiplied",
        ),
        (lambda: cpd.Quant_Conv(2, 2, 3, dilation=2), ValueError, "CPD ignores them"),
        (
            lambda: cpd.reduce_gradients(torch.ones(2, 3), True, 8, 23),
            ValueError,
            "give another format, or no APS",
        ),
        (
            lambda: cpd.reduce_gradients(torch.ones(2, 3).double()),
            TypeError,
            "rows is a tensor of torch.float64",
        ),
        (
            lambda: cpd.reduce_gradients(torch.ones(0, 3)),
            ValueError,
            r"rows has the shape \(0, "
            r"3\); give \(workers",
        ),
        (lambda: cpd.emulate_node([1.0]), TypeError, "rows is list; give a float32 tensor"),
        (lambda: cpd.quant_gemm(1, 2), TypeError, "a is int; give a float32 tensor"),
        (
            lambda: cpd.Quant_Conv(2, 2, 3)(torch.ones(2)),
            ValueError,
            r"give \(batch, 2, height, "
            r"width\)",
        ),
        (lambda: cpd.sum_gradients(5), TypeError, "model is int"),
        (lambda: cpd.EmulatedNode(0), ValueError, "batches=0"),
    ],
)
def test_mistakes_are_one_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()
