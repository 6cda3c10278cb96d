"""The reference of HALP: its own checks."""

import numpy as np
import pytest

from tests.reference import halp

F = np.float32


def test_the_unit_and_the_grid_by_hand():
    full = F([3, -4])
    assert halp.unit(full, mu=0.5, bits=4) == F(5 / 3.5)
    z = F([0.24, 0.25, -0.26, 100, -100])
    assert halp.quantized(z, F(0.5), 4, 0.5).tolist() == [0, 0.5, -0.5, 3.5, -4]
    assert halp.quantized(z, F(0.5), 4, 0.0).tolist() == [0, 0, -0.5, 3.5, -4]
    assert np.isnan(halp.quantized(F([0]), halp.unit(full * 0), 8, 0.5)).all()


def test_the_rounding_is_unbiased_over_its_draws():
    a = np.arange(1024) / 1024
    for z in (0.3, -0.7, 0.125, 1.0):
        found = halp.quantized(np.full(1024, z), F(0.25), 8, a)
        assert found.mean() == pytest.approx(z, abs=0.25 / 1024)


def test_one_step_by_hand():
    gradient = lambda w, batch: 2 * w if batch is None else w + batch
    rule = halp.Halp(F([1.0]), gradient, rate=0.5, period=2, mu=2.0, bits=3)
    rule.step(5, 0.5)
    assert rule.delta == F(2 / 6)
    # g = 6 - (6 - 2) = 2, z = -1 = -3 delta
    assert rule.z == pytest.approx([-1])
    rule.step(7, 0.5)
    # g = 7 - (8 - 2) = 1, z = -1.5 = -4.5 delta, half up to -4
    assert rule.z == pytest.approx([-4 / 3])
    rule.step(0, 0.5)
    assert rule.centre == pytest.approx([-1 / 3])
    assert rule.delta == pytest.approx(1 / 9)


def test_weight_decay_is_of_the_deviation():
    still = halp.Halp(F([8.0]), lambda w, b: 0 * w + 1, 0.5, 10, mu=0.01, bits=16, weight_decay=0.5)
    still.step(0, 0.5)
    first = still.z.copy()
    still.step(0, 0.5)
    assert first == pytest.approx([-0.5], abs=0.01)
    assert still.z == pytest.approx(first - 0.5 * (1 + 0.5 * first), abs=0.01)


def test_momentum_survives_a_new_centre():
    rule = halp.Halp(F([0.0]), lambda w, b: 0 * w + 1, 1.0, 1, mu=0.01, bits=16, momentum=0.5)
    for expected in (1, 1.5, 1.75):
        rule.step(0, 0.5)
        assert rule.buffer == pytest.approx([expected])
    assert rule.centre + rule.z == pytest.approx([-4.25], abs=0.02)


def test_the_method_converges_where_low_precision_sgd_cannot():
    rng = np.random.default_rng(0)
    targets = rng.standard_normal((8, 4)).astype(F)
    gradient = lambda w, b: w - (targets.mean(axis=0) if b is None else targets[b])
    rule = halp.Halp(np.zeros(4), gradient, rate=0.3, period=20, mu=1.0, bits=8)
    for i in range(200):
        rule.step(int(rng.integers(8)), rng.random(4))
    assert rule.centre + rule.z == pytest.approx(targets.mean(axis=0), abs=1e-5)


def test_13_bits_are_unbiased_by_enumeration():
    words = np.arange(8192)
    for x in (1.0001, -3.14159, 60000.7, 2.0**-13 * 1.3):
        found = halp.fp16_by_13_bits(np.full(8192, x), words).astype(np.float64)
        assert found.mean() == pytest.approx(float(F(x)), rel=1e-12)
        assert len(set(found)) == 2
    assert halp.fp16_by_13_bits(F([65519, -1e6, np.inf]), np.full(3, 8191)).tolist() == [
        65504,
        -65504,
        np.inf,
    ]


@pytest.mark.parametrize("mean", [True, False])
def test_the_cached_gradient_stays_in_the_momentum(mean):
    rule = halp.CentredFp16(F([1.0]), rate=0.5, momentum=0.5)
    rule.cache(F([[1.0], [3.0]]), mean)
    assert rule.cached.tolist() == ([[1.0]] if mean else [[0.5], [1.5]])
    cached = [1.0, 1.0] if mean else [0.5, 1.5]
    rule.step(F([2.0]), 0)
    assert rule.buffer == 1 + cached[0]
    rule.step(F([0.0]), 0 if mean else 1)
    assert rule.buffer == (1 + cached[0]) / 2 + cached[1]
    assert rule.deviation == -(1 + cached[0]) * 1.5 - cached[1]
    rule.recentre()
    assert rule.offset == 1 - (1 + cached[0]) * 1.5 - cached[1]
    assert not rule.deviation.any()
