"""The exact choice against brute force: random problems with one limit and with several, ties, and
limits that cannot be met."""

import time

import numpy as np
import pytest

from apscope._advice.front import corners
from apscope._advice.knapsack import solve
from tests.python.advice.cases import every_mixture


def brute_force(cost, uses, limits, allowed):
    """The least cost within the limits, or infinity."""
    units, options = cost.shape
    mixtures = every_mixture(units, options)
    rows = np.arange(units)
    value = cost[rows, mixtures].sum(axis=1)
    fits = allowed[rows, mixtures].all(axis=1)
    for use, limit in zip(uses, limits):
        fits &= use[rows, mixtures].sum(axis=1) <= limit * (1 + 1e-12)
    return value[fits].min(initial=np.inf)


def problem(seed, limits, units=5, options=5):
    draw = np.random.default_rng(seed)
    cost = draw.normal(size=(units, options))
    uses = draw.exponential(size=(limits, units, options)) * 10.0 ** draw.integers(
        -6, 6, (limits, 1, 1)
    )
    allowed = draw.random((units, options)) < 0.9
    allowed[:, 0] = True
    middle = uses.min(axis=2).sum(axis=1) * draw.uniform(1.5, 6.0, limits)
    return cost, uses, middle, allowed


@pytest.mark.parametrize("limits", [0, 1, 2, 4])
def test_the_choice_is_the_least_of_all_mixtures(limits):
    met = 0
    for seed in range(30):
        cost, uses, limit, allowed = problem(seed, limits)
        expected = brute_force(cost, uses, limit, allowed)
        found = solve(cost, uses, limit, allowed)
        if not np.isfinite(expected):
            assert found is None
            continue
        met += 1
        assert (
            found.value == pytest.approx(expected, rel=1e-12, abs=1e-12)
            and found.bound <= found.value
        )
        assert found.bound == found.value  # nothing was dropped
        rows = np.arange(len(cost))
        assert (
            allowed[rows, found.choice].all()
            and (uses[:, rows, found.choice].sum(axis=1) <= limit * (1 + 1e-11)).all()
        )
    assert met > 10


def test_integers_of_which_many_mixtures_are_equal():
    for seed in range(30):
        draw = np.random.default_rng(seed)
        cost, uses = (
            draw.integers(0, 4, (6, 4)).astype(float),
            draw.integers(0, 4, (1, 6, 4)).astype(float),
        )
        allowed = np.ones((6, 4), bool)
        limit = np.array([uses[0].min(axis=1).sum() + 3.0])
        found = solve(cost, uses, limit, allowed)
        assert found.value == brute_force(cost, uses, limit, allowed)
        assert np.array_equal(found.choice, solve(cost, uses, limit, allowed).choice)


def test_a_search_that_drops_partial_choices_says_how_far_off_it_may_be():
    draw = np.random.default_rng(7)
    cost, uses, allowed = (
        draw.normal(size=(40, 8)),
        draw.exponential(size=(1, 40, 8)),
        np.ones((40, 8), bool),
    )
    limit = uses.min(axis=2).sum(axis=1) * 1.7
    whole, short = solve(cost, uses, limit, allowed), solve(cost, uses, limit, allowed, cap=4)
    assert whole.bound == whole.value
    assert short.bound <= whole.value <= short.value


def test_sixty_layers_and_forty_candidates_take_less_than_a_second():
    draw = np.random.default_rng(3)
    sizes, bits = draw.integers(16, 100_000, 60), draw.choice([4, 8, 16, 32], 40)
    uses = (sizes[:, None] * bits + draw.choice([0, 8], 40))[None] / (32.0 * sizes.sum())
    cost = np.log2(draw.uniform(0.5, 2, (60, 40)) * 2.0**-bits) * sizes[:, None] / sizes.sum()
    start = time.process_time()
    found = solve(cost, uses, np.array([0.2]), np.ones((60, 40), bool))
    assert time.process_time() - start < 1.0
    assert found.value - found.bound <= 1e-3 * abs(found.value)


def test_corners_of_the_front_are_optima_for_their_own_use():
    for seed in range(5):
        cost, uses, _, allowed = problem(seed, 1, units=4)
        use, value, choices = corners(uses[0], cost, allowed)
        assert (np.diff(use) > 0).all() and (np.diff(value) < 0).all()
        slopes = np.diff(value) / np.diff(use)
        assert (np.diff(slopes) >= -1e-12 * abs(slopes[0])).all()
        for at, best, choice in zip(use, value, choices):
            assert best == pytest.approx(brute_force(cost, uses, [at], allowed), abs=1e-12)
            assert best == pytest.approx(cost[np.arange(len(cost)), choice].sum(), abs=1e-12)
        # Between the corners no mixture lies below the line.
        rows = np.arange(len(cost))
        mixtures = every_mixture(*cost.shape)
        mixtures = mixtures[allowed[rows, mixtures].all(axis=1)]
        x, y = uses[0][rows, mixtures].sum(axis=1), cost[rows, mixtures].sum(axis=1)
        inside = x >= use[0]
        assert (y[inside] >= np.interp(x[inside], use, value) - 1e-9).all()
