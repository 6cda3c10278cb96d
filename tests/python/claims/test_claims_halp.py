"""Provable claims of bit centering (HALP): on quadratics, with the scheme as the number format of
SVRG's offsets."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.python.one_bit_claims import bits_of

DIM, SAMPLES = 8, 24


def encode(centre, x, *, mu, bits=8, seed=0, step=0):
    """x as an offset from the centre."""
    state = {"age": np.ones(1), "centre": np.asarray(centre, np.float64)}
    return apscope.exchange(
        f"bit_centering:mu={mu},bits={bits},period=1000000",
        np.float32(x)[None],
        state=state,
        seed=seed,
        step=step,
    )


def delta_of(centre, mu, bits):
    return (
        math.sqrt(sum(c * c for c in np.float64(np.float32(centre)))) / mu / (2 ** (bits - 1) - 1)
    )


def least_squares(seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((SAMPLES, DIM))
    u, _, vt = np.linalg.svd(a, full_matrices=False)
    # The mean's Hessian has eigenvalues 1 to 1.96.
    a = math.sqrt(SAMPLES) * u @ np.diag(np.linspace(1, 1.4, DIM)) @ vt
    b = a @ rng.standard_normal(DIM) + 0.3 * rng.standard_normal(SAMPLES)
    return a, b, np.linalg.lstsq(a, b, rcond=None)[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bits", [3, 8])
def test_HA1_the_optimum_is_within_the_range(seed, bits):
    """|w* - w| <= |grad f(w)| / mu, mu the least eigenvalue: the way there is represented up to
    delta, never clipped."""
    rng = np.random.default_rng(seed)
    a, b, best = least_squares(seed)
    for scale in (1e-8, 1.0, 1e6):
        w = best + scale * rng.standard_normal(DIM)
        gradient = np.float32(a.T @ (a @ w - b) / SAMPLES).astype(np.float64)
        way = best - w
        assert np.linalg.norm(way) <= np.linalg.norm(gradient) * (1 + 1e-5) + 1e-12
        e = encode(gradient, gradient + way, mu=0.999, bits=bits)
        delta = delta_of(gradient, 0.999, bits)
        assert (np.abs(e.sent[0] - e.intended[0]) <= delta * (1 + 1e-9)).all() and np.abs(
            e.bias
        ).max() <= 2.0**-31 * delta


def test_HA1_the_bound_in_rationals():
    """f = w.Hw / 2 with H = [[2, 1], [1, 2]], least eigenvalue 1: |w|^2 <= |Hw|^2 for every w."""
    for i in range(-20, 21):
        for j in range(-20, 21):
            w = Fraction(i, 7), Fraction(j, 3)
            gradient = 2 * w[0] + w[1], w[0] + 2 * w[1]
            assert w[0] ** 2 + w[1] ** 2 <= gradient[0] ** 2 + gradient[1] ** 2


def test_HA1_is_false_with_a_scale_for_each_layer():
    """There w = (1, -1/2) has the gradient (3/2, 0): a layer of the second element alone has delta
    = 0 and stays, yet the optimum is 1/2 away. With one delta for both it is reached."""
    gradient, way = [1.5, 0.0], [-1.0, 0.5]
    apart = [encode(gradient[i : i + 1], [gradient[i] + way[i]], mu=1).sent[0, 0] for i in (0, 1)]
    assert abs(apart[0] - 0.5) <= delta_of([1.5], 1, 8) and apart[1] == 0.0
    together = encode(gradient, np.add(gradient, way), mu=1).sent[0]
    assert np.abs(together - [0.5, 0.5]).max() <= delta_of(gradient, 1, 8)


def distances(seed, bits, halp, epochs=25, inner=50, rate=0.05):
    """|w - w*| after every epoch of SVRG whose offset z is stored as integers times delta; HALP
    takes delta from every centre, LP-SVRG keeps the first one's. The scheme stores it: as gradient
    + z around the gradient."""
    rng = np.random.default_rng(seed)
    a, b, best = least_squares(seed)
    w, first, left = np.zeros(DIM), None, []
    for epoch in range(epochs):
        full = np.float32(a.T @ (a @ w - b) / SAMPLES).astype(np.float64)
        first = full if first is None else first
        centre, z = full if halp else first, np.zeros(DIM)
        for t in range(inner):
            i = rng.integers(SAMPLES)
            z = z - rate * (a[i] * (a[i] @ z) + full)
            z = (
                encode(
                    centre, centre + z, mu=0.999, bits=bits, seed=seed, step=inner * epoch + t
                ).sent[0]
                - centre
            )
        w = w + z
        left.append(np.linalg.norm(w - best))
    return np.array(left), delta_of(first, 0.999, bits)


@pytest.mark.parametrize("seed", range(3))
def test_HA2_a_scale_that_shrinks_converges_linearly_a_fixed_one_to_a_floor(seed):
    halp, delta = distances(seed, 8, True)
    fixed, _ = distances(seed, 8, False)
    assert (halp[[8, 16, 24]] < 0.2 * halp[[0, 8, 16]]).all() and halp[24] < 1e-4 * halp[0]
    assert 0.2 * delta < np.median(fixed[8:]) < 20 * delta and (fixed[8:] > 1e-2 * delta).all()
    assert halp[24] < 1e-2 * fixed[8:].min()


@pytest.mark.parametrize("bits", [2, 8])
def test_HA3_unbiased_inside_the_box_clipped_outside(bits):
    rng = np.random.default_rng(bits)
    centre = np.float32(rng.standard_normal(200)).astype(np.float64)
    delta, low, high = delta_of(centre, 0.7, bits), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    x = np.float32(centre + delta * rng.uniform(1.6 * low, 1.6 * high + 0.5, 200)).astype(
        np.float64
    )
    u = (x - centre) / delta
    e = encode(centre, x, mu=0.7, bits=bits)
    inside = (u >= low) & (u <= high)
    assert 20 < inside.sum() < 180
    assert (np.abs(e.bias[0][inside]) <= 2.0**-31 * delta).all()
    # The box is not symmetric.
    assert np.allclose(e.bias[0], (np.clip(u, low, high) - u) * delta, atol=1e-6 * delta)
    r = np.clip(u, low, high) % 1.0
    assert np.allclose(e.variance[0], delta**2 * r * (1 - r), atol=1e-6 * delta**2)
    draws = 300
    mean = (
        sum(encode(centre, x, mu=0.7, bits=bits, seed=seed).sent[0] for seed in range(draws))
        / draws
    )
    drawn = e.variance[0] > 1e-3 * delta**2
    z = (mean - x - e.bias[0])[drawn] / np.sqrt(e.variance[0][drawn] / draws)
    assert abs(z.sum()) / math.sqrt(z.size) < 5 and abs((z**2).mean() - 1) < 0.5
    codes = (
        bits_of(e.payload[0], e.payload_bits[0]).reshape(200, bits) @ (1 << np.arange(bits)) + low
    )
    assert np.allclose(
        centre + delta * codes, e.sent[0], rtol=1e-12, atol=1e-12
    ) and e.side_bits == [0]


def test_centres_come_in_fp32_once_a_period_and_zero_means_converged():
    g, state, bits = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32), {}, []
    for step in range(7):
        e = apscope.exchange("bit_centering:period=3,bits=4,mu=1", g, step=step, state=state)
        bits.append(e.payload_bits[0] // 40)
        if step % 3 == 0:
            assert np.array_equal(e.sent, g)
            assert np.array_equal(e.state["centre"], np.float32(e.reduced / 3))
        state = e.state
    assert bits == [32, 4, 4, 32, 4, 4, 32]
    done = encode(np.zeros(5), np.ones(5), mu=1)
    assert not done.sent.any() and (done.bias == -1).all() and not done.variance.any()
    with pytest.raises(ValueError, match="mu=0 is not above 0"):
        apscope.schemes.BitCentering(mu=0)
