"""Multipoint weights: the greedy rule and the number of points by hand, the claim."""

import copy

import numpy as np
import pytest

import apscope

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from apscope.train import multipoint  # noqa: E402
from docs.tools.method_claims import multipoint as claim  # noqa: E402


def point(r, levels, search=16):
    """The scale and the nearest levels with the least squares, from the formula."""
    amax, best = np.abs(r).max(), (-1.0, 0.0, r)
    for i in range(search, 0, -1):
        u = r / (amax / search * i)
        above = np.clip(np.searchsorted(levels, u, side="right"), 1, len(levels) - 1)
        lower, upper = levels[above - 1], levels[above]
        z = np.where((u - lower) / (upper - lower) >= 0.5, upper, lower)
        along, length = float((r * z).sum()), float((z * z).sum())
        gain = along * along / length if length else 0.0
        if gain > best[0]:
            best = gain, along / length if length else 0.0, z
    return float(np.float32(best[1])), best[2]


def by_hand(w, x, levels, error, points):
    """The sum of points, and their number, until the output's error is small enough."""
    r, total = w.astype(np.float64), np.zeros(len(w))
    for count in range(1, points + 1):
        scale, z = point(r, levels)
        r, total = r - scale * z, total + scale * z
        left = ((x @ (total - w)) ** 2).sum() / ((x @ w) ** 2).sum()
        if left <= error:
            break
    return total, count


@pytest.mark.parametrize(
    ("bits", "zero", "levels", "exact"),
    [(2, True, [-1, 0, 1], True), (2, False, [-1, -1 / 3, 1 / 3, 1], False)],
)
def test_the_rule_by_hand(bits, zero, levels, exact):
    """With the levels -1, 0, 1 all sums are exact and the weights equal bit for bit."""
    rng = np.random.default_rng(0)
    model = nn.Linear(24, 6)
    model.weight.data.copy_(torch.from_numpy(np.round(256 * rng.standard_normal((6, 24))) / 256))
    w, x = model.weight.detach().numpy().copy(), rng.standard_normal((40, 24)).astype(np.float32)
    table = multipoint(model, torch.from_numpy(x), bits=bits, error=0.015, points=6, zero=zero)
    counts = set()
    for channel in range(6):
        wanted, count = by_hand(w[channel], x.astype(np.float64), np.array(levels), 0.015, 6)
        got = model.weight.detach().numpy()[channel]
        assert table.points[channel] == count
        assert table.bits[channel] == count * (bits * 24 + 32) / 24
        if exact:
            assert np.array_equal(got, wanted.astype(np.float32))
        else:
            assert np.allclose(got, wanted, rtol=1e-5, atol=1e-7)
        left = ((x @ (got - w[channel])) ** 2).sum() / ((x @ w[channel]) ** 2).sum()
        assert np.isclose(table.error[channel], left, rtol=1e-3)
        counts.add(count)
    assert len(counts) > 1


def test_the_points_are_those_of_the_scheme():
    model = nn.Conv2d(4, 6, 3, groups=2, bias=False)
    w = model.weight.detach().clone()
    multipoint(model, torch.randn(2, 4, 8, 8), bits=3, error=0, points=3)
    for channel in range(6):
        row = w[channel].reshape(1, -1).numpy()
        sent = apscope.exchange("multipoint:bits=3,points=3,zero=false", row).sent
        assert np.array_equal(
            model.weight[channel].detach().reshape(1, -1).numpy(), sent.astype(np.float32)
        )


def test_a_convolutions_error_is_that_of_its_outputs():
    torch.manual_seed(0)
    for model, x in (
        (nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), torch.randn(3, 4, 9, 9)),
        (nn.Linear(5, 4), torch.randn(2, 3, 5)),
    ):
        before = copy.deepcopy(model).double()
        table = multipoint(model, x, bits=2, error=0.05, points=4)
        y, z = (m(x.double()) for m in (before, copy.deepcopy(model).double()))
        bias = before.bias if x.dim() == 3 else before.bias.reshape(-1, 1, 1)
        axes = (0, 2, 3) if x.dim() == 4 else (0, 1)
        left = (z - y).square().sum(axes) / (y - bias).square().sum(axes)
        assert np.allclose(table.error, left.detach().numpy(), rtol=1e-6)
        assert (table.error <= table.error_1 * (1 + 1e-12)).all()


def test_edges_and_refusals():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].weight.data[1] = 0.0
    table = multipoint(model, torch.randn(5, 4), error=1e-3)
    assert table.points[1] == 1 and table.error[1] == 0 and not model[0].weight[1].any()
    assert list(table.layer) == ["0"] * 3 + ["1"] * 2
    for error, words, call in [
        (TypeError, "Module", lambda: multipoint(torch.ones(2), torch.ones(2))),
        (ValueError, "no linear layer", lambda: multipoint(nn.ReLU(), torch.ones(2))),
        (ValueError, "points", lambda: multipoint(model, torch.ones(2, 4), points=0)),
        (ValueError, "error=-1", lambda: multipoint(model, torch.ones(2, 4), error=-1)),
        (ValueError, "bits", lambda: multipoint(model, torch.ones(2, 4), bits=9)),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            call()


def test_more_points_recover_the_accuracy_that_one_point_of_two_bits_loses():
    cases = ["2 bits, 1 point", "2 bits, 2 points", "2 bits, 3 points", "2 bits, 4 points"]
    mean = claim.run((0, 1), cases, steps=200).groupby("case").mean()
    errors = [mean.error[case] for case in cases]
    assert all(after < 0.55 * before for before, after in zip(errors, errors[1:]))
    assert mean.accuracy[cases[0]] < mean.accuracy["fp32"] - 0.05
    assert mean.accuracy[cases[2]] > mean.accuracy["fp32"] - 0.02
