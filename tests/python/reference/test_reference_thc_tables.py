"""The reference of THC's tables: its own checks."""

import itertools

import numpy as np
import pytest

from tests.reference import thc_tables as thc


def test_all_published_tables_follow_from_the_rule():
    assert len(thc.PUBLISHED) == 29
    for (g, K, q), table in (thc.PUBLISHED | thc.IN_DYNAMIQ).items():
        assert thc.symmetric_table(g, K, q) == table, (g, K, q)
    assert thc.threshold(1024) == pytest.approx(3.2971933456919635, abs=1e-15)
    assert thc.threshold(32) == pytest.approx(2.1538746940614573, abs=1e-15)


def test_a_table_without_symmetry_is_better_in_11_of_29():
    better = []
    for (g, K, q), table in thc.PUBLISHED.items():
        t = thc.threshold(q)
        published, least = thc.variance(table, t), thc.variance(thc.any_table(g, K, q), t)
        assert least <= published * (1 + 1e-12)
        if least < published * (1 - 1e-9):
            better.append((g, K, q))
    assert len(better) == 11
    t = thc.threshold(32)
    assert thc.variance(thc.PUBLISHED[30, 16, 32], t) == pytest.approx(0.013075, abs=5e-7)
    assert thc.variance(thc.any_table(30, 16, 32), t) == pytest.approx(0.013063, abs=5e-7)
    assert thc.variance(thc.PUBLISHED[16, 16, 32], t) == pytest.approx(0.014383, abs=5e-7)


def test_the_search_finds_what_enumeration_finds():
    for g, K, q in [(7, 4, 16), (8, 6, 64), (9, 8, 32)]:
        t = thc.threshold(q)
        halves = ([0, *rest] for rest in itertools.combinations(range(1, g // 2 + 1), K // 2 - 1))
        tables = [half + [g - j for j in reversed(half)] for half in halves]
        assert thc.symmetric_table(g, K, q) == min(tables, key=lambda s: thc.variance(s, t))


def test_a_cell_is_its_integral():
    x = np.linspace(-0.3, 1.1, 200001)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    integral = ((x + 0.3) * (1.1 - x) * density).sum() * (x[1] - x[0])  # 0 at both ends
    assert thc.cell(-0.3, 1.1) == pytest.approx(integral, rel=1e-9)


@pytest.mark.parametrize("key", [(30, 16, 32), (16, 16, 32), (34, 4, 512)])
def test_the_second_rounding_is_unbiased_at_every_grid_point(key):
    table = np.array(thc.PUBLISHED[key])
    X, p = thc.sender_table(list(table), 1001)
    mean = table[X] + p * (table[X + 1] - table[X])
    assert mean == pytest.approx(np.arange(1001) * table[-1] / 1000, abs=1e-5)
    assert ((p >= 0) & (p <= 1)).all()
    assert (X[0], p[0], X[-1], p[-1]) == (0, 0, len(table) - 2, 1)


def test_two_steps_by_hand():
    """g = 30, t: the grid has 1001 points from -t to t, level 3 lies at grid point 100."""
    table, t = thc.PUBLISHED[30, 16, 32], thc.threshold(32)
    x = np.float32([-9, (2 * 100.25 / 1000 - 1) * t, 9])
    low, high = np.zeros(3), np.full(3, 0.999)
    assert thc.to_grid(x, t, 1001, low).tolist() == [0, 101, 1000]
    assert thc.to_grid(x, t, 1001, high).tolist() == [0, 100, 1000]
    assert thc.to_levels(table, np.array([0, 101, 1000]), 1001, low).tolist() == [0, 2, 15]
    assert thc.to_levels(table, np.array([0, 100, 1000]), 1001, high).tolist() == [0, 1, 15]


def test_the_first_rounding_is_unbiased_over_its_draws():
    x, t = np.full(1000, 0.1234, np.float32), thc.threshold(32)
    found = thc.to_grid(x, t, 1001, (np.arange(1000) + 0.5) / 1000) - 500
    assert found.mean() * 2 * t / 1000 == pytest.approx(0.1234, abs=2 * t / 1000 / 900)


def test_a_rotation_is_of_blocks_of_1024():
    rng = np.random.default_rng(0)
    x, signs = np.zeros(4096, np.float32), rng.choice([-1, 1], 4096)
    x[1500] = 32
    y = thc.rotate(x, signs)
    assert (np.abs(y[1024:2048]) == 1).all()
    assert not y[:1024].any()
    assert not y[2048:].any()
    assert (thc.rotate_back(y, signs) == x).all()
    assert len(thc.rotate(np.ones(4, np.float32), np.ones(4))) == 4


def test_an_exchange_recovers_the_mean_within_its_levels():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((4, 1000)).astype(np.float32)
    table, signs = thc.PUBLISHED[30, 16, 32], rng.choice([-1, 1], 1024)
    mean = np.zeros(1000)
    for _ in range(50):
        found, own, codes = thc.exchange(rows, table, 32, signs, rng.random((4, 2, 1024)))
        assert own.mean(axis=0) == pytest.approx(found, abs=1e-5)
        mean += found / 50
    error = np.sqrt(((mean - rows.mean(axis=0)) ** 2).mean())
    assert 0 < error < 0.05  # the clamp's bias and the rounding's noise over sqrt(4 * 50)
    zero = thc.exchange(rows * 0, table, 32, signs, rng.random((4, 2, 1024)))
    assert not any(part.any() for part in zero)
