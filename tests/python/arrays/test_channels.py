"""NCCL's channels: which elements have which chunk or tree, bit for bit by the rule played in
tests/reference/channels.py, and what that changes in a sum."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import apscope
from tests.reference import channels as reference
from tests.reference.production import parent, trees

DTYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32,
          "e4m3fn": ml_dtypes.float8_e4m3fn}  # fmt: skip


def rows(workers, n, name):
    """Values of the format; in FP8 so few digits that every order has a sum of its own only now
    and then, and none overflows."""
    rng = np.random.default_rng([workers, n])
    x = rng.standard_normal((workers, n)).astype(np.float32)
    return (x * 2.0 ** rng.integers(-4, 4, (workers, 1))).astype(DTYPES[name])


def add(a, b):
    """Of two values of a format; fp32 holds the sums of the narrow ones well enough that the cast
    is the one rounding."""
    return (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)


def in_ring(x, first):
    total = x[first % len(x)]
    for j in range(1, len(x)):
        total = add(total, x[(first + j) % len(x)])
    return total


def in_tree(x, ranks):
    def value(place):
        total = x[ranks[place]]
        for child in range(len(x)):
            if child != place and parent(len(x), child) == place:
                total = add(total, value(child))
        return total

    return value(0)


def expected(x, order, channels, protocol):
    workers, n = x.shape
    size = x.dtype.itemsize
    if order == "nccl:ring":
        chunk = reference.ring_chunks(n, size, workers, channels, protocol)
        sums = [in_ring(x, k + 1) for k in range(workers)]
    else:
        chunk = reference.tree_chunks(n, size, workers, channels, protocol)
        sums = [in_tree(x, ranks) for ranks in trees(workers)]
    return np.select([chunk == k for k in range(len(sums))], sums)


@pytest.mark.parametrize("order", ["nccl:ring", "nccl:tree"])
@pytest.mark.parametrize("protocol", list(reference.PROTOCOLS))
@pytest.mark.parametrize(
    ("workers", "channels"), [(1, 2), (2, 1), (3, 2), (4, 16), (8, 5), (8, 64)]
)
def test_chunks_and_trees_are_those_of_nccl(order, protocol, workers, channels):
    keys = f",channels={channels}" + (f",protocol={protocol}" if protocol != "simple" else "")
    for name, n in itertools.product(DTYPES, [0, 1, 1000, 65537, 300_001]):
        if name != "bf16" and n == 300_001 and protocol != "ll":
            continue
        x = rows(workers, n, name)
        got = apscope.allreduce(x.astype(np.float32), name, topology=order + keys)
        want = expected(x, order, channels, protocol).astype(np.float32) if n else got
        assert np.array_equal(got, want), (name, n)


@pytest.mark.parametrize("order", ["nccl:ring", "nccl:tree"])
def test_a_long_message_has_several_loops(order):
    x = rows(2, 3_000_001, "bf16")
    loops = 3_000_001 // (2 * 1024 * 1024) if order == "nccl:ring" else 3_000_001 // 262144
    assert loops >= 1
    got = apscope.allreduce(x.astype(np.float32), "bf16", topology=f"{order},channels=1")
    assert np.array_equal(got, expected(x, order, 1, "simple").astype(np.float32))


def test_a_part_of_a_message_is_not_summed_as_a_message_is():
    """The bits of an element depend on how long the message is that it is in."""
    x = rows(8, 1 << 18, "bf16").astype(np.float32)
    topology = "nccl:ring,channels=8"
    whole = apscope.allreduce(x, "bf16", topology=topology)[: 1 << 15]
    alone = apscope.allreduce(x[:, : 1 << 15], "bf16", topology=topology)
    assert 0.1 < (whole != alone).mean() < 0.9


def test_channels_change_bits_and_not_the_error():
    x = rows(8, 1 << 19, "fp16").astype(np.float32)
    exact, errors, bits = x.astype(np.float64).sum(0), [], []
    for n in (1, 2, 4, 8, 16):
        got = apscope.allreduce(x, "fp16", topology=f"nccl:ring,channels={n}")
        errors.append(((got - exact) ** 2).sum() / (exact**2).sum())
        bits.append(got)
    for other in bits[1:]:
        assert 0.3 < (other != bits[0]).mean() < 0.7
    assert max(errors) < 1.01 * min(errors)


def test_the_bits_are_the_same_by_every_way_to_them():
    """In an exchange, whole or in blocks, and as an accumulator's numbers, which are longer."""
    x = rows(4, 70_000, "e4m3fn").astype(np.float32)
    for topology in ("nccl:ring,channels=4", "nccl:tree,channels=4,protocol=ll"):
        array = apscope.allreduce(x, "e4m3fn", topology=topology)
        for spec in ("none:e4m3fn", "error_feedback(none:e4m3fn)"):
            assert np.array_equal(apscope.exchange(spec, x, topology=topology).reduced, array)
        wide = apscope.allreduce(x, "e4m3fn", accumulate="bf16", topology=topology)
        of_bf16 = apscope.allreduce(x, "bf16", topology=topology)
        assert np.array_equal(wide, of_bf16)
        level = apscope.exchange("none:e4m3fn", x, topology=f"hierarchical:4({topology},ring)")
        assert level.reduction == f"hierarchical:4({topology},ring)"
        assert np.array_equal(level.reduced, array)


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("nccl:ring,channels=0", "its keys are channels=1 to channels=64"),
        ("nccl:ring,channels=65", "its keys are channels=1"),
        ("nccl:tree,channel=2", "has 'channel=2'"),
        ("nccl:tree,protocol=ll", "has a protocol without channels"),
        ("nccl:ring,channels=2,protocol=fast", "has 'protocol=fast'"),
        ("nccl:ring,channels=4,channels=2", "has the key 'channels' twice; give it once"),
        ("nccl:nvls,channels=2", "unknown topology"),
    ],
)
def test_refusals(topology, words):
    with pytest.raises(ValueError, match=words):
        apscope.allreduce(np.ones((2, 3), np.float32), "bf16", topology=topology)
