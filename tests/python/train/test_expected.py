"""The expected excess loss: the line of docs/relation.csv, where it was fitted and nowhere else."""

import math
import re

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._excess_loss.expected import ExpectedExcess, is_covered
from apscope.cli import main
from tests.python.recorded import record


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
    assert math.isnan(told[0].loss) and told[0].low == 0 and str(told[0]).startswith("0 to ")
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
    assert isinstance(told, ExpectedExcess) and str(told) == ""
    assert all(math.isnan(v) for v in told[:3]) and "predicts nothing for" in told.refused


def test_nothing_is_said_of_errors_above_those_trained_nor_of_none():
    for error in (10.0, math.inf, math.nan):
        told = apscope.expected_excess("aps:e3m4", error)
        assert math.isnan(told.high) and "is above 1.7" in told.refused


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
    assert "expected excess training loss of aps:e3m4 by its error over noise: 0.0" in one
    assert "expected excess training loss of aps:e3m0 by its error over noise: 0." in both
    assert "for mixtures none is established" in both and "for mixtures" not in one


def test_a_report_has_one_expected_excess_of_a_scheme(request, tmp_path):
    folder = request.config.rootpath / "notebooks/data/digits"
    results = apscope.replay(folder, ["aps:e3m0", "aps:e3m4"], topology="ring", steps=range(3))
    for gained, has_plans_own in ((None, True), (0.3, False)):
        page = apscope.report(results, tmp_path / "r.html", gained=gained).read_text()
        assert ("aps:e3m4 by its error over noise: 0.0" in page) == has_plans_own


GIVEN = {"update_loss_10": 0.02, "gained": 0.1, "lost_gain": 0.05}


@pytest.mark.parametrize(
    ("spec", "also"),
    [
        ("aps:e3m4", {}),
        ("aps:e3m4,rounding=stochastic", {}),
        ("qsgd", {}),
        ("error_feedback(aps:e3m4)", {}),
        ("hybrid(name:a=none:fp32;else=error_feedback(aps:e4m3))", {}),
        ("loss_scaling:e3m4,scale=512,overflow=saturate", {}),
        ("nvfp4", {"update_loss_3": 0.5}),
    ],
)
def test_the_update_loss_predicts_all_kinds_of_schemes_alike(spec, also):
    told = apscope.expected_excess(spec, **GIVEN, **also)
    assert told == apscope.expected_excess("mx:block_format=mxfp4", **GIVEN) and not told.refused
    assert told.low < told.loss < told.high and 0.01 < told.loss < 0.02


def test_three_steps_have_their_own_line_where_ten_are_missing():
    ten = apscope.expected_excess("aps:e3m4", **GIVEN)
    given = GIVEN | {"update_loss_10": math.nan, "update_loss_3": 0.02}
    three = apscope.expected_excess("aps:e3m4", **given)
    assert three == apscope.expected_excess("aps:e3m4", **given | {"update_loss_10": None})
    assert three != ten and three.high / three.loss > ten.high / ten.loss > 3


@pytest.mark.parametrize(
    ("spec", "changed", "why"),
    [
        ("aps:e3m4", {"lost_gain": 1 / 3}, "lost_gain=0.333 is 1/3 or more"),
        ("aps:e3m4", {"lost_gain": math.nan}, "lost_gain is NaN"),
        (
            "aps:e3m4",
            {"update_loss_10": math.nan},
            "update_loss_10 is NaN: replay with --persistence",
        ),
        ("aps:e3m4", {"update_loss_10": 0.9}, "update_loss_10 is 0.9, above 0.76"),
        ("aps:e3m4", {"update_loss_10": 0.7, "gained": 0.4}, "times gained is 0.28, above 0.18"),
        ("aps:e3m4", {"gained": 2}, "gained=2 is not between 0.0048"),
        ("aps:e3m4", {"gained": 0}, "gained=0 is not between 0.0048"),
        ("aps:e3m4", {"overflowed": 1}, "overflowed=1 is above 0"),
        ("aps:e3m4", {"skipped": 2}, "skipped=2 is above 0"),
        ("error_feedback(aps:e3m4)", {"gaps": 3}, "gaps=3 is above 0"),
        ("sign", {}, "sign was not trained, only aps, error_feedback"),
        ("error_feedback(sign)", {}, "sign was not trained"),
        ("hybrid(name:a=sign;else=aps:e3m4)", {}, "sign was not trained"),
    ],
)
def test_outside_of_what_was_trained_nothing_is_expected_and_a_sentence_says_why(
    spec, changed, why
):
    told = apscope.expected_excess(spec, **GIVEN | changed)
    assert all(math.isnan(v) for v in told[:3]) and str(told) == "" and why in told.refused


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "error_over_noise=None and update_loss_10=None: give one of them"),
        (GIVEN | {"error_over_noise": 0.1}, "error_over_noise=0.1 and update_loss_10=0.02: give"),
        ({"gained": 0.1}, "give one of them"),
        (GIVEN | {"gained": None}, "gained=None and lost_gain=0.05: update_loss_10 needs both"),
        (GIVEN | {"lost_gain": None}, "gained=0.1 and lost_gain=None: update_loss_10 needs both"),
        (GIVEN | {"gained": math.nan}, "gained=nan must be at least 0, in nats"),
        (GIVEN | {"gained": -0.1}, "gained=-0.1 must be at least 0"),
        (GIVEN | {"update_loss_10": -0.1}, "update_loss_10=-0.1 must be at least 0"),
        (GIVEN | {"lost_gain": -1}, "lost_gain=-1 must be at least 0"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(given, why):
    with pytest.raises(ValueError, match=why):
        apscope.expected_excess("aps:e3m4", **given)


SPECS = ["none:fp32", "aps:e3m0", "error_feedback(aps:e3m4)", "sign", "loss_scaling:e4m3,scale=1e9"]


@pytest.fixture(scope="module")
def results(request):
    trace = request.config.rootpath / "notebooks/data/digits"
    return apscope.replay(
        trace, SPECS, topology="ring", steps=range(12), persistence=True, optimizer="sgd"
    )


def test_a_summary_with_what_is_gained_has_the_expected_excess_of_every_row(results):
    plain, table = results.summary(), results.summary(gained=0.1)
    pd.testing.assert_frame_equal(table[list(plain)], plain)
    added = [name for name in table if name not in plain]
    assert added == [f"expected_excess{end}" for end in ("", "_low", "_high", "_refused")]
    used = ["update_loss_10", "lost_gain", "overflowed", "skipped", "gaps"]
    for row in table.to_dict("records"):
        told = apscope.expected_excess(row["scheme"], gained=0.1, **{n: row[n] for n in used})
        assert [row[name] for name in added] == pytest.approx(list(told), nan_ok=True)
    by = table[table["topology"] == "ring"].set_index("scheme")
    assert by.loc["error_feedback(aps:e3m4)", "expected_excess"] > 0
    assert by.loc["aps:e3m0", "expected_excess"] > 0
    assert (table.loc[table["scheme"] == "sign", "expected_excess_refused"] != "").all()
    whole = table["overflowed"] > 0
    assert whole.any() and table.loc[whole, "expected_excess"].isna().all()
    with pytest.raises(ValueError, match="gained=-1 must be at least 0"):
        results.summary(gained=-1)


def test_results_without_persistence_say_what_is_missing(request):
    trace = request.config.rootpath / "notebooks/data/digits"
    table = apscope.replay(trace, ["aps:e3m0"], topology="ring", steps=range(3)).summary(gained=0.1)
    assert table["expected_excess"].isna().all()
    assert table["expected_excess_refused"].str.contains("NaN: replay with --persistence").all()


def test_the_command_prints_it_and_of_what_nothing_is_expected(results, tmp_path, capsys):
    results.save(tmp_path / "r")
    assert main(["summary", str(tmp_path / "r"), "--gained", "0.1"]) == 0
    out = capsys.readouterr().out
    assert "expected_excess  expected_excess_low" in out and "The excess is not predicted:" in out
    assert "sign was not trained" in out and "overflowed=" in out
    assert main(["summary", str(tmp_path / "r")]) == 0
    assert "expected_excess" not in capsys.readouterr().out
    for also in (["--gained=-1"], ["--gained=0.1", "--by=layer"]):
        assert main(["summary", str(tmp_path / "r"), *also]) == 2
        told = capsys.readouterr().err
        assert told.startswith("apscope: ") and "gained" in told and told.count("\n") == 1


def test_the_report_has_the_excess_by_the_update_loss_if_what_is_gained_is_given(results, tmp_path):
    def cells(**given):
        page = apscope.report(results, tmp_path / "r.html", **given).read_text()
        found = re.findall(r'data-label="expected excess loss, nats"[^>]*>([^<]*)<', page)
        return page, found

    page, found = cells(gained=0.1)
    table = results.summary(gained=0.1).set_index(["scheme", "topology"])
    row = table.loc[("error_feedback(aps:e3m4)", "ring")]
    ends = row[["expected_excess", "expected_excess_low", "expected_excess_high"]]
    assert str(ExpectedExcess(*ends)) in found
    assert "none" in found and 'title="sign was not trained' in page
    assert "by the update loss and 0.1 nats that fp32 gains" in page
    page, found = cells()
    assert "none" not in found and "where the scheme rounds to nearest" in page


def test_the_report_of_a_trace_replays_it_with_persistence(trace, tmp_path, capsys):
    page = tmp_path / "r.html"
    assert main(["report", str(trace), "-o", str(page), "--gained", "0.1"]) == 0
    assert re.search(r'nats" class="wide">0\.\d+ \(', page.read_text())
    capsys.readouterr()
    page.unlink()
    assert main(["report", str(trace), "-o", str(page), "--gained", "-1"]) == 2
    assert "gained=-1.0 must be at least 0" in capsys.readouterr().err and not page.exists()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Ten steps of SGD, which its metadata name."""
    draws = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("traces") / "t"
    steps = [{"w": g} for g in draws.normal(1, 0.1, (10, 2, 64)).astype(np.float32)]
    record(path, steps, metadata={"optimizer": "SGD"})
    return path
