"""What gain, orthogonal error and persistence do to SGD and to Adam on f = h x^2 / 2: section 19 of
docs/definitions.md, on simulated runs. Many runs at once; their spread is the tolerance."""

import math

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter

RATE, CURVATURE, SIGMA, RUNS = 0.1, 1.0, 1.0, 20_000


def sgd(gain, errors, rate=RATE, steps=400, start=0.0):
    """x after every step of all runs; `errors(step)` of all runs, the noise drawn here."""
    random = np.random.default_rng(1)
    x, path = np.full(RUNS, start), []
    for step in range(steps):
        g = CURVATURE * x + SIGMA * random.normal(size=RUNS)
        x = x - rate * (gain * g + errors(step))
        path.append(x)
    return path


def excess(x):
    """The mean loss of the runs and its standard error."""
    loss = CURVATURE * x**2 / 2
    return loss.mean(), loss.std(ddof=1) / math.sqrt(len(x))


def agrees(x, wanted):
    found, error = excess(x)
    assert abs(found - wanted) < 4 * error, (found, wanted, error)
    assert error < 0.02 * wanted  # so the formula is tested to a few percent


def stationary(gain, variance, rate=RATE):
    """Of an error with this variance, in units of the noise, that averages out."""
    speed = rate * gain * CURVATURE
    return rate * SIGMA**2 * (gain**2 + variance) / (2 * gain * (2 - speed))


def natural(gain, rate=RATE):
    """The number of steps over which an error counts."""
    return 2 / (rate * gain * CURVATURE) - 1


def autoregressive(variance, rho, seed=2):
    random = np.random.default_rng(seed)
    e = math.sqrt(variance) * SIGMA * random.normal(size=RUNS)

    def errors(_):
        nonlocal e
        e = rho * e + math.sqrt((1 - rho**2) * variance) * SIGMA * random.normal(size=RUNS)
        return e

    return errors


def persistence(variance, rho, k):
    """Of an AR(1) error: its autocorrelations, weighted by a window's triangle."""
    return variance * (1 + 2 * sum((1 - j / k) * rho**j for j in range(1, k)))


@pytest.mark.parametrize("gain, variance", [(1, 0), (1, 0.5), (0.6, 0), (0.6, 0.5), (0.3, 2)])
def test_sgd_with_a_gain_and_an_error_that_averages_out(gain, variance):
    path = sgd(gain, autoregressive(variance, 0.0), steps=int(30 / gain * 3))
    agrees(path[-1], stationary(gain, variance))


@pytest.mark.parametrize("gain", [1, 0.5])
def test_sgd_comes_down_at_the_gains_rate(gain):
    path = sgd(gain, lambda _: 0.0, start=50.0, steps=20)
    wanted = 50.0 * (1 - RATE * gain * CURVATURE) ** 20
    assert path[-1].mean() == pytest.approx(wanted, abs=4 * path[-1].std() / math.sqrt(RUNS))


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.98])
def test_sgd_with_an_error_that_stays_for_a_while(rho):
    """Each lag counts (1 - rate gain h)^lag times."""
    gain, variance = 0.8, 0.5
    kept = 1 - RATE * gain * CURVATURE
    grown = variance * (1 + kept * rho) / (1 - kept * rho)
    agrees(sgd(gain, autoregressive(variance, rho))[-1], stationary(gain, grown))
    # The same by persistence at the natural number of steps, within a third; by the error of one
    # step it would be off by up to 9 times.
    k = round(natural(gain))
    assert persistence(variance, rho, k) == pytest.approx(grown, rel=1 / 3)
    assert rho < 0.9 or grown > 5 * variance


def test_an_error_that_always_stays_moves_the_minimum():
    gain, variance, random = 0.8, 0.3, np.random.default_rng(5)
    e = math.sqrt(variance) * random.normal(size=RUNS)
    path = sgd(gain, lambda _: e)
    moved = e / (gain * CURVATURE)  # to -moved
    left = path[-1] + moved
    assert abs(left.mean()) < 4 * left.std() / math.sqrt(RUNS)
    # At the natural number of steps persistence is k times the variance, which gives just this.
    agrees(path[-1], stationary(gain, natural(gain) * variance))
    assert stationary(gain, natural(gain) * variance) == pytest.approx(
        stationary(gain, 0) + variance / (2 * gain**2 * CURVATURE)
    )


def test_an_error_that_is_made_up_for_hardly_counts():
    """e = c(t) - c(t - 1), as of error feedback: persistence is 2 c^2 / k."""
    gain, variance, random = 0.8, 1.0, np.random.default_rng(6)
    last = np.zeros(RUNS)

    def errors(_):
        nonlocal last
        now = math.sqrt(variance) * random.normal(size=RUNS)
        e, last = now - last, now
        return e

    speed = RATE * gain * CURVATURE
    agrees(sgd(gain, errors)[-1], stationary(gain, 2 * variance * speed))
    by_persistence = 2 * variance / natural(gain)
    assert 1 < 2 * variance * speed / by_persistence < 2


def adam(gain, variance, rate=2e-3, steps=6000, decay=0.999):
    random = np.random.default_rng(3)
    x, m, v = np.zeros(RUNS // 10), 0.0, 0.0
    for step in range(1, steps + 1):
        g = CURVATURE * x + SIGMA * random.normal(size=x.size)
        y = gain * g + math.sqrt(variance) * SIGMA * random.normal(size=x.size)
        m, v = 0.9 * m + 0.1 * y, decay * v + (1 - decay) * y * y
        x = x - rate * (m / (1 - 0.9**step)) / np.sqrt(v / (1 - decay**step))
    return x


@pytest.mark.parametrize("gain", [1.0, 0.25])
def test_adam_ignores_a_gain_that_is_the_same_at_every_step(gain):
    np.testing.assert_allclose(adam(gain, 0.0, steps=300), adam(1.0, 0.0, steps=300), rtol=1e-9)


@pytest.mark.parametrize("gain, variance", [(1, 0), (1, 1), (0.5, 0.5), (0.5, 2)])
def test_adam_counts_the_error_over_what_arrives(gain, variance):
    """The rate is divided by the root of the mean square, gain^2 + variance: the excess grows by
    the root of 1 + variance / gain^2."""
    rate = 2e-3
    x = adam(gain, variance, rate)
    found, error = excess(x)
    wanted = rate * SIGMA / 4 * math.sqrt(1 + variance / gain**2)
    assert abs(found - wanted) < 4 * error + 0.02 * wanted, (found, wanted, error)
    assert error < 0.05 * wanted


def test_an_update_that_is_turned_by_an_exchange_lowers_the_loss_by_its_cosine(tmp_path):
    """Ten steps of SGD, their learning rate such that the update is as long as the exact one; the
    curvatures are over four binades, so that a narrow format loses the flat directions."""
    rate, scheme = 1e-4, "none:e2m1fn"
    curvature = 2.0 ** np.linspace(-4, 0, 512)
    start = np.random.default_rng(3).choice([-1.0, 1.0], 512)

    def loss(x):
        return float((curvature * x**2).sum() / 2)

    def run(rate, received, writer=None):
        x = start.copy()
        for step in range(10):
            g = (curvature * x).astype(np.float32)
            if writer is not None:
                writer.add(step, 0, "x", g)
                writer.end_step(step)
            x -= rate * received(g, step)
        return x

    def exchanged(g, step):
        return apscope.exchange(scheme, g[None], step=step).reduced

    with TraceWriter(tmp_path / "t", workers=1) as writer:
        exact = run(rate, lambda g, _: g, writer)
    trial = run(rate, exchanged)
    length = np.linalg.norm(exact - start) / np.linalg.norm(trial - start)
    turned = run(rate * length, exchanged)
    table = apscope.replay(tmp_path / "t", scheme, topology="ring", persistence=True).summary(
        optimizer="sgd"
    )
    lost = table.set_index("topology").loc["ring", "update_loss_10"]
    assert 0.01 < lost < 0.5
    fell = (loss(start) - loss(turned)) / (loss(start) - loss(exact))
    assert fell == pytest.approx(1 - lost, abs=0.05 * lost)
