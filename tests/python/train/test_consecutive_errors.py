"""What an error adds up to over consecutive steps: sums written out, and kinds of errors.

Losses of the cosine and of the gain: results/test_update_loss.py and test_gain.py."""

import math

import numpy as np
import pytest

from apscope._training.persistence import PERSISTENT, WINDOWS, Persistence
from apscope._training.statistics import of_step, pool
from apscope._training.step_errors import errors_of


def found_of(steps):
    """`steps`: by number gradients and results."""
    held = Persistence()
    for number, (gradients, results) in steps.items():
        held.add(number, errors_of(gradients, results))
    found = held.found()
    assert list(found) == list(PERSISTENT)
    return found


def drawn(count, first=0, seed=1, size=70):
    """Steps of two tensors, whose second gradient has no noise in some elements."""
    random = np.random.default_rng(seed)
    steps = {}
    for step in range(first, first + count):
        g = {"a": random.standard_normal((4, size)).astype("f4"),
             "b": random.standard_normal((4, 5)).astype("f4")}  # fmt: skip
        g["b"][:, 1:3] = 2.0
        out = {
            n: (r.mean(0) + 0.1 * random.standard_normal(r.shape[1])).astype("f4")
            for n, r in g.items()
        }
        steps[step] = g, out
    return steps


def test_they_are_sums_over_windows_of_every_run():
    # Two runs, of 7 and 4 steps: windows of 3 begin at 5, 8 and 40.
    steps = drawn(7, first=5) | drawn(4, first=40, seed=2)
    found = found_of(steps)
    error = noise = 0.0
    logs, single, lost = [], [], []
    for window in ((5, 6, 7), (8, 9, 10), (40, 41, 42)):
        for name in ("a", "b"):
            rows = [steps[s][0][name].astype(float) for s in window]
            e = sum(steps[s][1][name] - r.mean(0) for s, r in zip(window, rows)) ** 2
            n = sum(r.var(0, ddof=1) / 4 for r in rows)
            error, noise = error + e.sum(), noise + n.sum()
            single += [math.log(x / y) for x, y in zip(e, n) if y > 0]
            for first in range(0, len(e), 32):
                part = slice(first, first + 32)
                logs.append(math.log(e[part].sum() / n[part].sum()))
                lost.append(e[part].sum() / (e[part].sum() + 3 * n[part].sum()))
    assert found["persistence_3"] == pytest.approx(error / noise)
    assert found["typical_persistence_3"] == pytest.approx(math.exp(np.mean(logs)))
    assert found["signed_3"] == pytest.approx(math.exp(np.mean(single)))
    assert found["lost_persistence_3"] == pytest.approx(np.mean(lost))
    assert all(math.isnan(found[f"persistence_{k}"]) for k in WINDOWS if k > 7)


def test_an_error_counts_k_times_once_or_less_by_how_it_stays():
    random = np.random.default_rng(3)
    steps = {kind: {} for kind in ("same", "drawn", "returned")}
    last = 0.3 * random.standard_normal(3000)
    for step in range(30):
        g = {"a": random.standard_normal((4, 3000)).astype("f4")}
        e = 0.3 * random.standard_normal(3000)
        for kind, error in (("same", 0.3), ("drawn", e), ("returned", e - last)):
            steps[kind][step] = g, {"a": (g["a"].mean(0) + error).astype("f4")}
        last = e
    found = {kind: found_of(own) for kind, own in steps.items()}
    once = 0.09 / (1 / 4)  # the square of the error over the noise, of a step
    for k in WINDOWS:
        assert found["same"][f"persistence_{k}"] == pytest.approx(k * once, rel=0.03)
        assert found["drawn"][f"persistence_{k}"] == pytest.approx(once, rel=0.05)
        assert found["returned"][f"persistence_{k}"] == pytest.approx(2 * once / k, rel=0.05)
        assert found["same"][f"typical_persistence_{k}"] == pytest.approx(k * once, rel=0.05)
    assert found["same"]["signed_10"] > 9 * found["drawn"]["signed_10"]
    pooled = [pool([of_step(errors_of(*step)) for step in own.values()])["pooled"]
              for own in (steps["same"], steps["drawn"])]  # fmt: skip
    assert pooled == pytest.approx([once, once], rel=0.03)  # which one step cannot tell apart


def test_a_lost_layer_has_no_gain_and_what_is_not_finite_counts_nowhere():
    g = {"a": np.array([[1, 2, np.inf], [3, 4, 0]], "f4"), "b": np.ones((2, 4), "f4")}
    out = {"a": np.array([1, 1.5, 1], "f4"), "b": np.zeros(4, "f4")}
    found = found_of({s: (g, out) for s in range(3)})
    assert found["lost_gain"] == pytest.approx((0.5 + 1) / 2)
    # e is -1 and -1.5, N is 1 at both; b has no noise, so it has no typical block
    assert found["persistence_3"] == pytest.approx((3**2 + 4.5**2 + 4 * 3**2) / 6)
    assert found["typical_persistence_3"] == pytest.approx((3**2 + 4.5**2) / 6)
    assert found["cosine_loss_3"] == pytest.approx((0 + 1) / 2)  # a is halved, b is lost
    nothing = found_of({0: ({"a": np.zeros((2, 3), "f4")}, {"a": np.zeros(3, "f4")})})
    assert all(map(math.isnan, nothing.values()))


def test_on_a_quadratic_sgd_loses_what_persists_over_the_steps_that_it_averages():
    """Step size h, curvature c, h c = 1/5: a constant error counts as over 2 / (h c) = 10 steps."""
    curvature, size, count = 1.0, 0.2, 4000
    random = np.random.default_rng(5)
    noise = random.standard_normal((60, 4, count))
    drawn = 0.5 * random.standard_normal((61, count))
    lost, found = {}, {}
    for kind, error in (
        ("none", np.zeros((60, count))), ("same", np.full((60, count), 0.2)),
        ("drawn", drawn[1:]), ("returned", drawn[1:] - drawn[:-1]),
    ):  # fmt: skip
        weights, squares, held = np.zeros(count), [], Persistence()
        for step in range(60):
            g = (curvature * weights + noise[step]).astype("f4")
            result = (g.mean(0, dtype=float) + error[step]).astype("f4")
            held.add(step, errors_of({"w": g}, {"w": result}))
            weights = weights - size * result
            squares.append(float((weights**2).mean()))
        lost[kind], found[kind] = np.mean(squares[30:]), held.found()["persistence_10"]
    rise = {kind: value / lost["none"] - 1 for kind, value in lost.items()}
    assert rise["same"] == pytest.approx(found["same"], rel=0.15)
    assert rise["drawn"] == pytest.approx(found["drawn"], rel=0.15)
    assert 1 < rise["returned"] / found["returned"] < 2.5  # its last error is only half averaged
    assert rise["returned"] < rise["drawn"] < rise["same"]
