"""Claims about transforms, sparsity, codebooks and integer sums, each by a computation of its own
in NumPy."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.python.recorded import record
from tests.reference.random_words import replay_key
from tests.reference.schemes import Scheme, random_k_decoded
from tests.reference.topologies import rank_order_sum


def normal(workers, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal((workers, *shape)).astype(np.float32)


def squares(x):
    return float(np.square(np.asarray(x, np.float64)).sum())


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 100, 257])
@pytest.mark.parametrize("keep", [0.05, 0.15, 0.6])
def test_FF1_the_dropped_coefficients_are_the_error(n, keep):
    """Parseval: the squared error is the mean over n of w |F|^2 over the dropped bins, w = 1 at
    zero frequency and, for even n, at the highest, else 2; so at most theta |v|^2, theta = the
    dropped bins' share of n."""
    v = normal(1, n, seed=n)
    e = apscope.exchange(f"fft_sparse:keep={keep},bits=24,mantissa=20", v)
    f = np.fft.rfft(v[0].astype(np.float64))
    weight = np.full(f.size, 2.0)
    weight[0] = 1.0
    if n % 2 == 0:
        weight[-1] = 1.0
    kept = np.sort(np.argsort(-np.abs(f), kind="stable")[: max(1, int(f.size * keep))])
    dropped = np.delete(np.arange(f.size), kept)
    expected = (weight[dropped] * np.abs(f[dropped]) ** 2).sum() / n
    rounding = 4e-6 * squares(v)  # 2^-21 of every part
    assert abs(squares(e.sent - v) - expected) <= rounding + 1e-9 * math.sqrt(
        expected * squares(v)
    ) + 2 * math.sqrt(rounding * expected)
    assert expected <= weight[dropped].sum() / n * squares(v) * (1 + 1e-12)
    assert e.payload_bits[0] == f.size + 24 * sum(1 if weight[k] == 1 else 2 for k in kept)


def code32(x, mantissa):
    """bits(|x|) >> (23 - m), to nearest, ties to even: by rational arithmetic."""
    if x == 0:
        return 0
    bits = int(np.abs(np.float32(x)).view(np.uint32))
    q = Fraction(bits, 2 ** (23 - mantissa))
    low = math.floor(q)
    return low + (q - low > Fraction(1, 2) or (q - low == Fraction(1, 2) and low % 2 == 1))


@pytest.mark.parametrize(("bits", "mantissa"), [(4, 1), (8, 3), (6, 2), (12, 7)])
def test_FF2_the_window_ends_at_the_largest_and_errs_by_half_an_ulp(bits, mantissa):
    """n = 1: the transform is the identity, so one value a bucket shows the codec: two values share
    a window by their real and imaginary parts at n = 3."""
    rng = np.random.default_rng(bits)
    v = (rng.standard_normal(400) * 2.0 ** rng.integers(-20, 20, 400)).astype(np.float32)
    sent = apscope.exchange(
        f"fft_sparse:keep=1,bits={bits},mantissa={mantissa},bucket=1", v[None]
    ).sent[0]
    room = 2 ** (bits - 1) - 1
    for x, y in zip(v, sent, strict=True):
        # A bucket of one is scaled into [1/2, 1): the same fraction bits.
        scaled = np.float32(math.ldexp(float(x), -math.frexp(float(x))[1]))
        code = code32(scaled, mantissa)
        base = max(code - room, 0)
        assert code - base == room or base == 0
        expected = math.copysign(
            math.ldexp(
                float(np.uint32(code << (23 - mantissa)).view(np.float32)), math.frexp(float(x))[1]
            ),
            x,
        )
        assert y == expected
        assert abs(y - x) <= 2.0 ** (math.floor(math.log2(abs(x))) - mantissa - 1)


def test_FF2_what_lies_below_the_window_is_zero_and_its_least_value_has_code_1():
    """A constant and an alternating signal share a window: their coefficients at zero and at the
    highest frequency."""
    for small in (0.5, 0.25, 2.0**-6, 2.0**-9):
        v = np.float32([[1.0 + small, 1.0 - small]])  # F = 2 and 2 small
        e = apscope.exchange("fft_sparse:keep=1,bits=5,mantissa=1", v)
        # 15 codes, two to a binade: the 15th below the top is 2^-7 of it.
        held = 2 * small >= 2 * 2.0**-7
        assert np.array_equal(e.sent, v if held else np.float32([[1.0, 1.0]])), small


def test_FF3_white_noise_gains_nothing_from_the_transform_and_smooth_signals_do():
    """At the same number of real numbers kept. White noise stays white in any orthonormal basis;
    complex bins hold two numbers each, so that keeping the largest bins keeps a little less than
    the largest numbers would."""
    n, keep, runs = 1024, 0.1, 30
    gains = []
    for seed in range(runs):
        v = normal(1, n, seed=seed)
        frequency = squares(
            apscope.exchange(f"fft_sparse:keep={keep},bits=24,mantissa=20", v).sent - v
        )
        time = squares(apscope.exchange(f"top_k:keep={keep}", v).sent - v)
        gains.append(frequency / time)
    assert np.mean(gains) > 1.0 and (np.array(gains) > 0.99).all()
    smooth = np.cumsum(normal(1, n, seed=99), axis=1).astype(np.float32)
    frequency = squares(
        apscope.exchange(f"fft_sparse:keep={keep},bits=24,mantissa=20", smooth).sent - smooth
    )
    assert frequency < 0.1 * squares(apscope.exchange(f"top_k:keep={keep}", smooth).sent - smooth)


@pytest.mark.parametrize("keep", [0.01, 0.1, 0.5, 1.0])
def test_top_k_loses_at_most_the_share_it_leaves_out(keep):
    for seed in range(20):
        v = normal(1, 300, seed=seed) ** 3
        sent = apscope.exchange(f"top_k:keep={keep}", v).sent
        k = max(1, int(300 * keep))
        assert (sent != 0).sum() == k and squares(sent - v) <= (1 - k / 300) * squares(v) * (
            1 + 1e-12
        )
        order = np.argsort(-np.abs(v[0]), kind="stable")[:k]
        expected = np.zeros_like(v)
        expected[0, order] = v[0, order]
        assert np.array_equal(sent, expected)


def test_top_k_takes_the_first_of_equals():
    assert apscope.exchange(
        "top_k:keep=0.5", np.float32([[1, -1, 1, -1, 0.5, 1]])
    ).sent.tolist() == [[1, -1, 1, 0, 0, 0]]


@pytest.mark.parametrize(
    "spec", ["random_k", "random_k:keep=0.1", "random_k:keep=0.3,scale=false", "random_k:keep=1"]
)
@pytest.mark.parametrize("n", [1, 7, 300])
def test_RK1_values_and_moments_are_those_of_the_rule(spec, n):
    g = normal(3, n, seed=n) ** 3
    e = apscope.exchange(spec, g, seed=5, step=2, tensor="layer.weight")
    y, bias, variance = random_k_decoded(g, Scheme.parse(spec), replay_key(5, "layer.weight", 2))
    assert np.array_equal(e.sent, y) and np.array_equal(e.reduced, rank_order_sum(y, np.float32))
    assert np.allclose(e.bias, np.array(bias, float), rtol=0, atol=2.0**-52 * np.abs(g).max())
    assert np.allclose(e.variance, np.array(variance, float), rtol=1e-15, atol=0)
    k = np.count_nonzero(y[0])
    assert e.payload_bits == [32 * k] * 3 and not any(e.side_bits)
    for payload, row in zip(e.payload, y, strict=True):
        assert np.array_equal(np.frombuffer(payload, np.float32), row[row != 0])


@pytest.mark.parametrize("keep", [0.05, 0.25, 0.7])
def test_RK2_the_mean_error_is_n_over_k_less_one_of_the_square(keep):
    """Without the scale it is 1 - k / n of the square: the condition of error feedback. Rounding to
    fp32 is negligible compared with both."""
    n, runs = 200, 400
    g, k = normal(1, n, seed=3), int(keep * n)
    for scale, expected in (("true", n / k - 1), ("false", 1 - k / n)):
        sent = np.stack(
            [
                apscope.exchange(f"random_k:keep={keep},scale={scale}", g, seed=s).sent[0]
                for s in range(runs)
            ]
        )
        errors = ((sent - g[0]) ** 2).sum(axis=1) / squares(g)
        assert abs(errors.mean() - expected) < 5 * errors.std(ddof=1) / math.sqrt(runs)


def test_RK3_equal_workers_gain_nothing_and_all_places_are_as_likely(tmp_path):
    """One choice for all: the variance of the mean is that of a worker's message, which independent
    draws would divide by W."""
    g, n, k = np.ones((4, 100), np.float32), 100, 20
    trace = record(tmp_path / "t", [{"layer.weight": g}])
    rows = apscope.replay(trace, "random_k:keep=0.2", topology="ring", draws=40).frame.set_index(
        "topology"
    )
    assert list(rows.index) == ["", "exact", "linear"] and rows.loc[
        ""
    ].expected_variance == pytest.approx(n / k - 1, rel=1e-14)
    assert rows.loc["exact"].expected_variance == rows.loc["linear"].expected_variance
    # The mean over all elements is 1 in every draw: of the variances the sample's loses 1 / (K - 1)
    # at most.
    assert abs(rows.loc["exact"].expected_variance - (n / k - 1)) < 0.2
    once = apscope.replay(trace, "random_k:keep=0.2", topology="ring").frame.set_index("topology")
    assert math.isnan(once.loc["exact"].expected_variance) and math.isnan(
        once.loc["linear"].expected_variance
    )
    runs = 2000
    counts = sum(
        apscope.exchange("random_k:keep=0.2", g[:1], seed=s).sent[0] != 0 for s in range(runs)
    )
    z = (counts - runs * k / n) / math.sqrt(runs * k / n * (1 - k / n))
    assert counts.sum() == runs * k and np.abs(z).max() < 4.5


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_PS1_a_matrix_of_that_rank_comes_back(rank):
    rng = np.random.default_rng(rank)
    left, right = rng.standard_normal((20, rank)), rng.standard_normal((rank, 30))
    mixes = rng.standard_normal((3, rank))
    # Every worker's in the same column space.
    g = np.stack([(left * m) @ right for m in mixes]).astype(np.float32)
    e = apscope.exchange(f"powersgd:rank={rank}", g)
    assert squares(e.sent - g) <= 1e-10 * squares(g)
    assert squares(e.reduced - g.sum(axis=0, dtype=np.float64)) <= 1e-10 * squares(g)
    assert e.payload_bits == [32 * rank * (20 + 30)] * 3


def test_PS2_factors_of_the_sum_are_sums_of_factors():
    """The reduced value is the factorisation of the workers' mean, as if one worker had it."""
    g = normal(4, 12, 18, seed=4)
    e = apscope.exchange("powersgd:rank=3", g)
    assert np.allclose(e.reduced, e.sent.sum(axis=0), rtol=1e-12, atol=1e-12)
    alone = apscope.exchange("powersgd:rank=3", g.mean(axis=0, keepdims=True))
    assert np.allclose(e.reduced / 4, alone.reduced, rtol=1e-4, atol=1e-5)


def test_PS_power_iteration_approaches_the_best_factors():
    """The same matrix step after step: the error goes to that of the truncated singular value
    decomposition."""
    g = normal(1, 30, 40, seed=8)
    best = (np.linalg.svd(g[0].astype(np.float64), compute_uv=False)[2:] ** 2).sum()
    state, errors = {}, []
    for step in range(200):
        e = apscope.exchange("powersgd:rank=2", g, step=step, state=state)
        state = e.state
        errors.append(squares(e.sent - g))
    assert errors[-1] <= errors[0] and best * (1 - 1e-9) <= errors[-1] <= best * 1.01


@pytest.mark.parametrize("spec", ["thc", "thc:bits=2,granularity=20", "thc:bits=8,granularity=255"])
def test_TH1_the_sum_of_codes_decodes_to_the_sum_of_decoded_codes(spec):
    g = normal(7, 100, seed=2)
    e = apscope.exchange(spec, g)
    assert np.allclose(e.reduced, e.sent.sum(axis=0), rtol=0, atol=1e-12 * np.abs(e.reduced).max())


def test_TH2_sums_of_table_entries_stay_below_W_g():
    """All workers at the clamp: the sum is W g entries, T times the scale each, and no more."""
    from apscope import schemes

    g = np.repeat(normal(1, 64, seed=1), 9, axis=0)
    e = apscope.exchange("thc", g)
    # The rotation is orthonormal: rotated back, |sum| is at most W T scale sqrt(d) = W T norm.
    norm = math.sqrt(squares(g[0]))
    assert math.sqrt(squares(e.reduced)) <= 9 * 2.1538746940614573 * norm
    assert schemes.Scheme("thc").keys["granularity"] == "30"


def test_TH_rotated_values_are_rounded_without_bias_inside_the_clamp():
    """In the mean over seeds, what is sent is the gradient, but for what lies beyond T: 1/32 of the
    rotated values."""
    g, runs = normal(1, 256, seed=3), 400
    sent = np.stack(
        [apscope.exchange("thc:bits=6,granularity=255", g, seed=s).sent[0] for s in range(runs)]
    )
    beyond = 2 * (
        math.exp(-(2.1538746940614573**2) / 2) / math.sqrt(2 * math.pi) - 2.1538746940614573 / 64
    )
    shrink = (sent.mean(axis=0) @ g[0]) / squares(g)
    # E[x clamp(x)] = 1 - 2 (tail of x (x - T)) for a normal x: by integration, P(|x| > T) = 1/32.
    tail = math.erfc(2.1538746940614573 / math.sqrt(2))
    assert math.isclose(tail, 1 / 32, rel_tol=1e-12)
    assert abs(shrink - (1 - tail)) < 0.02 and beyond > 0


@pytest.mark.parametrize("scale", ["power_of_two", "real"])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("workers", [1, 3, 8, 64])
def test_integer_sums_never_overflow_and_err_by_at_most_half_a_unit_a_worker(scale, bits, workers):
    g = np.concatenate(
        [
            normal(workers, 60, seed=1),
            np.full((workers, 8), 3e38, np.float32),
            np.full((workers, 8), 1e-45, np.float32),
        ],
        axis=1,
    )
    e = apscope.exchange(f"integer_allreduce:bits={bits},chunk=4,scale={scale}", g)
    total = g.astype(np.float64).sum(axis=0)
    for begin in range(0, g.shape[1], 4):
        part = slice(begin, begin + 4)
        f = (2.0 ** (bits - 1) - workers) / workers / float(np.abs(g[:, part]).max())
        if scale == "power_of_two":
            f = math.ldexp(1.0, math.frexp(f)[1] - 1)
        codes = np.rint(g[:, part].astype(np.float64) * f)
        assert np.abs(codes.sum(axis=0)).max() <= 2.0 ** (bits - 1)
        assert np.array_equal(e.sent[:, part], codes / f)
        assert (np.abs(e.reduced[part] - total[part]) <= workers / (2 * f) * (1 + 1e-9)).all()


def test_zero_blocks_lose_nothing_and_count_what_they_send():
    g = normal(3, 1000, seed=6)
    g[:, 256:640] = 0
    g[1, 900:] = 0
    e = apscope.exchange("zero_blocks:block=128", g)
    assert np.array_equal(e.sent, g) and np.array_equal(
        e.reduced, (g[0] + g[1] + g[2]).astype(np.float64)
    )
    assert e.payload_bits == [8 + 32 * (1000 - 384), 8 + 32 * (1000 - 384), 8 + 32 * (1000 - 384)]
    g[1, 896:] = 0
    assert apscope.exchange("zero_blocks:block=128", g).payload_bits[1] == 8 + 32 * (
        1000 - 384 - 104
    )
