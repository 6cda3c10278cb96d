"""The reference of FracTrain's gates and schedule: its own checks."""

import math

import numpy as np
import pytest

from tests.reference import fractrain_gates as ft

F = np.float32


def test_the_quantizer_by_hand():
    v = F([-1, -0.3, 0, 0.5, 2])
    assert ft.whole(v, 2).tolist() == [-1, 0, 0, 1, 2]  # steps of 1; 1.5 ties to 2, and 2 - 1 = 1
    assert (ft.whole(v, 0) == v).all()
    assert ft.whole(np.full(3, 0.7), 8).tolist() == [F(0.7)] * 3


def test_the_clamp_is_before_the_rounding():
    assert ft.quantized(F([-5, 9]), 3, 0.0, 7.0).tolist() == [0, 7]
    assert ft.quantized(F([0, 7]), 3, 0.0, 7.0, F([0, 0.999])).tolist() == [0, 7]


def test_stochastic_rounding_is_unbiased_over_its_draws():
    draws = (np.arange(4096) + 0.5) / 4096
    for value in (0.0, 0.2, 3.5, 6.9, 7.0):
        found = ft.quantized(np.full(4096, value), 3, 0.0, 7.0, draws)
        assert set(found) <= {math.floor(value), math.ceil(value)}
        assert found.mean() == pytest.approx(value, abs=1 / 4096)


def test_weights_have_extremes_per_output_channel():
    v = F([[[0, 3], [1.2, 2]], [[10, 40], [14, 21]]])
    expected = [[[0, 3], [1, 2]], [[10, 40], [10, 20]]]
    assert ft.weights(v, 2).tolist() == expected


def test_running_extremes_are_updated_per_candidate():
    assert ft.running(0, 1, 0.9, 5) == pytest.approx(1 - 0.9**5, rel=1e-6)
    assert ft.running(2, 1, 0.1) == pytest.approx(1.1, rel=1e-6)


def test_a_choice_is_one_hot_and_ties_are_all_chosen():
    p = ft.probabilities(F([[0, 1, -1], [2, 2, 0], [0, 0, 0]]))
    assert p.sum(axis=1) == pytest.approx(1)
    m = ft.choice(p)
    assert (m[0, [0, 2]] == 0).all()
    assert m[0, 1] == pytest.approx(1, abs=1e-7)
    assert m[1] == pytest.approx([1, 1, 0], abs=1e-7)
    assert m[2] == pytest.approx([1, 1, 1], abs=1e-7)


def test_a_mixture_and_its_gradients():
    m, c = F([[1, 0], [0, 1]]), F([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert ft.mixed(m, c).tolist() == [[1, 2], [7, 8]]
    of_mask, of_candidates = ft.mixed_gradients(m, c, F([[1, 1], [1, 2]]))
    assert of_mask.tolist() == [[3, 11], [11, 23]]
    assert of_candidates.tolist() == [[[1, 1], [0, 0]], [[0, 0], [1, 2]]]


def test_other_widths_add_noise_without_bias():
    mask, g = F([[1, 0], [0, 1]]), F([[7, -0.5], [1, -1]])
    draws = np.random.default_rng(0).random((2000, 2, 2, 2))
    found = np.stack([ft.summed_gradients(mask, g, [3, 8], u) for u in draws])
    assert found.mean(axis=0) == pytest.approx(g, abs=0.05)
    assert found[:, 0, 0].std() < 0.01  # an end of the grid of 3 bits; 0 is not a value of 8 bits
    assert found[:, 1, 0].std() > 0.1  # 3 bits from -0.5 to 7 have no 0


def test_costs_by_hand():
    for (a, g), expected in zip(zip(*ft.CIFAR), [1.76, 2.08, 2.60, 3.39, 4.69], strict=True):
        one = np.array([[[1.0]]])
        C = ft.cost(one, ([a], [g]), 4)
        assert ft.percent(C, 1, [1.0]) == pytest.approx(expected, abs=0.005)
    assert ft.width_cost(0, 0, 4) == 0
    assert ft.width_cost(0, 0, 0, zero_is_full=True) == 3
    assert ft.percent(3 * 5 * 7, 7, [1.0] * 5) == 100
    assert ft.depthwise_cost([2, 3], 4) == 5 * 320 / 1024 * 4
    masks = np.array([[[1, 0], [0, 1]], [[0, 1], [0, 1]]])
    both = ft.cost(masks, ([4, 8], [8, 16]), 8, [1.0, 2.0])
    assert both == (128 + 320 + 2 * (320 + 320)) / 1024


def test_the_direction_of_the_cost():
    assert [ft.direction(cp, 3) for cp in (2.9, 3, 3.1)] == [-1, 1, 1]
    found = [ft.direction(cp, 3, 0.5) for cp in (2.4, 2.5, 2.9, 3, 3.4, 3.5)]
    assert found == [-1, -0.1, -0.1, 0.1, 0.1, 1]
    assert [ft.direction_of_fractrain(cp, 3, 0.5) for cp in (2.9, 3, 3.5)] == [-1, 0, 1]
    assert ft.direction_of_fractrain(3, 3) == 1
    assert ft.loss(2.0, 100.0, -1, [1.0, 1.0]) == pytest.approx(1.9)
    assert ft.loss(2.0, 1000.0, 1, [1.0], adaptive=True) == pytest.approx(2.2)
    assert ft.loss(2.0, 1000.0, -1, [3.0, 7.0], adaptive=True) == pytest.approx(1.8)
    assert ft.loss(2.0, 900.0, -1, [3.0, 7.0], adaptive=True) == pytest.approx(1.82)
    assert [ft.target(i) for i in range(4)] == [1.5, 2, 2.5, 3]


def test_the_schedule_turns_when_the_losses_stall():
    rule = ft.Schedule()
    assert [rule.update(1.0) for _ in range(5)] == [False] * 4 + [True]
    assert rule.epsilon == pytest.approx(0.015)
    assert [rule.update(x) for x in (1.02, 1, 1, 1, 1)] == [False] * 5
    assert rule.update(1.0)
    assert rule.epsilon == pytest.approx(0.0045)
    assert [rule.update(1.0) for _ in range(5)][-1]
    assert rule.epsilon == pytest.approx(0.0045)
    assert not any(rule.update(1.0) for _ in range(20))
    assert rule.turns == 3


def test_the_scale_is_the_mean_of_the_first_ten_losses():
    rule = ft.Schedule(epsilon=0.1)
    losses = [float(x) for x in range(20, 0, -1)]
    turned = [i for i, x in enumerate(losses) if rule.update(x)]
    assert turned == []
    assert rule.total / 10 == 15.5
    assert not any(rule.update(x) for x in (2.6, 1, 1, 1))
    assert not rule.update(1.0)  # window 2.6 1 1 1 1: 1.6 / 15.5 > 0.1
    assert rule.update(1.0)


def test_nan_losses_are_a_turning_point():
    rule = ft.Schedule()
    assert [rule.update(math.nan) for _ in range(5)] == [False] * 4 + [True]


def test_a_scale_below_zero_is_a_stall():
    rule = ft.Schedule()
    assert [rule.update(x) for x in (-1.0, -9.0, 3.0, -20.0, 4.0)][-1]


def test_rates_and_first_weights():
    assert [round(ft.sgd_rate(i), 6) for i in (0, 31999, 32000, 48000)] == [0.1, 0.1, 0.01, 0.001]
    assert ft.normal_deviation(3, 18) == pytest.approx(1 / 9)
    assert ft.linear_deviation(4, 2) == 0.5
    assert ft.scheduled_cost(32, 32) == 1
