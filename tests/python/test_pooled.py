"""Pooled sums over steps and tensors: the values and the order of the additions."""

from __future__ import annotations

import numpy as np
import pytest

from apscope import _core


def in_order(table, axis):
    """Sums along one axis, one index after the other, NaN left out; NaN where nothing is there."""
    slices = np.moveaxis(table, axis, 0)
    total, present = np.zeros(slices.shape[1:]), np.zeros(slices.shape[1:], dtype=np.int64)
    for one in slices:
        total = total + np.where(np.isnan(one), 0.0, one)
        present = present + ~np.isnan(one)
    return total, present


def expected(table, over_steps, over_tensors):
    total, present = table, (~np.isnan(table)).astype(np.int64)
    if over_tensors:
        total, present = in_order(total, 1)
    if over_steps:
        counts = present
        total, present = in_order(total, 0)
        present = counts.sum(axis=0)
    return np.where(present > 0, total, np.nan), present


@pytest.mark.parametrize(("over_steps", "over_tensors"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1, 3), (1, 17, 2), (40, 21, 12)])
def test_sums_are_numpys_in_the_documented_order(shape, over_steps, over_tensors):
    random = np.random.default_rng(3)
    table = random.standard_normal(shape) * 10.0 ** random.integers(-12, 12, shape)  # order matters
    table[random.random(shape) < 0.2] = np.nan
    before = table.copy()
    sums, present = _core.pool(table, over_steps=over_steps, over_tensors=over_tensors)
    want, there = expected(table, over_steps, over_tensors)
    assert sums.dtype == np.float64 and present.dtype == np.int64
    np.testing.assert_array_equal(sums, want, strict=True)
    np.testing.assert_array_equal(present, there, strict=True)
    np.testing.assert_array_equal(table, before)


def test_the_order_is_tensors_first():
    table = np.array([[[1e16], [1.0]], [[-1e16], [1.0]]])
    sums, _ = _core.pool(table)
    assert sums[0] == (1e16 + 1.0) + (-1e16 + 1.0) == 0.0
    assert (1e16 - 1e16) + (1.0 + 1.0) == 2.0  # steps first


def test_a_group_without_entries_is_nan_and_counts_none():
    table = np.array([[[1.0, np.nan], [2.0, np.nan]]])
    sums, present = _core.pool(table)
    np.testing.assert_array_equal(sums, [3.0, np.nan])
    np.testing.assert_array_equal(present, [2, 0])


@pytest.mark.parametrize("shape", [(0, 3, 2), (4, 0, 2)])
def test_no_steps_or_no_tensors_is_nan_everywhere(shape):
    sums, present = _core.pool(np.zeros(shape))
    np.testing.assert_array_equal(sums, [np.nan, np.nan])
    np.testing.assert_array_equal(present, [0, 0])


def test_infinities_add_as_ieee_754_says():
    sums, present = _core.pool(np.array([[[np.inf], [1.0]]]))
    assert sums[0] == np.inf and present[0] == 2


def test_another_number_of_axes_or_type_is_refused():
    with pytest.raises(ValueError, match="3 axes .*, not 2"):
        _core.pool(np.zeros((2, 3)))
    with pytest.raises(TypeError):
        _core.pool(np.zeros((2, 3, 4), dtype=np.float32))
