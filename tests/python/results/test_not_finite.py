"""Gradients that are NaN, infinite or all zero: every display of numbers says what was not
measured."""

import numpy as np
import pytest

import apscope
from apscope._report import page
from apscope.cli import main
from tests.python import recorded
from tests.python.argv import command


def record(folder, steps):
    """A trace of two layers, a at these values and b of ones, for two workers."""
    ones = [([0, 0, 0] if values == [0, 0] else [1, 2, 4]) for values in steps]
    recorded.record(
        folder, [{"a": np.float32([a, a]), "b": np.float32([b, b])} for a, b in zip(steps, ones)]
    )
    return folder


@pytest.fixture
def odd(tmp_path):
    return record(tmp_path / "odd", [[1, 2], [1, np.nan], [np.inf, np.nan], [1, 4]])


def test_the_summary_counts_steps_with_nan_or_infinities(odd):
    results = apscope.replay(odd, ["none:bf16", "dynamic_loss_scaling:fp16"], topology="ring")
    table = results.summary()
    assert (table.nonfinite == 2).all() and table.set_index(["scheme", "topology"]).skipped[
        "dynamic_loss_scaling:fp16", "ring"
    ] > 0
    # Which skips such a step.
    alone = apscope.replay(odd, "dynamic_loss_scaling:fp16", topology="ring")
    assert (alone.summary().nonfinite == 2).all() and "2 of 8 layer-steps" in alone.not_finite
    assert "NaN or infinite" in repr(results) and "steps with NaN or inf" in results._repr_html_()
    assert (
        apscope.replay(odd, "none:bf16", topology="ring", steps=[0, 3]).summary().nonfinite == 0
    ).all()


def test_the_command_the_page_and_info_say_it(odd, tmp_path, capsys):
    apscope.replay(odd, "none:bf16", topology="ring").save(tmp_path / "r")
    assert main(["summary", str(tmp_path / "r")]) == 0
    out, err = capsys.readouterr()
    head, row = (line.split() for line in out.splitlines()[1:3])
    assert (
        row[head.index("nonfinite")] == "2"
        and "2 of 8 layer-steps have gradients that are NaN or infinite" in err
    )
    assert "2 of 8 layer-steps have gradients that are NaN or infinite" in page(tmp_path / "r")
    assert main(["info", str(odd)]) == 0
    assert (
        "4 of 30 values are NaN or infinite: a replay omits them from every error"
        in capsys.readouterr().out
    )


def test_a_layer_without_a_finite_value_has_no_loss(odd):
    results = apscope.replay(odd, "none:bf16", topology="ring", steps=[2])
    table = results.frame[(results.frame.topology == "ring") & (results.frame.tensor == "a")]
    assert table.counted.tolist() == [0] and table[["nmse", "cosine"]].isna().all(axis=None)
    assert results.compare("none:bf16", "none:bf16").set_index("layer").steps.to_dict() == {
        "all": 1,
        "a": 0,
        "b": 1,
    }


def test_a_trace_of_zeros_is_told_in_a_sentence(tmp_path, capsys):
    zeros = record(tmp_path / "zeros", [[0, 0], [0, 0]])
    results = apscope.replay(zeros, "aps:e4m3", topology="ring")
    assert results.summary().step_nmse.isna().all()
    sentence = (
        "all gradients of zeros are zero, so no error can be relative to them: every NMSE "
        "and cosine is empty"
    )
    assert (
        results.all_zero == sentence and sentence in repr(results) and sentence[1:] in page(results)
    )
    results.save(tmp_path / "r")
    assert (
        command("summary {}", tmp_path / "r") == 0
        and capsys.readouterr().err == f"apscope: {sentence}\n"
    )
    assert (
        command("info {}", zeros) == 0
        and "all of these gradients are zero" in capsys.readouterr().out
    )
    one = apscope.replay(record(tmp_path / "some", [[0, 0], [1, 0]]), "aps:e4m3", topology="ring")
    assert one.all_zero == "" and one.not_finite == ""
