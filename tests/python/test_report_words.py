"""The report's sentences on odd traces: they stay true where values are not finite, few or alone."""

import pytest

import apscope
from apscope.report import words
from apscope.report.measure import measure


@pytest.fixture(scope="module")
def results(request):
    trace = request.config.rootpath / "notebooks/data/digits"
    schemes = ["loss_scaling:e4m3,scale=best", "aps:e4m3", "stochastic:e4m3"]
    return apscope.replay(trace, schemes, steps=[0, 10], topology="ring")


def test_values_that_were_recorded_as_nan_are_told(results):
    frame = results.frame.copy()
    assert not words._not_finite(frame)
    wire = frame.index[(frame["stage"] == "wire") & (frame["step"] == 10) & (frame["tensor"] == frame["tensor"].iloc[0])]
    frame.loc[wire, "nan"] = 3
    frame.loc[wire, "infinite"] = 1
    assert words._not_finite(frame) == ["Of the values recorded in digits, 4 are NaN or infinite; errors leave out every pair they reach."]
    assert any("4 are NaN" in c for c in words.caveats(frame, [measure(frame)]))


def test_a_scale_chosen_in_hindsight_is_told(results):
    assert any("hindsight" in c for c in words.caveats(results.frame, [measure(results.frame)]))
    frame = results.frame[results.frame["scheme"] == "aps:e4m3"]
    assert not any("hindsight" in c for c in words.caveats(frame, [measure(frame)]))


def test_a_gathering_scheme_with_overflow_does_not_blame_encoding(results):
    frame = results.frame.copy()
    frame.loc[(frame["scheme"] == "stochastic:e4m3") & (frame["topology"] == "gather"), "overflow"] = 1
    line = next(w["text"] for w in words.why(frame, measure(frame)) if w["label"] == "stochastic")
    assert "ranks last" in line and "comes from encoding" not in line


@pytest.mark.parametrize("rate, text", [(0.9998, "99.98"), (0.999999, "above 99.99"), (0.994, "99"), (1.0, "100")])
def test_a_share_that_is_not_all_never_reads_as_all(rate, text):
    assert words.percent(rate) == text + "\u00a0%"


def test_a_trace_without_a_model_and_with_one_step_reads_well(results, tmp_path, request):
    trace = request.config.rootpath / "notebooks/data/digits"
    one = apscope.replay(trace, "aps:e4m3", steps=[0], tensors="head.bias", topology="ring")
    one.provenance["traces"][0]["model"] = ""
    text = apscope.report(one, tmp_path / "one.html").read_text()
    assert '<p class="lead">8 workers, 1 step, 1 layer;' in text


def test_one_worker_has_no_additions_to_blame(request):
    one = apscope.replay(request.config.rootpath / "notebooks/data/digits", "aps:e4m3", steps=[0], workers=1, topology="ring")
    m = measure(one.frame)
    assert "over 1 worker:" in words.which(m)[0]
    assert "all of its error comes from encoding, the additions (ring) add none" in words.why(one.frame, m)[0]["text"]


def test_wire_rows_are_not_called_reduced(results):
    wire = results.frame[results.frame["stage"] == "wire"]
    ranking = words.caveats(wire, [measure(wire)])[1]
    assert ranking == "Ranking compares what is sent, where the trace has nothing to reduce."


def test_the_payload_of_a_link_is_that_of_the_others(results):
    line = next(s for s in words.which(measure(results.frame)) if "gathered" in s)
    assert "its link carries 7 times one worker's payload; a ring's carries 1.75 times" in line
