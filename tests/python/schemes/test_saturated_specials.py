"""A float grid rounds elements that are not finite as any other number, in exchange and in training
alike; a saturating one hides an infinity, as a saturating cast does."""

import math

import numpy as np
import pytest

import apscope
from apscope import _core
from tests.python.recorded import record

#: of the largest numbers of their formats
LARGEST = {"e4m3fn": 448.0, "e4m3": 240.0, "e3m0": 8.0, "fp16": 65504.0, "e2m1fn": 6.0}
SATURATING = [
    "none:e4m3fn,overflow=saturate",
    "none:e2m1fn,overflow=saturate",
    "none:e3m0,overflow=saturate,rounding=stochastic",
    "none:fp16,overflow=saturate,divide=before",
    "none:e4m3,overflow=saturate,accumulate=fp32",
    "loss_scaling:e4m3fn,scale=1000,overflow=saturate",
    "loss_scaling:e4m3,scale=4,overflow=saturate,accumulate=exact",
    "aps:e4m3fn,overflow=saturate",
    "aps:e4m3,overflow=saturate,rounding=stochastic",
    "aps:e4m3fn,unit=4,overflow=saturate",
    "aps:e3m0,unit=row,overflow=saturate",
    "adaptive_loss_scaling:e4m3,overflow=saturate",
    "hfp8:e4m3,overflow=saturate",
    "delayed_scaling:e4m3fn",
    "delayed_scaling:e4m3",
    "current_scaling:e4m3fn",
    "current_scaling:e4m3fn,agree=local",
    "current_scaling:e4m3,block=4",
    "fp8_allreduce:e4m3fn",
    "stochastic:e4m3,overflow=saturate",
    "error_feedback(none:e4m3fn,overflow=saturate)",
    "error_feedback(aps:e4m3,overflow=saturate)",
    "residual(none:e4m3,overflow=saturate)",
]


def format_of(spec):
    return next(name for name in sorted(LARGEST, key=len, reverse=True) if f":{name}" in spec)


def gradients():
    g = np.random.default_rng(8).uniform(0.5, 1.0, (3, 16)).astype(np.float32)
    g[0, 2], g[1, 5], g[2, 9] = np.inf, -np.inf, np.nan
    return g


def trained(spec, g, topology="ring"):
    out = np.empty(g.shape[1], np.float32)
    exchange = _core.StepExchange(
        spec, ["x"], ["other"], [[g.shape[1]]], len(g), topology, 0, False
    )
    exchange.run(0, 0, [g], [out], [], math.nan, math.nan, 1)
    return out


@pytest.mark.parametrize("spec", SATURATING)
def test_an_infinity_is_sent_as_the_largest_value(spec):
    g = gradients()
    e = apscope.exchange(spec, g, topology="ring")
    largest = abs(e.sent[0, 2])
    assert np.isfinite(largest) and e.sent[0, 2] > 0 > e.sent[1, 5]
    if "divide" in spec:  # in fp16 by three
        assert largest == 3 * np.float64(np.float16(65504 / 3))
    elif e.scale_exponent is not None:
        assert largest * 2.0**e.scale_exponent == LARGEST[format_of(spec)]
        assert e.sent[1, 5] == -largest or "unit" in spec or "block" in spec
    assert np.isnan(e.sent[2, 9]) and np.isnan(e.reduced[9])
    finite = np.arange(16) != 9
    assert np.isfinite(e.reduced[finite]).all()
    assert np.array_equal(trained(spec, g), e.reduced.astype(np.float32), equal_nan=True)
    # What the scheme sees of the others is what it saw without them.
    clean = np.where(np.isfinite(g), g, 0).astype(np.float32)
    keep = np.isfinite(g)
    if not spec.startswith("fp8_allreduce"):  # which keeps its scale at such a step
        assert np.array_equal(apscope.exchange(spec, clean).sent[keep], e.sent[keep])


@pytest.mark.parametrize("topology", ["sequential", "ring", "tree", "hierarchical:2", "exact"])
@pytest.mark.parametrize("spec", [s for s in SATURATING if s.startswith(("none", "loss"))])
def test_an_infinity_is_as_good_as_a_number_beyond_the_largest(spec, topology):
    g = gradients()
    g[2, 9] = 1
    beyond = np.nan_to_num(g, posinf=3e38, neginf=-3e38)
    a, b = (apscope.exchange(spec, x, topology=topology) for x in (g, beyond))
    assert np.array_equal(a.sent, b.sent) and np.array_equal(a.reduced, b.reduced)
    assert np.array_equal(trained(spec, g, topology), trained(spec, beyond, topology))


@pytest.mark.parametrize(
    "spec, result",
    [
        ("none:e4m3", np.inf),
        ("none:e4m3,overflow=propagate", np.inf),
        ("none:e4m3fn", np.nan),
        ("none:e4m3,overflow=nan", np.nan),
        ("none:e3m0", np.inf),
        ("none:e2m1fn", 6.0),
        ("none:e4m3,overflow=infinity", np.inf),
    ],
)
def test_other_overflows_follow_the_table(spec, result):
    g = gradients()
    e = apscope.exchange(spec, g, topology="ring")
    assert np.array_equal(e.sent[0, 2], result, equal_nan=True)
    assert np.array_equal(trained(spec, g), e.reduced.astype(np.float32), equal_nan=True)


def test_an_infinity_leaves_no_error_behind():
    """Not the difference of an infinity and what was sent, nor the error of a 0."""
    g = gradients()
    e = apscope.exchange("error_feedback(none:e4m3fn,overflow=saturate)", g)
    errors = np.stack([e.state[f"error/{w}"] for w in range(3)])
    assert np.isfinite(errors).all() and (errors[~np.isfinite(g)] == 0).all()
    again = apscope.exchange(
        "error_feedback(none:e4m3fn,overflow=saturate)", np.ones_like(g), state=e.state, step=1
    )
    assert np.isfinite(again.sent).all() and (again.sent[~np.isfinite(g)] == 1).all()


def test_what_columns_count(tmp_path):
    """`infinite` and `nan` of x; `saturated` and `overflow` of finite x; sums of finite pairs."""
    g = gradients()
    g[0, 0] = 1e6
    trace = record(tmp_path / "t", [{"x": g}], "sum")
    spec = "none:e4m3fn,overflow=saturate"
    e = apscope.exchange(spec, g, topology="ring")
    finite = np.isfinite(g)
    x, y = g[finite].astype(np.float64), e.sent[finite]
    for one in (spec, f"residual({spec}),points=1"):
        wire = apscope.replay(trace, one, topology="ring").frame.iloc[0]
        assert (wire.infinite, wire.nan, wire.overflow) == (2, 1, 0)
        assert wire.counted == finite.sum() == 45
        assert wire.sum_error == pytest.approx((y - x).sum(), rel=1e-12)
    assert apscope.replay(trace, spec).frame.saturated[0] == 1


def test_functions_of_a_caller_get_finite_numbers():
    seen = []

    def update(step, state, intended, sent, reduced):
        seen.append((intended.copy(), sent.copy()))

    scheme = apscope.schemes.define("watches", "none:e4m3fn,overflow=saturate", update=update)
    e = apscope.exchange(scheme, gradients())
    (intended, sent), *_ = seen
    assert np.isfinite(intended).all() and np.isfinite(sent).all()
    assert e.sent[0, 2] == np.inf
