"""FP8-LM: MS-AMP's scale of steps without an amax, its Megatron optimizer, and automatic scaling.

M is a format's largest value, S a scale, W the number of workers.
"""

import numpy as np
import pytest

import apscope
from tests.python.claims.test_claims_block_recipes import F32, saturated
from tests.python.claims.test_claims_recipes import fp8_scale, run_steps
from tests.reference import fp8_lm

M = 448.0


@pytest.mark.parametrize("format", ["e4m3fn", "e5m2"])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_msamp_divides_a_kept_scale_once_more_and_inverts_it_at_infinity(format, workers, odd):
    rng = np.random.default_rng(workers)
    steps = [rng.standard_normal((workers, 40)) * 2.0 ** rng.integers(-30, 9) for _ in range(16)]
    for i in (0, 3, 4, 8, 15):
        steps[i] = np.zeros_like(steps[i])
    for i in (1, 6, 7, 10):
        steps[i][-1, 5] = odd
    scale = np.float32(1)
    done = run_steps(f"fp8_allreduce:{format},no_amax=msamp", steps)
    for (e, after), x in zip(done, steps):
        mean, scale = fp8_lm.allreduce(x, scale, format)
        assert after == scale
        finite = np.isfinite(x).all(axis=0)
        codes = fp8_lm.cast(np.float32(x[:, finite]) * scale, format).astype(float)
        assert np.array_equal(e.sent[:, finite], codes / float(after))
        assert np.allclose(e.reduced[finite] / workers, mean[finite], rtol=1e-6, atol=0)


def test_a_scale_of_zeros_stays_a_normal_number():
    steps = [np.zeros((64, 2), np.float32)] * 60
    scales = [after for _, after in run_steps("fp8_allreduce:e4m3fn,no_amax=msamp", steps)]
    assert scales[:3] == [2.0**-3, 2.0**-6, 2.0**-9] and scales[-1] == 2.0**-126


def gradients(seed, workers=4, n=300):
    """Workers with amaxes far apart, and elements down to the subnormals of every scale."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-14, 1, (workers, n))
    return (x * 2.0 ** (3 * np.arange(workers)[:, None])).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_workers_that_agree_on_the_least_scale_round_twice(seed):
    """Worker w rounds with 2^k of its own amax, then with the least of these; where a product is
    below the normal numbers the two roundings differ from one."""
    x = gradients(seed)
    x[2] = 0  # whose scale is that of the step before
    scale, changed = 1.0, 0
    state = {}
    for step in range(3):
        own = [fp8_scale(np.abs(row).max(), 1, M) if row.any() else scale for row in x]
        scale = min(own)
        buffers = np.stack([fp8_lm.cast(row * F32(s), "e4m3fn") for row, s in zip(x, own)])
        codes = saturated(buffers / np.array(own)[:, None] * scale, "e4m3fn")
        mean, least = fp8_lm.sharded_sum(buffers, np.array(own))
        assert least == scale
        changed += int((codes != saturated(x.astype(float) * scale, "e4m3fn")).sum())
        e = apscope.exchange(
            "fp8_allreduce:e4m3fn,agree=scale,headroom=one",
            x,
            topology="sequential",
            step=step,
            state=state,
        )
        state = e.state
        assert state["scale/x"][0] == scale
        assert np.array_equal(e.sent, codes / scale)
        assert np.array_equal(e.reduced / len(x), mean)
        x = np.roll(x, 1, axis=1) * np.float32(2)
    assert changed > 0


def test_equal_amaxes_round_once():
    x = np.clip(gradients(9), -100, 100)
    x[:, 0] = 100
    a, b = (
        apscope.exchange(f"fp8_allreduce:e4m3fn,headroom=one{key}", x, topology="ring")
        for key in ("", ",agree=scale")
    )
    assert np.array_equal(a.sent, b.sent) and np.array_equal(a.reduced, b.reduced)


@pytest.mark.parametrize("share", fp8_lm.MU_THRESHOLDS)
def test_the_automatic_factor_halves_after_saturation_and_doubles_over_1000_steps(share):
    """By itself, in float64: mu S as float32, the codes that are M, and the next mu."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 4000)).astype(np.float32)
    mu, state, halved, used = 1.0, {}, 0, []
    for step in range(2500):
        scale = float(F32(mu * fp8_scale(np.abs(x).max(), 2, M)))
        e = apscope.exchange(
            f"fp8_allreduce:e4m3fn,auto_scaling={share}",
            x,
            topology="sequential",
            step=step,
            state=state,
        )
        state = e.state
        used.append(mu)
        codes = saturated(x.astype(np.float64) * scale, "e4m3fn")
        if step % 50 == 0:
            assert np.array_equal(e.sent, codes / scale)
        following = fp8_lm.next_mu(mu, fp8_lm.share_at_largest(codes), share)
        halved += following < mu
        mu = following
        assert np.isclose(state["mu/x"][0], mu, rtol=1e-12)
    assert halved > 0 and max(used) > 1.3
    # Between two halvings the factor doubles, in 1000 steps.
    falls = [i for i in range(1, len(used)) if used[i] < used[i - 1]]
    assert all(b - a in (999, 1000, 1001) for a, b in zip(falls, falls[1:]))


def test_without_saturation_the_factor_doubles_in_1000_steps():
    x, state = np.float32([[1.0, 0.25]]), {}
    scale_of = []
    for step in range(1001):
        e = apscope.exchange(
            "fp8_allreduce:e4m3fn,auto_scaling=0.9", x, step=step, state=state, topology="exact"
        )
        state = e.state
        scale_of.append(state["mu/x"][0])
    assert np.isclose(scale_of[999], 2.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("no_amax=zero", "no_amax=zero"),
        ("agree=mean", "agree=mean"),
        ("auto_scaling=1", "auto_scaling=1"),
        ("auto_scaling=-1", "auto_scaling=-1"),
        ("agree=scale,rounding=stochastic", "rounding=stochastic is stochastic"),
        ("auto_scaling=0.001,rounding=stochastic", "rounding=stochastic is stochastic"),
        ("agree=scale,divide=before", "divide=before"),
    ],
)
def test_wrong_keys_are_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        apscope.schemes.Scheme(f"fp8_allreduce:e4m3fn,{keys}")


def test_an_overflow_counts_as_saturated():
    """Where the cast does not saturate, the factor falls after a step with an infinite code."""
    spec = "fp8_allreduce:e5m2,headroom=one,overflow=ieee,auto_scaling=0.001"
    state, overflows = {}, []
    for step in range(700):
        amax = 1.0 if step < 600 else 1.7  # 2^15, and 1.7 2^15, times 2^0.6 from step 600 on
        e = apscope.exchange(spec, np.float32([[amax, 0.5]]), state=state, step=step)
        state = e.state
        overflows += [] if np.isfinite(e.sent).all() else [step]
    assert overflows == [600]
