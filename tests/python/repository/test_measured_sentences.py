"""Sentences of the pages about docs/relation.csv: the numbers in them, computed again."""

import json
import re

import pandas as pd
import pytest

import apscope


@pytest.fixture(scope="module")
def root(request):
    return request.config.rootpath


@pytest.fixture(scope="module")
def table(root):
    found = pd.read_csv(root / "docs/relation.csv")
    found["averages_out"] = found.scheme.str.contains("rounding=stochastic") | (
        found.scheme.str.startswith("error_feedback(")
    )
    return found


def page(root, name):
    """The text of a page in one line."""
    return re.sub(r"\s+", " ", (root / name).read_text())


def test_above_an_nmse_of_a_third_most_combinations_fail_and_some_pass(root, table):
    above = table[table.step_nmse > 1 / 3]
    counts = above.verdict.value_counts()
    passed = above[above.verdict == "pass"]
    feedback = passed.scheme.str.startswith("error_feedback(").sum()
    said = (
        f"of {len(above)} trained combinations of task and scheme above it {counts['fail']} failed "
        f"a gate of 0.01 nats and {counts['pass']} passed, {feedback} of them with error feedback"
    )
    assert said in page(root, "docs/reading.md")


def test_where_stochastic_rounding_and_error_feedback_leave_the_line(root, table):
    law = json.loads((root / "bindings/apscope/_excess_loss/law.json").read_text())
    ours = table[table.averages_out].copy()
    ours["ratio"] = ours.excess / (law["factor"] * ours.typical_32 ** law["slope"])
    ended = ours[ours.lost == 0]
    assert (ended[ended.typical_32 > 0.2].ratio < 0.4).all()
    measurable = ended[(ended.excess_low > 0) & (ended.typical_32 <= 0.2)]
    more = measurable[measurable.ratio > 1]
    least, most = f"{more.ratio.min():.1f}", f"{more.ratio.max():.1f}"
    lost = ours[ours.lost > 0]
    assert set(lost.scheme) == {f"aps:{f},rounding=stochastic" for f in ("e3m0", "e2m1")}
    said = {
        "docs/scales.md": f"{len(more)} of {len(measurable)} measurable costs are above it, {least} to "
        f"{most} times",
        "docs/definitions.md": f"{len(more)} of the {len(measurable)} combinations whose cost is "
        f"measurable cost {least} to {most} times the line",
        "docs/insight.md": f"{len(more)} of the {len(measurable)} measurable costs are {least} to "
        f"{most} times the prediction",
    }
    for name, words in said.items():
        assert words in page(root, name), name
        assert f"{len(lost)} combinations with stochastic rounding" in page(root, name), name


def test_what_the_convolutional_net_loses_at_e3m4(root, table):
    constant = "loss_scaling:e3m4,scale=largest,overflow=saturate"

    def cost(task, scheme):
        row = table[(table.task == task) & (table.scheme == scheme)].iloc[0]
        half = (row.excess_high - row.excess_low) / 2
        return row, f"{row.excess:.2g} ± {half:.1g}"

    for scheme in (constant, "aps:e3m4", "aps:e3m4,unit=model"):
        row, _ = cost("digits-sgd", scheme)
        assert row.excess_low < 0 < row.excess_high
    adam, mnist = cost("digits-adam", constant)[1], cost("mnist-sgd", constant)[1]
    text = page(root, "docs/tour.md")
    assert f"With Adam and one constant scale it loses {adam} there" in text
    assert f"on MNIST with SGD {mnist}." in text


def test_the_schemes_that_the_thresholds_leave_out_all_failed(root, table):
    zeros = table[table.step_nmse == 1]
    assert set(zeros.scheme) == {"aps:e2m1"} and len(zeros) == 8
    assert (zeros.verdict == "fail").all()
    assert "without the eight `aps:e2m1`" in page(root, "docs/insight.md")


def test_how_far_rounding_up_moves_a_value():
    for name, most in [("e3m0", 2.0), ("e2m1", 1.5)]:
        f = apscope.FloatFormat(name)
        codes = apscope.decode(range(2 ** (f.storage_bits - 1)), f)
        finite = sorted({float(v) for v in codes if 0 < v <= f.largest})
        steps = [b / a for a, b in zip(finite, finite[1:], strict=False)]
        assert max(steps[1:]) == most and steps[0] == 2.0
