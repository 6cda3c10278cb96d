"""Proofs about all-reduces in two phases that are in production: QuickReduce and FP8 two-shot."""

import numpy as np
import pytest

import apscope

LIMITS = {"int8": 128, "int6": 32, "int4": 8}
FLOOR = 258 * 2.0**-24  # its reciprocal is within fp16
BOUND = f",epsilon={FLOOR!r},epsilon_as=bound"


def normal(workers=4, n=2**15, rms=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return (rms * rng.standard_normal((workers, n))).astype(np.float32)


def nmse(found, wanted):
    return ((found - wanted) ** 2).sum() / (wanted**2).sum()


def of_messages(spec, g):
    e = apscope.exchange(spec, g)
    return nmse(e.sent, e.intended)


def of_sum(spec, g):
    return nmse(apscope.exchange(spec, g).reduced, g.astype(np.float64).sum(axis=0))


# QuickReduce
# ------------------------------------------------------------------------------------------


def test_QR1_more_bits_are_worse_on_small_gradients():
    g = normal(rms=1e-4)
    found = [of_messages(f"quickreduce:{codec}", g) for codec in LIMITS]
    assert found == pytest.approx([0.77, 0.265, 0.0074], rel=0.02)
    sums = [of_sum(f"quickreduce:{codec}", g) for codec in LIMITS]
    assert sums[0] > 60 * sums[2] and sums[1] > 20 * sums[2]
    large = [of_messages(f"quickreduce:{codec}", normal(rms=0.01)) for codec in LIMITS]
    assert 12 < large[1] / large[0] < 18 and 12 < large[2] / large[1] < 18


@pytest.mark.parametrize("codec", LIMITS)
@pytest.mark.parametrize("t", [1 / 2, 1 / 4, 1 / 8])
def test_QR2_a_block_below_the_cliff_shrinks_in_proportion(codec, t):
    """Largest value t L / 65504: q = fl16(x 65504) in units of m / L is t times too small."""
    limit = LIMITS[codec]
    m = -t * limit / 65504
    g = np.linspace(m, -m / 2, 32, dtype=np.float32).repeat(2)[None]  # two blocks of one kind
    e = apscope.exchange(f"quickreduce:{codec}", g)
    step = abs(m) / limit
    assert np.abs(e.sent - t * e.intended).max() <= 0.53 * step + 2.0**-9 * abs(m)
    above = apscope.exchange(f"quickreduce:{codec}", g / np.float32(t) * np.float32(1.01))
    # Both scales are next to fp16's subnormal numbers, and epsilon is 2^-8 of one.
    assert np.abs(above.sent - above.intended).max() <= 0.53 * step / t + 2.0**-7 * abs(m / t)


@pytest.mark.parametrize("codec", LIMITS)
def test_QR3_values_up_to_2_to_the_minus_17_become_zero(codec):
    """x e is at most x 65504, which is below 1/2. No block of any width has smaller values."""
    for units, zero in ((128, True), (129, False)):
        g = np.full((1, 64), -units * 2.0**-24, np.float32)
        assert apscope.exchange(f"quickreduce:{codec}", g).sent.any() == (not zero)


@pytest.mark.parametrize("codec", LIMITS)
def test_QR3_epsilon_cancels_the_least_negative_scale(codec):
    """Largest value L 2^-24: d + epsilon = 0, its reciprocal is infinite. All values but 0 are read
    as the largest of the other sign, and 0 as the largest."""
    limit = LIMITS[codec]
    m = limit * 2.0**-24
    g = np.full((1, 64), m / 2, np.float32)
    g[0, :2], g[0, 2:4] = m, 0
    sent = apscope.exchange(f"quickreduce:{codec}", g).sent[0]
    assert (sent[2:4] == m).all()
    assert (np.delete(sent, [2, 3]) == -(limit - 1) * 2.0**-24).all()


def test_QR4_a_larger_epsilon_added_turns_signs_round():
    """d = -m / L is negative where the largest value is positive: adding more than abs(d) gives it
    the other sign, and every value of the block with it."""
    g = np.abs(normal(1, 64, 3e-4))
    assert g.max() < 128 * FLOOR
    e = apscope.exchange(f"quickreduce:int8,epsilon={FLOOR!r}", g)
    assert (e.sent <= 0).all() and (e.sent < 0).sum() > 50
    e = apscope.exchange(f"quickreduce:int8,epsilon={FLOOR!r}", -g)
    assert (e.sent <= 0).all()
    for rms in (1e-4, 1e-3, 1e-2):
        raised = of_messages(f"quickreduce:int8,epsilon={FLOOR!r}", normal(rms=rms))
        assert raised > 10 * of_messages("quickreduce:int8" + BOUND, normal(rms=rms))


@pytest.mark.parametrize("codec", LIMITS)
@pytest.mark.parametrize("rms", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0])
def test_QR5_a_bound_of_the_scale_keeps_every_error_within_half_a_step(codec, rms):
    """But for values whose sign is not the largest one's, which end at (L - 1) / L of it."""
    g = normal(rms=rms)
    e = apscope.exchange(f"quickreduce:{codec}" + BOUND, g)
    x = e.intended.reshape(-1, 32, 2)
    m = np.abs(x).max(axis=1, keepdims=True)
    step = np.maximum(m / LIMITS[codec] * (1 + 2.0**-10), FLOOR)
    clipped = np.abs(x) > m - step
    error = np.abs(e.sent.reshape(x.shape) - x)
    slack = 2.0**-9 * m + 2.0**-24
    assert (error <= np.where(clipped, 1.01, 0.51) * step + slack).all()


def test_QR6_the_largest_value_is_exact_and_its_mirror_image_is_not():
    for sign in (1, -1):
        g = np.zeros((1, 64), np.float32)
        g[0, ::2], g[0, 2] = -sign * 0.5, sign
        g[0, 4] = -sign * np.float32(0.9995117)  # fp16's next below 1
        for codec, limit in LIMITS.items():
            sent = apscope.exchange(f"quickreduce:{codec}", g).sent[0]
            assert sent[2] == sign
            assert sent[4] == -sign * (limit - 1) / limit


def test_QR7_a_nan_among_numbers_is_read_as_the_largest_of_them():
    g = normal(2, 64)
    g[0, 7] = np.nan
    e = apscope.exchange("quickreduce:int8", g)
    block = g[0, 1::2]
    m = block[np.nanargmax(np.abs(block))]
    assert e.sent[0, 7] == pytest.approx(m, rel=2.0**-9) and np.isfinite(e.reduced).all()


def test_QR8_an_infinity_makes_the_numbers_of_its_block_nan():
    g = normal(2, 64)
    g[0, 7] = np.inf
    sent = apscope.exchange("quickreduce:int8", g).sent[0]
    assert np.isinf(sent[7]) and np.isnan(sent[1::2]).sum() == 31
    assert np.isfinite(sent[::2]).all()
    # What a caller's bf16 holds beyond fp16 becomes its largest number only in this mode.
    g[0, 7] = 1e6
    with_mode = apscope.exchange("quickreduce:int8,input=bf16", g).sent[0]
    without = apscope.exchange("quickreduce:int8,input=bf16,overflow=ieee", g).sent[0]
    assert with_mode[7] == pytest.approx(65504, rel=2.0**-9) and not np.isnan(with_mode).any()
    assert np.isinf(without[7]) and np.isnan(without[1::2]).sum() == 31


def test_QR9_without_the_mode_a_block_below_the_cliff_has_one_magnitude():
    """1 / d is infinite, and so is x e: every element is read as the largest value or next to it,
    zeros too."""
    g = normal(1, 2**12, 1e-4)
    g[0, ::5] = 0
    e = apscope.exchange("quickreduce:int8,overflow=ieee", g)
    m = np.abs(e.intended.reshape(-1, 32, 2)).max(axis=1, keepdims=True)
    size = np.abs(e.sent.reshape(-1, 32, 2))
    assert (np.abs(size - m) <= m / 128 + 2.0**-17).all()
    assert of_messages("quickreduce:int8,overflow=ieee", normal(rms=1e-4)) > 2


# FP8 two-shot
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format, bits", [("e4m3fn", 3), ("e5m2", 2)])
def test_TS1_the_error_does_not_grow_with_the_workers(format, bits):
    """Two roundings, whatever W is: each message's error is independent of the others', and the
    sum's is one more. In a ring, the sum is rounded at every hop."""
    two, ring = [], []
    for workers in (2, 8, 64):
        g = normal(workers, 2**13)
        exact = g.astype(np.float64).sum(axis=0)
        two.append(of_sum(f"fp8_two_shot:{format}", g))
        y = apscope.exchange(f"fp8_allreduce:{format}", g, topology="ring").reduced
        ring.append(nmse(y, exact))
    one = of_messages(f"fp8_two_shot:{format}", normal())
    assert all(1.6 * one < found < 2.4 * one for found in two)
    assert one < 2.0 ** (-2 * bits - 3)
    assert ring[2] > 4 * ring[0] and ring[2] > 5 * two[2]


@pytest.mark.parametrize("format", ["e4m3fn", "e5m2"])
def test_TS2_the_largest_value_returns_to_fp32s_rounding(format):
    rng = np.random.default_rng(3)
    for amax in np.ldexp(rng.uniform(1, 2, 500), rng.integers(-100, 100, 500)):
        g = np.float32([[amax, -amax / 3, 0]])
        sent = apscope.exchange(f"fp8_two_shot:{format}", g).sent[0]
        assert abs(sent[0] - g[0, 0]) <= 2.0**-22 * g[0, 0]


def test_TS3_the_scale_is_rounded_twice():
    """fl32(448 fl32(1 / amax)), as PyTorch divides a number by a tensor, is not fl32(448 / amax)
    for a part of all amax."""
    amax = np.random.default_rng(0).uniform(1, 2, 1000).astype(np.float32)
    twice = np.float32(448) * (np.float32(1) / amax)
    once = np.float32(448) / amax
    assert 0.1 < (twice != once).mean() < 0.9
    for a, scale in zip(amax, twice, strict=True):
        sent = apscope.exchange("fp8_two_shot:e4m3fn", np.float32([[a]])).sent[0, 0]
        assert sent == np.float32(448) * (np.float32(1) / scale)


def test_TS4_a_group_loses_to_its_own_largest_value_alone():
    """A spike in one group of 256: with one scale a tensor the others underflow."""
    g = normal(2, 256 * 64, 1e-6)
    g[:, 0] = 10
    others = lambda spec: nmse(apscope.exchange(spec, g).reduced[256:], g[:, 256:].sum(axis=0))
    assert others("fp8_two_shot:e4m3fn") == pytest.approx(1, rel=1e-6)
    assert others("fp8_two_shot:e4m3fn,group=256") < 2e-3


def test_TS5_gradients_below_448_over_the_largest_fp32_number_are_lost():
    """Their scale is infinite: 1 / amax overflows at 2^-128, the product with 448 at 2^-119.2."""
    for amax, lost in ((2.0**-118, False), (2.0**-120, True), (2.0**-140, True)):
        g = np.full((2, 8), amax, np.float32)
        e = apscope.exchange("fp8_two_shot:e4m3fn", g)
        assert (not e.reduced.any()) == lost
        assert np.isnan(apscope.exchange("fp8_two_shot:e5m2", g).reduced).any() == (
            57344 * 2.0**-128 > amax
        )
