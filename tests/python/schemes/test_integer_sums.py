"""Sums of integer codes without room for all workers, against NumPy's integers."""

import math

import numpy as np
import pytest

import apscope

TYPES = {8: np.int8, 16: np.int16, 32: np.int32}


def codes_and_factor(g, bits):
    """With one scale and `headroom=one`: the codes, and what a code stands for is 1 / factor."""
    most, largest = 2.0 ** (bits - 1) - 1, float(np.abs(g).max())
    factor = most / largest
    if factor * largest > most:
        factor = math.nextafter(factor, 0)
    return np.rint(g.astype(np.float64) * factor), factor


def test_int8_sums_of_120_and_100():
    g = np.array([[120, -120, 127, -127], [100, -100, 1, 0]], np.float32)
    spec = "integer_allreduce:bits=8,scale=real,headroom=one"
    wraps = (g[0].astype(np.int8) + g[1].astype(np.int8)).astype(np.float64)
    assert wraps.tolist() == [-36, 36, -128, -127]
    assert np.array_equal(apscope.exchange(spec, g).reduced, wraps)
    saturates = apscope.exchange(f"{spec},sum_overflow=saturate", g).reduced
    assert saturates.tolist() == [127, -128, 127, -127]
    assert apscope.exchange(spec, g).sent.tolist() == g.tolist()


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("workers", [2, 5, 9])
def test_sums_are_those_of_numpy(workers, bits):
    rng = np.random.default_rng(workers)
    g = rng.normal(size=(workers, 700)).astype(np.float32)
    codes, factor = codes_and_factor(g, bits)
    spec = f"integer_allreduce:bits={bits},chunk=1000,scale=real,headroom=one"
    e = apscope.exchange(spec, g)
    assert np.array_equal(e.sent, codes / factor)
    with np.errstate(over="ignore"):
        wrapped = np.add.reduce(codes.astype(TYPES[bits]), dtype=TYPES[bits])
    exact, ends = codes.sum(axis=0), np.iinfo(TYPES[bits])
    assert (wrapped != exact).any()
    assert np.array_equal(e.reduced, wrapped / factor)
    total = codes[0]
    for row in codes[1:]:
        total = np.clip(total + row, ends.min, ends.max)
    e = apscope.exchange(f"{spec},sum_overflow=saturate", g)
    assert np.array_equal(e.reduced, total / factor)


@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
def test_with_room_for_all_workers_no_sum_overflows(overflow):
    g = np.full((4, 8), 3.0, np.float32)
    plain = apscope.exchange("integer_allreduce:bits=8", g)
    e = apscope.exchange(f"integer_allreduce:bits=8,sum_overflow={overflow}", g)
    assert np.array_equal(e.reduced, plain.reduced) and (e.reduced == 12).all()
    room = apscope.exchange("integer_allreduce:bits=8,headroom=sqrt_workers", g)
    assert (room.reduced != 12).all()  # equal gradients need room for all


def test_the_largest_value_is_the_largest_integer():
    rng = np.random.default_rng(1)
    for bits in (2, 8, 31, 32):
        g = rng.normal(size=(1, 4000)).astype(np.float32)
        spec = f"integer_allreduce:bits={bits},chunk=1,scale=real,headroom=one"
        for rounding in ("ties_to_even", "stochastic,random_bits=53"):
            e = apscope.exchange(f"{spec},rounding={rounding}", g)
            assert np.array_equal(e.reduced, e.sent[0])
            assert np.allclose(e.sent, g, rtol=1e-15)


def test_one_bit_more_than_the_room_is_refused():
    g = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="has no room for 2 workers; give more bits or less head"):
        apscope.exchange("integer_allreduce:bits=2", g)
    assert apscope.exchange("integer_allreduce:bits=2,headroom=one", g).reduced.shape == (3,)
