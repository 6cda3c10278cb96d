"""A layer of double-sampled inputs: the rule by hand, its mean and bias, the claim."""

import math

import numpy as np
import pytest

import apscope
from apscope.studies import double_sampling
from tests.reference.random_words import random_integer

torch = pytest.importorskip("torch")
from apscope.train import DoubleSampledLinear  # noqa: E402
from docs.tools.method_claims import double_sampling as claim  # noqa: E402


def drawn(x, bits, low, high, seed):
    """By the definition of stochastic rounding, with its random words."""
    step = (high - low) / (2**bits - 1)
    found = []
    for i, v in enumerate((x.ravel() - low) / step):
        below = math.floor(v)
        up = math.floor((v - below) * 2**32) + random_integer(seed, i, 32) >= 2**32
        found.append(min(max(below + up, 0), 2**bits - 1))
    return (low + step * np.array(found, float)).reshape(x.shape)


@pytest.mark.parametrize("double", [True, False])
def test_the_rule_by_hand_bit_for_bit(double):
    """Levels, targets and weights with few bits: exact sums in fp64."""
    rng = np.random.default_rng(0)
    bits, low, high = 2, -1.0, 0.5
    layer = DoubleSampledLinear(
        5, 2, bits=bits, low=low, high=high, double=double, seed=11, dtype=torch.float64
    )
    w, b = np.round(8 * rng.standard_normal((2, 5))) / 8, np.array([0.5, -0.25])
    layer.weight.data.copy_(torch.from_numpy(w))
    layer.bias.data.copy_(torch.from_numpy(b))
    for call in range(3):
        x = rng.uniform(low, high, (7, 5))
        g = np.round(16 * rng.standard_normal((7, 2))) / 16
        layer.zero_grad()
        y = layer(torch.from_numpy(x))
        y.backward(torch.from_numpy(g))
        second = drawn(x, bits, low, high, apscope.Draws(11, 2 * call + 1).next())
        first = drawn(x, bits, low, high, apscope.Draws(11, 2 * call).next())
        assert np.array_equal(y.detach().numpy(), second @ w.T + b)
        assert np.array_equal(layer.weight.grad.numpy(), g.T @ (first if double else second))
        assert np.array_equal(layer.bias.grad.numpy(), g.sum(0))
        assert not np.array_equal(first, second)


@pytest.mark.parametrize("double", [True, False])
def test_its_mean_is_the_gradient_and_with_one_draw_the_closed_form_is_added(double):
    rng = np.random.default_rng(1)
    a, x, b = rng.uniform(0, 1, (20, 6)), rng.standard_normal(6), rng.standard_normal(20)
    wanted = double_sampling.gradients(a, x, b, np.arange(4) / 3)
    layer = DoubleSampledLinear(
        6, 1, False, bits=2, low=0.0, high=1.0, double=double, dtype=torch.float64
    )
    layer.weight.data.copy_(torch.from_numpy(x)[None])
    found = []
    for _ in range(3000):
        layer.zero_grad()
        error = layer(torch.from_numpy(a))[:, 0] - torch.from_numpy(b)
        (error.square().mean() / 2).backward()
        found.append(layer.weight.grad.numpy()[0].copy())
    found = np.stack(found)
    spread = found.std(0, ddof=1) / math.sqrt(len(found))
    bias = 0.0 if double else wanted.naive_bias
    assert np.abs((found.mean(0) - wanted.exact - bias) / spread).max() < 5
    assert np.abs(wanted.naive_bias / spread).max() > 10  # the bias is there to be seen


def test_evaluation_rounds_nothing_and_a_resumed_layer_draws_on():
    layer = DoubleSampledLinear(4, 3, bits=1, low=0.0, high=1.0, seed=5)
    x = torch.rand(6, 4)
    plain = layer.eval()(x)
    assert torch.equal(plain, torch.nn.functional.linear(x, layer.weight, layer.bias))
    layer.train()
    first = layer(x)
    other = DoubleSampledLinear(4, 3, bits=1, low=0.0, high=1.0, seed=5)
    other.load_state_dict(layer.state_dict())
    second = layer(x)
    assert not torch.equal(first, second) and torch.equal(other(x), second)


def test_refusals():
    for words, options in [("below", {"low": 1.0, "high": 1.0}), ("bits", {"bits": 0}),
                           ("seed", {"seed": -1})]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            DoubleSampledLinear(4, 3, **options)


def test_with_one_bit_training_reaches_the_least_squares_solution_and_one_draw_another_point():
    rows = claim.run((0, 1), (1,), steps=500).groupby("case").mean()
    assert rows.to_best["two draws"] < 0.15
    for case in ("one draw", "to nearest"):
        assert rows.own_to_best[case] > 0.3 and rows.to_own[case] < 0.12
        assert rows.to_best[case] > 2 * rows.to_best["two draws"]
    assert rows.excess["one draw"] > 10 * rows.excess["two draws"]
