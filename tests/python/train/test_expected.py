"""The expected excess loss: the line of docs/relation.csv, where it was fitted and nowhere else."""

import math

import pandas as pd
import pytest

import apscope
from apscope._training.expected import ExpectedExcess, is_covered


@pytest.fixture(scope="module")
def trained(request):
    table = pd.read_csv(request.config.rootpath / "docs/relation.csv")
    covered = table[[is_covered(spec) for spec in table["scheme"]]]
    return covered[(covered["lost"] == 0) & (covered["step_nmse"] != 1)]


def test_nearly_all_trained_schemes_above_the_noise_lie_in_its_interval(trained):
    held = trained[trained["excess_low"] > 0]
    told = [apscope.expected_excess(r.scheme, r.typical_32) for r in held.itertuples()]
    inside = [t.low <= r.excess <= t.high for t, r in zip(told, held.itertuples()) if t.loss > 0]
    assert len(inside) >= 60 and sum(inside) >= 0.95 * len(inside)


def test_it_grows_with_the_error_and_has_no_gap_below_what_was_trained():
    errors = [10.0**k for k in range(-6, 1)]
    told = [apscope.expected_excess("aps:e3m4", e) for e in errors]
    highs = [t.high for t in told]
    assert highs == sorted(highs) and told[0] == told[1]
    assert math.isnan(told[0].loss) and told[0].low == 0 and str(told[0]).startswith("below ")
    assert all(t.low < t.loss < t.high for t in told[-2:])


@pytest.mark.parametrize(
    "spec",
    [
        "aps:e3m4,rounding=stochastic",
        "aps:e3m4,hop_rounding=stochastic",
        "error_feedback(aps:e3m4)",
        "hybrid(name:a=aps:e3m4;else=aps:e4m3)",
        "qsgd",
        "sign",
        "none:fp16",
    ],
)
def test_nothing_is_said_of_schemes_that_it_was_not_fitted_to(spec):
    told = apscope.expected_excess(spec, 0.1)
    assert isinstance(told, ExpectedExcess) and all(math.isnan(v) for v in told) and str(told) == ""


def test_nothing_is_said_of_errors_above_those_trained_nor_of_none():
    for error in (10.0, math.inf, math.nan):
        assert math.isnan(apscope.expected_excess("aps:e3m4", error).high)


def test_impossible_arguments_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="error_over_noise=-1 must be at least 0"):
        apscope.expected_excess("aps:e3m4", -1)
    with pytest.raises(ValueError, match="unknown scheme 'asp'"):
        apscope.expected_excess("asp:e3m4", 1.0)


def test_a_plan_of_one_scheme_says_it_and_a_mixture_says_it_of_the_single_scheme(request):
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/digits", ["aps:e3m0", "aps:e3m4"], topology="ring"
    )
    one = str(apscope.recommend(results, max_volume=0.25))
    both = str(apscope.recommend(results, max_volume=0.2))
    assert "expected excess training loss of aps:e3m4: 0.0" in one
    assert "expected excess training loss of aps:e3m0: 0." in both
    assert "for mixtures none is established" in both and "for mixtures" not in one
