"""Closed forms of rounding errors, against the library: exact where they are, else z < 5 of the
sample."""

import math

import numpy as np
import pytest

import apscope

M = {"e7m0": 0, "e7m1": 1, "e7m2": 2, "e7m3": 3}  # no under- or overflow below


def log_uniform(n, seed):
    return (2.0 ** np.random.default_rng(seed).uniform(0, 1, n)).astype(np.float32)


def draws(x, name):
    """Values and variances of stochastic rounding at scale 1, with enough random bits that floors
    do not show."""
    e = apscope.exchange(
        f"none:{name},rounding=stochastic,random_bits=53", np.float32(x).reshape(1, -1), seed=8
    )
    return e.sent[0], e.bias[0], e.variance[0]


@pytest.mark.parametrize("name", M)
def test_nearest_is_within_half_an_ulp_and_powers_of_two_commute(name):
    x = log_uniform(5000, 1)
    y = apscope.quantize(x, name)
    assert (np.abs(y - x.astype(np.float64)) <= 2.0 ** -(M[name] + 1)).all()
    for k in (-40, -3, 5, 50):
        assert np.array_equal(apscope.quantize(np.ldexp(x, k), name), np.ldexp(y, k))


@pytest.mark.parametrize("name", M)
def test_stochastic_variance_is_the_product_of_the_distances(name):
    x = log_uniform(5000, 2)
    low, high = (
        apscope.quantize(x, name, rounding=r).astype(np.float64)
        for r in ("toward_zero", "away_from_zero")
    )
    y, bias, variance = draws(x, name)
    assert ((y == low) | (y == high)).all() and np.abs(bias).max() < 1e-14
    assert (
        np.allclose(variance, (x - low) * (high - x), rtol=1e-9, atol=1e-14)
        and (variance <= (high - low) ** 2 / 4 + 1e-15).all()
    )
    z = (y - x).sum() / math.sqrt(variance.sum())
    assert abs(z) < 5


@pytest.mark.parametrize("name", M)
def test_the_largest_relative_variance(name):
    u = 2.0 ** -M[name]
    omega = u * u / (4 * (1 + u))
    x = log_uniform(20000, 3)
    assert (draws(x, name)[2] <= omega * x.astype(np.float64) ** 2 * (1 + 1e-12)).all()
    worst = np.float32(2 * (1 + u) / (2 + u))
    assert draws([worst], name)[2][0] / float(worst) ** 2 == pytest.approx(omega, rel=1e-6)


@pytest.mark.parametrize(
    "name, nearest, drawn",
    [
        ("e7m0", 0.03820, 0.08202),
        ("e7m1", 0.04289, 0.08764),
        ("e7m2", 0.04449, 0.08948),
        ("e7m3", 0.04493, 0.08999),
    ],
)
def test_mean_squared_relative_error_of_log_uniform_significands(name, nearest, drawn):
    """In units of u^2; for both roundings, the constants to their last digit."""
    x = log_uniform(200000, 4)
    unit = 4.0 ** -M[name]
    errors = ((apscope.quantize(x, name).astype(np.float64) - x) / x) ** 2 / unit
    variances = draws(x, name)[2] / x.astype(np.float64) ** 2 / unit
    for sample, constant in ((errors, nearest), (variances, drawn)):
        assert abs(sample.mean() - constant) < 5 * sample.std() / math.sqrt(x.size) + 5e-6


@pytest.mark.parametrize("sigma, rate", [(1e-6, 0.02378), (1e-7, 0.23431), (1e-8, 0.99712)])
def test_flush_rate_of_normal_noise_in_fp16(sigma, rate):
    n = 200000
    x = (np.random.default_rng(5).standard_normal(n) * sigma).astype(np.float32)
    expected = math.erf(2.0**-25 / (sigma * math.sqrt(2)))
    assert expected == pytest.approx(rate, abs=5e-6)
    flushed = ((apscope.quantize(x, "fp16") == 0) & (x != 0)).mean()
    assert abs(flushed - expected) < 5 * math.sqrt(expected * (1 - expected) / n)


def test_independent_draws_average_and_equal_roundings_do_not():
    W, x = 16, log_uniform(4000, 6)
    same = np.tile(x, (W, 1))
    drawn = apscope.exchange("none:e7m2,rounding=stochastic,accumulate=exact", same, seed=7)
    variance = drawn.variance[0].sum() / W  # of the mean, summed over the elements
    error = ((drawn.reduced / W - x) ** 2).sum()
    assert abs(error / variance - 1) < 5 * math.sqrt(2 / x.size) * 2
    nearest = apscope.exchange("none:e7m2,accumulate=exact", same)
    assert np.array_equal(nearest.reduced / W, nearest.sent[0])
