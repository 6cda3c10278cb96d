"""The reference of Ok-Topk: its own checks."""

import numpy as np
import pytest

from tests.reference import ok_topk as ok

F = np.float32


def test_a_first_step_by_hand():
    rule = ok.OkTopk(2, 8, 0.375, dense_steps=0)
    g = F([[9, 0, 1, -7, 5, 0, 0, 2], [1, 8, 0, 6, 0, -5, 4, 0]])
    step = rule.step(g)
    assert rule.k == 3
    assert rule.local == [5, 5]  # two of three exceed it: no change, 2 >= 2 k / 3
    assert [s.tolist() for s in step.sent] == [[0, 3], [1, 3]]
    assert rule.bounds.tolist() == [0, 3, 8]
    assert step.kept.tolist() == [0, 1, 3]
    assert step.result.tolist() == [4.5, 4, 0, -0.5, 0, 0, 0, 0]
    assert rule.world == 1
    assert step.pairs_up.tolist() == [[0, 1], [1, 0]]
    assert step.bytes_up().tolist() == [8, 8]
    assert step.pairs_down.tolist() == [2, 1]
    assert step.gathered == 3
    assert rule.residual.tolist() == [[0, 0, 1, 0, 5, 0, 0, 2], [1, 0, 0, 0, 0, -5, 4, 0]]


def test_the_residual_is_zero_only_where_sent_and_kept():
    rule = ok.OkTopk(2, 6, 1 / 3, dense_steps=0)
    step = rule.step(F([[9, 3, 2, 0, 0, 0], [-9, 0, 0, 5, 1, 0]]))
    # index 0 is sent by both, its sum is 0 and not in the result
    assert [s.tolist() for s in step.sent] == [[0], [0]]
    assert step.kept.tolist() == []
    assert rule.residual.tolist() == [[9, 3, 2, 0, 0, 0], [-9, 0, 0, 5, 1, 0]]


def test_thresholds_between_exact_steps():
    rule = ok.OkTopk(1, 12, 0.5, dense_steps=0)
    rule.step(np.arange(12))
    # 5 of 6 exceed the sixth largest; the sums that exceed are exact top k of 5
    assert rule.local == [6]
    assert rule.world == 7
    rule.residual[:] = 0
    step = rule.step(np.full(12, 10))
    raised = F(6)
    for _ in range(5):
        raised = raised * F(1.03)  # all 12 exceed it each time
    assert rule.local == [raised * F(1.012)]
    assert len(step.kept) == 12
    assert rule.world == F(7) * F(1.008)
    rule.residual[:] = 0
    before = rule.local[0], rule.world
    assert len(rule.step(np.zeros(12)).kept) == 0
    assert rule.local[0] == before[0] / F(1.012)
    assert rule.world == before[1] / F(1.008)


def test_the_loop_ends_where_few_enough_exceed():
    size = np.full(100, 10.0)
    size[:13] = 20
    assert ok.raised(size, F(9.9), 10) == F(9.9) * F(1.03)
    assert ok.raised(size, F(9.9), 75) == F(9.9)
    assert ok.raised(size, F(1), 10) == pytest.approx(1.03**5)


def test_regions_balance_and_are_kept():
    selected = [np.array([0, 1, 2, 3]), np.array([4, 5, 6, 8]), np.array([], int)]
    # chunks: 1, 2; 5, 6; 9 // 3, 18 // 3
    assert ok.regions(selected, 9).tolist() == [0, 3, 4, 9]
    rule = ok.OkTopk(2, 64, 0.25, dense_steps=0)
    rng = np.random.default_rng(0)
    rule.step(rng.standard_normal((2, 64)))
    first = rule.bounds.tolist()
    for _ in range(63):
        rule.step(rng.standard_normal((2, 64)) * np.linspace(0.1, 3, 64))
        assert rule.bounds.tolist() == first
    rule.step(rng.standard_normal((2, 64)) * np.linspace(0.1, 3, 64))
    assert rule.bounds.tolist() != first


def test_dense_steps_come_first():
    rule = ok.OkTopk(2, 4, 0.5, dense_steps=2)
    g = F([[1, 2, 3, 4], [1, 1, 1, 1]])
    for _ in range(2):
        step = rule.step(g)
        assert step.dense
        assert step.result.tolist() == [1, 1.5, 2, 2.5]
        assert not rule.residual.any()
    assert not rule.step(g).dense


def test_nothing_is_lost():
    """Integers: what was applied, and what is left in the residuals, add up to all gradients."""
    rng = np.random.default_rng(1)
    rule = ok.OkTopk(4, 50, 0.1, dense_steps=0)
    given, applied = np.zeros(50), np.zeros(50)
    for _ in range(40):
        g = rng.integers(-50, 50, (4, 50))
        given += g.sum(axis=0)
        step = rule.step(g)
        assert set(step.kept) <= set(np.concatenate(step.sent))
        applied += step.result.astype(np.float64) * 4
        left = rule.residual.astype(np.float64).sum(axis=0)
        for w in range(4):
            assert not rule.residual[w, np.intersect1d(step.sent[w], step.kept)].any()
    assert applied + left == pytest.approx(given)
