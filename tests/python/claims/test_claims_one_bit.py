"""Proofs about signs, votes and error feedback.

Notation: W workers, n elements, d elements with padding, S = mean / standard deviation of one
element's noise, Phi the normal distribution. Random tests: |z| < 5, a chance of 6e-7 each.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import apscope
from tests.python.one_bit_claims import (
    bits_of,
    gradients,
    largest,
    middle,
    padded,
    proportion_z,
)

PHI = NormalDist().cdf


def rationals(x):
    return [Fraction(float(v)) for v in x]


# signs and scales
# ------------------------------------------------------------------------------------


def odd_rows():
    rng = np.random.default_rng(3)
    wild = np.ldexp(rng.standard_normal(300), rng.integers(-60, 60, 300)).astype(np.float32)
    wild[::7] = 0
    return [
        ("wild", wild[None]),
        ("zeros and one", np.float32([[0, 0, 3, 0]])),
        ("one", np.float32([[-0.7]])),
        ("equal", np.full((2, 33), -0.1, np.float32)),
    ]


@pytest.mark.parametrize("padding", ["none", "workers"])
def test_closed_form_7_error_of_scaled_signs(trace, padding):
    """With the scale s as sent, the squared error is |x|^2 - 2 s |x|_1 + d s^2, an identity of
    rationals. At the real number S instead of s = S (1 + e), |e| <= 2^-24 + d 2^-53 (fp32, and the
    sum before): l1: |x|^2 - |x|_1^2 / d, off by d (s - S)^2;  l2: 2 |x|^2 - 2 |x|_2 |x|_1 /
    sqrt(d), off by |s - S| |d (s + S) - 2 |x|_1|."""
    for _, g in [*middle(trace, 2), *odd_rows()]:
        workers, n = g.shape
        d = padded(n, workers) if padding == "workers" else n
        for scale in ("l1", "l2"):
            e = apscope.exchange(f"sign:scale={scale},padding={padding}", g)
            assert e.payload_bits == [d] * workers and e.side_bits == [32] * workers
            for x, y, payload in zip(g, e.sent, e.payload, strict=True):
                assert np.array_equal(
                    bits_of(payload, d), np.concatenate([x >= 0, np.ones(d - n, bool)])
                )
                s = Fraction(abs(float(y[0])))
                assert np.float32(s) == s and np.array_equal(
                    y, np.where(x >= 0, float(s), -float(s))
                )
                a, b = rationals(x), rationals(y)
                squares, absolute = sum(v * v for v in a), sum(abs(v) for v in a)
                error = sum((u - v) ** 2 for u, v in zip(a, b, strict=True)) + (d - n) * s * s
                assert error == squares - 2 * s * absolute + d * s * s
                slack = Fraction(1, 2**24) + Fraction(d, 2**53)
                if scale == "l1":
                    exact = absolute / d
                    assert abs(s - exact) <= slack * exact
                    assert 0 <= error - (squares - absolute**2 / d) == d * (s - exact) ** 2
                    continue
                with localcontext() as context:
                    context.prec = 60
                    number = lambda q: Decimal(q.numerator) / Decimal(q.denominator)
                    root = (number(squares) / d).sqrt()
                    assert abs(number(s) - root) <= number(slack) * root
                    off = number(error) - (2 * number(squares) - 2 * root * number(absolute))
                    bound = (
                        number(slack) * root * abs(d * (number(s) + root) - 2 * number(absolute))
                    )
                    assert abs(off) <= bound + Decimal("1e-50") * number(squares)


def test_every_element_is_coded_as_one_of_two_zeros_and_tiny_numbers_too():
    x = np.float32([[0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38]])
    for spec in ("sign", "sign:scale=l2", "sign:scale=one", "sign_vote"):
        e = apscope.exchange(spec, x)
        assert np.array_equal(np.sign(e.sent[0]), [1, 1, 1, -1, 1, -1])
        assert len(set(np.abs(e.sent[0]))) == 1
    zeros = apscope.exchange("sign", np.zeros((2, 5), np.float32))
    assert not zeros.sent.any() and bits_of(zeros.payload[0], 5).all()  # scale 0, signs +


# votes
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("snr", [0.1, 0.5, 1.0, 2.0])
def test_SG1_a_sign_is_wrong_with_probability_phi_of_minus_the_signal_to_noise_ratio(snr):
    noise = np.random.default_rng(11).standard_normal((50, 4000))
    e = apscope.exchange("sign_vote", (snr + noise).astype(np.float32))
    assert abs(proportion_z((e.sent < 0).sum(), e.sent.size, PHI(-snr))) < 5


def test_SG1_unimodal_symmetric_noise_stays_under_the_bound_and_uniform_noise_reaches_it():
    """2 / (9 S^2) above S = 2 / sqrt(3), else 1/2 - S / (2 sqrt(3)); uniform noise has the latter
    exactly."""
    bound = lambda s: 2 / (9 * s * s) if s > 2 / math.sqrt(3) else 0.5 - s / (2 * math.sqrt(3))
    for s in np.linspace(0.01, 6, 300):
        # Normal, Laplace.
        assert PHI(-s) <= bound(s) and 0.5 * math.exp(-math.sqrt(2) * s) <= bound(s)
    for snr in (0.2, 1.0):
        noise = np.random.default_rng(12).uniform(-math.sqrt(3), math.sqrt(3), (50, 4000))
        e = apscope.exchange("sign_vote", (snr + noise).astype(np.float32))
        assert abs(proportion_z((e.sent < 0).sum(), e.sent.size, bound(snr))) < 5


def wrong_vote(workers, p, tie):
    """P(vote is not +1), each sign wrong with probability p; `tie` what an even vote counts as."""
    terms = [math.comb(workers, k) * p**k * (1 - p) ** (workers - k) for k in range(workers + 1)]
    return math.fsum(t for k, t in enumerate(terms) if 2 * k > workers) + (
        terms[workers // 2] * tie if workers % 2 == 0 else 0
    )


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 9, 64])
@pytest.mark.parametrize("direction", [1, -1])
def test_SG2_the_majority_is_wrong_as_often_as_the_binomial_says(workers, direction):
    """An even vote is +1, so it is right where the truth is positive and wrong where it is
    negative."""
    snr, n = 0.2, 100_000
    noise = np.random.default_rng(workers).standard_normal((workers, n))
    e = apscope.exchange("sign_vote", (direction * (snr + noise)).astype(np.float32))
    assert set(np.unique(e.reduced)) <= {-workers, workers}
    p = wrong_vote(workers, PHI(-snr), 0 if direction > 0 else 1)
    assert abs(proportion_z((e.reduced * direction < 0).sum(), n, p)) < 5
    # Recalled, unverified; a weak bound.
    assert wrong_vote(workers, PHI(-snr), 0) <= 1 / (math.sqrt(workers) * snr)


@pytest.mark.parametrize("workers", [2, 8, 9])
def test_SG2_even_votes_are_biased_or_zero(workers):
    """Without a signal an even vote has probability C(W, W/2) / 2^W: the mean of `plus`; `zero` has
    none."""
    n = 100_000
    g = np.random.default_rng(workers).standard_normal((workers, n)).astype(np.float32)
    even = math.comb(workers, workers // 2) / 2**workers if workers % 2 == 0 else 0.0
    plus, zero = (
        apscope.exchange(f"sign_vote:tie={tie}", g).reduced / workers for tie in ("plus", "zero")
    )
    assert abs(plus.sum() - n * even) < 5 * math.sqrt(n * (1 - even**2))
    assert abs(zero.sum()) < 5 * math.sqrt(n * (1 - even) + 1)
    tied = (g >= 0).sum(axis=0) * 2 == workers
    assert (
        np.array_equal(zero == 0, tied)
        and (plus[tied] == 1).all()
        and np.array_equal(plus[~tied], zero[~tied])
    )


def test_signum_votes_on_the_momentum_and_is_compared_with_it():
    rng, beta, state, m = np.random.default_rng(5), 0.7, {}, np.zeros((3, 40))
    for step in range(5):
        g = rng.standard_normal((3, 40)).astype(np.float32)
        m = beta * m + (1 - beta) * g.astype(np.float64)
        e = apscope.exchange(f"sign_vote:momentum={beta}", g, state=state, step=step)
        state = e.state
        assert np.array_equal(e.intended, m) and np.array_equal(e.sent, np.where(m >= 0, 1, -1))
        assert np.array_equal(e.reduced, 3 * np.where(e.sent.sum(axis=0) >= 0, 1, -1))
    with pytest.raises(ValueError, match="momentum=1 must be a number from 0 to below 1"):
        apscope.schemes.SignVote(momentum=1)


# error feedback
# --------------------------------------------------------------------------------------


def feed(trace, spec, name, workers=2):
    """(gradient, exchange) of every step in turn."""
    state = {}
    for step in trace.steps:
        g = gradients(trace, step, name, workers)
        e = apscope.exchange(f"error_feedback({spec})", g, state=state, step=step, tensor=name)
        state = e.state
        yield g.astype(np.float64), e


@pytest.mark.parametrize(
    "spec",
    [
        "sign",
        "sign:scale=l2",
        "sign:scale=one",
        "aps:e3m0",
        "qsgd:levels=1,bucket=64",
        "multipoint:bits=2,points=1",
    ],
)
def test_EF1_all_that_was_sent_is_all_gradients_less_the_last_error(trace, spec):
    sent, given, size = np.longdouble(0), np.longdouble(0), 0.0
    for g, e in feed(trace, spec, largest(trace)):
        sent, given, size = (
            sent + e.sent.astype(np.longdouble),
            given + g,
            size + np.abs(g) + np.abs(e.sent),
        )
    last = np.stack([e.state[f"error/{w}"] for w in range(len(g))])
    assert last.any() and (np.abs(sent + last - given) <= 1e-13 * size).all()


@pytest.mark.parametrize(
    "inner", ["error_feedback(sign)", "onebit_adam", "error_feedback(powersgd)"]
)
def test_errors_are_fed_back_once(inner):
    with pytest.raises(
        ValueError, match=r"has its own error feedback; use it without error_feedback"
    ):
        apscope.schemes.ErrorFeedback(inner)


def test_EF2_the_error_stays_under_the_bound_of_a_contraction(trace):
    """|p - C(p)|^2 <= (1 - delta) |p|^2 at every step, sigma the largest |g|: |e|^2 <= 4 (1 -
    delta) sigma^2 / delta^2, and (1 - delta) sigma^2 / (1 - sqrt(1 - delta))^2, which is tighter.
    delta: the least one met."""
    for name in [t.name for t in trace.manifest.tensors]:
        delta, sigma, errors = 1.0, 0.0, []
        for g, e in feed(trace, "sign", name, 1):
            p, left = (e.intended**2).sum(), ((e.intended - e.sent) ** 2).sum()
            if p > 0:
                delta = min(delta, 1 - left / p)
            sigma = max(sigma, (g**2).sum())
            errors.append((e.state["error/0"] ** 2).sum())
        assert 0 < delta <= 1
        tight = (1 - delta) * sigma / (1 - math.sqrt(1 - delta)) ** 2
        assert max(errors) <= tight * (1 + 1e-12) and tight <= 4 * (
            1 - delta
        ) * sigma / delta**2 * (1 + 1e-12)


def test_EF3_the_contraction_of_scaled_signs_is_a_ratio_of_norms(trace):
    """delta = |p|_1^2 / (d |p|_2^2), at every step, to the rounding of the scale: relative (2^-24 +
    d 2^-53)^2 of |p|^2, and fp64."""
    for g, e in feed(trace, "sign", largest(trace)):
        for p, y in zip(e.intended, e.sent, strict=True):
            squares, d = (p**2).sum(), p.size
            if squares == 0:
                continue
            delta = np.abs(p).sum() ** 2 / (d * squares)
            assert (
                abs(((p - y) ** 2).sum() / squares - (1 - delta))
                <= (2.0**-24 + d * 2.0**-53) ** 2 + d * 2.0**-52
            )
