"""The reference of the FP8 emulator's casts and of AQT's: its own checks."""

import math

import ml_dtypes
import numpy as np
import pytest

from tests.reference import fp8_emulator as em

F = np.float32


def test_nearest_is_two_roundings_to_nearest():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(20000) * np.exp2(rng.uniform(-26, 18, 20000))).astype(F)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(ml_dtypes.float8_e5m2).astype(F)
        assert (em.e5m2(x) == expected).all()
        direct = x.astype(ml_dtypes.float8_e5m2).astype(F)
    assert 0 < (direct != expected).sum() < 40


def test_two_roundings_differ_from_one():
    x = F(1.125 + 2.0**-12)  # above the tie of 1 and 1.25, on it in fp16
    assert em.e5m2(x) == 1
    assert x.astype(ml_dtypes.float8_e5m2).astype(F) == 1.25


def test_values_near_the_end_and_beyond():
    x = F([57344, 61408, 61440, 65519, 65520, math.inf, -math.inf, 0.0])
    expected = [57344, 57344, math.inf, math.inf, math.inf, math.inf, -math.inf, 0]
    assert em.e5m2(x).tolist() == expected
    words = np.full(8, 0xFF)
    assert em.e5m2(x, words).tolist() == [57344, *[math.inf] * 5, -math.inf, 0]
    assert em.e5m2(x, words * 0).tolist() == [57344] * 4 + [math.inf] * 2 + [-math.inf, 0]
    assert np.isnan(em.e5m2(F([math.nan]), np.array([0xFF])))


def test_stochastic_rounding_is_unbiased_by_enumeration():
    words = np.arange(256)
    for value in (1.0, 1.1, -1.7, 3e-4, 2.0**-14, 50000.0):
        half = float(np.float16(value))
        found = em.e5m2(np.full(256, value), words).astype(np.float64)
        assert found.mean() == half
        assert len(set(found)) <= 2


def test_subnormals_are_rounded_to_nearest():
    x = np.arange(1, 1024) * 2.0**-24
    near = em.e5m2(x)
    assert (near == x.astype(ml_dtypes.float8_e5m2).astype(F)).all()
    assert (em.e5m2(x, np.full(1023, 0xFF)) == near).all()
    assert (em.e5m2(x, np.zeros(1023, int)) == near).all()
    assert em.e5m2(F([2.0**-14 * (1 + 2.0**-10)]), np.array([0xFF])) == 1.25 * 2.0**-14


def test_the_scale_of_the_hybrid_method():
    assert em.e4m3_scale(F([2, -7])) == 64
    assert em.e4m3_scale(F([0])) == 65500
    assert em.e4m3_scale(F([0.0136])) == 65500
    assert em.e4m3_scale(F([0.0137])) == F(448) / F(0.0137)
    assert em.hybrid_forward(F([7, 1, 0.3])).tolist() == [7, 1, F(0.3125)]
    assert em.e4m3(F([1.0625 + 2.0**-12]), 1, through_fp16=True) == 1
    assert em.e4m3(F([1.0625 + 2.0**-12]), 1) == 1.125


def test_which_tensors_are_rounded_stochastically():
    assert [k for k, v in em.TENSORS.items() if v == "stochastic"] == [
        "input_gradient",
        "output_gradient",
        "weight_gradient",
    ]


def test_a_master_weight_has_two_draws():
    w = F([1 + 2.0**-11])
    assert em.master(w, np.array([0])) == 1
    assert em.master(w, np.array([0x1FFF])) == 1 + 2.0**-10
    assert em.master(w, np.array([0x1FFF]), np.array([0xFF])) == 1.25
    assert em.master(w, np.array([0]), np.array([0xFF])) == 1


def test_values_of_1_4_3_without_subnormals():
    values = [(8 + m) / 8 * 2.0**e for e in range(-11, 5) for m in range(8)]
    assert len(values) == 128
    assert (values[0], values[-1]) == (2.0**-11, 30)
    x = F([0, *values])
    assert (em.without_subnormals(x) == x).all()
    assert (em.without_subnormals(-x) == -x).all()


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ((1 - 2.0**-5) * 2.0**-11, 2.0**-11),
        ((1 - 2.0**-5 - 2.0**-20) * 2.0**-11, 0),
        (0.75 * 2.0**-11, 0),
        (1.0625, 1),
        (1.1875, 1.25),
        (31, 30),
        (-1e30, -30),
        (math.inf, math.inf),
        (1e-40, 0),
    ],
)
def test_casts_by_hand(x, expected):
    assert em.without_subnormals(F([x])) == F(expected)


def test_the_gradient_passes_within_the_range():
    assert em.passes(F([-31, -30, 0, 30, 30.01])).tolist() == [0, 1, 1, 1, 0]
    assert np.isnan(em.without_subnormals(F([math.nan])))
    assert not np.signbit(em.without_subnormals(F([-0.0, -1e-9]))).any()
