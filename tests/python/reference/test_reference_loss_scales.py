"""The reference of Backoff and LogMax: its own checks."""

import math

import pytest

from tests.reference.loss_scales import Average, Backoff, LogMax


@pytest.mark.parametrize("counts_first", [False, True])
def test_backoff_doubles_after_a_window(counts_first):
    rule = Backoff(scale=8, window=4, counts_first=counts_first)
    scales = [rule.update(1.0) for _ in range(9)]
    first = 3 - counts_first  # iteration - (-1) = 4
    assert scales == [8] * first + [16] * 4 + [32] * (9 - first - 4)


def test_backoff_halves_at_an_overflow_and_counts_from_there():
    rule = Backoff(scale=8, window=4)
    assert rule.update(math.inf) == 4
    assert [rule.update(1.0) for _ in range(4)] == [4, 4, 4, 8]
    assert rule.update(1.0, has_nan=True) == 4
    assert [rule.update(1.0) for _ in range(8)] == [4, 4, 4, 8, 8, 8, 8, 16]


def test_backoff_stays_within_its_bounds():
    rule = Backoff(window=1)
    assert rule.update(1.0) == 2.0**14
    assert [rule.update(math.nan) for _ in range(15)][-1] == 1


def test_an_average_of_a_constant_is_that_constant():
    average = Average(0.99)
    assert [average.update(5.0) for _ in range(4)] == pytest.approx([5] * 4)


def test_logmax_of_a_constant_amax():
    rule = LogMax()
    for _ in range(50):
        assert rule.update(2.0**5) == pytest.approx(2.0**11, rel=1e-5)  # sigma: roundings of 0
    assert LogMax().update(2.0**-20) == 2.0**14
    assert LogMax().update(2.0**17) == 1


def test_logmax_by_hand():
    rule = LogMax()
    rule.update(2.0**4)
    mu = (0.99 * 0.01 * 4 + 0.01 * 8) / (1 - 0.99**2)
    m = (0.999 * 0.001 * 4 + 0.001 * 8) / (1 - 0.999**2)
    E = (0.999 * 0.001 * 16 + 0.001 * 64) / (1 - 0.999**2)
    expected = 2 ** (16 - mu - 3.09 * math.sqrt(E - m * m))
    assert 1 < expected < 2**14
    assert rule.update(2.0**8) == pytest.approx(expected, rel=1e-9)


def test_logmax_after_an_overflow_is_at_its_least():
    rule = LogMax()
    rule.update(1.0)
    assert rule.update(math.inf) == 1
    assert rule.update(1.0) == 1


def test_logmax_of_zero_is_not_guarded():
    rule = LogMax()
    assert math.isnan(rule.update(0.0))
    assert math.isnan(rule.update(1.0))
