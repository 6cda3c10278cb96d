"""Proofs about ZipML's double sampling and variance-optimal levels, and the gain on recorded
gradients."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from apscope.studies.double_sampling import gradients
from apscope.studies.levels import optimal_levels
from tests.python.one_bit_claims import DATA, middle

GOLDEN = [0, 1, 2, 3, 10, 11, 12, 40, 41, 100]


def added(x, levels):
    """Sum of (x - below)(above - x), in rationals; every x within the levels."""
    total, levels = Fraction(0), [Fraction(float(v)) for v in levels]
    for v in map(Fraction, map(float, x)):
        below, above = max(b for b in levels if b <= v), min(a for a in levels if a >= v)
        total += (v - below) * (above - v)
    return total


def added_fast(x, levels):
    x, levels = np.asarray(x, np.float64).ravel(), np.asarray(levels, np.float64)
    above = np.clip(np.searchsorted(levels, x, side="right"), 1, levels.size - 1)
    return ((x - levels[above - 1]) * (levels[above] - x)).sum()


def brute_force(x, k):
    inside = sorted(set(map(float, x)))
    ends = inside[0], inside[-1]
    return min(
        added(x, [*ends, *middle_points])
        for middle_points in itertools.combinations(inside[1:-1], min(k, len(inside)) - 2)
    )


def test_Z1_the_bias_of_one_draw():
    """a = (.3, .7) on {0, 1}, x = (1, 2): every outcome with its probability."""
    a, x, b = (Fraction(3, 10), Fraction(7, 10)), (1, 2), Fraction(1, 4)
    mean = [Fraction(0)] * 2
    twice = [Fraction(0)] * 2
    outcomes = [
        ((i, j), (a[0] if i else 1 - a[0]) * (a[1] if j else 1 - a[1]))
        for i in (0, 1)
        for j in (0, 1)
    ]
    for q, p in outcomes:
        for i in (0, 1):
            mean[i] += p * q[i] * (q[0] * x[0] + q[1] * x[1] - b)
            twice[i] += sum(p * p2 * q[i] * (r[0] * x[0] + r[1] * x[1] - b) for r, p2 in outcomes)
    exact = [a[i] * (a[0] * x[0] + a[1] * x[1] - b) for i in (0, 1)]
    bias = [mean[i] - exact[i] for i in (0, 1)]
    assert twice == exact and bias == [Fraction(21, 100), Fraction(42, 100)]
    d = gradients([[0.3, 0.7]], x, [0.25], [0, 1])
    assert np.allclose(d.naive_bias, [0.21, 0.42], rtol=1e-14) and np.allclose(
        d.exact, [float(e) for e in exact], rtol=1e-14
    )


def test_Z1_two_draws_are_unbiased():
    rng = np.random.default_rng(0)
    a, x, b = rng.uniform(-1, 1, (20, 6)), rng.standard_normal(6), rng.standard_normal(20)
    levels, draws = [-1, -0.4, 0.1, 0.5, 1], 3000
    runs = [gradients(a, x, b, levels, seed=seed) for seed in range(draws)]
    for r in runs[:10]:
        assert not np.array_equal(r.first, r.second) and np.isin(r.first, levels).all()
        gap = np.diff(levels)[np.searchsorted(levels, a, side="right") - 1]
        assert (
            np.abs(r.first - r.second) <= gap + 1e-12
        ).all()  # one bit tells the second draw from the first
    for name, bias in (("unbiased", 0), ("naive", runs[0].naive_bias)):
        values = np.stack([getattr(r, name) for r in runs])
        z = (values.mean(axis=0) - runs[0].exact - bias) / (
            values.std(axis=0, ddof=1) / math.sqrt(draws)
        )
        assert np.abs(z).max() < 5
    z = runs[0].naive_bias / (np.stack([r.naive for r in runs]).std(axis=0) / math.sqrt(draws))
    assert np.abs(z).max() > 20  # the bias is there to be seen
    assert np.allclose(runs[0].exact, a.T @ (a @ x - b) / 20, rtol=1e-12)


def test_Z1_refusals():
    for a, x, b, levels, words in [
        ([1.0], [1], [1], [0, 1], "must be"), ([[1.0]], [1, 2], [1], [0, 1], "must be"),
        ([[1.0]], [1], [1], [1, 0], "ascend"), ([[2.0]], [1], [1], [0, 1], "within the levels"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            gradients(a, x, b, levels)


@pytest.mark.parametrize("method", ["exact", "fast", "candidates"])
def test_Z2_golden(method):
    x = np.float32(GOLDEN)
    assert optimal_levels(x, 2, method).variance == 8340
    levels, variance = vars(optimal_levels(x[::-1], 3, method)).values()
    assert levels.tolist() == [0, 40, 100] and variance == 1240
    assert added(GOLDEN, [0, 50, 100]) == 2340
    for k in range(2, 12):
        levels, variance = vars(optimal_levels(x, k, method)).values()
        assert variance == brute_force(GOLDEN, k) == added(GOLDEN, levels) and levels.size == min(
            k, 10
        )


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8])
def test_Z2_equals_brute_force(k):
    rng = np.random.default_rng(k)
    for n in (1, 2, 3, 7, 10, 12):
        for draw in range(4):
            x = rng.standard_normal(n) * np.exp(2 * rng.standard_normal(n))
            # With many equal elements, and without.
            x = (np.rint(2 * x) if draw % 2 else x).astype(np.float32)
            best = brute_force(x, k) if len(set(x.tolist())) > k else 0
            for method in ("exact", "fast", "candidates"):
                levels, variance = vars(optimal_levels(x, k, method)).values()
                assert math.isclose(variance, best, rel_tol=1e-12, abs_tol=0) and levels.size <= k
                assert (np.diff(levels) > 0).all() and {levels[0], levels[-1]} == {x.min(), x.max()}


def test_Z2_costs_do_not_cancel():
    """Segments of 1e-6 beside elements of 1: the prefix sums hold squares 1e12 times a segment's
    cost."""
    rng = np.random.default_rng(20)
    x = np.concatenate([rng.uniform(-1e-6, 1e-6, 9), [-1, 1]]).astype(np.float32)
    for k in (5, 6, 8):
        for method in ("exact", "fast"):
            assert math.isclose(
                optimal_levels(x, k, method).variance,
                brute_force(x, k),
                rel_tol=1e-9,
            )


def test_Z2_fast_is_exact_and_candidates_are_close(trace):
    for _, g in middle(trace, least=600):
        x = g[0, :1200]
        for k in (4, 16):
            exact, fast, few = (
                optimal_levels(x, k, method).variance for method in ("exact", "fast", "candidates")
            )
            assert (
                math.isclose(exact, fast, rel_tol=1e-12)
                and exact <= few * (1 + 1e-12)
                and few <= 1.05 * exact
            )


@pytest.mark.parametrize("k, bound", [(4, 1.001), (16, 1.02), (64, 1.4)])
def test_Z2_candidates_of_many_elements(k, bound):
    """As docs/schemes.md says, of heavy tails too."""
    rng = np.random.default_rng(1)
    for x in (
        rng.standard_normal(60000),
        rng.laplace(size=60000),
        rng.standard_normal(60000) * np.exp(2 * rng.standard_normal(60000)),
    ):
        best, found = (
            optimal_levels(x.astype(np.float32), k, method).variance
            for method in ("fast", "candidates")
        )
        assert best <= found * (1 + 1e-12) and found <= bound * best


def test_Z2_no_variance_where_every_element_is_a_level():
    x = np.float32([3, 3, 3, -1, -1, 0, 0.0, -0.0])
    for method in ("exact", "fast", "candidates"):
        for k in (3, 4, 100):
            levels, variance = vars(optimal_levels(x, k, method)).values()
            assert levels.tolist() == [-1, 0, 3] and variance == 0
    assert np.array_equal(apscope.exchange("zipml:levels=3", x[None]).sent[0], x)
    for bad, error, words in [
        (np.float32([]), ValueError, "no element"),
        (np.float32([1, np.nan]), ValueError, r"x\[1\]"),
        (np.ones(3), TypeError, "float64"),
    ]:
        with pytest.raises(error, match=words):
            optimal_levels(bad, 4)


def test_Z2_the_scheme_sends_its_codebooks(trace):
    """A bucket's values are among the levels that are best for it, which cost 32 bits each; V is
    the sum that was minimised."""
    for _, g in middle(trace, workers=2, least=50):
        n, bucket = g.shape[1], 37
        e = apscope.exchange(f"zipml:levels=5,bucket={bucket},method=fast,random_bits=53", g)
        assert e.payload_bits == [3 * n] * 2 and e.side_bits == [32 * 5 * -(-n // bucket)] * 2
        for w in range(2):
            for begin in range(0, min(n, 20 * bucket), bucket):
                part = slice(begin, begin + bucket)
                levels, variance = vars(optimal_levels(g[w, part], 5)).values()
                assert np.isin(e.sent[w, part], levels).all()
                assert math.isclose(
                    e.variance[w, part].sum(),
                    variance,
                    rel_tol=1e-9,
                    abs_tol=1e-12 * np.abs(levels).max() ** 2,
                )


def exponential(amax, k):
    """0 and k - 1 signed powers of two below amax: the positive side has one more."""
    return amax * np.sort(
        np.concatenate([[0], -(2.0 ** -np.arange((k - 1) // 2)), 2.0 ** -np.arange(k // 2)])
    )


def joined(name):
    """Each worker's gradients of all tensors in a row, at the middle step: what a bucket of 51200
    elements sees."""
    trace = apscope.open_trace(DATA / name)
    step = trace.steps[len(trace.steps) // 2]
    for worker in range(4):
        yield np.concatenate(
            [trace.read(step, t.name, worker).ravel() for t in trace.manifest.tensors]
        )


def shares(x, k):
    """V of powers of two and of the optimum over that of even spacing, all from -amax to amax but
    the optimum."""
    amax = float(np.abs(x).max())
    even, powers = (
        added_fast(x, levels) for levels in (np.linspace(-amax, amax, k), exponential(amax, k))
    )
    return powers / even, optimal_levels(x, k).variance / even


#: measured, k = 16: geometric means over the workers
SHARES = {
    "digits": (0.2140, 0.0966),
    "digits_w64": (0.3178, 0.1233),
    "characters": (0.0792, 0.0558),
}


@pytest.mark.parametrize("name", SHARES)
def test_Z3_powers_of_two_beat_even_spacing_and_the_optimum_beats_both(name):
    """Where layers of different size share a codebook."""
    measured = [shares(x, 16) for x in joined(name)]
    for powers, best in measured:
        assert powers < 0.5 and best < 0.2 and best < powers
    assert np.allclose(np.exp(np.log(measured).mean(axis=0)), SHARES[name], rtol=0.01)


def test_Z3_the_optimum_is_never_worse_and_powers_of_two_can_be(trace):
    """With one codebook per tensor the optimum always wins; powers of two win if the largest
    magnitude is 8 standard deviations or more, and lose if it is below 4."""
    seen = []
    for _, g in middle(trace, least=50):
        for x in g:
            for k in (4, 8, 16):
                powers, best = shares(x, k)
                within = added_fast(x, np.linspace(x.min(), x.max(), k)) / added_fast(
                    x, np.linspace(-np.abs(x).max(), np.abs(x).max(), k)
                )
                assert best <= min(1, powers, within) * (1 + 1e-9)
            seen.append((np.abs(x).max() / x.std(), powers))
    peak, powers = np.array(seen).T
    assert (powers[peak >= 8] < 0.5).all() and (peak >= 8).any()
    assert (powers[peak < 4] > 0.9).all() and (peak < 4).any()
