"""The reference of adaptive loss scaling: its own checks."""

import math

import numpy as np
import pytest

from tests.reference import adaptive_loss_scale as als

FP16 = als.LIMITS["fp16"]


def test_the_factor_is_the_quantile_of_the_share():
    assert math.erf(als.normal_factor() / math.sqrt(2)) == pytest.approx(1e-3, rel=1e-12)


def test_approx_range_by_hand():
    g, W = np.full((2, 8), 2.0**-20), np.full((8, 3), 0.25)
    g[:, ::2] *= -1  # mean 0, standard deviation 2^-20; W has deviation 0, mean 0.25
    sigma = 2.0**-20 * 0.25 * 2
    assert als.approx_range(g, W, *FP16) == pytest.approx(6e-8 / als.normal_factor() / sigma)
    assert als.approx_range(g * 2.0**20, W, *FP16) == 1
    assert als.approx_range(g * 2.0**35, W, *FP16) == 65504 / 8 / (2.0**15 * 0.25)
    assert als.approx_range(g * 0, W, *FP16) == 1
    assert als.approx_range(g[:0], W, *FP16) == 1


def test_the_fan_of_a_convolution_has_its_kernel():
    assert als.fan(np.zeros((8, 3, 5, 7))) == 280
    assert als.fan(np.zeros((8, 3))) == 8


def test_products_share_the_contracted_index():
    g, W = np.array([[1e-9, 0], [0, 1.0]]), np.array([[1.0], [1e-3]])
    # products 1e-9 and 1e-3; 1e-9 * 1e-3 is not one of them
    assert als.element_wise_range(g, W, *FP16) == pytest.approx(60, rel=1e-6)
    assert als.element_wise_range(g, W, *FP16, rescued=0.5) == 1
    assert als.element_wise_range(g, W, *FP16, rescued=0.4) == 1
    assert als.element_wise_range(g, W, 6e-8, 1e-3) == pytest.approx(0.5)
    assert als.element_wise_range(g * 0, W, *FP16) == 1


def test_abs_range_by_hand():
    g, W = np.array([[0, 1e-7, 8]]), np.array([[1e-3], [0], [2]])
    assert als.abs_range(g, W, *FP16) == pytest.approx(6e-8 / 3 / 1e-10)
    assert als.abs_range(g, W, 6e-8, 480) == pytest.approx(480 / 3 / 16)
    assert als.abs_range(np.array([[1e-20]]), np.ones((1, 1)), *FP16) == pytest.approx(6e7)


def test_a_cast_has_no_fan():
    g = np.array([1, -1, 1, -1]) * 2.0**-20
    assert als.cast_range(g, *FP16) == pytest.approx(6e-8 / als.normal_factor() * 2.0**20)
    assert als.cast_range(g, 6e-8, 2.0**-18) == 4
    assert als.cast_range(g * 0, *FP16) == 1


def test_a_lognormal_cast_rescues_all_but_a_thousandth():
    rng = np.random.default_rng(0)
    g = np.exp(rng.normal(-20, 2, 200000)).astype(np.float32)
    l = als.cast_range(g, *FP16, lognormal=True)
    assert np.mean(g * l < 6e-8) == pytest.approx(1e-3, rel=0.2)


def test_bounds_and_the_power_of_two():
    assert als.bounded(100, 1) == 16
    assert als.bounded(100, 256) == 4
    assert als.bounded(100, 4096) == 0.25
    assert als.bounded(3, 1) == 3
    assert [als.power_of_two(l) for l in (1, 3.99, 4, 0.3, 1e-9)] == [1, 2, 4, 0.25, 0]


def test_between_updates_the_unbounded_scale_is_kept():
    g, W = np.full((1, 1), 2.0**-20), np.ones((1, 1))
    scale = als.LayerScale(every=2)
    assert scale.update(g, W, 512) == 2
    assert scale.l > 16
    assert scale.update(g * 2.0**20, W, 1) == 16
    assert scale.update(g * 2.0**20, W, 1) == 1


def test_a_weight_gradient_may_underflow_at_the_division():
    product = np.array([2.0**-20, 3 * 2.0**-20], np.float16)
    assert als.unscaled(product, 32).tolist() == [0, 2.0**-23]  # ties to even: 0.5 and 1.5 units
    assert als.unscaled(product, 3).tolist() == [5 * 2.0**-24, 2.0**-20]


def test_a_join_takes_the_largest_scale_that_fits():
    assert als.join_scale([1, 1], [4, 16]) == 16
    assert als.join_scale([40000, 1], [4, 16]) == 4
    assert als.join_scale([65504, 65504], [4, 16]) == 2  # strictly less: 4 gives 65504
    assert als.join_scale([60000, 65504], [0.25, 1]) == 0.25
    with pytest.raises(ValueError, match="no scale from 0.125"):
        als.join_scale([65504, 1], [0.125, 1])
    assert als.join_scale([65504, 1], [0.125, 1], least=1 / 16) == 1 / 16


def test_a_join_adds_in_fp16():
    a, b = np.array([1, 2048], np.float16), np.array([0.5, 4], np.float16)
    total, s = als.join([a, b], [4, 2])
    assert (s, total.dtype) == (4, np.float16)
    assert total.tolist() == [2, 2056]
