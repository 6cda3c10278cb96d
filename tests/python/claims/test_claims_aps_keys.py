"""The keys of `aps`: units, frozen shifts, shifts of the step before."""

import math

import numpy as np
import pytest

import apscope
from tests.python.recorded import record

TOPOLOGIES = ["exact", "sequential", "ring", "tree", "hierarchical:3", "sequential+kahan"]


def shift(amax, W=2, E=15):
    return E - math.ceil(math.log2(W * amax))


def steps(amaxes, spec, W=2):
    state, shifts = {}, []
    for t, amax in enumerate(amaxes):
        e = apscope.exchange(spec, np.full((W, 3), amax, np.float32), state=state, step=t)
        state = e.state
        shifts.append(e.scale_exponent)
    return shifts


@pytest.mark.parametrize(
    "keys",
    [
        "",
        ",headroom=one",
        ",rule=tight",
        ",rounding=stochastic,random_bits=5",
        ",accumulate=fp32",
        ",hop_rounding=stochastic",
    ],
)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_unit_of_the_whole_tensor_gives_the_same_bits(keys, topology):
    g = np.random.default_rng(1).standard_normal((5, 300)).astype(np.float32)
    a = apscope.exchange("aps:e4m3" + keys, g, topology=topology, seed=4)
    b = apscope.exchange(f"aps:e4m3{keys},unit=300", g, topology=topology, seed=4)
    assert (
        np.array_equal(a.sent, b.sent)
        and np.array_equal(a.reduced, b.reduced)
        and a.payload == b.payload
        and a.side_bits == b.side_bits
    )
    if a.variance is not None:
        assert np.array_equal(a.variance, b.variance) and np.array_equal(a.bias, b.bias)


def test_units_are_tensors_of_their_own_but_for_the_rings_chunks():
    rng = np.random.default_rng(2)
    g = (rng.standard_normal((4, 100)) * 2.0 ** rng.integers(-30, 0, 100)).astype(np.float32)
    for topology in ("sequential", "tree"):
        whole = apscope.exchange("aps:e4m3,unit=16", g, topology=topology)
        parts = [
            apscope.exchange("aps:e4m3", g[:, i : i + 16], topology=topology)
            for i in range(0, 100, 16)
        ]
        assert np.array_equal(whole.sent, np.concatenate([p.sent for p in parts], axis=1))
        assert np.array_equal(whole.reduced, np.concatenate([p.reduced for p in parts]))
    assert whole.side_bits == [8 * 7] * 4
    # In a ring the order is that of the element's chunk of the whole tensor.
    ring = apscope.exchange("aps:e4m3,unit=16", g, topology="ring").reduced
    scale = np.repeat([2.0**p.scale_exponent for p in parts], 16)[:100]
    by_hand = (
        apscope.allreduce((whole.sent * scale).astype(np.float32), "e4m3", topology="ring") / scale
    )
    assert np.array_equal(ring, by_hand)


def test_smaller_units_flush_less():
    rng = np.random.default_rng(3)
    g = (rng.standard_normal((4, 4096)) * np.repeat(2.0 ** rng.integers(-30, 0, 64), 64)).astype(
        np.float32
    )
    flushed = [(apscope.exchange(f"aps:e4m3,unit={u}", g).sent == 0).sum() for u in (4096, 512, 64)]
    assert flushed[0] > flushed[1] > flushed[2]


def test_a_frozen_shift_stays():
    amaxes = [1.0, 3.0, 3.0, 3.5, 100.0, 0.001]
    assert steps(amaxes, "aps:e5m2") == [shift(a) for a in amaxes]
    assert steps(amaxes, "aps:e5m2,frozen=3") == [shift(a) for a in amaxes[:4]] + [shift(3.5)] * 2
    assert steps(amaxes, "aps:e5m2,frozen=1") == [shift(1.0)] * 6
    assert steps(amaxes, "aps:e5m2,frozen=4") == [shift(a) for a in amaxes]
    assert steps([3.0, 0.0, 3.0, 9.0], "aps:e5m2,frozen=2") == [
        shift(3.0),
        0,
        shift(3.0),
        shift(3.0),
    ]  # a tensor of zeros has no information


def test_a_delayed_shift_is_the_one_before():
    amaxes = [1.0, 3.0, 100.0, 0.001, 0.0, 5.0]
    assert steps(amaxes, "aps:e5m2,delay=1") == [
        shift(a) for a in [1.0, 1.0, 3.0, 100.0, 0.001, 0.001]
    ]
    assert steps([0.0, 4.0, 2.0], "aps:e5m2,delay=1") == [0, shift(4.0), shift(4.0)]
    e = apscope.exchange("aps:e4m3,delay=1", np.full((2, 1), 1e-3, np.float32))
    assert np.isinf(
        apscope.exchange(
            "aps:e4m3,delay=1", np.full((2, 1), 1.0, np.float32), state=e.state, step=1
        ).reduced[0]
    )


@pytest.mark.parametrize("keys", ["frozen=2", "delay=1", "delay=1,frozen=3"])
def test_both_engines_remember_the_same_tensor_by_tensor(tmp_path, keys):
    rng = np.random.default_rng(5)
    steps = [
        {
            name: rng.standard_normal((3, n)) * 2.0 ** rng.integers(-2, 2, (3, 1))
            for name, n in (("a", 40), ("b", 7))
        }
        for _ in range(6)
    ]
    trace = record(tmp_path / "t", steps, "sum")
    one = apscope.replay(trace, f"aps:e4m3,{keys}", topology=["ring"]).frame
    two = apscope.replay(trace, f"aps:e4m3,{keys},unit=40", topology=["ring"]).frame
    for column in "tensor step sum_error sum_squared_error underflow side_bits wire_bits".split():
        assert one[column].equals(two[column]), column


@pytest.mark.parametrize("bad", ["unit=0", "unit=columns", "rule=floor", "delay=2", "frozen=-1"])
def test_wrong_keys_are_named(bad):
    with pytest.raises(ValueError, match=bad.split("=")[0]):
        apscope.schemes.Scheme(f"aps:e4m3,{bad}")
