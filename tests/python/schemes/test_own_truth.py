"""Every scheme's rows compare with the gradients; schemes that send other quantities have
additional columns for these."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.python.recorded import record
from tests.python.scheme_cases import cases

OWN = {
    "sign_vote:momentum=0.9,tie=zero",
    "onebit_adam",
    "onebit_adam:beta1=0.5,warmup=2,warmup_format=fp16",
    "birder",
    "birder:beta=0.5,amsgrad=true,group=2",
}


@pytest.fixture(scope="module")
def steps():
    rng = np.random.default_rng(4)
    return [
        (rng.standard_normal((4, 60)) * 2.0 ** rng.integers(-9, 3, 60)).astype(np.float32)
        for _ in range(4)
    ]


@pytest.fixture(scope="module", params=["mean", "sum"])
def trace(request, steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / request.param
    return record(folder, [{"w": g} for g in steps], request.param, loss=1.0)


def cosine(x, y):
    return (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())


@pytest.mark.parametrize("spec", sorted(OWN))
def test_rows_compare_with_the_gradients_and_beside_with_what_was_asked(trace, steps, spec):
    frame, state, divisor = (
        apscope.replay(trace, spec).frame,
        {},
        4 if trace.manifest.reduction == "mean" else 1,
    )
    for number, g in enumerate(steps):
        e = apscope.exchange(spec, g, state=state, step=number, tensor="w")
        state, x = e.state, g.astype(np.float64)
        rows = frame[frame.step == number].set_index("topology")
        results = {
            "": e.sent,
            "exact": e.sent.sum(axis=0) / divisor,
            e.reduction: e.reduced / divisor,
        }
        for topology, y in results.items():
            row, truth, own = (
                rows.loc[topology],
                *(a if topology == "" else a.sum(axis=0) / divisor for a in (x, e.intended)),
            )
            assert row.nmse == pytest.approx(((y - truth) ** 2).sum() / (truth**2).sum(), rel=1e-9)
            assert row.cosine == pytest.approx(cosine(truth, y), rel=1e-9, abs=1e-12)
            assert row.rescaled_nmse == pytest.approx(1 - cosine(truth, y) ** 2, rel=1e-9)
            assert row.own_nmse == pytest.approx(((y - own) ** 2).sum() / (own**2).sum(), rel=1e-9)
            assert row.own_cosine == pytest.approx(cosine(own, y), rel=1e-9, abs=1e-12)
            assert row.sum_squared_reference == pytest.approx((truth**2).sum(), rel=1e-12)


def test_schemes_whose_truth_is_the_gradient_have_no_truth_of_their_own(trace):
    frame = apscope.replay(
        trace, list(dict.fromkeys(c.spec for c in cases())), topology="ring"
    ).frame
    assert (
        set(frame.scheme[frame.own_nmse.notna()])
        == {apscope.schemes.Scheme(s).spec for s in OWN}
        == set(frame.scheme[frame.own_cosine.notna()])
    )


def test_expectations_speak_of_the_same_truth_as_the_other_columns(trace, steps):
    """birder and error_feedback(qsgd) draw around a momentum, or the gradient and the last error:
    E[y] - g all the same."""
    divisor = 4 if trace.manifest.reduction == "mean" else 1
    for spec in ("birder", "error_feedback(qsgd:levels=3,bucket=16)"):
        frame, state = apscope.replay(trace, spec).frame, {}
        for number, g in enumerate(steps):
            e = apscope.exchange(spec, g, state=state, step=number, tensor="w")
            state = e.state
            rows = frame[frame.step == number].set_index("topology")
            expected = e.intended + e.bias
            assert rows.loc[""].expected_bias == pytest.approx((expected - g).mean(), rel=1e-9)
            mean = (expected.sum(axis=0) - g.astype(np.float64).sum(axis=0)).mean() / divisor
            assert rows.loc["exact"].expected_bias == pytest.approx(mean, rel=1e-9)


def test_rescaled_nmse_is_the_least_nmse_over_factors_and_keeps_its_digits(tmp_path):
    """1 - cosine^2 computed as such has no digit left of an error of 1e-16; the column has, against
    exact rationals."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(300).astype(np.float32)
    for name, row in {"w": x, "zero": 0 * x, "tiny": np.full(5, 2.0**-140, np.float32)}.items():
        record(tmp_path / name, [{"w": row[None]}], "sum")
    for spec, least, most in [
        ("none:e4m3", 1e-5, 1e-2),
        ("none:fp16", 1e-9, 1e-6),
        ("loss_scaling:fp32,scale=3", 1e-17, 1e-13),
        ("sign:scale=one", 0.1, 1),
    ]:
        row = apscope.replay(tmp_path / "w", spec).frame.iloc[0]
        y = (
            apscope.exchange(spec, x[None], tensor="w").sent[0]
            if "loss" not in spec
            else np.float32(3.0 * x.astype(np.float64)) / 3.0
        )
        a, b = ([Fraction(float(v)) for v in v] for v in (x, y))
        xx, yy, xy = (sum(p * q for p, q in zip(u, v)) for u, v in ((a, a), (b, b), (a, b)))
        assert least < row.rescaled_nmse < most
        assert row.rescaled_nmse == pytest.approx(float(1 - xy * xy / (xx * yy)), rel=1e-6)
        best = xy / yy
        assert row.rescaled_nmse == pytest.approx(
            float(sum((best * q - p) ** 2 for p, q in zip(a, b)) / xx), rel=1e-6
        )
    assert math.isnan(apscope.replay(tmp_path / "zero", "none:e4m3").frame.rescaled_nmse[0])
    lost = apscope.replay(tmp_path / "tiny", "none:e4m3").frame.iloc[0]
    assert lost.nmse == 1 and lost.rescaled_nmse == 1 and math.isnan(lost.cosine)
