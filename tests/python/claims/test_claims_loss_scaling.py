"""Proofs about loss scales: underflow, lost updates, state machines, FP8 with a scheduled
minimum."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter
from apscope.studies import weight_updates
from tests.python.loss_scaling_claims import (
    all_gradients,
    deepspeed,
    grad_scaler,
    random_bits,
    scales,
)
from tests.python.one_bit_claims import DATA, proportion_z
from tests.python.recorded import record

# Static scales ------------------------------------------------------------------------------------


def test_M1_a_power_of_two_shifts_the_histogram_and_never_adds_zeros(trace):
    g = all_gradients(trace, trace.steps[-1])
    g = g[g != 0]
    last_zeros, last, both_normal = g.size, None, None
    for k in range(0, 25, 4):
        sent = apscope.exchange(f"loss_scaling:fp16,scale={2**k}", g[None]).sent[0]
        zeros = int((sent == 0).sum())
        assert zeros <= last_zeros
        last_zeros = zeros
        with np.errstate(over="ignore"):
            coded = (g.astype(np.float64) * 2.0**k).astype(np.float16).astype(np.float64)
        assert np.array_equal(np.ldexp(sent, k), coded)
        # The histogram of the scaled values is that of the gradients, shifted by k; normal values
        # keep their bits.
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
    beside = [np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), [0.0, np.inf, np.nan]]
    g = np.concatenate([all_gradients(trace, trace.steps[-1]).astype(np.float64), ties, *beside])
    nonzero = g[np.isfinite(g) & (g != 0)]
    curve = weight_updates.underflow_curve(g, name)
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
    with pytest.raises(ValueError, match="not a power of two"):
        weight_updates.underflow_curve([1.0], "hfp8_forward")


def test_M3_the_underflow_of_a_lognormal_distribution_is_the_normal_integral():
    rng = np.random.default_rng(7)
    n, mu, sigma = 400_000, -21.0, 3.0
    x = 2.0 ** rng.normal(mu, sigma, n)
    for row in weight_updates.underflow_curve(x, "fp16", exponents=(0, 3, 8)).itertuples():
        p = 0.5 * (1 + math.erf((-25 - row.scale_exponent - mu) / sigma / math.sqrt(2)))
        assert abs(proportion_z(row.zeros, n, p)) < 5


@pytest.mark.parametrize(("sigma", "share"), [(1e-6, 0.02378), (1e-7, 0.23431), (1e-8, 0.99712)])
def test_closed_form_5_normal_gradients_flush_at_the_rate_of_erf(sigma, share):
    n = 200_000
    assert math.erf(2.0**-25 / (sigma * math.sqrt(2))) == pytest.approx(share, abs=5e-6)
    x = np.random.default_rng(5).normal(0, sigma, (1, n)).astype(np.float32)
    zeros = int((apscope.exchange("none:fp16", x).sent == 0).sum())
    assert abs(proportion_z(zeros, n, math.erf(2.0**-25 / (sigma * math.sqrt(2))))) < 5


# Lost updates -------------------------------------------------------------------------------------


def test_lost_updates_are_those_of_the_half_ulp_rule(trace):
    """abs(d) < ulp(w) / 2, or equal and even; towards 0 from a power of two, a quarter of ulp."""
    found = weight_updates.update_underflow(trace, "fp16")
    for row in found.itertuples():
        step = trace.manifest.steps[trace.steps.index(row.step)]
        ranks = [
            trace.read(row.step, row.tensor, w).astype(np.float64) for w in range(trace.workers)
        ]
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


def test_an_update_is_lost_below_1_to_2048_of_a_power_of_two_and_1_to_4096_at_the_top_of_its_binade(
    tmp_path,
):
    top = 2 - 2.0**-10
    w = np.float32([1, 1, 1, 1, 1, 1, top, top, -1])
    above, below = 1 + 2.0**-20, 1 - 2.0**-20
    d = [
        *(
            -(2.0**-11),
            -(2.0**-11) * above,
            2.0**-12,
            2.0**-12 * above,
            2.0**-24,
            0,
        ),  # of 1: even tie lost, kept; towards 0 the same; lost; none
        *(-(2.0**-11) * below, -(2.0**-11)),  # of the top, which is odd: lost; tie kept
        2.0**-11 * above,  # of -1, away from 0: kept
    ]
    with TraceWriter(tmp_path / "t", workers=1, reduction="sum") as writer:
        writer.add(0, 0, "w", np.float32(d))
        writer.add(0, 0, "w", w, kind="weights")
        writer.end_step(0, learning_rate=1.0)
    row = weight_updates.update_underflow(apscope.open_trace(tmp_path / "t")).iloc[0]
    assert (row.updates, row.lost, row.lost_with_master) == (8, 4, 0)
    assert row.kept_by_master == 1.0


# State machines -----------------------------------------------------------------------------------


def test_GS1_the_golden_sequence_of_a_constant_gradient(tmp_path):
    got, skipped = scales(
        tmp_path / "t", "dynamic_loss_scaling:fp16,init=32768,growth_interval=4", [10.0] * 15
    )
    assert got == [
        32768,
        16384,
        8192,
        4096,
        4096,
        4096,
        4096,
        8192,
        4096,
        4096,
        4096,
        4096,
        8192,
        4096,
        4096,
    ]
    assert skipped == [g > 4096 for g in got]
    # 10 S overflows from 65520 on.
    for value, drops in ((65519.0, False), (65520.0, True)):
        assert scales(tmp_path / str(value), "dynamic_loss_scaling:fp16,init=1", [value])[1] == [
            drops
        ]


def test_GS2_the_scales_are_a_function_of_the_string_of_overflows(tmp_path):
    bits = random_bits(120)
    want = grad_scaler(bits, 256.0, 3)
    for name, over, quiet in (("a", np.inf, 1e-9), ("b", np.nan, 0.0), ("c", 3e38, 1e-30)):
        got, skipped = scales(
            tmp_path / name,
            "dynamic_loss_scaling:fp16,init=256,growth_interval=3",
            [over if b else quiet for b in bits],
        )
        assert got == want and skipped == bits


@pytest.mark.parametrize("version", ["2025", "2020"])
@pytest.mark.parametrize("hysteresis", [1, 2, 3])
@pytest.mark.parametrize("consecutive", ["false", "true"])
def test_DS1_the_sequence_of_scales_of_both_versions(tmp_path, version, hysteresis, consecutive):
    bits = random_bits(150, p=0.25, seed=hysteresis)
    spec = f"deepspeed_loss_scaling:fp16,init=1024,window=4,hysteresis={hysteresis},consecutive_hysteresis={consecutive}"
    spec += f",version={version},min_scale=0.125"
    got, skipped = scales(tmp_path / "t", spec, [np.inf if b else 1e-9 for b in bits])
    want = [
        s
        for s, _ in deepspeed(
            lambda step, scale: bits[step],
            len(bits),
            1024.0,
            4,
            hysteresis,
            0.125,
            version == "2025",
            consecutive == "true",
        )
    ]
    assert got[: len(want)] == want
    assert skipped == bits[: len(want)] + [True] * (len(bits) - len(want))


def test_DS1_differs_from_torch_on_the_same_overflows(tmp_path):
    """The class before 2025 grows one step earlier than torch at first, and tolerates an
    overflow."""
    bits = [False] * 4 + [True] + [False] * 9
    gradients = [np.inf if b else 0.0 for b in bits]
    torch_scales, _ = scales(
        tmp_path / "torch", "dynamic_loss_scaling:fp16,init=8,growth_interval=4", gradients
    )
    assert torch_scales == [8, 8, 8, 8, 16, 8, 8, 8, 8, 16, 16, 16, 16, 32]
    golden = {
        ("2020", 1): [8, 8, 8, 8, 16, 8, 8, 8, 8, 16, 16, 16, 16, 32],
        ("2025", 1): [8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 8, 8, 8, 8],
        ("2020", 2): [8, 8, 8, 8, 16, 16, 16, 16, 16, 32, 32, 32, 32, 64],
        ("2025", 2): [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16],
    }
    for (version, hysteresis), want in golden.items():
        spec = (
            f"deepspeed_loss_scaling:fp16,init=8,window=4,hysteresis={hysteresis},version={version}"
        )
        assert scales(tmp_path / f"{version}{hysteresis}", spec, gradients)[0] == want, (
            version,
            hysteresis,
        )


@pytest.mark.parametrize(("version", "grows_at"), [("2020", 999), ("2025", 1000)])
def test_DS1_the_first_growth_of_the_defaults(version, grows_at):
    state, seen = None, []
    x = np.zeros((1, 1), np.float32)
    for i in range(2002):
        e = apscope.exchange(
            f"deepspeed_loss_scaling:fp16,version={version}", x, step=i, state=state
        )
        state = e.state
        seen.append(e.scale_exponent)
    growth = [i for i in range(2001) if seen[i + 1] > seen[i]]
    assert growth == [grows_at, grows_at + 1000] and seen[0] == 16


def test_DS1_an_overflow_at_the_least_scale_ends_the_run_or_does_not(tmp_path):
    gradients = [np.inf, np.inf, 0.0, np.inf, 0.0]
    common = "deepspeed_loss_scaling:fp16,init=2,window=100,hysteresis=1"
    assert scales(tmp_path / "a", common, gradients) == (
        [2, 1, 1, 1, 1],
        [True, True, True, True, True],
    )
    assert scales(tmp_path / "b", common + ",at_minimum=keep", gradients) == (
        [2, 1, 1, 1, 1],
        [True, True, False, True, False],
    )


@pytest.mark.parametrize(
    "spec", ["init=0.5,min_scale=1", "factor=1", "window=0", "version=2021", "at_minimum=raise"]
)
def test_DS1_refuses_settings_that_have_no_meaning(spec):
    with pytest.raises(ValueError, match=spec.split("=")[0] + "|min_scale"):
        apscope.schemes.Scheme("deepspeed_loss_scaling:fp16," + spec)


# FP8 with a scheduled minimum ---------------------------------------------------------------------


def test_F1_e5m2_is_fp16_without_eight_binades_of_subnormals(trace):
    e5m2, fp16 = apscope.FloatFormat("e5m2"), apscope.FloatFormat("fp16")
    assert (e5m2.emin, e5m2.emax) == (fp16.emin, fp16.emax) == (-14, 15)
    assert (e5m2.smallest_positive, fp16.smallest_positive) == (2.0**-16, 2.0**-24)
    # The flush point of fp16 at S is that of e5m2 at 2^8 S: the same elements, one by one.
    g = all_gradients(trace, trace.steps[-1])
    g = np.concatenate(
        [
            g[g != 0],
            np.ldexp(np.float32(1), np.arange(-45, 0)),
            np.ldexp(np.float32(1.0000001), np.arange(-45, 0)),
        ]
    )[None]
    for k in (0, 5, 10):
        ours, theirs = (
            apscope.exchange(f"loss_scaling:{n},scale={2**e}", g).sent == 0
            for n, e in (("e5m2", k + 8), ("fp16", k))
        )
        assert np.array_equal(ours, theirs) and ours.any()
    a, b = (
        weight_updates.underflow_curve(g, "e5m2", exponents=range(8, 33)),
        weight_updates.underflow_curve(g, "fp16", exponents=range(25)),
    )
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
    free = scales(
        tmp_path / "u",
        spec.replace("0:8/40:64/150:16", "none"),
        [np.inf if b else 1e-9 for b in bits],
    )[0]
    assert free == grad_scaler(bits, 256.0, 3) and min(free) < 1, (
        "without storms of overflows this tests nothing"
    )


@pytest.mark.parametrize(
    "minimum", ["", "5", "0:8/", "3:8/2:16", "0:-1", "0:8/x:3", "0:1e60", "-1:8"]
)
def test_F2_refuses_a_schedule_that_is_none(minimum):
    with pytest.raises(ValueError, match="STEP:VALUE"):
        apscope.schemes.Scheme(f"enhanced_loss_scaling:e5m2,minimum={minimum}")


def test_F3_stochastic_rounding_is_unbiased_with_the_variance_of_its_bracket():
    rng = np.random.default_rng(11)
    x = (rng.choice([-1, 1], 64) * rng.uniform(1, 2, 64) * 2.0 ** rng.integers(-17, 4, 64)).astype(
        np.float32
    )
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
    known = np.array(variance)[moving]
    assert (
        np.abs(p.mean(axis=0) - known) < 5 * p.std(axis=0) / math.sqrt(4000) + 1e-6 * known
    ).all()


@pytest.mark.parametrize(
    "scheme", ["dynamic_loss_scaling", "deepspeed_loss_scaling", "enhanced_loss_scaling"]
)
@pytest.mark.parametrize(
    "name, first",
    [
        ("fp16", 16),
        ("e5m2", 16),
        ("bf16", 16),
        ("fp32", 16),
        ("e4m3fn", 9),
        ("e4m3", 8),
        ("e3m4", 4),
        ("e3m0", 4),
        ("e2m1fn", 3),
    ],
)
def test_a_loss_scale_starts_just_below_what_the_format_holds(tmp_path, scheme, name, first):
    """2^(E+1) at most 2^16: torch's start for fp16; in every format a gradient of 1/2 passes. The
    key takes any other."""
    trace = record(tmp_path / "t", [{"x": np.full((2, 3), 0.5)}])
    spec = f"{scheme}:{name}" + (",minimum=none" if scheme.startswith("enhanced") else "")
    frame = apscope.replay(trace, [spec, spec + ",init=65536"], topology=[]).frame
    by_spec = frame.groupby("scheme", sort=False)
    assert [set(part.scale_exponent) for _, part in by_spec] == [{first}, {16}]
    assert not frame[frame.scheme == frame.scheme[0]].skipped.any()
    assert (
        apscope.schemes.as_scheme(spec).spec == spec
        and "auto" in dict((k, v) for k, v, _ in definition(scheme)["keys"])["init"]
    )


def definition(name):
    return next(d for d in apscope._core.scheme_definitions() if d["name"] == name)


def test_a_start_for_fp16_would_skip_every_step_of_two_bundled_traces_in_eight_bits():
    """Steps skipped with and without init=65536, of how many."""
    found = {}
    for name in ("digits", "digits_w64", "characters"):
        frame = apscope.replay(
            DATA / name,
            ["dynamic_loss_scaling:e4m3", "dynamic_loss_scaling:e4m3,init=65536"],
            topology=[],
        ).frame
        wire = frame[frame.stage == "wire"]
        found[name] = [
            wire[wire.skipped & (wire.scheme == s)].step.nunique() for s in wire.scheme.unique()
        ] + [wire.step.nunique()]
    assert found == {"digits": [1, 9, 52], "digits_w64": [3, 6, 6], "characters": [0, 6, 6]}
