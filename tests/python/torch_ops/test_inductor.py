"""`torch.compile` with its default backend, inductor, on the CPU gives the same bits."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch._dynamo.exc import BackendCompilerFailed  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
import apscope.torch as at  # noqa: E402
from apscope.train import Workers, quantization, quantize_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of inductor's own


@pytest.fixture(scope="module", autouse=True)
def inductor():
    """Skips if inductor has no working C++ compiler; one thread, because kernels sum per thread.

    Without the caches of graphs: their keys lack the instruction set, so a kernel that steps by 16
    numbers would be compiled for vectors of 8, and half of its results would be missing.
    """
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor_config

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with (
        inductor_config.patch(fx_graph_cache=False),
        functorch.patch(enable_autograd_cache=False),
    ):
        try:
            torch.compile(lambda x: (x + 1).relu())(torch.zeros(8))
        except BackendCompilerFailed as error:
            pytest.skip(f"inductor cannot compile here: {str(error).splitlines()[0]:.200}")
        yield
    torch.set_num_threads(before)


def values(*shape, seed=0):
    r = np.random.default_rng(seed)
    return torch.from_numpy(r.normal(size=shape) * 2.0 ** r.uniform(-6, 6, shape)).float()


def every_function(x, w, image, kernel, seed):
    """All five functions, with gradients in a format and random words."""
    q = at.quantize(x * 2, "e4m3", backward="e5m2", rounding="stochastic", seed=seed)
    y = at.linear(q, w, format="bf16", backward="bf16")
    blocks = at.quantize_blocks(y, "nvfp4", backward="mxfp8_e5m2")
    products = at.matmul(blocks, w, "e5m10", backward="fp32", accumulate="fp32")
    places = at.conv2d(image, kernel, format="e4m3", backward="fp32", padding=1, groups=2)
    return q, y, blocks, products, places


def test_every_function_and_its_gradient_have_the_same_bits():
    compiled = torch.compile(every_function, fullgraph=True)
    for seed in (3, 2**63 + 5):
        found = []
        for run in (every_function, compiled):
            given = [values(8, 32), values(32, 32, seed=1), values(2, 4, 5, 6, seed=2), values(6, 2, 3, 3, seed=3)]  # fmt: skip
            leaves = [t.requires_grad_() for t in given]
            outputs = run(*leaves, seed)
            torch.autograd.backward(
                outputs, [values(*y.shape, seed=9 + i) for i, y in enumerate(outputs)]
            )
            found.append([y.detach() for y in outputs] + [t.grad for t in leaves])
        assert [torch.equal(a, b) for a, b in zip(*found, strict=True)] == [True] * 9
    x = leaves[0].detach() * 2
    wanted = apscope.quantize(x, "e4m3", rounding="stochastic", seed=seed)
    assert torch.equal(found[1][0], wanted)


def test_one_compilation_serves_all_sizes():
    def scaled(x):
        return at.matmul(at.quantize_blocks(x * 2, "mxfp4"), x.T, "bf16")

    compiled = torch.compile(scaled, fullgraph=True, dynamic=True)
    for rows, columns in ((3, 64), (5, 40), (17, 33)):
        x = values(rows, columns)
        assert torch.equal(compiled(x), scaled(x))


def test_a_mapped_function_has_a_scale_an_entry():
    def scaled(t):
        return at.quantize_blocks(t * 3, "nvfp4") + 1

    x = torch.stack([values(64, seed=i) * 10.0**i for i in range(3)])
    mapped = torch.compile(torch.vmap(scaled), fullgraph=True)
    assert torch.equal(mapped(x), torch.stack([scaled(row) for row in x]))
    assert not torch.equal(mapped(x), scaled(x))


def test_a_training_step_with_rounded_gradients_is_the_same_training():
    """Loss and update are by element, so nothing but the operators adds."""

    def train(compile_it):
        w = values(3, 16, seed=1).requires_grad_()
        optimizer = at.LowPrecisionWeights(torch.optim.SGD([w], lr=2.0**-12), "e4m3", update="kahan")  # fmt: skip

        def outputs(x, seed):
            q = at.quantize(x, "e4m3", backward="e5m2", rounding="stochastic", seed=seed)
            y = at.linear(q, w, format="bf16", backward="fp16", accumulate="fp32")
            return y * torch.tanh(y)

        run = torch.compile(outputs, fullgraph=True) if compile_it else outputs
        for step in range(4):
            y = run(values(8, 16, seed=step), step)
            y.backward(torch.ones_like(y))
            optimizer.step()
            optimizer.zero_grad()
        return w.detach()

    assert torch.equal(train(False), train(True))


def test_a_convolutional_net_differs_by_no_more_than_kernels_of_pytorch():
    """Cross-entropy and the sums of bias gradients are PyTorch's; inductor reorders sums."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 10)

        def forward(self, x):
            x = torch.relu(at.conv2d(x, self.conv.weight, self.conv.bias, format="fp32"))
            x = at.quantize(x.flatten(1), "e4m3", backward="e5m2")
            return at.linear(x, self.head.weight, self.head.bias, format="bf16", backward="bf16")

    net = Net()
    other = copy.deepcopy(net)
    compiled = torch.compile(other, fullgraph=True)
    x, y = values(8, 1, 8, 8), torch.arange(8)
    assert torch.equal(net(x), compiled(x))
    for model in (net, compiled):
        F.cross_entropy(model(x), y).backward()
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-6)


def test_quantized_layers_and_an_exchange_of_workers_have_the_same_bits():
    def train(compile_it):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        quantized = quantization(quantize_model(model, "hfp8", optimizer=optimizer, say=None))
        workers = Workers(
            torch.compile(model) if compile_it else model, F.cross_entropy, optimizer, workers=4,
            exchange="error_feedback(stochastic:e3m2)", seed=5, batched=False,
        )  # fmt: skip
        for step in range(3):
            g = torch.Generator().manual_seed(step)
            workers.step(torch.randn(16, 16, generator=g), torch.randint(0, 4, (16,), generator=g))
            quantized.advance()
        return [p.detach() for p in model.parameters()]

    for a, b in zip(train(False), train(True), strict=True):
        assert torch.equal(a, b)
