"""What can be proved of loss scales: state machines, underflow, layer-wise scales, HFP8, unit scaling."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter

DATA = Path(__file__).parents[2] / "notebooks" / "data"
TRACES = ["digits", "digits_w64", "characters"]


@pytest.fixture(scope="module", params=TRACES)
def trace(request):
    return apscope.open_trace(DATA / request.param)


def all_gradients(trace, step):
    return np.concatenate([trace.read(step, name, w).ravel() for name in trace.tensors for w in range(min(trace.workers, 8))])


def record(folder, steps):
    """A trace of one worker and one tensor; steps are rows."""
    with TraceWriter(folder, workers=1, reduction="sum") as writer:
        for number, g in enumerate(steps):
            writer.add(number, 0, "w", np.atleast_1d(np.float32(g)))
            writer.end_step(number, loss=1.0, learning_rate=0.1)
    return apscope.open_trace(folder)


def scales(folder, spec, steps):
    """The scale in force and whether the step was dropped, step by step."""
    frame = apscope.replay(record(folder, steps), spec).frame
    frame = frame[frame.stage == "wire"].sort_values("step")
    return [2.0 ** int(e) for e in frame.scale_exponent], frame.skipped.astype(bool).tolist()


def z_of_share(hits, count, p):
    return (hits - count * p) / math.sqrt(count * p * (1 - p))


# Static scales --------------------------------------------------------------------------------------


def test_M1_a_power_of_two_shifts_the_histogram_and_never_adds_zeros(trace):
    g = all_gradients(trace, trace.steps[-1])
    g = g[g != 0]
    last_zeros = g.size
    for k in range(0, 25, 4):
        sent = apscope.exchange(f"loss_scaling:fp16,scale={2**k}", g[None]).sent[0]
        zeros = int((sent == 0).sum())
        assert zeros <= last_zeros
        last_zeros = zeros
        with np.errstate(over="ignore"):
            coded = (g.astype(np.float64) * 2.0**k).astype(np.float16).astype(np.float64)
        assert np.array_equal(np.ldexp(sent, k), coded)
        # The histogram of what was coded is the one of what is read, moved by k; normal values keep their bits.
        normal = (np.abs(np.ldexp(g.astype(np.float64), k)) >= 2.0**-14) & np.isfinite(coded)
        assert normal.any()
        assert np.array_equal(np.frexp(coded[normal])[1], np.frexp(sent[normal])[1] + k)
        if k:  # what was normal at a smaller scale comes out with the same bits
            before = both_normal & normal
            assert np.array_equal(sent[before], last[before]) and before.any()
        both_normal, last = normal, sent


@pytest.mark.parametrize("name", ["fp16", "e5m2", "e4m3", "e3m0"])
def test_M2_zeros_counted_from_exponents_are_the_zeros_of_casting(trace, name):
    """Elements at exactly q/2 over S, the ties that become 0, are counted beside."""
    f = apscope.FloatFormat(name)
    half = f.smallest_positive / 2
    ties = np.array([s * half / 2.0**k for k in range(25) for s in (1, -1)])
    g = np.concatenate([all_gradients(trace, trace.steps[-1]).astype(np.float64), ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), [0.0, np.inf, np.nan]])
    nonzero = g[np.isfinite(g) & (g != 0)]
    curve = apscope.underflow_curve(g, name)
    assert list(curve.scale_exponent) == list(range(25))
    for row in curve.itertuples():
        scaled = nonzero * 2.0**row.scale_exponent
        if name == "fp16":
            with np.errstate(over="ignore"):
                cast = scaled.astype(np.float16)
        else:
            cast = apscope.quantize(scaled, f)
        assert row.zeros == (cast == 0).sum()
        assert row.at_threshold == (np.abs(scaled) == half).sum() >= 2
        assert row.below == (np.abs(scaled) < 2.0 ** math.floor(math.log2(half))).sum()
        assert row.underflow == row.zeros / nonzero.size
    assert curve.zeros.is_monotonic_decreasing


def test_M2_refuses_a_format_whose_bins_do_not_tell():
    with pytest.raises(ValueError, match="no power of two"):
        apscope.underflow_curve([1.0], "hfp8_forward")


def test_M3_the_underflow_of_a_lognormal_distribution_is_the_normal_integral():
    rng = np.random.default_rng(7)
    n, mu, sigma = 400_000, -21.0, 3.0
    x = 2.0 ** rng.normal(mu, sigma, n)
    for row in apscope.underflow_curve(x, "fp16", exponents=(0, 3, 8)).itertuples():
        p = 0.5 * (1 + math.erf((-25 - row.scale_exponent - mu) / sigma / math.sqrt(2)))
        assert abs(z_of_share(row.zeros, n, p)) < 5


@pytest.mark.parametrize(("sigma", "share"), [(1e-6, 0.02378), (1e-7, 0.23431), (1e-8, 0.99712)])
def test_closed_form_5_normal_gradients_flush_at_the_rate_of_erf(sigma, share):
    n = 200_000
    assert math.erf(2.0**-25 / (sigma * math.sqrt(2))) == pytest.approx(share, abs=5e-6)
    x = np.random.default_rng(5).normal(0, sigma, (1, n)).astype(np.float32)
    zeros = int((apscope.exchange("none:fp16", x).sent == 0).sum())
    assert abs(z_of_share(zeros, n, math.erf(2.0**-25 / (sigma * math.sqrt(2))))) < 5


# Lost updates ---------------------------------------------------------------------------------------


def test_lost_updates_are_those_of_the_half_ulp_rule(trace):
    """abs(d) < ulp(w) / 2, or equal and even; towards 0 from a power of two, a quarter of ulp."""
    found = apscope.update_underflow(trace, "fp16")
    for row in found.itertuples():
        step = trace.manifest.steps[trace.steps.index(row.step)]
        ranks = [trace.read(row.step, row.tensor, w).astype(np.float64) for w in range(trace.workers)]
        d = step.learning_rate * (sum(ranks) / len(ranks)).ravel()
        w = trace.read(row.step, row.tensor, 0, "weights").astype(np.float16).ravel()
        ulp = np.spacing(np.abs(w)).astype(np.float64)
        even = (w.view(np.uint16) & 1) == 0
        wide = w.astype(np.float64)
        power = (np.abs(np.frexp(wide)[0]) == 0.5) & (np.abs(wide) > 2.0**-14)
        threshold = np.where(power & (np.sign(d) == np.sign(wide)), ulp / 4, ulp / 2)
        lost = (np.abs(d) < threshold) | ((np.abs(d) == threshold) & even)
        assert row.updates == (d != 0).sum() and row.lost == (lost & (d != 0)).sum()
        assert row.lost_with_master <= row.lost
    assert (found.lost > 0).any() and (found.kept_by_master > 0).any()


def test_an_update_is_lost_below_1_to_2048_of_a_power_of_two_and_1_to_4096_at_the_top_of_its_binade(tmp_path):
    top = 2 - 2.0**-10
    w = np.float32([1, 1, 1, 1, 1, 1, top, top, -1])
    d = [-(2.0**-11), -(2.0**-11) * (1 + 2.0**-20), 2.0**-12, 2.0**-12 * (1 + 2.0**-20), 2.0**-24, 0, -(2.0**-11) * (1 - 2.0**-20), -(2.0**-11), 2.0**-11]
    #       tie, even: lost   kept                   tie, even: lost  kept        lost      (none)     lost          tie, odd: kept   tie: lost
    with TraceWriter(tmp_path / "t", workers=1, reduction="sum") as writer:
        writer.add(0, 0, "w", np.float32(d))
        writer.add(0, 0, "w", w, kind="weights")
        writer.end_step(0, learning_rate=1.0)
    row = apscope.update_underflow(apscope.open_trace(tmp_path / "t")).iloc[0]
    assert (row.updates, row.lost, row.lost_with_master) == (8, 5, 0)
    assert row.kept_by_master == 1.0


# State machines -------------------------------------------------------------------------------------


def test_GS1_the_golden_sequence_of_a_constant_gradient(tmp_path):
    got, skipped = scales(tmp_path / "t", "dynamic_loss_scaling:fp16,init=32768,growth_interval=4", [10.0] * 15)
    assert got == [32768, 16384, 8192, 4096, 4096, 4096, 4096, 8192, 4096, 4096, 4096, 4096, 8192, 4096, 4096]
    assert skipped == [g > 4096 for g in got]
    # 10 S overflows from 65520 on.
    for value, drops in ((65519.0, False), (65520.0, True)):
        assert scales(tmp_path / str(value), "dynamic_loss_scaling:fp16,init=1", [value])[1] == [drops]


def grad_scaler(bits, init, interval):
    s, tracker, out = init, 0, []
    for bit in bits:
        out.append(s)
        if bit:
            s, tracker = s * 0.5, 0
        else:
            tracker += 1
            if tracker == interval:
                s, tracker = s * 2, 0
    return out


def random_bits(n, p=0.2, seed=3):
    return (np.random.default_rng(seed).random(n) < p).tolist()


def test_GS2_the_scales_are_a_function_of_the_string_of_overflows(tmp_path):
    bits = random_bits(120)
    want = grad_scaler(bits, 256.0, 3)
    for name, over, quiet in (("a", np.inf, 1e-9), ("b", np.nan, 0.0), ("c", 3e38, 1e-30)):
        got, skipped = scales(tmp_path / name, "dynamic_loss_scaling:fp16,init=256,growth_interval=3", [over if b else quiet for b in bits])
        assert got == want and skipped == bits


def deepspeed(bits, init, window, hysteresis, least, since_2025, consecutive=False):
    """The scale at each step, from the published rule; stops at an overflow at the least scale."""
    s, left, last, out = init, hysteresis, -1, []
    for i, bit in enumerate(bits):
        out.append(s)
        if bit:
            if left == 1:
                if s == least:
                    return out, i
                s = max(s / 2, least)
            else:
                left -= 1
            last = i
        else:
            if consecutive:
                left = hysteresis
            stable = i - last - 1
            if (stable > 0 and stable % window == 0) if since_2025 else (i - last) % window == 0:
                left = hysteresis
                s *= 2
    return out, None


@pytest.mark.parametrize("version", ["2025", "2020"])
@pytest.mark.parametrize("hysteresis", [1, 2, 3])
@pytest.mark.parametrize("consecutive", ["false", "true"])
def test_DS1_the_sequence_of_scales_of_both_versions(tmp_path, version, hysteresis, consecutive):
    bits = random_bits(150, p=0.25, seed=hysteresis)
    spec = f"deepspeed_loss_scaling:fp16,init=1024,window=4,hysteresis={hysteresis},consecutive_hysteresis={consecutive},version={version},min_scale=0.125"
    got, skipped = scales(tmp_path / "t", spec, [np.inf if b else 1e-9 for b in bits])
    want, stop = deepspeed(bits, 1024.0, 4, hysteresis, 0.125, version == "2025", consecutive == "true")
    assert got[: len(want)] == want
    if stop is None:
        assert skipped == bits
    else:
        assert skipped == bits[:stop] + [True] * (len(bits) - stop)


def test_DS1_differs_from_torch_on_the_same_overflows(tmp_path):
    """The class before 2025 grows one step earlier than torch at first, and forgives an overflow."""
    bits = [False] * 4 + [True] + [False] * 9
    gradients = [np.inf if b else 0.0 for b in bits]
    torch_scales, _ = scales(tmp_path / "torch", "dynamic_loss_scaling:fp16,init=8,growth_interval=4", gradients)
    assert torch_scales == [8, 8, 8, 8, 16, 8, 8, 8, 8, 16, 16, 16, 16, 32]
    golden = {
        ("2020", 1): [8, 8, 8, 8, 16, 8, 8, 8, 8, 16, 16, 16, 16, 32],
        ("2025", 1): [8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 8, 8, 8, 8],
        ("2020", 2): [8, 8, 8, 8, 16, 16, 16, 16, 16, 32, 32, 32, 32, 64],
        ("2025", 2): [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16],
    }
    for (version, hysteresis), want in golden.items():
        spec = f"deepspeed_loss_scaling:fp16,init=8,window=4,hysteresis={hysteresis},version={version}"
        assert scales(tmp_path / f"{version}{hysteresis}", spec, gradients)[0] == want, (version, hysteresis)


@pytest.mark.parametrize(("version", "grows_at"), [("2020", 999), ("2025", 1000)])
def test_DS1_the_first_growth_of_the_defaults(version, grows_at):
    state, seen = None, []
    x = np.zeros((1, 1), np.float32)
    for i in range(2002):
        e = apscope.exchange(f"deepspeed_loss_scaling:fp16,version={version}", x, step=i, state=state)
        state = e.state
        seen.append(e.scale_exponent)
    growth = [i for i in range(2001) if seen[i + 1] > seen[i]]
    assert growth == [grows_at, grows_at + 1000] and seen[0] == 16


def test_DS1_an_overflow_at_the_least_scale_ends_the_run_or_does_not(tmp_path):
    gradients = [np.inf, np.inf, 0.0, np.inf, 0.0]
    common = "deepspeed_loss_scaling:fp16,init=2,window=100,hysteresis=1"
    assert scales(tmp_path / "a", common, gradients) == ([2, 1, 1, 1, 1], [True, True, True, True, True])
    assert scales(tmp_path / "b", common + ",at_minimum=keep", gradients) == ([2, 1, 1, 1, 1], [True, True, False, True, False])


@pytest.mark.parametrize("spec", ["init=0.5,min_scale=1", "factor=1", "window=0", "version=2021", "at_minimum=raise"])
def test_DS1_refuses_settings_that_have_no_meaning(spec):
    with pytest.raises(ValueError, match=spec.split("=")[0] + "|min_scale"):
        apscope.schemes.Scheme("deepspeed_loss_scaling:fp16," + spec)


# FP8 with a scheduled minimum -----------------------------------------------------------------------


def test_F1_e5m2_is_fp16_without_eight_binades_of_subnormals(trace):
    e5m2, fp16 = apscope.FloatFormat("e5m2"), apscope.FloatFormat("fp16")
    assert (e5m2.emin, e5m2.emax) == (fp16.emin, fp16.emax) == (-14, 15)
    assert (e5m2.smallest_positive, fp16.smallest_positive) == (2.0**-16, 2.0**-24)
    # The flush point of fp16 at S is that of e5m2 at 2^8 S: the same elements, one by one.
    g = all_gradients(trace, trace.steps[-1])
    g = np.concatenate([g[g != 0], np.ldexp(np.float32(1), np.arange(-45, 0)), np.ldexp(np.float32(1.0000001), np.arange(-45, 0))])[None]
    for k in (0, 5, 10):
        ours, theirs = (apscope.exchange(f"loss_scaling:{n},scale={2**e}", g).sent == 0 for n, e in (("e5m2", k + 8), ("fp16", k)))
        assert np.array_equal(ours, theirs) and ours.any()
    a, b = apscope.underflow_curve(g, "e5m2", exponents=range(8, 33)), apscope.underflow_curve(g, "fp16", exponents=range(25))
    assert a.zeros.tolist() == b.zeros.tolist()


def test_F2_a_scale_never_falls_below_its_scheduled_minimum(tmp_path):
    bits = random_bits(200, p=0.35)
    spec = "enhanced_loss_scaling:e5m2,init=256,growth_interval=3,minimum=0:8/40:64/150:16"
    got, skipped = scales(tmp_path / "t", spec, [np.inf if b else 1e-9 for b in bits])
    s, tracker, want = 256.0, 0, []
    for t, bit in enumerate(bits):
        s = max(s, 8 if t < 40 else 64 if t < 150 else 16)
        want.append(s)
        s, tracker = (s / 2, 0) if bit else (s, tracker + 1)
        if tracker == 3:
            s, tracker = s * 2, 0
    assert got == want and skipped == bits
    assert min(got[:40]) == 8 and min(got[40:150]) == 64 and min(got[150:]) == 16
    free = scales(tmp_path / "u", spec.replace("0:8/40:64/150:16", "none"), [np.inf if b else 1e-9 for b in bits])[0]
    assert free == grad_scaler(bits, 256.0, 3) and min(free) < 1, "without storms of overflows this tests nothing"


@pytest.mark.parametrize("minimum", ["", "5", "0:8/", "3:8/2:16", "0:-1", "0:8/x:3", "0:1e60", "-1:8"])
def test_F2_refuses_a_schedule_that_is_none(minimum):
    with pytest.raises(ValueError, match="STEP:VALUE"):
        apscope.schemes.Scheme(f"enhanced_loss_scaling:e5m2,minimum={minimum}")


def test_F3_stochastic_rounding_is_unbiased_with_the_variance_of_its_bracket():
    rng = np.random.default_rng(11)
    x = (rng.choice([-1, 1], 64) * rng.uniform(1, 2, 64) * 2.0 ** rng.integers(-17, 4, 64)).astype(np.float32)
    spec = "enhanced_loss_scaling:e5m2,init=1024,minimum=0:1024"
    e = apscope.exchange(spec, x[None], step=0)
    # The bracket by rational arithmetic: quantum 2^(max(exponent, -14) - 2) of the scaled value.
    variance = []
    for v in x.astype(np.float64):
        scaled = Fraction(v) * 1024
        quantum = Fraction(2) ** (max(math.frexp(abs(float(scaled)))[1] - 1, -14) - 2)
        low = scaled // quantum * quantum
        variance.append(float((scaled - low) * (low + quantum - scaled) / 2**20))
    assert np.allclose(e.variance[0], variance, rtol=1e-6, atol=np.square(x).max() * 2.0**-36)
    assert np.abs(e.bias[0] / np.abs(x)).max() < 2.0**-30
    draws = np.stack([apscope.exchange(spec, x[None], seed=s).sent[0] for s in range(4000)])
    spread = np.sqrt(np.maximum(variance, 1e-300))
    z = (draws.mean(axis=0) - x) / spread * math.sqrt(4000)
    moving = np.array(variance) > 1e-6 * np.square(x)
    assert np.abs(z[moving]).max() < 5 and moving.sum() > 50
    # sampled variances: two outcomes, so the fourth moment is known
    p = np.abs(draws[:, moving] - x[moving].astype(np.float64)) ** 2
    assert (np.abs(p.mean(axis=0) - np.array(variance)[moving]) < 5 * p.std(axis=0) / math.sqrt(4000) + 1e-6 * np.array(variance)[moving]).all()


# Layer-wise scales ----------------------------------------------------------------------------------


NO_BOUNDS = dict(upper=None, total=None)


def test_AL1_the_share_that_underflows_is_the_target_exactly():
    """For N(0, sigma_o), without the bounds and the power of two: an identity of erf."""
    rng = np.random.default_rng(1)
    for share in (1e-5, 1e-3, 0.1, 0.5):
        g, w = rng.normal(0, 1e-8, 400), rng.normal(0, 0.02, (64, 30))
        l = apscope.layer_scale(g, w, share=share, power_of_two=False, **NO_BOUNDS)
        sigma = math.sqrt((g**2).mean() * (w**2).mean()) * math.sqrt(0.5 * 64)
        assert l > 1
        assert math.erf(2.0**-24 / (l * sigma) / math.sqrt(2)) == pytest.approx(share, rel=1e-9)
    # sqrt2 erfinv(1e-3), from which l follows
    one = apscope.layer_scale([1.0, -1.0], [[1.0], [-1.0]], fan=1, sparsity=1.0, u_min=1.0, power_of_two=False, **NO_BOUNDS)
    assert 1 / one == pytest.approx(0.0012533145, rel=1e-7)


def test_AL1_sums_of_products_have_less_because_of_the_half_for_relu():
    """sigma is sqrt2 sigma_o without a ReLU: T / sqrt2, and with the power of two at most sqrt2 T."""
    rng = np.random.default_rng(2)
    n, fan, share = 4_000_000, 1024, 1e-3
    g, w = rng.normal(0, 1e-7, 500), rng.normal(0, 0.01, (fan, 20))
    rms = math.sqrt((g**2).mean() * (w**2).mean())
    # A sum of products g w, given its g, is normal with variance sigma_w^2 |g|^2.
    sums = rms * np.sqrt(rng.chisquare(fan, n)) * rng.normal(0, 1, n)
    l = apscope.layer_scale(g, w, share=share, power_of_two=False, **NO_BOUNDS)
    assert l > 1
    hits = int((np.abs(sums * l) < 2.0**-24).sum())
    assert abs(z_of_share(hits, n, share / math.sqrt(2))) < 5
    for factor in np.linspace(1, 2, 9):
        sigma_o = rms * math.sqrt(0.5 * fan) / factor
        floored = apscope.layer_scale(g / factor, w, share=share, **NO_BOUNDS)
        p = math.erf(2.0**-24 / (floored * sigma_o * math.sqrt(2)) / math.sqrt(2))
        assert share / math.sqrt(2) * (1 - 1e-6) <= p <= share * math.sqrt(2)


def test_AL2_the_tests_of_its_code():
    options = dict(element_wise=True, u_min=6e-8)
    assert apscope.layer_scale([[1e-5]], [[1e-4]], **NO_BOUNDS, **options) == 32
    assert apscope.layer_scale([[1e-5]], [[1e-4]], **options) == 16  # the bound of a layer
    assert apscope.layer_scale([[1e-5]], [[1e-4]], cumulative=256.0, **options) == 4  # of the product
    # Powers of two: 1.23 -> 1, 0.23 -> 0.125 (a product that would overflow), 2 -> 2.
    for wanted, power in ((1.23, 1), (2.0, 2), (3.99, 2), (4.0, 4)):
        assert apscope.layer_scale([[1.0]], [[1.0]], element_wise=True, u_min=wanted) == power
    for wanted, power in ((0.23, 0.125), (0.25, 0.25), (0.9, 0.5)):
        assert apscope.layer_scale([[65504.0]], [[1.0 / wanted]], element_wise=True) == power
    assert apscope.layer_scale([[0.0]], [[1.0]]) == 1 and apscope.layer_scale([[1.0]], [[0.0]]) == 1


def chain(folder, layers, magnitude):
    rng = np.random.default_rng(4)
    with TraceWriter(folder, workers=1, reduction="mean", roles={f"l{k}.weight": "linear" for k in range(layers)}) as writer:
        for k in range(layers):
            writer.add(0, 0, f"l{k}.weight", rng.normal(0, 1, (8, 8)).astype(np.float32))
            writer.add(0, 0, f"l{k}.weight", rng.normal(0, 0.1, (8, 8)).astype(np.float32), kind="weights")
            writer.add(0, 0, f"l{k}", (magnitude * rng.normal(0, 1, (4, 8))).astype(np.float32), kind="activation_gradient")
        writer.end_step(0)
    return apscope.open_trace(folder)


def test_AL3_scales_are_powers_of_two_within_their_bounds_and_come_off_exactly(tmp_path):
    saved = chain(tmp_path / "t", 6, 1e-9)
    frame = apscope.activation_scales(saved, 0)
    assert frame.layer.tolist() == [f"l{k}" for k in reversed(range(6))]
    assert frame.scale.tolist() == [16, 16, 4, 1, 1, 1] and frame.cumulative.max() == 1024
    assert (frame.cumulative == frame.scale.cumprod()).all()
    assert (frame.underflow <= frame.underflow_before).all() and (frame.underflow < frame.underflow_before).any()
    for row in frame.itertuples():
        g = saved.read(0, row.layer, 0, "activation_gradient").astype(np.float64)
        assert math.frexp(row.scale)[0] == 0.5 and row.scale <= 16
        assert np.array_equal(g * row.cumulative / row.cumulative, g)
        with np.errstate(over="ignore"):
            assert row.underflow == ((g * row.cumulative).astype(np.float16) == 0).mean()
            assert row.underflow_before == (g.astype(np.float16) == 0).mean()
    # Gradients that would overflow are scaled down.
    down = apscope.activation_scales(chain(tmp_path / "u", 2, 1e6), 0)
    assert down.scale[0] < 1


@pytest.mark.parametrize("name", ["fp16", "e5m2", "e4m3"])
def test_AL3_holds_on_recorded_activations(trace, name):
    for step in trace.recorded()["activation_gradient"]:
        frame = apscope.activation_scales(trace, step, format=name)
        assert len(frame) >= 3 and (np.frexp(frame.scale)[0] == 0.5).all()
        assert (frame.scale <= 16).all() and (frame.cumulative <= 1024).all()
        assert (frame.cumulative == frame.scale.cumprod()).all()
    without = set(trace.steps) - set(trace.recorded()["activation_gradient"])
    if without:
        with pytest.raises(ValueError, match="no activation_gradient"):
            apscope.activation_scales(trace, min(without), format=name)


def test_AL3_a_join_takes_the_largest_scale_at_which_nothing_overflows():
    assert apscope.join_scales([4.0, 64.0], [100.0, 100.0]) == 64
    assert apscope.join_scales([4.0, 64.0], [5000.0, 100.0]) == 4
    assert apscope.join_scales([4.0, 64.0], [5000.0, 2e6]) == 2  # 2e6 / 32
    assert apscope.join_scales([4.0], [1e9]) == 0.5  # 1/8 of it, and no further
    with pytest.raises(ValueError, match="one of each"):
        apscope.join_scales([], [])


@pytest.mark.parametrize("distribution", ["normal", "lognormal"])
@pytest.mark.parametrize("name", ["fp16", "e4m3"])
def test_the_cast_rule_of_every_tensor_follows_its_formula(trace, name, distribution):
    f = apscope.FloatFormat(name)
    target, upper = 1e-3, 1024.0
    frame = apscope.replay(trace, f"adaptive_loss_scaling:{name},distribution={distribution},upper=1024", topology=["sequential"]).frame
    frame = frame[frame.stage == "wire"]
    from statistics import NormalDist

    for row in frame[frame.step == trace.steps[-1]].itertuples():
        g = np.stack([trace.read(row.step, row.tensor, w).ravel() for w in range(trace.workers)]).astype(np.float64)
        if distribution == "normal":
            l = f.smallest_positive / (NormalDist().inv_cdf(0.5 + target / 2) * g.std())
        else:
            sigma = math.sqrt(math.log((g**2).mean() / np.abs(g).mean() ** 2))
            mu = math.log(np.abs(g).mean()) - sigma**2 / 2
            l = math.exp(math.log(f.smallest_positive) - mu - sigma * NormalDist().inv_cdf(target))
        bounded = min(max(l, 1.0), upper, f.largest / (trace.workers * np.abs(g).max()))
        assert row.scale_exponent == math.frexp(bounded)[1] - 1


def test_the_cast_rule_keeps_a_lognormal_tensor_at_its_target():
    """Samples of the very distribution, the scale's power of two undone: the share below u_min is T."""
    rng = np.random.default_rng(8)
    n, sigma, target = 400_000, 0.8, 0.02
    x = np.exp(rng.normal(-16.0, sigma, (1, n))).astype(np.float32)
    e = apscope.exchange(f"adaptive_loss_scaling:fp16,target={target},upper=1024", x)
    exact = math.log(2.0**-24) + 16.0 - sigma * -2.0537489106318225  # the normal quantile of 0.02
    assert e.scale_exponent == math.floor(exact / math.log(2)) and e.scale_exponent > 0
    below = int((x * math.exp(exact) < 2.0**-24).sum())
    assert abs(z_of_share(below, n, target)) < 5


def test_a_cast_scale_stays_for_its_interval():
    x, state, seen = np.float32([[1e-9, 3e-9, -2e-9]]), None, []
    for i in range(7):
        e = apscope.exchange("adaptive_loss_scaling:fp16,upper=1024,interval=3", x * 2.0**i, step=i, state=state)
        state = e.state
        seen.append(e.scale_exponent)
    single = [apscope.exchange("adaptive_loss_scaling:fp16,upper=1024", x * 2.0**i).scale_exponent for i in range(7)]
    assert seen == [single[0]] * 3 + [single[3]] * 3 + [single[6]] and len(set(seen)) == 3


# HFP8 -----------------------------------------------------------------------------------------------


def test_HF1_the_two_readings_of_the_forward_format():
    """All exponents normal: 1.125 2^-11 to 30. With subnormals: 2^-13 to 30, 2^-10 the least normal."""
    normal = {(1 + m / 8) * 2.0 ** (e - 11) for e in range(16) for m in range(8)} - {2.0**-11} | {0.0}
    subnormal = {(1 + m / 8) * 2.0 ** (e - 11) for e in range(1, 16) for m in range(8)} | {m / 8 * 2.0**-10 for m in range(8)}
    for name, want in (("hfp8_forward", normal), ("e4m3b11fnuz", subnormal)):
        values = apscope.decode(np.arange(256, dtype=np.uint8), name)
        finite = values[np.isfinite(values)]
        assert {abs(float(v)) for v in finite} == want
        f = apscope.FloatFormat(name)
        assert f.largest == 30 and not f.has_infinity
    assert apscope.FloatFormat("hfp8_forward").smallest_positive == 1.125 * 2.0**-11
    assert apscope.FloatFormat("e4m3b11fnuz").smallest_positive == 2.0**-13
    assert apscope.FloatFormat("e4m3b11fnuz").smallest_normal == 2.0**-10


def test_HF2_one_more_bit_halves_the_rounding_error_and_costs_half_the_range():
    x = np.linspace(1, 2, 2**14 + 1)
    for name, ulp in (("hfp8_forward", 2.0**-3), ("e5m2", 2.0**-2)):
        worst = np.abs(apscope.quantize(x, name) - x).max()
        assert worst == ulp / 2
        relative = (np.abs(apscope.quantize(x, name) - x) / x).max()
        assert relative == pytest.approx((ulp / 2) / (1 + ulp / 2), rel=1e-12)
    forward, backward = apscope.FloatFormat("hfp8_forward"), apscope.FloatFormat("e5m2")
    assert forward.emax - forward.emin + 1 == 16 and backward.emax - backward.emin + 1 == 30


def to_1_6_9(x):
    """To nearest, ties to even, ten significant bits; the range plays no part."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(fraction * 1024), exponent - 10)


def test_HF3_sums_in_chunks_keep_their_smaller_bound():
    rng = np.random.default_rng(6)
    n, chunk, v = 4096, 64, 2.0**-10
    for _ in range(20):
        x = to_1_6_9(np.abs(rng.normal(1, 0.5, n)))
        exact = math.fsum(x)
        chunked, sequential = (apscope.sum(x, "dlfloat16", order=o) for o in (f"chunked:{chunk}", "sequential"))
        bound = ((1 + v) ** (chunk + n // chunk) - 1) * np.abs(x).sum()
        assert abs(float(chunked) - exact) <= bound < ((1 + v) ** n - 1) * np.abs(x).sum()
        assert abs(float(chunked) - exact) < abs(float(sequential) - exact)
    # Equal numbers: 1024 + 1 rounds to 1024 with ten bits, and chunks of 64 never get there.
    assert apscope.sum(np.ones(n), "dlfloat16", order="sequential") == 1024
    assert apscope.sum(np.ones(n), "dlfloat16", order="chunked:64") == 4096


def test_HF3_the_exchange_sums_in_1_6_9():
    rng = np.random.default_rng(9)
    g = rng.normal(0, 1e-3, (6, 200)).astype(np.float32)

    def e5m2(x):
        fraction, exponent = np.frexp(x)
        step = np.ldexp(1.0, np.maximum(exponent, -13) - 3)
        return np.rint(x / step) * step

    codes = e5m2(g.astype(np.float64) * 4096)
    e = apscope.exchange("hfp8:e5m2,scale=4096", g)
    assert np.array_equal(e.sent, codes / 4096)
    total = codes[0]
    for row in codes[1:]:
        total = to_1_6_9(total + row)
    assert np.array_equal(e.reduced, total / 4096)
    chunks = [to_1_6_9(to_1_6_9(codes[k] + codes[k + 1]) + codes[k + 2]) for k in (0, 3)]
    e = apscope.exchange("hfp8:e5m2,scale=4096", g, topology="hierarchical:3")
    assert np.array_equal(e.reduced, to_1_6_9(chunks[0] + chunks[1]) / 4096)


@pytest.mark.parametrize("name", ["hfp8_forward", "e4m3b11fnuz"])
def test_HF4_what_was_applied_is_the_truth_less_the_residual(name):
    """Exact, in integers of 2^-30."""
    rng = np.random.default_rng(10)
    start = apscope.quantize(rng.normal(0, 1, 300), name).astype(np.float64)
    updates = rng.integers(-(2**22), 2**22, (60, 300)) * 2.0**-30
    run = apscope.weight_residual(start, updates, name)
    assert not run.residual[0].any()
    applied = run.weights[-1] - run.weights[0]
    for i in range(300):
        assert Fraction(applied[i]) - sum(map(Fraction, updates[:, i])) == -Fraction(run.residual[-1][i])
    assert np.array_equal(run.weights, apscope.quantize(run.weights, name))
    # Without a residual the small updates vanish.
    assert np.abs(run.weights[-1] - run.target[-1]).mean() < 0.8 * np.abs(run.without[-1] - run.target[-1]).mean()


def test_HF4_holds_along_a_recorded_run():
    trace = apscope.open_trace(DATA / "digits")
    weights, updates = apscope.sgd_updates(trace, "conv2.weight")
    assert len(updates) == 40
    g = np.mean([trace.read(3, "conv2.weight", w).astype(np.float64) for w in range(8)], axis=0)
    assert np.allclose(updates[3], -0.1 * g, rtol=1e-14, atol=0)
    run = apscope.weight_residual(weights, updates)
    assert np.allclose(run.weights + run.residual, run.target, rtol=0, atol=1e-13)
    kept = np.square(run.weights[-1] - run.target[-1]).sum()
    assert kept < np.square(run.without[-1] - run.target[-1]).sum()
    # A residual of ten bits loses little of that.
    rounded = apscope.weight_residual(weights, updates, residual_format="dlfloat16")
    assert 0 < np.abs(rounded.weights + rounded.residual - rounded.target).max() < 40 * 2.0**-10 * np.abs(run.residual).max()


# Unit scaling ---------------------------------------------------------------------------------------


def test_US1_unit_variance_in_unit_variance_out():
    """Each scale on sums of its own number of terms; the variance of a sum's square is known."""
    rng = np.random.default_rng(12)
    n, outputs, inputs, batch = 20_000, 40, 90, 60
    scales = apscope.unit_scales((outputs, inputs), batch, constrained=False)
    for scale, terms in (("output", inputs), ("input_gradient", outputs), ("weight_gradient", batch)):
        y = scales[scale] * (rng.normal(size=(n, terms)) * rng.normal(size=(n, terms))).sum(axis=1)
        # y^4 has mean 3 + 6 / terms, so y^2 variance 2 + 6 / terms.
        assert abs((y**2).mean() - 1) < 5 * math.sqrt((2 + 6 / terms) / n)
    tied = apscope.unit_scales((outputs, inputs), batch)
    assert tied["input_gradient"] == tied["output"] == inputs**-0.5 and tied["weight_gradient"] == batch**-0.5
    assert apscope.unit_scales((4, 3, 2, 2), 7, constrained=False) == {"output": 12**-0.5, "input_gradient": 4**-1.0, "weight_gradient": 7**-0.5}


def test_US1_the_diagnostic_of_a_recorded_model(trace):
    step = trace.recorded()["layer_input"][0]
    frame = apscope.unit_scaling(trace, step)
    for row in frame.itertuples():
        g = trace.read(step, f"{row.layer}.weight").astype(np.float64)
        out = trace.read(step, row.layer, 0, "activation_gradient")
        assert row.batch == out.size // trace.shapes[f"{row.layer}.weight"][0]
        assert row.std_scaled == pytest.approx(g.std() * row.batch**-0.5)
        assert 0.3 < row.ratio < 4  # near 1, as far as factors are independent
    assert len(frame) >= 3
    without = set(trace.steps) - set(trace.recorded()["layer_input"])
    if without:
        with pytest.raises(ValueError, match="no layer inputs"):
            apscope.unit_scaling(trace, min(without))


def test_US2_the_format_of_its_code_is_another_one():
    """Bias 2^(e-1), no infinity, no NaN, ties towards zero: neither e5m2 nor e4m3, though called alike."""
    for bits, mantissa, alike in ((5, 2, "e5m2"), (4, 3, "e4m3")):
        f = apscope.FloatFormat(exponent_bits=bits, mantissa_bits=mantissa, bias=2 ** (bits - 1), specials="finite")
        standard = apscope.FloatFormat(alike)
        assert f != standard and f.name != standard.name
        assert f.largest == standard.largest == 2.0 ** (2 ** (bits - 1) - 1) * (2 - 2.0**-mantissa)
        assert f.smallest_normal == 2.0 ** (1 - 2 ** (bits - 1)) == standard.smallest_normal / 2
        rng = np.random.default_rng(13)
        x = (rng.choice([-1, 1], 4000) * 2.0 ** rng.uniform(-22, 18, 4000)).astype(np.float32)
        ties = [np.float32((1 + (2 * k + 1) * 2.0 ** -(mantissa + 1)) * 2.0**e) for k in range(2**mantissa) for e in range(-4, 4)]
        x = np.concatenate([x, ties])
        # Clip, bring the range's bottom to fp32's, add half a unit less one, drop the bits, go back.
        down = np.float32(2.0 ** (127 - 2 ** (bits - 1)))
        mask = np.uint32(2 ** (23 - mantissa) - 1)
        clipped = np.clip(x, -f.largest, f.largest).astype(np.float32) / down
        theirs = ((clipped.view(np.uint32) + mask // 2) & ~mask).view(np.float32) * down
        assert np.array_equal(theirs, apscope.quantize(x, f, rounding="ties_to_zero", overflow="saturate"))
        assert not np.array_equal(theirs, apscope.quantize(x, standard, overflow="saturate"))
        assert not np.array_equal(theirs, apscope.quantize(x, f, overflow="saturate")), "ties do not tell"
