"""The reference of loss change allocation: its own checks."""

import numpy as np
import pytest

from tests.reference import loss_change_allocation as lca


def cubic(scale=1.0):
    return lambda w: (scale * float((w**3).sum()), 3 * scale * w**2)


def wave(frequency):
    return lambda w: (float(np.sin(frequency * w).sum()), frequency * np.cos(frequency * w))


def test_weights_are_simpsons():
    assert lca.weights(2) * 6 == pytest.approx([1, 4, 1])
    assert lca.weights(4) * 12 == pytest.approx([1, 4, 2, 4, 1])
    for n in (2, 4, 8, 16, 32):
        assert lca.weights(n).sum() == pytest.approx(1)


def test_points_are_weighted_means_of_the_ends():
    w, v = np.array([0.1]), np.array([0.7])
    assert lca.point(w, v, 0, 4) == w
    assert lca.point(w, v, 4, 4) == v
    assert lca.point(w, v, 1, 4) == 0.75 * 0.1 + 0.25 * 0.7
    assert lca.new_points(2) == [0, 1, 2]
    assert lca.new_points(8) == [1, 3, 5, 7]


def test_a_cubic_needs_two_intervals():
    w, v = np.array([1.0, -2.0]), np.array([0.5, -1.0])
    found = lca.allocate(w, v, [cubic()])
    assert found.intervals == 2
    assert found.parts[0] == pytest.approx(v**3 - w**3, rel=1e-6)
    assert found.errors == pytest.approx([0], abs=1e-5)


def test_the_worse_set_decides():
    w, v = np.array([0.0]), np.array([1.0])
    calm, both = lca.allocate(w, v, [cubic()]), lca.allocate(w, v, [cubic(), wave(6.0)])
    alone = lca.allocate(w, v, [wave(6.0)])
    assert calm.intervals == 2
    assert both.intervals == alone.intervals > 2
    assert max(map(abs, both.errors)) <= 1e-3


def test_intervals_end_at_32():
    found = lca.allocate(np.array([0.0]), np.array([1.0]), [wave(400.0)])
    assert found.intervals == 32
    assert abs(found.errors[0]) > 1e-3


def test_points_are_evaluated_once():
    seen = []

    def counted(w):
        seen.append(float(w[0]))
        return wave(6.0)(w)

    n = lca.allocate(np.array([0.0]), np.array([1.0]), [counted]).intervals
    assert sorted(seen) == [j / n for j in range(n + 1)]


def test_the_first_order_uses_the_start():
    assert lca.first_order(np.array([1.0]), np.array([0.5]), np.array([3.0])) == -1.5
