"""Provable claims of layer-wise loss scales (adaptive loss scaling), HFP8 and unit scaling."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import apscope
from apscope.record import TraceWriter
from apscope.studies.activation_scales import join_scales, layer_scale
from tests.python.one_bit_claims import DATA, proportion_z

# Layer-wise scales --------------------------------------------------------------------------------


NO_BOUNDS = dict(upper=None, total=None)


def test_AL1_the_share_that_underflows_is_the_target_exactly():
    """For N(0, sigma_o), without the bounds and the power of two: an identity of erf."""
    rng = np.random.default_rng(1)
    for share in (1e-5, 1e-3, 0.1, 0.5):
        g, w = rng.normal(0, 1e-8, 400), rng.normal(0, 0.02, (64, 30))
        l = layer_scale(g, w, share=share, power_of_two=False, **NO_BOUNDS)
        sigma = math.sqrt((g**2).mean() * (w**2).mean()) * math.sqrt(0.5 * 64)
        assert l > 1
        assert math.erf(2.0**-24 / (l * sigma) / math.sqrt(2)) == pytest.approx(share, rel=1e-9)
    # sqrt2 erfinv(1e-3), from which l follows
    one = layer_scale(
        [1.0, -1.0],
        [[1.0], [-1.0]],
        fan=1,
        sparsity=1.0,
        u_min=1.0,
        power_of_two=False,
        **NO_BOUNDS,
    )
    assert 1 / one == pytest.approx(0.0012533145, rel=1e-7)


def test_AL1_sums_of_products_have_less_because_of_the_half_for_relu():
    """sigma is sqrt2 sigma_o without a ReLU: T / sqrt2, and with the power of two at most sqrt2
    T."""
    rng = np.random.default_rng(2)
    n, fan, share = 4_000_000, 1024, 1e-3
    g, w = rng.normal(0, 1e-7, 500), rng.normal(0, 0.01, (fan, 20))
    rms = math.sqrt((g**2).mean() * (w**2).mean())
    # A sum of products g w, given its g, is normal with variance sigma_w^2 |g|^2.
    sums = rms * np.sqrt(rng.chisquare(fan, n)) * rng.normal(0, 1, n)
    l = layer_scale(g, w, share=share, power_of_two=False, **NO_BOUNDS)
    assert l > 1
    hits = int((np.abs(sums * l) < 2.0**-24).sum())
    assert abs(proportion_z(hits, n, share / math.sqrt(2))) < 5
    for factor in np.linspace(1, 2, 9):
        sigma_o = rms * math.sqrt(0.5 * fan) / factor
        floored = layer_scale(g / factor, w, share=share, **NO_BOUNDS)
        p = math.erf(2.0**-24 / (floored * sigma_o * math.sqrt(2)) / math.sqrt(2))
        assert share / math.sqrt(2) * (1 - 1e-6) <= p <= share * math.sqrt(2)


def test_AL2_the_tests_of_its_code():
    options = dict(element_wise=True, u_min=6e-8)
    assert layer_scale([[1e-5]], [[1e-4]], **options) == 32
    assert layer_scale([[1e-5]], [[1e-4]], cumulative=256.0, **options) == 32  # without bounds
    assert layer_scale([[1e-9]], [[1e-4]]) == 16  # the bound of a layer
    assert layer_scale([[1e-9]], [[1e-4]], cumulative=256.0) == 4  # of the product
    assert layer_scale([[1e-9]], [[1e-4]], cumulative=4096.0) == 0.25
    # Powers of two: 1.23 -> 1, 0.23 -> 0.125 (a product that would overflow), 2 -> 2.
    for wanted, power in ((1.23, 1), (2.0, 2), (3.99, 2), (4.0, 4)):
        assert layer_scale([[1.0]], [[1.0]], element_wise=True, u_min=wanted) == power
    for wanted, power in ((0.23, 0.125), (0.25, 0.25), (0.9, 0.5)):
        assert layer_scale([[65504.0]], [[1.0 / wanted]], element_wise=True) == power
    assert layer_scale([[0.0]], [[1.0]]) == 1 and layer_scale([[1.0]], [[0.0]]) == 1
    assert layer_scale([[0.0]], [[1.0]], cumulative=2048.0) == 0.5


@pytest.mark.parametrize("shapes", [((5, 3), (3, 4)), ((2, 3, 2, 2), (3, 2, 3, 3))])
def test_AL2_element_wise_counts_the_products_of_sums_alone(shapes):
    """Every product in a loop; a gradient meets the weights of its own output only."""
    rng = np.random.default_rng(3)
    for case in range(40):
        g, w = (rng.choice([-1, 1], s) * 2.0 ** rng.uniform(-16, 4, s) for s in shapes)
        g, w = (x * (rng.random(x.shape) < 0.6) for x in (g, w))
        if case % 2:
            w[1] *= 2.0**9
        sums = [
            abs(a * b)
            for k in range(3)
            for a in np.moveaxis(g, 1, 0)[k].ravel()
            for b in w[k].ravel()
            if a and b
        ]
        fan = 3 * math.prod(w.shape[2:])
        f = apscope.FloatFormat(exponent_bits=4, mantissa_bits=3, bias=8, specials="finite")
        options = dict(format=f, u_min=2.0**-12, element_wise=True, power_of_two=False)
        wanted = min(max(1.0, 2.0**-12 / min(sums)), f.largest / max(sums) / fan)
        assert layer_scale(g, w, **options) == wanted
    # The smallest gradient and the smallest weight are of different outputs.
    assert layer_scale([[1e-6, 1.0]], [[1.0], [1e-6]], element_wise=True, u_min=6e-8) == 1
    assert layer_scale([[0.0, 1.0]], [[1.0], [0.0]], element_wise=True) == 1
    with pytest.raises(ValueError, match=r"\(4, 2\) do not fit a gradient of shape \(5, 3\)"):
        layer_scale(np.ones((5, 3)), np.ones((4, 2)), element_wise=True)


def chain(folder, layers, magnitude):
    rng = np.random.default_rng(4)
    with TraceWriter(
        folder, workers=1, reduction="mean", roles={f"l{k}.weight": "linear" for k in range(layers)}
    ) as writer:
        for k in range(layers):
            writer.add(0, 0, f"l{k}.weight", rng.normal(0, 1, (8, 8)).astype(np.float32))
            writer.add(
                0, 0, f"l{k}.weight", rng.normal(0, 0.1, (8, 8)).astype(np.float32), kind="weights"
            )
            writer.add(
                0,
                0,
                f"l{k}",
                (magnitude * rng.normal(0, 1, (4, 8))).astype(np.float32),
                kind="activation_gradient",
            )
        writer.end_step(0)
    return apscope.open_trace(folder)


def test_AL3_scales_are_powers_of_two_within_their_bounds_and_come_off_exactly(tmp_path):
    saved = chain(tmp_path / "t", 6, 1e-9)
    frame = apscope.studies.activation_scales.layer_scales(saved, 0)
    assert frame.layer.tolist() == [f"l{k}" for k in reversed(range(6))]
    assert frame.scale.tolist() == [16, 16, 4, 1, 1, 1] and frame.cumulative.max() == 1024
    assert (frame.cumulative == frame.scale.cumprod()).all()
    assert (frame.underflow <= frame.underflow_before).all() and (
        frame.underflow < frame.underflow_before
    ).any()
    for row in frame.itertuples():
        g = saved.read(0, row.layer, 0, "activation_gradient").astype(np.float64)
        assert math.frexp(row.scale)[0] == 0.5 and row.scale <= 16
        assert np.array_equal(g * row.cumulative / row.cumulative, g)
        with np.errstate(over="ignore"):
            assert row.underflow == ((g * row.cumulative).astype(np.float16) == 0).mean()
            assert row.underflow_before == (g.astype(np.float16) == 0).mean()
    # Gradients that would overflow are scaled down.
    down = apscope.studies.activation_scales.layer_scales(chain(tmp_path / "u", 2, 1e6), 0)
    assert down.scale[0] < 1


@pytest.mark.parametrize("name", ["fp16", "e5m2", "e4m3"])
def test_AL3_holds_on_recorded_activations(trace, name):
    for step in trace.recorded()["activation_gradient"]:
        frame = apscope.studies.activation_scales.layer_scales(trace, step, format=name)
        assert len(frame) >= 3 and (np.frexp(frame.scale)[0] == 0.5).all()
        assert (frame.scale <= 16).all() and (frame.cumulative <= 1024).all()
        assert (frame.cumulative == frame.scale.cumprod()).all()
    without = set(trace.steps) - set(trace.recorded()["activation_gradient"])
    if without:
        with pytest.raises(ValueError, match="no activation_gradient"):
            apscope.studies.activation_scales.layer_scales(trace, min(without), format=name)


def test_AL3_a_join_takes_the_largest_scale_at_which_nothing_overflows():
    assert join_scales([4.0, 64.0], [100.0, 100.0]) == 64
    assert join_scales([4.0, 64.0], [5000.0, 100.0]) == 4
    assert join_scales([4.0, 64.0], [5000.0, 2e6]) == 2  # 2e6 / 32
    # A gradient of the largest value does not fit.
    assert join_scales([4.0, 64.0], [4093.0, 64.0]) == 64
    assert join_scales([4.0, 64.0], [4094.0, 64.0]) == 4
    # Halved while at least 1/8, whatever the smallest scale: 1/16 is the last that is tried.
    assert join_scales([4.0], [4 * 65503.0 * 16]) == join_scales([0.25], [65503.0 * 4]) == 1 / 16
    assert join_scales([2.0**-6], [1.0]) == 2.0**-6
    assert join_scales([4.0], [4 * 65503.0 * 64], floor=2.0**-5) == 1 / 64
    for scales, largest in (
        ([4.0], [4 * 65504.0 * 16]),
        ([2.0**-6], [65504.0]),
        ([1.0, 2.0], [1.0, math.nan]),
    ):
        with pytest.raises(ValueError, match="does not fit below 65504"):
            join_scales(scales, largest)
    with pytest.raises(ValueError, match="scales=0"):
        join_scales([0], [1.0])
    with pytest.raises(ValueError, match="one of each"):
        join_scales([], [])


@pytest.mark.parametrize("distribution", ["normal", "lognormal"])
@pytest.mark.parametrize("name", ["fp16", "e4m3"])
def test_the_cast_rule_of_every_tensor_follows_its_formula(trace, name, distribution):
    f = apscope.FloatFormat(name)
    target, upper = 1e-3, 1024.0
    frame = apscope.replay(
        trace,
        f"adaptive_loss_scaling:{name},distribution={distribution},upper=1024",
        topology=["sequential"],
    ).frame
    frame = frame[frame.stage == "wire"]
    for row in frame[frame.step == trace.steps[-1]].itertuples():
        g = np.stack(
            [trace.read(row.step, row.tensor, w).ravel() for w in range(trace.workers)]
        ).astype(np.float64)
        if distribution == "normal":
            l = f.smallest_positive / (
                NormalDist().inv_cdf(0.5 + target / 2) * math.sqrt((g**2).mean())
            )
        else:
            sigma = math.sqrt(math.log((g**2).mean() / np.abs(g).mean() ** 2))
            mu = math.log(np.abs(g).mean()) - sigma**2 / 2
            l = math.exp(math.log(f.smallest_positive) - mu - sigma * NormalDist().inv_cdf(target))
        bounded = min(max(l, 1.0), upper, f.largest / (trace.workers * np.abs(g).max()))
        assert row.scale_exponent == math.frexp(bounded)[1] - 1


def test_the_cast_rule_keeps_a_lognormal_tensor_at_its_target():
    """Samples of the very distribution, the scale's power of two undone: the share below u_min is
    T."""
    rng = np.random.default_rng(8)
    n, sigma, target = 400_000, 0.8, 0.02
    x = np.exp(rng.normal(-16.0, sigma, (1, n))).astype(np.float32)
    e = apscope.exchange(f"adaptive_loss_scaling:fp16,target={target},upper=1024", x)
    exact = math.log(2.0**-24) + 16.0 - sigma * -2.0537489106318225  # the normal quantile of 0.02
    assert e.scale_exponent == math.floor(exact / math.log(2)) and e.scale_exponent > 0
    below = int((x * math.exp(exact) < 2.0**-24).sum())
    assert abs(proportion_z(below, n, target)) < 5


@pytest.mark.parametrize("target", [1e-6, 1e-3, 0.02, 0.5])
def test_the_cast_rule_finds_the_quantile(target):
    """Just below and above where its scale passes 8: the inverse error function to seven digits."""
    sigma = np.float32(1 / (8 * NormalDist().inv_cdf(0.5 + target / 2)))
    spec = f"adaptive_loss_scaling:bf16,distribution=normal,u_min=1,target={target},upper=1024"
    for factor, exponent in ((1 - 3e-7, 3), (1 + 3e-7, 2)):
        x = np.float32([[1, -1]]) * np.float32(sigma * factor)
        assert apscope.exchange(spec, x).scale_exponent == exponent
    # 1 in 2 below u_min: the median of a lognormal, here of two magnitudes 1 and 4, whose moments
    # are those of no lognormal.
    x = np.float32([[1, 4]]) * np.float32(2.0**-20)
    r = math.log2(8.5 / 6.25)
    l = 2.0**-4 / (2.5 * 2.0**-20) * 2.0 ** (r / 2)
    spec = "adaptive_loss_scaling:bf16,u_min=0.0625,target=0.5,upper=1048576"
    assert apscope.exchange(spec, x).scale_exponent == math.floor(math.log2(l)) == 14


@pytest.mark.parametrize(
    "setting",
    """
        target=0 target=0.6 target=x u_min=0 upper=0.5 distribution=uniform interval=0
    """.split(),
)
def test_the_cast_rule_refuses_settings_that_have_no_meaning(setting):
    with pytest.raises(ValueError, match=setting.split("=")[0]):
        apscope.schemes.Scheme("adaptive_loss_scaling:fp16," + setting)


def test_a_cast_scale_stays_for_its_interval():
    x, state, seen = np.float32([[1e-9, 3e-9, -2e-9]]), None, []
    for i in range(7):
        e = apscope.exchange(
            "adaptive_loss_scaling:fp16,upper=1024,interval=3", x * 2.0**i, step=i, state=state
        )
        state = e.state
        seen.append(e.scale_exponent)
    single = [
        apscope.exchange("adaptive_loss_scaling:fp16,upper=1024", x * 2.0**i).scale_exponent
        for i in range(7)
    ]
    assert seen == [single[0]] * 3 + [single[3]] * 3 + [single[6]] and len(set(seen)) == 3


# HFP8 ---------------------------------------------------------------------------------------------


def test_HF1_the_two_readings_of_the_forward_format():
    """All exponents normal: 1.125 2^-11 to 30. With subnormals: 2^-13 to 30, 2^-10 the least
    normal."""
    normal = {(1 + m / 8) * 2.0 ** (e - 11) for e in range(16) for m in range(8)} - {2.0**-11} | {
        0.0
    }
    subnormal = {(1 + m / 8) * 2.0 ** (e - 11) for e in range(1, 16) for m in range(8)} | {
        m / 8 * 2.0**-10 for m in range(8)
    }
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
    """To nearest, ties to even, ten significant bits; the range has no effect."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(fraction * 1024), exponent - 10)


def test_HF3_sums_in_chunks_keep_their_smaller_bound():
    rng = np.random.default_rng(6)
    n, chunk, v = 4096, 64, 2.0**-10
    for _ in range(20):
        x = to_1_6_9(np.abs(rng.normal(1, 0.5, n)))
        exact = math.fsum(x)
        chunked, sequential = (
            apscope.sum(x, "dlfloat16", order=o) for o in (f"chunked:{chunk}", "sequential")
        )
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
    e = apscope.exchange("hfp8:e5m2,scale=4096", g, topology="sequential")
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
    run = apscope.studies.weight_updates.weight_residual(start, updates, name)
    assert not run.residual[0].any()
    applied = run.weights[-1] - run.weights[0]
    for i in range(300):
        assert Fraction(applied[i]) - sum(map(Fraction, updates[:, i])) == -Fraction(
            run.residual[-1][i]
        )
    assert np.array_equal(run.weights, apscope.quantize(run.weights, name))
    # Without a residual the small updates vanish.
    assert (
        np.abs(run.weights[-1] - run.target[-1]).mean()
        < 0.8 * np.abs(run.without[-1] - run.target[-1]).mean()
    )


def test_HF4_holds_along_a_recorded_run():
    trace = apscope.open_trace(DATA / "digits")
    recorded = apscope.studies.weight_updates.sgd_updates(trace, "conv2.weight")
    weights, updates = recorded.weights, recorded.updates
    assert len(updates) == 40
    g = np.mean([trace.read(3, "conv2.weight", w).astype(np.float64) for w in range(8)], axis=0)
    assert np.allclose(updates[3], -0.1 * g, rtol=1e-14, atol=0)
    run = apscope.studies.weight_updates.weight_residual(weights, updates)
    assert np.allclose(run.weights + run.residual, run.target, rtol=0, atol=1e-13)
    kept = np.square(run.weights[-1] - run.target[-1]).sum()
    assert kept < np.square(run.without[-1] - run.target[-1]).sum()
    # A residual of ten bits loses little of that.
    rounded = apscope.studies.weight_updates.weight_residual(
        weights, updates, residual_format="dlfloat16"
    )
    assert (
        0
        < np.abs(rounded.weights + rounded.residual - rounded.target).max()
        < 40 * 2.0**-10 * np.abs(run.residual).max()
    )


# Unit scaling -------------------------------------------------------------------------------------


def test_US1_unit_variance_in_unit_variance_out():
    """Each scale on sums of its own number of terms; the variance of a sum's square is known."""
    rng = np.random.default_rng(12)
    n, outputs, inputs, batch = 20_000, 40, 90, 60
    scales = apscope.studies.unit_scaling.unit_scales((outputs, inputs), batch, constrained=False)
    for scale, terms in (
        ("output", inputs),
        ("input_gradient", outputs),
        ("weight_gradient", batch),
    ):
        y = getattr(scales, scale) * (
            rng.normal(size=(n, terms)) * rng.normal(size=(n, terms))
        ).sum(axis=1)
        # y^4 has mean 3 + 6 / terms, so y^2 variance 2 + 6 / terms.
        assert abs((y**2).mean() - 1) < 5 * math.sqrt((2 + 6 / terms) / n)
    tied = apscope.studies.unit_scaling.unit_scales((outputs, inputs), batch)
    assert (
        tied.input_gradient == tied.output == inputs**-0.5 and tied.weight_gradient == batch**-0.5
    )
    convolution = apscope.studies.unit_scaling.unit_scales((4, 3, 2, 2), 7, constrained=False)
    assert vars(convolution) == {
        "output": 12**-0.5,
        "input_gradient": 4**-1.0,
        "weight_gradient": 7**-0.5,
    }


def test_US1_the_diagnostic_of_a_recorded_model(trace):
    step = trace.recorded()["layer_input"][0]
    frame = apscope.studies.unit_scaling.layer_deviations(trace, step)
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
            apscope.studies.unit_scaling.layer_deviations(trace, min(without))


def test_US2_the_format_of_its_code_is_another_one():
    """Bias 2^(e-1), no infinity, no NaN, ties towards zero: neither e5m2 nor e4m3, though called
    alike."""
    for bits, mantissa, alike in ((5, 2, "e5m2"), (4, 3, "e4m3")):
        f = apscope.FloatFormat(
            exponent_bits=bits, mantissa_bits=mantissa, bias=2 ** (bits - 1), specials="finite"
        )
        standard = apscope.FloatFormat(alike)
        assert f != standard and f.name != standard.name
        assert f.largest == standard.largest == 2.0 ** (2 ** (bits - 1) - 1) * (2 - 2.0**-mantissa)
        assert f.smallest_normal == 2.0 ** (1 - 2 ** (bits - 1)) == standard.smallest_normal / 2
        rng = np.random.default_rng(13)
        x = (rng.choice([-1, 1], 4000) * 2.0 ** rng.uniform(-22, 18, 4000)).astype(np.float32)
        ties = [
            np.float32((1 + (2 * k + 1) * 2.0 ** -(mantissa + 1)) * 2.0**e)
            for k in range(2**mantissa)
            for e in range(-4, 4)
        ]
        x = np.concatenate([x, ties])
        # Clip, bring the range's bottom to fp32's, add half a unit less one, drop the bits, go
        # back.
        down = np.float32(2.0 ** (127 - 2 ** (bits - 1)))
        mask = np.uint32(2 ** (23 - mantissa) - 1)
        clipped = np.clip(x, -f.largest, f.largest).astype(np.float32) / down
        theirs = ((clipped.view(np.uint32) + mask // 2) & ~mask).view(np.float32) * down
        assert np.array_equal(
            theirs, apscope.quantize(x, f, rounding="ties_to_zero", overflow="saturate")
        )
        assert not np.array_equal(theirs, apscope.quantize(x, standard, overflow="saturate"))
        assert not np.array_equal(theirs, apscope.quantize(x, f, overflow="saturate")), (
            "ties do not tell"
        )


@pytest.mark.parametrize("element_wise", [False, True])
@pytest.mark.parametrize(
    ("gradient", "weights", "options", "error", "said"),
    [
        ([[1e200]], [[1e200]], {}, ValueError, "beyond fp64"),
        ([[1e-30]], [[1e-30]], {"fan": 0}, ValueError, "fan=0"),
        ([[0.0]], [[1.0]], {"share": 0.9}, ValueError, "share=0.9"),
        ([[1.0]], [[1.0]], {"u_min": float("nan")}, ValueError, "u_min=nan"),
    ],
)
def test_what_a_layers_scale_refuses(gradient, weights, options, error, said, element_wise):
    with pytest.raises(error, match=said):
        layer_scale(gradient, weights, element_wise=element_wise, **options)


def test_a_product_that_underflows_is_rescued_as_far_as_the_largest_lets():
    assert layer_scale([[1e-200, 1.0]], [[1e-200], [1.0]], element_wise=True, fan=2) == 2.0**14
