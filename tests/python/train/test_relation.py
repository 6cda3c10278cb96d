"""The relation's functions on made tables whose slope, factor, spread and wrong pairs are known."""

import math

import numpy as np
import pandas as pd
import pytest

from apscope._core import student_t
from apscope._training.relation import (
    FEWEST,
    above_noise,
    fit,
    fit_intervals,
    ranking,
    ratios,
    relations,
    wrong_pairs,
)


def made(task="a", slope=1.25, factor=0.3, scatter=0.0, count=40, seed=0, half=0.01):
    """Combinations whose excess is factor x^slope, times a lognormal factor."""
    random = np.random.default_rng(seed)
    x = 10.0 ** random.uniform(-3, 1, count)
    excess = factor * x**slope * 10.0 ** (scatter * random.standard_normal(count))
    return pd.DataFrame({
        "task": task, "model": "m", "scheme": [f"s{i}" for i in range(count)], "seeds": 5,
        "lost": 0,
        "excess": excess, "excess_low": excess * (1 - half), "excess_high": excess * (1 + half),
        "x": x, "noise": 10.0 ** random.uniform(-3, 1, count),
    })  # fmt: skip


def test_an_exact_line_is_found():
    table = made()
    law = fit(table["x"], table["excess"])
    assert law.slope == pytest.approx(1.25) and law.factor == pytest.approx(0.3)
    assert law.spread == pytest.approx(1) and law.pearson == law.spearman == pytest.approx(1)
    assert law.predict(0.01) == pytest.approx(0.3 * 0.01**1.25)
    low, high = law.predict_interval(0.01)
    assert low == pytest.approx(high) == pytest.approx(law.predict(0.01))


def test_scatter_is_the_spread_and_the_intervals_hold_the_slope():
    table = made(scatter=0.1, count=400)
    law = fit(table["x"], table["excess"])
    assert law.slope == pytest.approx(1.25, abs=0.02)
    assert law.spread == pytest.approx(10**0.1, rel=0.05)
    low, high = law.predict_interval(table["x"])
    assert np.mean(table["excess"].between(low, high)) == pytest.approx(0.95, abs=0.025)
    ends = fit_intervals(table["x"], table["excess"])
    assert ends["slope"][0] < 1.25 < ends["slope"][1]
    # the standard error of a slope: residuals over the scatter of x
    error = 0.1 / (np.log10(table["x"]).std() * math.sqrt(400))
    assert ends["slope"][1] - ends["slope"][0] == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert ends == fit_intervals(table["x"], table["excess"])  # the same draws
    assert student_t(398) == pytest.approx(1.966, abs=1e-3)


def test_correlations_are_those_of_numpy_and_of_ranks():
    random = np.random.default_rng(3)
    x, y = 10.0 ** random.standard_normal((2, 30))
    y = y * x**0.5
    law = fit(x, y)
    assert law.pearson == pytest.approx(np.corrcoef(np.log(x), np.log(y))[0, 1])
    ranks = [np.argsort(np.argsort(v)) for v in (x, y)]
    assert law.spearman == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert fit(x, np.exp(y)).spearman == pytest.approx(law.spearman)  # any rising function


def test_too_few_combinations_give_nothing():
    table = made(count=FEWEST - 1)
    assert math.isnan(fit(table["x"], table["excess"]).slope)
    assert all(map(math.isnan, fit_intervals(table["x"], table["excess"])["slope"]))
    assert math.isnan(fit(np.ones(9), np.arange(1, 10)).slope)


def test_only_combinations_above_the_seeds_noise_without_lost_runs_are_fitted():
    table = made(count=6)
    table.loc[0, "excess_low"] = -0.1
    table.loc[1, "lost"] = 1
    table.loc[2, "x"] = math.nan
    assert list(above_noise(table, "x")["scheme"]) == ["s3", "s4", "s5"]


def test_wrong_pairs_are_those_whose_intervals_do_not_overlap():
    table = pd.DataFrame({
        "task": "a", "model": "m", "scheme": ["good", "middle", "near", "bad"], "seeds": 5,
        "lost": 0,
        "excess": [0.1, 0.2, 0.21, 0.9], "excess_low": [0.09, 0.19, 0.18, 0.8],
        "excess_high": [0.11, 0.22, 0.23, 1.0],
        "x": [1.0, 0.5, 0.6, 0.7],
    })  # fmt: skip
    pairs, count = wrong_pairs(table, "x")
    assert count == 5  # middle and near are not ordered
    assert [tuple(p) for p in pairs[["better", "worse"]].to_numpy()] == [
        ("good", "bad"), ("good", "near"), ("good", "middle"),
    ]  # fmt: skip
    other = table.assign(task="b", x=[1.0, 2.0, 2.0, 3.0])
    assert wrong_pairs(other, "x")[1] == 5 and len(wrong_pairs(other, "x")[0]) == 0
    both, count = wrong_pairs(pd.concat([table, other]), "x")
    assert count == 10 and set(both["task"]) == {"a"}  # never across tasks


def test_the_statistic_that_orders_is_ranked_first():
    table = pd.concat([made("a", scatter=0.05), made("b", factor=3.0, scatter=0.05, seed=1)])
    order = ranking(table, ["noise", "x"])
    assert list(order["statistic"]) == ["x", "noise"]
    assert order["share"][0] < 0.1 < 0.4 < order["share"][1] < 0.6
    each = relations(table, ["x"])
    assert each["slope"].to_numpy() == pytest.approx([1.25, 1.25], abs=0.05)
    assert each["factor"].to_numpy() == pytest.approx([0.3, 3.0], rel=0.15)
    assert order["factor"][0] == pytest.approx(math.sqrt(0.9), rel=0.2)  # one line through both


def test_what_a_law_misses_of_another_task_is_its_ratio_and_spread():
    law = fit(*made(scatter=0.01)[["x", "excess"]].T.to_numpy())
    found = ratios(made("b", factor=1.2, scatter=0.1, count=300, seed=5), "x", law)
    assert found["ratio"][0] == pytest.approx(4, rel=0.05)
    assert found["spread"][0] == pytest.approx(10**0.1, rel=0.1) and found["within"][0] == 0
    same = ratios(made("c", scatter=0.01, seed=6), "x", law)
    assert same["ratio"][0] == pytest.approx(1, rel=0.02) and same["within"][0] >= 36
