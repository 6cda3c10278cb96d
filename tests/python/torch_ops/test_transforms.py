"""autocast and vmap, of every function and of its gradient: what docs/torch.md states."""

import pytest

torch = pytest.importorskip("torch")

import apscope.torch as at  # noqa: E402
from tests.python.torch_ops.test_functions import values  # noqa: E402

STOCHASTIC = {"rounding": "stochastic", "seed": 3, "overflow": "saturate"}
#: Each function of one tensor of 4 x 8 numbers, and of a weight, with gradients as they are and in
#: a format.
FUNCTIONS = {
    "quantize": lambda x, w: at.quantize(x, "e4m3") * w[0],
    "quantize, rounded": lambda x, w: at.quantize(x, "e4m3", backward="e5m2", **STOCHASTIC) * w[0],
    "blocks": lambda x, w: at.quantize_blocks(x, "nvfp4") * w[0],
    "blocks, rounded": lambda x, w: at.quantize_blocks(x, "nvfp4", backward="nvfp4") * w[0],
    "matmul": lambda x, w: at.matmul(x, w.mT, "bf16"),
    "matmul, rounded": lambda x, w: at.matmul(x, w.mT, "e4m3", backward="e5m2", **STOCHASTIC),
    "linear": lambda x, w: at.linear(x, w, w[:, 0], format="bf16"),
    "linear, rounded": lambda x, w: at.linear(x, w, w[:, 0], format="bf16", backward="e5m2"),
    "conv2d": lambda x, w: at.conv2d(x[None, None], w[:, None, None, :3], w[:, 0], format="bf16"),
    "conv2d, rounded": lambda x, w: at.conv2d(
        x[None, None],
        w[:, None, None, :3],
        w[:, 0],
        format="bf16",
        backward="e5m2",
        overflow="saturate",
    ),
}


def gradients(run, x, w):
    """The result and both gradients, for a gradient of the result that varies by element."""
    x, w = (t.detach().clone().requires_grad_() for t in (x, w))
    y = run(x, w)
    y.backward(values(*y.shape, seed=7).to(y.dtype))
    return y.detach(), x.grad, w.grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_autocast_changes_no_number_and_no_gradient(name, compiled, dtype):
    run = FUNCTIONS[name]
    x, w = values(4, 8), values(3, 8, seed=1)
    wanted = gradients(run, x, w)
    if compiled:
        run = torch.compile(run, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", dtype=dtype):
        assert (x @ w.T).dtype == dtype  # it is on
        found = gradients(run, x, w)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


def test_what_autocast_gives_is_widened_exactly():
    x, w = values(4, 8), values(3, 8, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = torch.nn.functional.linear(x, w)
        assert half.dtype == torch.bfloat16
        rounded = at.quantize(half, "e4m3")
    assert rounded.dtype == torch.float32 and torch.equal(
        rounded, at.quantize(half.float(), "e4m3")
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_entry_of_a_batch_is_a_call_of_its_own(name):
    run = FUNCTIONS[name]
    x = torch.stack([values(4, 8, seed=i) * 10.0**i for i in range(3)])
    weights = torch.stack([values(3, 8, seed=5 + i) / 10.0**i for i in range(3)])
    for dims, ws in (((0, None), [weights[0]] * 3), ((0, 0), weights)):
        given = (x, weights[0] if dims[1] is None else weights)
        found = torch.vmap(run, in_dims=dims)(*given)
        assert not found.isnan().any()
        assert torch.equal(found, torch.stack([run(a, w) for a, w in zip(x, ws, strict=True)]))
        pulled = torch.func.grad(
            lambda a, w: (run(a, w) * run(a, w).detach()).sum(), argnums=(0, 1)
        )
        mapped = torch.vmap(pulled, in_dims=dims)(*given)
        one_by_one = [pulled(a, w) for a, w in zip(x, ws, strict=True)]
        for i, g in enumerate(mapped):
            wanted = torch.stack([one[i] for one in one_by_one])
            summed = i == 1 and name.startswith(("quantize", "blocks"))  # of w[0], over the rows
            if "rounded" in name and not name.startswith("conv2d") and not summed:
                assert torch.equal(g, wanted)
            else:  # PyTorch's own products and sums have other kernels under vmap
                room = 1e-5 * float(wanted.abs().max())
                torch.testing.assert_close(g, wanted, rtol=0, atol=room)


def test_a_scale_per_tensor_is_one_per_entry_of_two_batches():
    x = torch.stack([values(2, 32, seed=i) * 100.0**i for i in range(3)])
    run = lambda t: at.quantize_blocks(t, "nvfp4")
    found = torch.vmap(torch.vmap(run))(x)
    assert torch.equal(found, torch.stack([torch.stack([run(t) for t in row]) for row in x]))
    assert not torch.equal(found, run(x))


def test_entries_share_random_words():
    run = lambda t: at.quantize(t, "e3m0", **STOCHASTIC)
    row = values(100).abs()
    found = torch.vmap(run)(row.expand(4, -1))
    assert all(torch.equal(entry, run(row)) for entry in found)
    assert not torch.equal(found, at.quantize(row.expand(4, -1), "e3m0", **STOCHASTIC))
