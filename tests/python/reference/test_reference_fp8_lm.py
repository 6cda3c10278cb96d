"""The reference of FP8-LM's factor, its all-reduce and mu: its own checks."""

import math

import numpy as np
import pytest

from tests.reference import fp8_lm


@pytest.mark.parametrize(
    ("amax", "old", "expected"),
    [
        (448, 7, 1),
        (449, 7, 0.5),
        (1, 7, 256),
        (1.76, 7, 128),
        (1.75, 7, 256),
        (3e38, 7, 2.0**-120),
        (0, 7, 7),
        (math.nan, 7, 7),
        (math.inf, 8, 0.125),
        (1e-39, 7, math.inf),
    ],
)
def test_factors_by_hand(amax, old, expected):
    assert fp8_lm.scaling_factor(amax, old) == expected


def test_factors_of_the_other_format_and_a_margin():
    assert fp8_lm.scaling_factor(57344, 1, "e5m2") == 1
    assert fp8_lm.scaling_factor(1, 1, "e5m2") == 32768
    assert fp8_lm.scaling_factor(448, 1, margin=1) == 0.5


def test_a_finite_step_uses_the_top_binade():
    rng = np.random.default_rng(0)
    for amax in np.exp2(rng.uniform(-100, 100, 500)).astype(np.float32):
        scaled = amax * fp8_lm.scaling_factor(float(amax), 1)
        assert 224 < scaled <= 448


def test_the_all_reduce_by_hand():
    rows = np.array([[1, 2, -448], [1, 0, 16], [1, -3, 32], [1, 2, 8]], np.float32)
    mean, sf = fp8_lm.allreduce(rows, 1)
    assert sf == 0.5
    # 0.5 * (-448, 16, 32, 8) = (-224, 8, 16, 4): -216 ties to -224, then -208, then -204 to -208
    assert mean.tolist() == [1, 0.25, -208 * 2 / 4]


def test_a_step_of_zeros_shrinks_the_factor():
    zeros = np.zeros((4, 3), np.float32)
    _, sf = fp8_lm.allreduce(zeros, 16)
    assert sf == 8
    assert fp8_lm.allreduce(zeros, float(sf))[1] == 4


def test_an_infinite_gradient_inverts_the_factor():
    rows = np.array([[1, math.nan], [1, 1]], np.float32)
    assert fp8_lm.amax_of_all(rows) == math.inf
    _, sf = fp8_lm.allreduce(rows, 16)
    assert sf == np.float32(1 / 16) * np.float32(math.sqrt(0.5))


def test_the_sharded_form_uses_the_smallest_factor():
    codes, sf = fp8_lm.accumulate(np.zeros(2, np.float32), 1, np.array([1, 0.5]))
    assert (codes.tolist(), sf) == ([256, 128], 256)
    codes, sf = fp8_lm.accumulate(codes, sf, np.array([1, 0.5]))
    assert (codes.tolist(), sf) == ([256, 128], 128)
    rows = np.array([[256, 128], [256, 1]], np.float32)
    mean, least = fp8_lm.sharded_sum(rows, np.array([256, 128], np.float32))
    assert least == 128
    assert mean.tolist() == [(128 + 256) / 128 / 2, 64 / 128 / 2]  # 65 is nearest to 64


def test_mu_doubles_in_1000_steps_and_is_halved():
    mu = 1.0
    for _ in range(1000):
        mu = fp8_lm.next_mu(mu, 1e-5)
    assert mu == pytest.approx(2, rel=1e-12)
    assert fp8_lm.next_mu(1.0, 1.1e-5) == 0.5
    low, high = fp8_lm.MU_THRESHOLDS
    assert fp8_lm.next_mu(1.0, 5e-4, low) == 0.5
    assert fp8_lm.next_mu(1.0, 5e-4, high) > 1
    rows = np.array([[1, 2, 3, 4], [4, 0, 0, 4]], np.float32)
    mean, share = fp8_lm.with_mu(rows, 2.0, np.array([64, 128]))
    assert share == 3 / 8  # 8 * 64 exceeds 448
    assert mean.tolist() == [448 / 128, 2, 3, 448 / 128]


def test_the_adapted_mu_has_bounds():
    assert fp8_lm.adapted_first_mu(6, 8, 4) == 1.5
    assert fp8_lm.adapted_first_mu(7.5, 8, 6) == pytest.approx(7.5 / 11.2)
    calm, full = np.zeros(100), np.full(100, 6.0)
    assert fp8_lm.adapted_next_mu(1.0, calm, 6, 8, 4) == 2**0.02
    assert fp8_lm.adapted_next_mu(5.99, calm, 6, 8, 4) == 6
    assert fp8_lm.adapted_next_mu(1.0, full, 6, 8, 4) == 0.95
    assert fp8_lm.adapted_next_mu(0.376, full, 6, 8, 4) == 0.375
