"""The reference of SparCML: its own checks."""

import numpy as np
import pytest

from tests.reference import sparcml as ml

F = np.float32


def test_streams_and_their_sizes():
    x = F([0, 2, 0, -1, 0, 0, 0, 0, 0, 0])
    s = ml.sparse(x)
    assert (s.count, s.bytes(), s.is_dense) == (2, 4 + 16, False)
    assert (s.dense() == x).all()
    full = ml.sparse(np.ones(3, F))
    assert (full.count, full.bytes(), full.is_dense) == (3, 4 + 12, True)


def test_a_sum_is_dense_by_the_counts_before_the_overlap():
    one, two = ml.sparse(np.eye(1, 8)[0]), ml.sparse(F([1, 2, 0, 0, 0, 0, 0, 0]))
    merged = ml.added(one, two)
    assert not merged.is_dense
    assert merged.indices.tolist() == [0, 1]
    assert merged.values.tolist() == [2, 2]
    assert ml.added(two, two).is_dense  # 4 >= 8 / 2, although the union has two elements
    assert ml.added(two, two).values.tolist() == [2, 4, 0, 0, 0, 0, 0, 0]
    assert ml.added(one, two, dense=True).is_dense
    assert not ml.added(two, two, index=1, value=4).is_dense  # 4 * 5 < 32


def test_rounds_before_dense_vectors():
    assert ml.sparse_rounds(1000, 1000) == 1
    assert ml.sparse_rounds(6 * 32 * 10, 10) == 5
    assert ml.sparse_rounds(6 * 32 * 10 - 1, 10) == 4
    assert ml.sparse_rounds(3 * 32 * 10, 10, index=2, value=4) == 5


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 7, 8, 13, 16])
@pytest.mark.parametrize("density", [0.002, 0.02, 0.5])
def test_the_sum_of_integers_is_exact(workers, density):
    rng = np.random.default_rng(workers)
    rows = [
        (rng.integers(-9, 9, 1001) * (rng.random(1001) < density)).astype(F) for _ in range(workers)
    ]
    found = ml.recursive_doubling(rows)
    assert (found.result == sum(rows)).all()
    arrivals = [
        list(rng.permutation([w for w in range(workers) if w != r])) for r in range(workers)
    ]
    assert (ml.split_allreduce(rows, arrivals).result == sum(rows)).all()


def test_bytes_of_sparse_rounds_by_hand():
    rows = [np.eye(1, 1000, i)[0] for i in range(4)]
    found = ml.recursive_doubling(rows, header=0)
    assert found.stayed_sparse
    assert found.sent == [8 + 16] * 4
    found = ml.recursive_doubling(rows[:3], header=0)
    assert found.sent == [8, 16 + 24, 8]  # 0 sends to 1; 1 and 2 exchange; 1 sends the result


def test_bytes_of_dense_rounds_by_hand():
    rows = [np.eye(1, 16, i)[0] for i in range(4)]
    found = ml.recursive_doubling(rows, k=4, header=0)  # T = 1: distance 1 sparse, 2 dense
    assert not found.stayed_sparse
    assert found.sent == [8 + 8 * 4 + 8 * 4] * 4


def test_the_association_of_a_sum():
    """Distance 1 in the sparse round, then 4, then 2."""
    x = F([2.0**24, 0, 1, 0, -(2.0**24), 0, 1, 0])
    rows = [np.concatenate([[v], np.zeros(31)]).astype(F) for v in x]
    found = ml.recursive_doubling(rows, k=6)  # 32 / 36 < 1: T = 1
    pairs = [x[i] + x[i + 1] for i in range(0, 8, 2)]
    assert found.result[0] == (pairs[0] + pairs[2]) + (pairs[1] + pairs[3]) == 2
    straight = ml.recursive_doubling(rows, k=1)  # T = 2: 1, 2, then 4
    assert straight.result[0] == (pairs[0] + pairs[1]) + (pairs[2] + pairs[3]) == 1


def test_the_order_of_arrival_decides_on_bits():
    rows = [F([1, 0, 0]), F([2.0**24, 0, 0]), F([-(2.0**24), 0, 7])]
    one = ml.split_allreduce(rows, [[1, 2], [0, 2], [0, 1]])
    two = ml.split_allreduce(rows, [[2, 1], [0, 2], [0, 1]])
    assert (one.result[0], two.result[0]) == (0, 1)
    assert one.result[2] == 7
    assert ml.split(11, 3) == [(0, 3), (3, 6), (6, 11)]
    assert one.sent == [8, 8 + 8, 8 + 8]
