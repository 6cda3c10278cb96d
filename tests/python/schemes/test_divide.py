"""Division before the sum: exchange, replay and training against a plain loop in the format's own
NumPy type."""

import math

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope import _core
from apscope._results.differences import chain, differences
from tests.python.recorded import record

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3fn": ml_dtypes.float8_e4m3fn}
PLACES = ["before", "sqrt", "fsdp", "8", "1", "1.5"]


def gradients(workers, n=3000, seed=0):
    """Of every size that fp16 has, and beyond it on both sides."""
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((workers, n)) * 2.0 ** rng.integers(-30, 16, n)
    g[:, :4] = 0.0, -0.0, 6e4, 2.0**-24
    return g.astype(np.float32)


def divisors(place, workers):
    if place == "fsdp":  # the loop of torch's `_get_gradient_divide_factors`
        before = 1
        while workers % before == 0 and workers / before > before:
            before *= 2
    elif place == "sqrt":
        before = np.float32(math.sqrt(workers))
    else:
        before = workers if place == "before" else float(place)
    return float(before), workers / float(before)


@np.errstate(all="ignore")  # infinities and NaNs are values like others
def by_hand(g, dtype, scale, place):
    """The sum by `sequential`, every operation rounded to the type by NumPy or ml_dtypes."""
    workers = len(g)
    before, after = divisors(place, workers)

    def divided(c, by):
        if by == 1:
            return c
        quotient = c.astype(np.float64) / by  # ml_dtypes rounds fp64 by way of fp32 only
        return quotient.astype(np.float64 if dtype is np.float16 else np.float32).astype(dtype)

    codes = [divided((np.float32(scale) * row).astype(dtype), before) for row in g]
    total = codes[0]
    for c in codes[1:]:
        total = (total.astype(np.float32) + c.astype(np.float32)).astype(dtype)
    total = divided(total, after).astype(np.float64) * workers / scale
    return np.stack(codes).astype(np.float64) * before / scale, total


@pytest.mark.parametrize("workers", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name, scale", [("fp16", 1.0), ("bf16", 0.25), ("e4m3fn", 16.0)])
def test_the_bits_are_those_of_a_plain_loop(name, scale, place, workers):
    g = gradients(workers)
    sent, reduced = by_hand(g, TYPES[name], scale, place)
    spec = f"loss_scaling:{name},scale={scale},divide={place}"
    e = apscope.exchange(spec, g, topology="sequential")
    assert np.array_equal(e.sent, sent, equal_nan=True)
    assert np.array_equal(e.reduced, reduced, equal_nan=True)
    for reduction in (True, False):
        exchange = _core.StepExchange(
            spec, ["x"], ["other"], [[g.shape[1]]], workers, "sequential", 0, reduction
        )
        out = np.empty(g.shape[1], np.float32)
        exchange.run(0, 0, [g], [out], [], math.nan, math.nan, 1)
        wanted = (reduced / (workers if reduction else 1)).astype(np.float32)
        assert np.array_equal(out, wanted, equal_nan=True)


@pytest.mark.parametrize("scheme", [s for s in apscope.schemes.all_schemes() if "divide" in s.keys])
def test_division_after_the_sum_is_what_every_float_scheme_does(scheme):
    name = scheme.spec.partition(":")[0]
    assert scheme.keys["divide"] == "after" and "divide" not in scheme.spec
    g = 1e-3 * gradients(4, 200)[:, 4:]
    for place in ("before", "fsdp"):
        spec = f"{name}:fp16,divide={place}"
        assert apscope.schemes.Scheme(spec).spec == spec
        e = apscope.exchange(spec, g, topology="ring")
        plain = apscope.exchange(f"{name}:fp16", g, topology="ring")
        assert not np.array_equal(e.sent, plain.sent)  # subnormal numbers lost digits
        kept = np.isfinite(plain.sent) & (np.abs(g) > 1e-2)
        assert np.allclose(e.sent[kept], plain.sent[kept], rtol=1e-3)


def test_one_worker_divides_by_one():
    g = gradients(1)
    for place in ("before", "sqrt", "fsdp"):
        for spec in ("none:fp16", "aps:e4m3,rounding=stochastic"):
            a, b = (apscope.exchange(s, g) for s in (spec, f"{spec},divide={place}"))
            assert np.array_equal(a.reduced, b.reduced, equal_nan=True)


@pytest.mark.parametrize("spec", ["aps:e4m3,unit=16", "error_feedback(none:e4m3)"])
def test_a_scale_per_block_and_a_memory_divide_alike(spec):
    g = 0.1 * gradients(4, 64)[:, 4:36] / 1e3
    divided = spec.replace("e4m3", "e4m3,divide=before")
    a, b = (apscope.exchange(s, g, topology="ring") for s in (divided, spec))
    assert not np.array_equal(a.sent, b.sent)
    if "none" in spec:
        codes = apscope.quantize(apscope.quantize(g, "e4m3") / np.float32(4), "e4m3")
        assert np.array_equal(a.sent, 4.0 * codes)
        assert np.array_equal(a.state["error/2"], g[2].astype(np.float64) - a.sent[2])


def test_expectations_of_two_draws_are_sampled(tmp_path):
    g = (0.01 * np.random.default_rng(3).standard_normal((4, 400))).astype(np.float32)
    trace = record(tmp_path / "t", [{"x": g}])
    spec = "none:e4m3,rounding=stochastic,divide=before"
    alone = apscope.replay(trace, spec, topology="ring").frame
    assert alone.expected_bias.isna().all() and alone.expected_variance.isna().all()
    drawn = apscope.replay(trace, spec, topology="ring", draws=40).frame
    assert drawn.expected_bias.notna().all() and drawn.expected_variance_error.notna().all()
    # Each of the two draws keeps the mean.
    assert (drawn.expected_bias.abs() < 6 * drawn.expected_bias_error).all()
    # Of 1/4 of the number the quantum is the same below the smallest normal number.
    without = apscope.replay(trace, "none:e4m3,rounding=stochastic", topology="ring").frame
    assert drawn.expected_variance[0] > 4 * without.expected_variance[0]


@pytest.mark.parametrize(
    "spec, words",
    [
        ("none:fp16,divide=0.5", r"divide=0.5 must be after, before, sqrt, fsdp or an fp32 number"),
        ("none:fp16,divide=nan", r"divide=nan must be after"),
        ("none:fp16,divide=1e300", r"divide=1e300 must be after"),
        ("none:fp16,divide=mean", r"divide=mean must be after"),
        ("current_scaling:e4m3fn,agree=local,divide=before", "agree=local gathers the codes"),
        ("current_scaling:e4m3fn,block=8,divide=2", "block=8 gathers the codes"),
        ("stochastic:e4m3,divide=before", "has no key 'divide'"),
    ],
)
def test_other_divisions_are_refused(spec, words):
    with pytest.raises(ValueError, match=words):
        apscope.schemes.Scheme(spec)


def test_a_division_is_a_difference_of_its_own():
    aps, divided = "aps:e4m3", "aps:e4m3,headroom=one,divide=before"
    assert differences(divided, aps) == [
        ("headroom", "one", "workers"),
        ("division", "before", "none"),
    ]
    assert [what for what, _ in chain(divided, aps)] == ["", "headroom", "division"]
