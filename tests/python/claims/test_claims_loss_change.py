"""Proofs about loss changes: shares that add up, Simpson's order, the first-order identity."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from apscope.studies.attribution import loss_change, path_loss_change
from tests.python.one_bit_claims import DATA
from tests.python.recorded import record
from tests.reference import loss_change_allocation as rule

# The path form ------------------------------------------------------------------------------------


def test_L1_a_quartic_is_shared_out_exactly():
    """L = w^4 from 1 to 1.5: 4.0625, in binary without rounding."""
    found = path_loss_change(lambda w: 4 * w**3, [1.0], [1.5], change=4.0625)
    assert found.total == 4.0625 and found.intervals == 2 and found.error == 0.0


def test_L1_shares_of_a_quartic_of_several_weights_add_up_to_its_change():
    rng = np.random.default_rng(5)
    a, b = rng.integers(-8, 9, 6) / 8, rng.integers(-8, 9, 6) / 8
    mix = rng.integers(-3, 4, (4, 6)).astype(float)

    def exact(w):  # sum over rows of (mix w)^4, in fractions
        rows = [sum(Fraction(float(m)) * Fraction(float(x)) for m, x in zip(row, w)) for row in mix]
        return sum(r**4 for r in rows)

    found = path_loss_change(lambda w: mix.T @ (4 * (mix @ w) ** 3), a, b)
    change = float(exact(b) - exact(a))
    assert change != 0 and found.total == pytest.approx(change, rel=1e-13)
    assert found.allocation.shape == (6,) and math.isnan(found.error)
    # A weight that does not move has no share.
    b[2] = a[2]
    assert path_loss_change(lambda w: mix.T @ (4 * (mix @ w) ** 3), a, b).allocation[2] == 0.0


def test_L2_twice_as_many_intervals_leave_a_sixteenth_of_the_error():
    change = math.expm1(1.0)
    errors = [change - path_loss_change(np.exp, 0.0, 1.0, intervals=n).total for n in (2, 4, 8, 16)]
    ratios = [a / b for a, b in zip(errors, errors[1:])]
    # The rule's next term is O(h^2) of the first: what is missing to 16 falls to a quarter each
    # time.
    missing = [16 - r for r in ratios]
    assert 0 < missing[0] < 0.5
    assert [b / a for a, b in zip(missing, missing[1:])] == pytest.approx([0.25, 0.25], rel=0.05)
    # The first term itself: h^4 / 180 times the integral of the fourth derivative.
    assert errors[-1] == pytest.approx(-change / 180 / 16**4, rel=2e-3)


def test_L2_intervals_double_until_the_shares_add_up_or_there_are_32():
    calls = []

    def slope(w):
        calls.append(float(w))
        return 40 * np.cos(40 * w)  # a loss of sin(40 w)

    change = math.sin(40.0)
    found = path_loss_change(slope, 0.0, 1.0, change=change)
    assert found.intervals == 32 and abs(found.error) > 1e-3
    assert len(calls) == len(set(calls)) == 33, "a gradient was computed twice"
    assert path_loss_change(slope, 0.0, 1.0, change=change, max_intervals=1024).intervals > 32
    easy = path_loss_change(np.exp, 0.0, 1.0, change=math.expm1(1.0))
    assert easy.intervals == 2 and abs(easy.error) <= 1e-3
    strict = path_loss_change(np.exp, 0.0, 1.0, change=math.expm1(1.0), tolerance=1e-6)
    # h^4 / 180 (e - 1) is 2.3e-6 for 8 intervals and 1.5e-7 for 16.
    assert strict.intervals == 16 and abs(strict.error) <= 1e-6


class Waves:
    """Losses sum_i cos(f w_i + i) of sets of other f; the points at which they are asked for."""

    def __init__(self, frequency):
        self.frequency, self.points = frequency, []

    def phases(self, w):
        return self.frequency * w + np.arange(w.size)

    def loss(self, w):
        return float(np.cos(self.phases(w)).sum())

    def gradient(self, w):
        self.points.append(w)
        return (-self.frequency * np.sin(self.phases(w))).astype(np.float32)

    def both(self, w):
        return self.loss(w), self.gradient(w)


@pytest.mark.parametrize(
    ("train", "test", "intervals"), [(0.5, 0.5, 2), (0.5, 3.0, 8), (3.0, 0.5, 8), (0.5, 40.0, 32)]
)
def test_L2_two_sets_share_the_points_and_the_threshold_of_the_published_code(
    train, test, intervals
):
    rng = np.random.default_rng(8)
    a = rng.standard_normal(5)
    b = a + rng.standard_normal(5)
    ours, theirs = ([Waves(f) for f in (train, test)] for _ in range(2))
    losses = [(one.loss(a), one.loss(b)) for one in ours]
    found = path_loss_change(
        ours[0].gradient, a, b, change=losses[0], test=(ours[1].gradient, losses[1])
    )
    wanted = rule.allocate(a, b, [one.both for one in theirs])
    assert found.intervals == found.test.intervals == wanted.intervals == intervals
    for one, other in zip(ours, theirs, strict=True):
        in_order = [sorted(map(bytes, points)) for points in (one.points, other.points)]
        assert in_order[0] == in_order[1] and len(set(in_order[0])) == intervals + 1
    for one, part, error in zip((found, found.test), wanted.parts, wanted.errors, strict=True):
        # The reference divides the weights, not the sum; and adds in NumPy's order.
        np.testing.assert_allclose(one.allocation, part, rtol=1e-14, atol=1e-15)
        assert one.error == pytest.approx(error, abs=1e-14)
    # From start + (j/n)(end - start) some points would differ in their last bits.
    steps = np.arange(intervals + 1)[:, None] / intervals
    assert intervals == 2 or {bytes(w) for w in a + steps * (b - a)} != set(in_order[0])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"test": (np.sin, 1.0)}, "change=None"),
        ({"intervals": 3}, "intervals=3 is odd"),
        ({"end": [1.0, 2.0]}, "shape"),
        ({"gradient": lambda w: np.zeros(3)}, r"\(3,\)"),
    ],
)
def test_the_path_form_refuses(options, named):
    with pytest.raises(ValueError, match=named):
        path_loss_change(**({"gradient": lambda w: w, "start": [0.0], "end": [1.0]} | options))


# The first-order form -----------------------------------------------------------------------------


def reference(trace, step, tensor):
    """The reduced gradient in fractions."""
    g = np.stack([trace.read(step, tensor, w).ravel() for w in range(trace.workers)])
    sums = [sum(map(Fraction, map(float, column))) for column in g.T]
    return [s / trace.workers for s in sums] if trace.manifest.reduction == "mean" else sums


@pytest.mark.parametrize("topology", ["ring", "tree"])
@pytest.mark.parametrize("spec", ["aps:e3m0", "aps:e4m3", "qsgd", "none:e4m3,rounding=stochastic"])
def test_L3_the_change_under_a_scheme_is_the_change_and_the_damage(spec, topology):
    trace = apscope.open_trace(DATA / "digits")
    frame = loss_change(trace, spec, topology=topology, steps="0:3")
    assert len(frame) == 3 * len(trace.tensors)
    np.testing.assert_allclose(
        frame.predicted_change,
        frame.change + frame.damage,
        rtol=0,
        atol=1e-13 * frame.change.abs().max(),
    )
    for row in frame.itertuples():
        eta = next(s.learning_rate for s in trace.manifest.steps if s.number == row.step)
        g = reference(trace, row.step, row.tensor)
        assert row.change == pytest.approx(-eta * float(sum(x * x for x in g)), rel=1e-12)
        got = apscope.exchange(
            spec,
            np.stack([trace.read(row.step, row.tensor, w) for w in range(8)]),
            topology=topology,
            step=row.step,
            tensor=row.tensor,
            role=row.role,
        ).reduced.ravel()
        damage = eta * float(sum(x * (x - Fraction(float(y)) / 8) for x, y in zip(g, got)))
        assert row.damage == pytest.approx(damage, rel=1e-9, abs=1e-15)
        assert row.helping == sum(x != 0 for x in g) / len(g)
        assert row.helping_scheme == sum(x * Fraction(float(y)) > 0 for x, y in zip(g, got)) / len(
            g
        )


def test_L3_the_sign_is_that_of_harm(tmp_path):
    """A scheme that shrinks the gradient does harm, one that stretches it helps to first order;
    none does nothing."""
    trace = record(tmp_path / "t", [{"x": [[1.0, -2.0, 0.0, 4.0]] * 2}], "sum", learning_rate=0.5)
    factors = {"half": 0.5, "twice": 2.0}
    for name, factor in factors.items():
        apscope.schemes.define(
            f"loss_{name}", "none:e4m3", encode=lambda step, theta, x, worker, f=factor: f * x
        )
    damage = {
        s: loss_change(trace, s, topology="ring").damage.iloc[0]
        for s in ("loss_half", "loss_twice", "none:fp32")
    }
    square = 4.0 * (1 + 4 + 16)
    assert damage == {
        "loss_half": 0.5 * 0.5 * square,
        "loss_twice": -0.5 * square,
        "none:fp32": 0.0,
    }
    helping = loss_change(trace, "loss_half")
    assert helping.helping.iloc[0] == helping.helping_scheme.iloc[0] == 0.75


def test_a_state_goes_on_from_step_to_step():
    trace = apscope.open_trace(DATA / "digits")
    spec = "error_feedback(aps:e3m0)"
    frame = loss_change(trace, spec, steps="0:4", tensors="conv2")
    state, step_damage = {}, []
    for index, step in enumerate(trace.manifest.steps[:4]):
        g = np.stack([trace.read(step.number, "conv2.weight", w) for w in range(8)])
        made = apscope.exchange(
            spec,
            g,
            topology="ring",
            state=state,
            step=step.number,
            index=index,
            tensor="conv2.weight",
            role="conv",
        )
        state = made.state
        mean = g.astype(np.float64).sum(axis=0) / 8
        step_damage.append(step.learning_rate * (mean * (mean - made.reduced / 8)).sum())
    np.testing.assert_allclose(frame.damage, step_damage, rtol=1e-10)


def test_damage_agrees_with_the_replays_errors():
    """A replay has the sums of x x and e e and the cosine; they determine the sum of x e."""
    trace = apscope.open_trace(DATA / "characters")
    found = loss_change(trace, "aps:e4m3", topology="tree", steps="0:1").set_index("tensor")
    rows = apscope.replay(trace, "aps:e4m3", topology="tree", steps="0:1").frame
    for row in rows[rows.topology == "tree"].itertuples():
        eta = trace.manifest.steps[0].learning_rate
        change, damage = found.loc[row.tensor, ["change", "damage"]]
        assert -change / eta == pytest.approx(row.sum_squared_reference, rel=1e-12)
        xx, xy = row.sum_squared_reference, row.sum_squared_reference - damage / eta
        yy = row.sum_squared_error - xx + 2 * xy
        assert xy / math.sqrt(xx * yy) == pytest.approx(row.cosine, abs=1e-9)


def test_the_full_batch_can_stand_for_the_losss_gradient():
    trace = apscope.open_trace(DATA / "digits")
    frame = loss_change(trace, "aps:e3m0", gradient="full_batch")
    assert sorted(set(frame.step)) == [0, 2000]
    row = frame[(frame.step == 2000) & (frame.tensor == "conv2.weight")].iloc[0]
    truth = trace.read(2000, "conv2.weight", kind="full_batch").astype(np.float64)
    g = (
        np.stack([trace.read(2000, "conv2.weight", w) for w in range(8)])
        .astype(np.float64)
        .mean(axis=0)
    )
    eta = trace.manifest.steps[-1].learning_rate
    assert row.change == pytest.approx(-eta * (truth * g).sum(), rel=1e-9)
    assert row.helping == (truth * g > 0).mean() < 1


def test_a_share_is_of_the_steps_damage():
    frame = loss_change(DATA / "digits", "aps:e3m0", steps="0:2")
    for _, step in frame.groupby("step"):
        np.testing.assert_allclose(
            step.damage_share, step.damage.abs() / step.damage.abs().sum(), rtol=1e-12
        )
    assert (
        loss_change(DATA / "digits", "none:fp32", steps=[0], topology="ring", tensors="norm.bias")
        .damage.abs()
        .max()
        < 1e-6
    )


def test_not_finite_elements_are_left_out(tmp_path):
    trace = record(tmp_path / "t", [{"x": [[1.0, np.nan, np.inf, 2.0]]}], "sum", learning_rate=1.0)
    row = loss_change(trace, "none:e4m3").iloc[0]
    assert row["count"] == 2 and row.change == -5.0 and row.damage == 0.0


def test_refusals(tmp_path):
    trace = record(tmp_path / "t", [{"x": np.ones((1, 3))}], "sum")
    with pytest.raises(ValueError, match="no learning rate at step 0"):
        loss_change(trace, "aps:e4m3")
    assert loss_change(trace, "aps:e4m3", learning_rate=2.0).change.iloc[0] == -6.0
    with pytest.raises(ValueError, match="gradient='mine'"):
        loss_change(trace, "aps:e4m3", gradient="mine")
    with pytest.raises(ValueError, match="no full-batch gradient"):
        loss_change(trace, "aps:e4m3", gradient="full_batch", learning_rate=1.0)
    with pytest.raises(ValueError, match="policy"):
        loss_change(DATA / "digits", "hybrid(else=aps:e4m3)")


def test_a_set_that_is_not_finite_never_adds_up():
    """Whichever of the two sets it is."""

    def finite(w):
        return w

    def broken(w):
        return np.full_like(w, np.nan)

    for first, second in ((finite, broken), (broken, finite)):
        found = path_loss_change(
            first, np.zeros(2), np.ones(2), change=1.0, test=(second, 1.0), max_intervals=8
        )
        assert found.intervals == 8


@pytest.mark.parametrize("change", [[0.0, 1.0], "1", (0.0, 1.0, 2.0)])
def test_a_change_of_another_kind_is_refused_before_any_gradient(change):
    def gradient(w):
        raise AssertionError("it was called")

    ends = np.zeros(2), np.ones(2)
    with pytest.raises(TypeError, match="change .* must be a number, or two numbers in a tuple"):
        path_loss_change(gradient, *ends, change=change)
    for other in (change, None):
        with pytest.raises(TypeError, match="the change of test .* must be a number, or two"):
            path_loss_change(gradient, *ends, change=1.0, test=(gradient, other))
