"""The reference of 3LC: its own checks."""

import numpy as np
import pytest

from tests.reference import three_lc as lc

F = np.float32


def test_stochastic_levels_are_unbiased_over_their_draws():
    draws = (np.arange(1024) + 0.5) / 1024
    for x in (0.0, 0.25, -0.7, 1.0, -1.0):
        for sparsity in (1.0, 1.75):
            s = lc.scale(F([x, 1]), sparsity)
            assert s == F(sparsity)
            found = s * lc.stochastic(np.full(1024, x), s, draws)
            assert found.mean() == pytest.approx(x, abs=2 / 1024)
    assert not lc.stochastic(np.zeros(3), F(0), np.zeros(3)).any()


def test_the_nearest_form_by_hand():
    g, none = F([4, -2, -2.5, 1]), np.zeros(4, F)
    sent, residual = lc.with_feedback(g, none, 1.0)
    assert sent.tolist() == [4, 0, -4, 0]
    assert residual.tolist() == [0, -2, 1.5, 1]
    sent, residual = lc.with_feedback(g, none, 1.5)
    assert sent.tolist() == [6, 0, 0, 0]
    assert residual.tolist() == [-2, -2, -2.5, 1]


def test_bytes_by_hand():
    assert lc.digits_to_bytes(np.array([1, 0, -1, 1, 1])) == [2 * 81 + 27 + 6 + 2]
    assert lc.digits_to_bytes(np.zeros(6, int)) == [121, 121]
    assert lc.digits_to_bytes(np.array([-1] * 5 + [1] * 5)) == [0, 242]
    assert lc.shortened([121]) == [121]
    assert lc.shortened([121] * 2) == [243]
    assert lc.shortened([121] * 14) == [255]
    assert lc.shortened([121] * 15) == [255, 121]
    assert lc.shortened([121] * 16) == [255, 243]
    assert lc.shortened([5, 121, 121, 121, 7, 121, 7]) == [5, 244, 7, 121, 7]


@pytest.mark.parametrize("run", range(1, 60))
def test_a_run_costs_a_byte_per_fourteen(run):
    assert len(lc.shortened([121] * run)) == -(-run // 14)


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 1.0])
def test_messages_decode(density):
    rng = np.random.default_rng(0)
    for n in (1, 4, 5, 6, 499, 5000):
        q = rng.choice([-1, 1], n) * (rng.random(n) < density)
        codes = lc.message(q)
        assert all(0 <= code <= 255 for code in codes)
        assert (lc.decoded(codes, n, F(0.5)) == 0.5 * q).all()
        assert lc.bits(q) == 8 * len(codes) + 32


def test_a_sum_of_workers():
    rows, u = F([[1, 0.5, 0, 0], [-2, 1, 2, 0]]), np.full((2, 4), 0.4)
    found, sizes = lc.total(rows, u)
    assert found.tolist() == [-1, 3, 2, 0]
    assert sizes == [40, 40]
