"""apscope.torch: the bits of apscope's functions, gradients, vmap, torch.func, torch.compile."""

import subprocess
import sys

import numpy as np
import pytest

import apscope

torch = pytest.importorskip("torch")
from torch._dynamo.exc import Unsupported  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope.torch as at  # noqa: E402

SPECIAL = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-30, -3e38, 448.0])


def bits(t):
    a = t.detach().numpy()
    return a.view(np.uint64 if a.dtype == np.float64 else np.uint32).tolist()


def values(*shape, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=g) * 8).to(dtype)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rounding": "stochastic", "seed": 7},
        {"rounding": "to_odd", "overflow": "saturate"},
        {"scale": 1.5, "overflow": "saturate"},
        {"projection": apscope.Projection(rounding="toward_zero")},
    ],
)
@pytest.mark.parametrize("format", ["e4m3", "e5m2fnuz", "bf16", "e3m4"])
@pytest.mark.parametrize(
    "x",
    [
        values(3, 5, 7),
        values(4, 6).T,
        SPECIAL,
        torch.tensor(1.3),
        torch.empty(0, 3),
        values(9, dtype=torch.float64),
        values(9, dtype=torch.bfloat16),
        values(9, dtype=torch.float16),
    ],
    ids=["3d", "transposed", "special", "scalar", "empty", "fp64", "bf16", "fp16"],
)
def test_quantize_has_the_bits_of_apscope(x, format, options):
    before = x.clone()
    y = at.quantize(x, format, **options)
    assert bits(y) == bits(apscope.quantize(x, format, **options))
    assert (
        y.shape == x.shape and y.is_contiguous() and y.data_ptr() != x.data_ptr()
    ) or not x.numel()
    assert torch.equal(before.nan_to_num(), x.nan_to_num())


@pytest.mark.parametrize("format", ["mxfp8_e4m3", "mxfp4", "nvfp4", "bfp:8:16"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_quantize_blocks_has_the_bits_of_apscope(format, axis):
    x = values(40, 33)
    y = at.quantize_blocks(x, format, axis=axis)
    assert bits(y) == bits(apscope.quantize_blocks(x, format, axis=axis))


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": "fp32", "product": "fp32"}, {"order": "pairwise"}]
)
@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 7), (7, 3)),
        ((2, 4, 7), (7, 3)),
        ((2, 1, 4, 7), (5, 7, 3)),
        ((7,), (7, 3)),
        ((4, 7), (7,)),
        ((7,), (7,)),
    ],
)
def test_matmul_has_the_bits_of_apscope(shapes, options):
    a, b = values(*shapes[0]), values(*shapes[1], seed=1)
    found = at.matmul(a, b, "e5m10", **options)
    wanted = torch.as_tensor(apscope.matmul(a, b, "e5m10", **options))
    assert found.shape == wanted.shape and torch.equal(found, wanted)


@pytest.mark.parametrize("bias", [False, True])
def test_linear_and_conv2d_are_the_product_with_a_bias_in_fp32(bias):
    x, w, b = values(2, 5, 6), values(3, 6, seed=1), values(3, seed=2) if bias else None
    product = torch.as_tensor(apscope.matmul(x, w.T, "bf16"))
    assert torch.equal(at.linear(x, w, b, format="bf16"), product + b if bias else product)
    for options in (
        {}, {"stride": 2, "padding": 1}, {"stride": (1, 2), "dilation": (2, 1)},
        {"groups": 2, "padding": (0, 2)},
    ):  # fmt: skip
        image, kernel = values(2, 4, 9, 8), values(6, 4 // options.get("groups", 1), 3, 3, seed=3)
        b = values(6, seed=4) if bias else None
        found = at.conv2d(image, kernel, b, format="fp32", **options)
        wanted = F.conv2d(
            image.double(), kernel.double(), None if b is None else b.double(), **options
        )
        assert found.shape == wanted.shape and found.dtype == torch.float32
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-3)
    # The order of the terms: channel, row, column.
    image, kernel = values(1, 2, 3, 3), values(1, 2, 3, 3, seed=5)
    row = torch.as_tensor(apscope.matmul(kernel.reshape(1, -1), image.reshape(-1, 1), "e4m3"))
    assert torch.equal(at.conv2d(image, kernel, format="e4m3").reshape(1, 1), row)


def test_contiguous_fp32_and_fp64_are_not_copied(monkeypatch):
    from apscope._arrays import blocks

    class Core:
        """The C++ module; the address of the array that it gets is kept."""

        def __getattr__(self, name):
            return getattr(apscope._core, name)

        def quantize_blocks(self, a, *rest):
            self.address = a.ctypes.data
            return apscope._core.quantize_blocks(a, *rest)

    core = Core()
    monkeypatch.setattr(blocks, "_core", core)
    for x in (values(64), values(64, dtype=torch.float64).requires_grad_()):
        at.quantize_blocks(x, "mxfp8_e4m3")
        assert core.address == x.data_ptr()
    at.quantize_blocks(x[::2], "mxfp8_e4m3")
    assert core.address != x.data_ptr()


def test_gradients_pass_straight_through_or_are_rounded():
    x = values(50).requires_grad_()
    g = values(50, seed=1)
    at.quantize(x, "e4m3").backward(g)
    assert torch.equal(x.grad, g)
    x.grad = None
    at.quantize(x, "e4m3", backward="e5m2").backward(g)
    assert torch.equal(x.grad, apscope.quantize(g, "e5m2"))
    x.grad = None
    at.quantize_blocks(x, "mxfp8_e4m3", backward="mxfp4").backward(g)
    assert torch.equal(x.grad, apscope.quantize_blocks(g, "mxfp4"))


@pytest.mark.parametrize(
    "shapes", [((4, 7), (7, 3)), ((2, 1, 4, 7), (5, 7, 3)), ((2, 4, 7), (7, 3))]
)
def test_gradients_of_products(shapes):
    a, b = (values(*s, seed=i).requires_grad_() for i, s in enumerate(shapes))
    y = at.matmul(a, b, "e5m2")
    g = values(*y.shape, seed=9)
    y.backward(g)
    c, d = (t.detach().clone().requires_grad_() for t in (a, b))
    (c @ d).backward(g)
    # PyTorch adds the products in an order of its own: they bound the difference, not their sum.
    for found, wanted, factor in ((a.grad, c.grad, b), (b.grad, d.grad, a)):
        room = 1e-5 * float(g.abs().max() * factor.detach().abs().max())
        torch.testing.assert_close(found, wanted, rtol=0, atol=room)
    a.grad = b.grad = None
    at.matmul(a, b, "e5m2", backward="bf16").backward(g)
    if len(shapes[0]) == 2:
        assert torch.equal(a.grad, torch.as_tensor(apscope.matmul(g, b.detach().T, "bf16")))
        assert torch.equal(b.grad, torch.as_tensor(apscope.matmul(a.detach().T, g, "bf16")))
    else:
        torch.testing.assert_close(b.grad, d.grad, rtol=0.1, atol=2.0)


def test_second_derivatives():
    x = values(6).requires_grad_()
    (g,) = torch.autograd.grad((at.quantize(x, "e4m3") ** 2).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert torch.equal(h, torch.full_like(h, 2.0))
    a, b = values(3, 4).requires_grad_(), values(4, 2, seed=1).requires_grad_()
    (g,) = torch.autograd.grad(at.matmul(a, b, "bf16").sum(), a, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), b)
    torch.testing.assert_close(h, torch.full((4, 2), 3.0))


@pytest.mark.parametrize("compiled", [False, True])
def test_vmap_has_a_scale_an_entry(compiled):
    x = torch.stack([values(64, seed=i) * 10.0**i for i in range(3)])
    for run in (
        lambda t: at.quantize_blocks(t, "nvfp4"),
        lambda t: at.quantize(t, "e3m2", rounding="stochastic", seed=3),
        lambda t: at.quantize(t, "e3m2"),
        lambda t: at.matmul(t.reshape(8, 8), t.reshape(8, 8), "e4m3", rounding="stochastic"),
    ):
        mapped = torch.vmap(run)
        mapped = torch.compile(mapped, backend="eager", fullgraph=True) if compiled else mapped
        assert torch.equal(mapped(x), torch.stack([run(row) for row in x]))
    shared = torch.vmap(lambda a, b: at.matmul(a, b, "bf16"), in_dims=(0, None))
    a, b = values(3, 2, 4), values(4, 5, seed=1)
    assert torch.equal(shared(a, b), torch.stack([at.matmul(m, b, "bf16") for m in a]))
    other = torch.vmap(lambda t: at.quantize_blocks(t, "mxfp4", axis=0), in_dims=1, out_dims=1)
    t = values(40, 3, 2)
    assert torch.equal(
        other(t), torch.stack([at.quantize_blocks(t[:, i], "mxfp4", axis=0) for i in range(3)], 1)
    )


def test_torch_func_takes_gradients_of_workers():
    w = values(5, 4)
    x = values(3, 6, 4, seed=1)

    def loss(w, x):
        return (at.linear(at.quantize(x, "e4m3"), at.quantize(w, "e4m3"), format="fp32") ** 2).sum()

    together = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)
    for i in range(3):
        wanted = torch.func.grad(loss)(w, x[i])
        room = 1e-5 * float(wanted.abs().max())  # the order of PyTorch's sums
        torch.testing.assert_close(together[i], wanted, rtol=0, atol=room)


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_gives_the_same_bits(dynamic):
    def model(x, w):
        y = at.linear(at.quantize(x, "e4m3", backward="e5m2"), w, format="bf16", backward="bf16")
        return at.quantize_blocks(torch.relu(y), "mxfp8_e4m3").sum()

    grads = []
    for run in (model, torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)):
        x, w = values(8, 32).requires_grad_(), values(32, 32, seed=1).requires_grad_()
        y = run(x, w)
        y.backward()
        grads.append((y.detach(), x.grad, w.grad))
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_the_operators_pass_torchs_own_checks():
    from apscope.torch import _operators, _settings

    how = _settings.text_of("quantize", "e4m3", {})
    product = _settings.text_of("matmul", "bf16", {})
    for x in (
        values(4, 5).requires_grad_(),
        values(3),
        values(4, 6).T,
        values(3, dtype=torch.float64),
    ):
        torch.library.opcheck(_operators._cast_operator, (x, how, "", 3))
    wide, rounded = (_settings.text_of("quantize", f, {}) for f in ("fp64", "e5m2"))
    for names in ((wide, ""), (how, rounded)):
        torch.library.opcheck(_operators._cast_operator, (values(4).requires_grad_(), *names, 0))
    torch.library.opcheck(
        _operators._product_operator,
        (values(2, 4, 5).requires_grad_(), values(5, 3).requires_grad_(), product, product, 3),
    )


def test_options_of_numpy_and_wide_formats():
    x = values(40)
    options = {"rounding": "stochastic", "random_bits": np.int64(8), "seed": np.uint64(2**64 - 1)}
    assert bits(at.quantize(x, "e4m3", **options)) == bits(apscope.quantize(x, "e4m3", **options))
    for run in (lambda t: at.quantize(t, "fp64"), lambda t: at.matmul(t, t, "fp64")):
        compiled = torch.compile(lambda t, run=run: run(t) * 2, backend="aot_eager", fullgraph=True)
        assert run(x).dtype == compiled(x).dtype == torch.float64


def test_a_compiled_function_takes_projections_formats_and_another_seed_at_every_step():
    x, graphs = values(40), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def run(t, seed):
        return at.quantize(t, "e3m2", rounding="stochastic", seed=seed)

    compiled = torch.compile(run, backend=backend, fullgraph=True, dynamic=True)
    for seed in (2, 3, 4, 5, 6, 2**63 - 1, 2**63 + 5):
        assert torch.equal(compiled(x, seed), run(x, seed))
    assert len(graphs) <= 3  # not one for every seed
    with pytest.raises(Exception, match="seed is negative; give"):
        compiled(x, -1)
    formats = apscope.FloatFormat("e4m3"), apscope.FloatFormat("e5m2")
    roundings = apscope.Projection("toward_zero"), apscope.Projection("to_odd")
    compiled = torch.compile(
        lambda t, f, p: at.quantize(t, f, projection=p), backend="eager", fullgraph=True
    )
    for f in formats:
        for p in roundings:
            assert torch.equal(compiled(x, f, p), apscope.quantize(x, f, projection=p))


def test_gradients_under_compile_have_the_seed_of_the_call():
    def run(x, w, seed):
        y = at.quantize(x, "e4m3", backward="e3m2", rounding="stochastic", seed=seed)
        return at.matmul(y, w, "bf16", backward="e5m2", rounding="stochastic", seed=seed)

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    for seed in (3, 4, 5):
        grads = []
        for f in (run, compiled):
            x, w = values(6, 8).requires_grad_(), values(8, 5, seed=1).requires_grad_()
            f(x, w, seed).backward(values(6, 5, seed=2))
            grads.append((x.grad, w.grad))
        assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    g = apscope.matmul(values(6, 5, seed=2), w.detach().T, "e5m2", rounding="stochastic", seed=5)
    wanted = apscope.quantize(g, "e3m2", rounding="stochastic", seed=5)
    assert torch.equal(x.grad, torch.as_tensor(wanted))


def test_a_convolution_is_one_product_over_batch_and_places():
    image, kernel = values(3, 4, 5, 6), values(6, 2, 3, 2, seed=1).requires_grad_()
    options = {"rounding": "stochastic", "seed": 11}
    found = at.conv2d(image, kernel, format="e4m3", groups=2, backward="e5m2", **options)
    patches = F.unfold(image, (3, 2)).reshape(3, 2, 12, -1).permute(1, 2, 0, 3).reshape(2, 12, -1)
    rows = kernel.detach().reshape(2, 3, 12)
    wanted = torch.as_tensor(apscope.matmul(rows, patches, "e4m3", **options))
    assert torch.equal(found, wanted.reshape(6, 3, 3, 5).transpose(0, 1))
    assert found.is_contiguous()
    g = values(*found.shape, seed=2)
    found.backward(g)
    columns = g.transpose(0, 1).reshape(2, 3, -1)
    wanted = apscope.matmul(columns, patches.mT, "e5m2", **options)
    assert torch.equal(kernel.grad, torch.as_tensor(wanted).reshape(kernel.shape))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.func's own
def test_forward_mode_is_refused():
    x = values(3, 3)
    for run in (lambda t: at.quantize(t, "e4m3"), lambda t: at.matmul(t, t, "e4m3")):
        with pytest.raises(NotImplementedError, match="no forward-mode derivatives; use reverse"):
            torch.func.jvp(run, (x,), (x,))
    found = torch.func.jacrev(lambda t: at.quantize(t, "e4m3", backward="e5m2") ** 2)(x[0])
    assert torch.equal(found, torch.diag(apscope.quantize(2 * at.quantize(x[0], "e4m3"), "e5m2")))


def test_the_class_of_a_tensor_makes_no_difference():
    class Own(torch.Tensor):
        pass

    x = values(9)
    for other in (x.as_subclass(Own), torch.nn.Parameter(x)):
        y = at.quantize(other, "e4m3")
        assert isinstance(y, torch.Tensor) and torch.equal(y, apscope.quantize(x, "e4m3"))


def test_without_torch_the_import_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import apscope.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert (
        done.returncode == 1 and "apscope.torch needs PyTorch: pip install 'apscope[torch]'" in last
    )


def test_autocast_leaves_gradients_alone():
    x, w, g = values(4, 8), values(3, 8, seed=1).requires_grad_(), values(4, 3, seed=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        at.linear(x, w, format="fp32").backward(g)
    assert torch.equal(w.grad, (x.T @ g).T)


def test_autocast_leaves_the_numbers_alone():
    x, w = values(4, 8), values(3, 8, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(
            at.linear(x, w, format="e4m3"), torch.as_tensor(apscope.matmul(x, w.T, "e4m3"))
        )


def test_draws_draw_other_words_at_every_call():
    x, draws = values(200), apscope.Draws(3)
    first, second = (at.quantize(x, "e3m2", rounding="stochastic", seed=draws) for _ in range(2))
    assert not torch.equal(first, second)
    again = apscope.Draws(3)
    assert torch.equal(first, apscope.quantize(x, "e3m2", rounding="stochastic", seed=again))


def test_draws_break_a_graph_and_are_asked_once_for_a_batch():
    x, draws = values(4, 50), apscope.Draws(3)

    def cast(t):
        return at.quantize(2 * t, "e3m2", rounding="stochastic", seed=draws) + 1

    torch._dynamo.reset()
    compiled = torch.compile(cast, backend="eager")
    found = [compiled(x) for _ in range(3)]
    again = apscope.Draws(3)
    for one in found:
        own = apscope.quantize(2 * x, "e3m2", rounding="stochastic", seed=again)
        assert torch.equal(one, own + 1)
    assert not torch.equal(found[0], found[1])
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match="would draw the same words at every call"):
        torch.compile(cast, backend="eager", fullgraph=True)(x)
    draws = apscope.Draws(3)
    same = x[:1].expand(4, 50)
    rows = torch.vmap(cast)(same)
    assert draws.calls == 1 and all(torch.equal(row, rows[0]) for row in rows)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: at.quantize(np.ones(3), "e4m3"), TypeError, "x is ndarray; give a torch.Tensor"),
        (
            lambda: at.quantize(torch.ones(3, dtype=torch.int32), "e4m3"),
            TypeError,
            "dtype torch.int32",
        ),
        (lambda: at.quantize(values(3), "e4mx"), ValueError, "unknown format"),
        (lambda: at.quantize(values(3), "e4m3", roundin="to_odd"), TypeError, "roundin"),
        (lambda: at.matmul(values(3, 4), values(3, 4), "e4m3"), ValueError, "k is 4 and 3"),
        (
            lambda: at.linear(values(3, 4), values(4, 3), format="e4m3"),
            ValueError,
            "cannot be multiplied",
        ),
        (
            lambda: at.conv2d(values(1, 2, 2, 2), values(3, 2, 3, 3), format="e4m3"),
            ValueError,
            "is smaller than a kernel",
        ),
        (
            lambda: at.conv2d(
                values(1, 2, 4, 4), values(3, 2, 3, 3), format="e4m3", padding="same"
            ),
            ValueError,
            "padding='same' must be",
        ),
        (
            lambda: at.conv2d(values(1, 2, 4, 4), values(3, 2, 3, 3), values(1), format="e4m3"),
            ValueError,
            "bias has shape",
        ),
        (
            lambda: at.linear(values(2, 4), values(3, 4), np.ones(3), format="e4m3"),
            TypeError,
            "bias is ndarray",
        ),
        (
            lambda: at.quantize(values(3), "e4m3", seed=1.5),
            TypeError,
            "seed=1.5 must be an integer",
        ),
        (lambda: at.quantize(values(3), "e4m3", seed=-1), ValueError, "seed=-1 is not between"),
        (lambda: at.quantize(values(3), "e4m3", out=values(3)), TypeError, "out= is not an option"),
        (
            lambda: at.quantize(values(3), "e4m3", rounding="stochastic", random=[1]),
            TypeError,
            "random= is not an option",
        ),
        (
            lambda: at.conv2d(values(1, 3, 4, 4), values(2, 2, 3, 3), format="e4m3"),
            ValueError,
            "do not match for",
        ),
    ],
)
def test_mistakes_are_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
