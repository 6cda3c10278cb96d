"""Workers: a loop by hand with PyTorch alone, resumed runs, dropped steps.

Buffers, accumulation and parameters that are not used: test_hook.py, test_loops.py, test_fsdp.py.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import apscope  # noqa: E402
from apscope.train import Workers  # noqa: E402
from tests.python.train import quantized_cases as cases  # noqa: E402
from tests.python.train.jobs import optimizer_of  # noqa: E402
from tests.python.train.quantized_cases import net  # noqa: E402

W = 4


def batch(step):
    return cases.batch(step, 8 * W)


def workers(exchange, optimizer="sgd", norm=False, **options):
    m = net(norm)
    o = optimizer_of(optimizer, m.parameters())
    return Workers(m, F.cross_entropy, o, workers=W, exchange=exchange, **options)


def weights(m):
    return [p.detach().clone() for p in m.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("norm", [False, True])
def test_fp32_in_rank_order_is_the_loop_by_hand(norm):
    w = workers("none:fp32", topology="sequential", batched=False, norm=norm)
    m = net(norm)
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for step in range(5):
        x, y = batch(step)
        loss = w.step(x, y)
        losses, sums = [], None
        for part, target in zip(x.chunk(W), y.chunk(W), strict=True):
            one = F.cross_entropy(m(part), target)
            found = torch.autograd.grad(one, list(m.parameters()))
            sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
            losses.append(one.detach())
        for p, total in zip(m.parameters(), sums, strict=True):
            p.grad = total / W
        o.step()
        assert same(weights(w.model), weights(m))
        assert loss == torch.stack(losses).mean()


def test_the_exchange_is_that_of_the_scheme():
    w = workers("aps:e3m0", topology="tree", seed=7)
    for step in range(3):
        w.backward(*batch(step))
        w.exchange()
        for name, p in w.model.named_parameters():
            e = apscope.exchange(
                "aps:e3m0", w.gradients[name].numpy(), topology="tree", tensor=name, step=step,
                seed=7,
            )  # fmt: skip
            assert np.array_equal(p.grad.reshape(-1), (e.reduced / W).astype(np.float32))
        w.update()
        assert all(p.grad is None for p in w.model.parameters())


def test_workers_together_and_one_by_one_differ_by_the_rounding_of_kernels():
    a, b = workers("none:fp32", batched=True), workers("none:fp32", batched=False)
    a.backward(*batch(0))
    b.backward(*batch(0))
    for name, g in a.gradients.items():
        assert g.shape == b.gradients[name].shape == (W, g.shape[1])
        torch.testing.assert_close(g, b.gradients[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    "exchange", ["aps:e4m3", "error_feedback(aps:e3m0)", "stochastic:e4m3", "onebit_adam:warmup=1"]
)
def test_a_resumed_run_gives_the_same_bits(exchange, optimizer, tmp_path):
    whole = workers(exchange, optimizer)
    for step in range(6):
        whole.step(*batch(step))
    first = workers(exchange, optimizer)
    for step in range(3):
        first.step(*batch(step))
    torch.save(first.state_dict(), tmp_path / "state")
    second = workers(exchange, optimizer)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for step in range(3, 6):
        second.step(*batch(step))
    assert same(weights(whole.model), weights(second.model))


def test_a_dropped_step_leaves_weights_and_optimizer_alone():
    w = workers("dynamic_loss_scaling:fp16,init=1024")
    w.step(*batch(0))
    before, momentum = weights(w.model), str(w.optimizer.state_dict())
    x, y = batch(1)
    x[0] = float("inf")
    w.step(x, y)
    assert w.skipped and same(before, weights(w.model))
    assert str(w.optimizer.state_dict()) == momentum
    w.step(*batch(2))
    assert not w.skipped and not same(before, weights(w.model))


def test_a_model_in_bf16_exchanges_its_gradients_as_fp32():
    torch.manual_seed(0)
    m = nn.Linear(5, 3).bfloat16()
    w = Workers(m, F.mse_loss, torch.optim.SGD(m.parameters(), lr=0.1), workers=2)
    w.backward(torch.randn(4, 5).bfloat16(), torch.randn(4, 3).bfloat16())
    assert all(g.dtype == torch.float32 for g in w.gradients.values())
    w.exchange()
    assert m.weight.grad.dtype == torch.bfloat16


def test_mistakes_are_one_sentence():
    w = workers("aps:e4m3")
    with pytest.raises(ValueError, match=r"inputs of shape \(6, 1, 8, 8\) cannot be divided"):
        w.step(torch.zeros(6, 1, 8, 8), torch.zeros(6, dtype=torch.long))
    with pytest.raises(ValueError, match="no parameters that need a gradient"):
        Workers(nn.ReLU(), F.mse_loss, w.optimizer)
    with pytest.raises(
        ValueError, match="optimizer has no parameter of the model, so it would not"
    ):
        Workers(nn.Linear(3, 2), F.mse_loss, w.optimizer)
    with pytest.raises(
        ValueError, match=r"gradients has no '.*'; call backward\(inputs, targets\)"
    ):
        w.exchange()
    with pytest.raises(
        ValueError, match=r"no parameter has a gradient, .* call exchange\(\) first"
    ):
        w.update()
    w.backward(torch.zeros(8, 1, 8, 8), torch.zeros(8, dtype=torch.long))
    name, rows = next(iter(w.gradients.items()))
    for wrong in (rows.double(), rows[:, 1:]):
        w.gradients[name] = wrong
        with pytest.raises(ValueError, match=rf"gradients\['{name}'\] is of torch.float"):
            w.exchange()
    with pytest.raises(ValueError, match="workers=0"):
        Workers(w.model, F.mse_loss, w.optimizer, workers=0)
    with pytest.raises(ValueError, match="the state is of spec='aps:e4m3'"):
        workers("sign").load_state_dict(w.state_dict())
    with pytest.raises(ValueError, match="the state is of divide=True, not of False"):
        workers("aps:e4m3", divide=False).load_state_dict(w.state_dict())
