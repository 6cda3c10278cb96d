"""Proofs about 1-bit Adam and Birder: momenta in two phases of one bit.

W workers, n elements, d elements with padding. Random tests: |z| < 5, a chance of 6e-7 each.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.python.one_bit_claims import DATA, bits_of, gradients, largest, padded

# 1-bit Adam
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "warmup, of, ratio", [(3, 20, 4.9231), (4, 16, 3.3684), (0, 4, 16.0), (4, 4, 1.0)]
)
def test_OB1_volume_against_fp16(warmup, of, ratio):
    """1 / (w + (1 - w) / 16), w the share of warm-up steps; without padding exactly. Phase two
    repeats phase one's volume."""
    workers, n, state, sent = 4, 320, {}, 0
    rng = np.random.default_rng(1)
    for step in range(of):
        g = rng.standard_normal((workers, n)).astype(np.float32)
        e = apscope.exchange(
            f"onebit_adam:warmup={warmup},warmup_format=fp16", g, state=state, step=step
        )
        state = e.state
        assert (
            e.side_bits == [0 if step < warmup else 64] * workers and e.reduction == "own:two_phase"
        )
        sent += sum(8 * len(p) for p in e.payload)
    w = Fraction(warmup, of)
    assert Fraction(16 * n * workers * of, sent) == 1 / (w + (1 - w) / 16)
    assert math.isclose(16 * n * workers * of / sent, ratio, rel_tol=2e-5)


class Reference:
    """Both phases, from the formulas, with exact sums rounded once."""

    def __init__(self, workers, n, beta):
        self.d, self.beta = padded(n, workers), beta
        self.m, self.e, self.server = np.zeros(n), np.zeros((workers, self.d)), np.zeros(self.d)

    @staticmethod
    def compress(v):
        scale = float(np.float32(math.sqrt(math.fsum(v * v) / v.size)))
        return np.where(v >= 0, scale, -scale)

    def step(self, g):
        workers, n = g.shape
        asked = self.beta * self.m + (1 - self.beta) * g.astype(np.float64)
        v = np.pad(asked, ((0, 0), (0, self.d - n))) + self.e
        sent = np.stack([self.compress(row) for row in v])
        self.e = v - sent
        chunks = (sent.mean(axis=0) + self.server).reshape(workers, -1)
        answer = np.stack([self.compress(chunk) for chunk in chunks])
        self.server = (chunks - answer).ravel()
        self.m = answer.ravel()[:n]
        return asked, sent[:, :n]


@pytest.mark.parametrize("workers, n", [(1, 5), (2, 64), (3, 50), (8, 129)])
def test_OB_both_phases_are_the_algorithms(workers, n):
    """Eight steps against the formulas; then: all answers sum to all momenta less the last errors
    of both sides."""
    rng, reference, state = np.random.default_rng(n), Reference(workers, n, 0.9), {}
    answers, momenta = np.zeros(n), np.zeros(n)
    for step in range(8):
        g = rng.standard_normal((workers, n)).astype(np.float32)
        e = apscope.exchange("onebit_adam", g, state=state, step=step)
        state = e.state
        asked, sent = reference.step(g)
        for ours, theirs in (
            (e.intended, asked),
            (e.sent, sent),
            (e.reduced / workers, reference.m),
            (state["server_error"], reference.server),
        ):
            assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-6)
        assert np.allclose(
            np.stack([state[f"error/{w}"] for w in range(workers)]),
            reference.e,
            rtol=1e-6,
            atol=1e-6,
        )
        assert (
            np.array_equal(state["momentum"], e.reduced / workers)
            and e.payload_bits == [reference.d] * workers
        )
        answers, momenta = answers + e.reduced / workers, momenta + e.intended.mean(axis=0)
    left = np.mean([state[f"error/{w}"] for w in range(workers)], axis=0) + state["server_error"]
    assert np.allclose(answers + left[:n], momenta, rtol=0, atol=1e-12)


def test_OB2_both_scales_keep_the_norm_and_lose_what_closed_form_7_says(trace):
    """|v - C(v)|^2 = 2 |v|^2 - 2 |v|_2 |v|_1 / sqrt(d), padding included, for every worker and
    every server's chunk."""
    name, state, old = largest(trace), {}, {}
    for step in trace.steps[:5]:
        g = gradients(trace, step, name, 8)
        workers, n = g.shape
        d = padded(n, workers)
        e = apscope.exchange("onebit_adam", g, state=state, step=step, tensor=name)
        old, state = state, e.state
        decoded = []
        cases = []
        for w in range(workers):
            v = np.pad(e.intended[w], (0, d - n)) + old.get(f"error/{w}", np.zeros(d))
            decoded.append(v - state[f"error/{w}"])
            cases.append((v, state[f"error/{w}"]))
        server = np.mean(decoded, axis=0) + old.get("server_error", np.zeros(d))
        cases += list(
            zip(
                server.reshape(workers, -1), state["server_error"].reshape(workers, -1), strict=True
            )
        )
        for v, error in cases:
            if not v.any():
                continue
            squares = (v**2).sum()
            # The norm is kept.
            assert math.isclose(((v - error) ** 2).sum(), squares, rel_tol=2.0**-22)
            lost = 2 * squares - 2 * math.sqrt(squares / v.size) * np.abs(v).sum()
            assert abs((error**2).sum() - lost) <= 2.0**-22 * squares


def test_OB_single_answers_say_little_their_sum_says_much():
    """What is asked holds 0.9 of the last answer, whose error the next one takes back: measured on
    one recorded tensor, a step's answer has no correlation with what was asked and 0.46 with the
    exact momentum; sums over steps get to 0.96."""
    trace = apscope.open_trace(DATA / "digits")
    cosine = lambda a, b: (a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum())
    state, answers, given, momentum, found = {}, 0.0, 0.0, 0.0, []
    for step in trace.steps:
        g = gradients(trace, step, "conv2.weight")
        e = apscope.exchange("onebit_adam", g, state=state, step=step, tensor="conv2.weight")
        state, mean, answer = e.state, g.mean(axis=0, dtype=np.float64), e.reduced / len(g)
        momentum = 0.9 * momentum + 0.1 * mean
        answers, given = answers + answer, given + mean
        found.append(
            (
                cosine(answer, e.intended.mean(axis=0)),
                cosine(answer, momentum),
                cosine(answers, given),
            )
        )
    asked, exact, summed = np.transpose(found)
    assert abs(asked[1:].mean()) < 0.1 and 0.4 < exact.mean() < 0.5 and summed[-1] > 0.95


def test_one_bit_has_no_zero_a_dead_coordinate_gets_the_scale():
    g = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    g[:, 5] = 0
    e = apscope.exchange("onebit_adam", g)
    assert not e.intended[:, 5].any()
    assert (np.abs(e.sent[:, 5]) == np.abs(e.sent[:, 6])).all() and e.reduced[5] != 0


# birder
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amsgrad", ["false", "true"])
@pytest.mark.parametrize("beta", [0.5, 0.9, 0.999])
def test_B1_the_momentum_never_exceeds_the_mean_magnitude(beta, amsgrad):
    """In fp32, every step, no slack: rounding is monotonic and symmetric, and both averages are
    computed alike."""
    rng, state, n = np.random.default_rng(8), {}, 4000
    f, one = np.float32(beta), np.float32(1)
    m = b = np.zeros((2, n), np.float32)
    for step in range(20):
        g = np.ldexp(rng.standard_normal((2, n)), rng.integers(-140, 100, n)).astype(np.float32)
        g[:, :100], g[:, 100:200] = 0, np.abs(g[:, 100:200])
        e = apscope.exchange(f"birder:beta={beta},amsgrad={amsgrad}", g, state=state, step=step)
        state = e.state
        m, mean = f * m + (one - f) * g, f * b + (one - f) * np.abs(g)
        b = np.maximum(mean, b) if amsgrad == "true" else mean
        ours = [np.stack([state[f"{k}/{w}"] for w in range(2)]) for k in "mb"]
        assert np.array_equal(ours[0], m) and np.array_equal(ours[1], b)
        assert (np.abs(m) <= b).all() and (np.abs(e.intended) <= 1).all()
        with np.errstate(invalid="ignore"):
            ratio = m.astype(np.float64) / b.astype(np.float64)
        assert np.array_equal(e.intended, np.where(b == 0, 0, ratio))
        assert not e.intended[:, :100].any() and (
            amsgrad == "true" or (e.intended[:, 100:200][b[:, 100:200] > 0] == 1).all()
        )


def test_B1_is_false_for_linear_interpolation():
    """m + (1 - beta) (g - m): next to a large g the difference loses which of m and b was
    larger."""
    rng, met = np.random.default_rng(8), 0
    m = b = np.zeros(100_000, np.float32)
    rest = np.float32(1) - np.float32(0.9)
    for _ in range(10):
        g = np.ldexp(rng.standard_normal(m.size), rng.integers(-12, 12, m.size)).astype(np.float32)
        m, b = m + rest * (g - m), b + rest * (np.abs(g) - b)
        met += (np.abs(m) > b).sum()
    assert met > 0


def after_some_steps(spec, workers, n, seed=0):
    rng, state = np.random.default_rng(seed), {}
    for step in range(4):
        g = (rng.standard_normal(n) * 0.5 + rng.standard_normal((workers, n))).astype(np.float32)
        e = apscope.exchange(spec, g, state=state, step=step, seed=seed)
        state = e.state
    return e


@pytest.mark.parametrize("group, workers", [(1, 1), (1, 4), (1, 7), (2, 4), (3, 8)])
def test_B2_both_draws_are_unbiased_and_have_the_variance_of_a_sign(group, workers):
    """E sent = u, Var = 1 - u^2; E answer = mean of u, Var in all = 1 - (mean of u)^2. Group > 1: u
    is its node's mean."""
    n = 100_000
    e = after_some_steps(f"birder:group={group}", workers, n)
    u = e.intended
    assert (np.abs(u) < 1).mean() > 0.8, "a test of no draws"
    node = np.stack([u[w - w % group : w - w % group + group].mean(axis=0) for w in range(workers)])
    mean, answer = u.mean(axis=0), e.reduced / workers
    assert set(np.unique(answer)) == {-1.0, 1.0}
    if group == 1:
        assert np.allclose(e.variance, 1 - u**2, atol=2.0**-30) and np.allclose(
            e.bias, 0, atol=2.0**-30
        )
    for expected, drawn in [*zip(node[::group], e.sent[::group], strict=True), (mean, answer)]:
        variance = 1 - expected**2
        for weight in (np.ones(n), expected, np.where(np.arange(n) % 2, 1, -1)):
            assert abs((weight * (drawn - expected)).sum()) < 5 * math.sqrt(
                (weight**2 * variance).sum()
            )
        # (drawn - E)^2 = 1 - 2 drawn E + E^2 has the mean 1 - E^2 and the variance 4 E^2 (1 - E^2)
        assert abs(((drawn - expected) ** 2 - variance).sum()) < 5 * math.sqrt(
            (4 * expected**2 * variance).sum()
        )
    # The mean of the signs before the second draw: variance sum of (1 - u_w^2) / W^2. Chebyshev's
    # fourth moment by the sample.
    squares = (e.sent.mean(axis=0) - mean) ** 2
    sizes = np.array([min(group, workers - first) for first in range(0, workers, group)])
    exact = ((sizes**2)[:, None] * (1 - node[::group] ** 2)).sum(axis=0) / workers**2
    assert abs((squares - exact).sum()) < 5 * (squares - exact).std() * math.sqrt(n)


def test_B2_the_two_draws_are_independent():
    """Given the mean of the sent signs, the answer is a draw of it: its error has no correlation
    with the first one's."""
    e = after_some_steps("birder", 4, 100_000, seed=3)
    mean = e.sent.mean(axis=0)
    first, second = mean - e.intended.mean(axis=0), e.reduced / 4 - mean
    assert abs((first * second).sum()) < 5 * math.sqrt((first**2 * (1 - mean**2)).sum())
    assert abs(second.sum()) < 5 * math.sqrt((1 - mean**2).sum())


def test_B2_a_dead_coordinate_is_a_coin():
    e = apscope.exchange("birder", np.zeros((2, 100_000), np.float32))
    for signs in (*e.sent, e.reduced / 2):
        assert abs(signs.sum()) < 5 * math.sqrt(signs.size)


@pytest.mark.parametrize("nodes, gpus", [(2, 2), (4, 2), (2, 8), (4, 8)])
def test_B3_bits_that_leave_a_node(nodes, gpus):
    """k nodes of p workers. Flat all-to-all, then all-gather: n (k-1)/k each a worker; with groups
    n (k-1)/(k p): p times less. Counted message by message from what each worker holds."""
    workers, n = nodes * gpus, 64 * nodes * gpus
    g = np.random.default_rng(0).standard_normal((workers, n)).astype(np.float32)
    flat, grouped = apscope.exchange("birder", g), apscope.exchange(f"birder:group={gpus}", g)
    assert flat.side_bits == grouped.side_bits == [0] * workers

    def leaving(payload_bits, peers):
        """Worker 0 sends its payload in equal pieces to its peers, then its own piece of the answer
        to each of them."""
        piece = Fraction(payload_bits, len(peers))
        outside = sum(peer // gpus != 0 for peer in peers)
        return piece * outside, piece * outside

    assert leaving(flat.payload_bits[0], range(workers)) == (Fraction(n * (nodes - 1), nodes),) * 2
    lane = range(0, workers, gpus)  # the workers of one rank in their nodes
    assert leaving(grouped.payload_bits[0], lane) == (Fraction(n * (nodes - 1), nodes * gpus),) * 2
    # The members' payloads are their node's signs, in order; all members stand for the same signs.
    for first in range(0, workers, gpus):
        signs = np.concatenate(
            [
                bits_of(p, b)
                for p, b in zip(
                    grouped.payload[first : first + gpus],
                    grouped.payload_bits[first : first + gpus],
                    strict=True,
                )
            ]
        )
        assert (grouped.sent[first : first + gpus] == 2.0 * signs - 1).all()
