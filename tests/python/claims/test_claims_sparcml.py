"""SparCML: sums and bytes of its two all-reduces, worker by worker."""

import numpy as np
import pytest

import apscope
from apscope import cost
from tests.python.recorded import record
from tests.reference import sparcml
from tests.reference.topologies import rank_order_sum

ALGORITHMS = ("recursive_doubling", "split")


def largest(row, keep):
    """The max(1, floor(keep n)) largest magnitudes, of equals the first; the others as 0."""
    out = np.zeros_like(row)
    kept = np.argsort(-abs(row), kind="stable")[: max(1, int(row.size * keep))]
    out[kept] = row[kept]
    return out


def by_reference(rows, keep, algorithm):
    workers, n = rows.shape
    if algorithm == "split":
        arrivals = [[(r - i) % workers for i in range(1, workers)] for r in range(workers)]
        return sparcml.split_allreduce(list(rows), arrivals)
    return sparcml.recursive_doubling(list(rows), k=max(1, int(n * keep)))


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 8, 11])
@pytest.mark.parametrize(
    ("n", "keep"), [(1, 1), (7, 0.3), (64, 0.02), (500, 0.01), (999, 0.2), (40, 1)]
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sums_and_bytes_are_those_of_the_reference(algorithm, n, keep, workers):
    """Bit for bit; a third of the elements are zeros, which no stream has."""
    random = np.random.default_rng((workers, n))
    g = random.standard_normal((workers, n)).astype(np.float32)
    g[random.random((workers, n)) < 0.3] = 0
    e = apscope.exchange(f"sparcml:keep={keep},algorithm={algorithm}", g)
    rows = np.array([largest(row, keep) for row in g])
    wanted = by_reference(rows, keep, algorithm)
    assert e.reduction == "streams"
    assert np.array_equal(e.sent, rows)
    assert np.array_equal(np.float32(e.reduced), wanted.result)
    assert e.payload_bits == [8 * sent for sent in wanted.sent]
    assert [8 * len(payload) for payload in e.payload] == e.payload_bits


def words(payload):
    return np.frombuffer(bytes(payload), np.uint32)


def floats(*values):
    return np.array(values, np.float32).view(np.uint32).tolist()


def test_four_workers_by_hand():
    """n = 48 and one element each: T = floor(log2(48 / 6)) = 3, so both rounds are sparse. The
    second sends both elements of a pair: 12 + 20 bytes."""
    g = np.zeros((4, 48), np.float32)
    for w, i in enumerate([5, 9, 5, 40]):
        g[w, i] = w + 1
    e = apscope.exchange("sparcml:keep=0.02", g)
    assert e.payload_bits == [8 * 32] * 4
    assert words(e.payload[0]).tolist() == [1, 5, *floats(1), 2, 5, *floats(1), 9, *floats(2)]
    assert np.flatnonzero(e.reduced).tolist() == [5, 9, 40]
    assert e.reduced[5] == 4


def test_streams_become_dense_by_hand():
    """n = 8, two elements each, T = 1: the first round sends 2 pairs, 20 bytes; its sum has
    2 + 2 >= 8 / 2 elements, so it is dense. Then halves of 4 values: 16 bytes there and back."""
    g = np.zeros((4, 8), np.float32)
    g[:, :2] = 1
    e = apscope.exchange("sparcml:keep=0.25", g)
    assert e.payload_bits == [8 * (20 + 16 + 16)] * 4
    assert words(e.payload[3]).tolist() == [
        2, 0, *floats(1), 1, *floats(1),
        *floats(2, 2, 0, 0),
        *floats(0, 0, 0, 0),
    ]  # fmt: skip
    # Of three workers one gives its stream away; the next one adds it, exchanges and answers.
    e = apscope.exchange("sparcml:keep=0.25", g[:3])
    assert e.payload_bits == [8 * 20, 8 * (36 + 36), 8 * 20]


def test_split_by_hand():
    """Parts of 2 and 3 elements; 8 bytes a pair to the owner, and the owner's part to the other."""
    g = np.float32([[1, 0, 0, 4, 0], [2, 3, 0, 0, 5]])
    e = apscope.exchange("sparcml:keep=1,algorithm=split", g)
    assert e.payload_bits == [8 * (8 + 8), 8 * (16 + 12)]
    assert words(e.payload[0]).tolist() == [3, *floats(4), *floats(3, 3)]
    assert words(e.payload[1]).tolist() == [0, *floats(2), 1, *floats(3), *floats(0, 4, 5)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_elements_give_the_sum(algorithm):
    """keep=1: multiples of 2^-12, whose sums are exact in every order."""
    g = np.random.default_rng(0).integers(-(2**12), 2**12, (6, 300)) / np.float32(2**12)
    e = apscope.exchange(f"sparcml:keep=1,algorithm={algorithm}", g.astype(np.float32))
    assert np.array_equal(e.reduced, rank_order_sum(g.astype(np.float32), np.float32))


def test_the_volume_is_all_that_a_worker_sends(tmp_path):
    g = np.zeros((4, 48))
    for w, i in enumerate([5, 9, 5, 40]):
        g[w, i] = w + 1
    trace = record(tmp_path / "t", [{"w": g}])
    results = apscope.replay(trace, ["sparcml:keep=0.02", "sparcml:keep=0.02,algorithm=split"])
    rows = results.frame[results.frame.topology == "streams"].set_index("scheme")
    # Split: parts of 12 values to three others, 144 bytes; pairs to owners: 1 at 9, 1 at 5, and 1
    # at 40, of which the owners of 5 and 9 (worker 0) and of 40 (worker 3) send none to themselves.
    mean = (144 + 152 + 152 + 144) / 4
    fp32 = 2 * 3 / 4 * 4 * 48
    assert rows.volume.tolist() == pytest.approx([32 / fp32, mean / fp32], rel=1e-12)
    assert rows.wire_bits.tolist() == [8 * 32, 8 * mean] and not rows.side_bits.any()


@pytest.mark.parametrize(
    ("spec", "workers", "n", "messages"),
    [
        ("sparcml:keep=0.02", 4, 48, 2),  # T = 3
        ("sparcml:keep=0.25", 8, 8, 1 + 2 + 2),  # T = 1
        ("sparcml:keep=0.25", 6, 8, 1 + 2 + 2),  # of 4 workers, and to and from a partner
        ("sparcml:algorithm=split", 6, 8, 10),
    ],
)
def test_every_message_takes_the_latency(tmp_path, spec, workers, n, messages):
    g = np.random.default_rng(0).standard_normal((workers, n))
    results = apscope.replay(record(tmp_path / "t", [{"w": g}]), spec)
    table = cost.step_time(results, cost.Network(1e-3, 1e9))
    found = table[table.topology == "streams"].iloc[0]
    assert found.messages == messages
    assert found.payload_bytes == pytest.approx(results.frame.wire_bits.iloc[0] / 8)
    with_nodes = cost.step_time(results, cost.Network(1e-3, 1e9), nodes=2)
    assert with_nodes[with_nodes.topology == "streams"].seconds.isna().all()


def test_its_collective():
    found = cost.collective("streams", 100.0, 8, messages=5)
    assert (found.messages, found.bytes, found.busiest) == (5, 100.0, 100.0)
    with pytest.raises(ValueError, match="nodes=2 are not known to 'streams'"):
        cost.collective("streams", 100.0, 8, nodes=2)
