"""Low-precision weights: the rules by hand, the studies' residual, resumed runs."""

import numpy as np
import pytest

import apscope
from apscope.studies.weight_updates import weight_residual

torch = pytest.importorskip("torch")
from apscope.torch import LowPrecisionWeights  # noqa: E402
from apscope.torch._weights import UPDATES  # noqa: E402

RATE, STEPS = 2.0**-6, 30


def start():
    g = torch.Generator().manual_seed(0)
    return torch.randn(40, generator=g), torch.randn(STEPS, 40, generator=g) * 0.1


def run(update, steps=range(STEPS), kept=None, state=None):
    w, gradients = start()
    p = torch.nn.Parameter(w.clone())
    o = LowPrecisionWeights(torch.optim.SGD([p], lr=RATE), "e4m3", update=update, seed=5)
    if state is not None:
        p.data.copy_(kept)
        o.load_state_dict(state)
    seen = [p.detach().clone()]
    for step in steps:
        p.grad = gradients[step]
        o.step()
        o.zero_grad()
        seen.append(p.detach().clone())
    return seen, o


def q(x, **options):
    return apscope.quantize(x, "e4m3", overflow="saturate", **options)


def test_every_weight_is_of_the_format():
    for update in UPDATES:
        seen, _ = run(update)
        assert all(torch.equal(w, q(w)) for w in seen), update


def test_the_rules_by_hand():
    w, gradients = start()
    wanted = {update: [q(w)] for update in ("nearest", "stochastic", "kahan")}
    c = torch.zeros_like(w)
    for step, g in enumerate(gradients):
        at = wanted["nearest"]
        at.append(q(at[-1] - RATE * g))
        at = wanted["stochastic"]
        at.append(q(at[-1] - RATE * g, rounding="stochastic", seed=apscope.Draws(5, step)))
        at = wanted["kahan"]
        moved = at[-1] - RATE * g
        y = torch.from_numpy(
            apscope.subtract((moved - at[-1]).numpy(), c.numpy(), "e4m3", overflow="saturate")
        )
        total = torch.from_numpy(
            apscope.add(at[-1].numpy(), y.numpy(), "e4m3", overflow="saturate")
        )
        d = apscope.subtract(total.numpy(), at[-1].numpy(), "e4m3", overflow="saturate")
        c = torch.from_numpy(apscope.subtract(d, y.numpy(), "e4m3", overflow="saturate"))
        at.append(total)
    for update, rows in wanted.items():
        assert all(torch.equal(a, b) for a, b in zip(run(update)[0], rows, strict=True)), update


def test_the_residual_is_that_of_the_studies():
    w, gradients = start()
    # Multiples of 2^-20: w - eta g and w' - w are exact in fp64, so the update is -eta g.
    w, gradients = (torch.round(x.double() * 2**14) / 2**14 for x in (w, gradients))
    p = torch.nn.Parameter(w.clone())
    o = LowPrecisionWeights(torch.optim.SGD([p], lr=RATE), "e4m3", update="residual")
    seen = [p.detach().clone()]
    for g in gradients:
        p.grad = g
        o.step()
        seen.append(p.detach().clone())
    wanted = weight_residual(w, -RATE * gradients, "e4m3")
    assert np.array_equal(np.stack(seen), wanted.weights)
    assert np.array_equal(o.state_dict()["left"][0], wanted.residual[-1])
    assert not np.array_equal(wanted.weights, wanted.without)


def test_small_updates_are_lost_to_nearest_and_kept_by_a_residual_and_by_kahan():
    moved = {}
    for update in ("nearest", "kahan", "residual"):
        p = torch.nn.Parameter(torch.ones(1))
        o = LowPrecisionWeights(torch.optim.SGD([p], lr=RATE), "e4m3", update=update)
        for _ in range(64):
            p.grad = torch.full((1,), 0.5)  # 1/128 a step; values below 1 are 1/16 apart
            o.step()
        moved[update] = 1 - p.item()
    assert moved == {"nearest": 0.0, "kahan": 0.5, "residual": 0.5}


@pytest.mark.parametrize("update", UPDATES)
def test_a_resumed_run_gives_the_same_bits(update, tmp_path):
    whole, _ = run(update)
    half, o = run(update, range(10))
    torch.save(o.state_dict(), tmp_path / "state")
    state = torch.load(tmp_path / "state", weights_only=True)
    rest, _ = run(update, range(10, STEPS), half[-1], state)
    assert torch.equal(rest[-1], whole[-1])


def test_mistakes_are_one_sentence():
    p = torch.nn.Parameter(torch.zeros(3))
    sgd = torch.optim.SGD([p], lr=1.0)
    with pytest.raises(ValueError, match="update='up' must be one of nearest, stochastic"):
        LowPrecisionWeights(sgd, "e4m3", update="up")
    with pytest.raises(TypeError, match="optimizer is int"):
        LowPrecisionWeights(3, "e4m3")
    half = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3).half())], lr=1.0)
    with pytest.raises(TypeError, match=r"a parameter of torch.float16 on cpu cannot be kept"):
        LowPrecisionWeights(half, "e4m3")
    state = LowPrecisionWeights(sgd, "e4m3").state_dict()
    with pytest.raises(ValueError, match="the state is of update='nearest'"):
        LowPrecisionWeights(sgd, "e4m3", update="kahan").load_state_dict(state)
    with pytest.raises(ValueError, match="the state has state, param_groups; give one made by"):
        LowPrecisionWeights(sgd, "e4m3").load_state_dict(sgd.state_dict())
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(5))], lr=1.0)
    state = LowPrecisionWeights(other, "e4m3", update="residual").state_dict()
    with pytest.raises(ValueError, match=r"weights 0 has shape \(5,\), not \(3,\)"):
        LowPrecisionWeights(sgd, "e4m3", update="residual").load_state_dict(state)


def test_parameters_added_later_are_refused():
    first, second = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    sgd = torch.optim.SGD([first], lr=1.0)
    o = LowPrecisionWeights(sgd, "e4m3")
    sgd.add_param_group({"params": [second]})
    with pytest.raises(RuntimeError, match="after the last add_param_group"):
        o.step()


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("shape", [(), (0, 3), (4, 3)])
def test_every_shape_of_weights(shape, update):
    p = torch.nn.Parameter(torch.ones(shape).mT if shape else torch.ones(shape))
    o = LowPrecisionWeights(torch.optim.Adam([p], lr=0.25), "e4m3", update=update)
    p.grad = torch.ones_like(p)
    o.step()
    assert torch.equal(p, torch.full_like(p, 0.75))


def test_a_loss_scaler_takes_it_for_an_optimizer():
    p = torch.nn.Parameter(torch.ones(3))
    o = LowPrecisionWeights(torch.optim.SGD([p], lr=1 / 4), "e4m3")
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale((p**2).sum() / 2).backward()
    scaler.step(o)
    scaler.update()
    assert torch.equal(p, torch.full_like(p, 0.75))
    p.grad = torch.full_like(p, float("inf"))  # such a step is left out
    scaler.scale(p.sum() * 0).backward()
    scaler.step(o)
    assert o.steps == 1
