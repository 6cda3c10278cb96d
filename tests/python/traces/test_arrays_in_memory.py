"""Gradients in memory, given in place of a trace: the rows of the same trace written by hand."""

import os
import tempfile

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
import torch

import apscope
from apscope import studies
from apscope.record import from_arrays
from tests.python.recorded import record

FEW = ["aps:e4m3fn", "mx:block_format=mxfp4", "error_feedback(aps:e5m2)"]
RNG = np.random.default_rng(0)
TWO_STEPS = [
    {
        "fc.weight": RNG.standard_normal((4, 6, 10), np.float32),
        "fc.bias": RNG.standard_normal((4, 10), np.float32),
    }
    for _ in range(2)
]


class Foreign:
    """An array of another library, such as JAX's."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self._values, dtype)


def tables(results):
    found = {
        "frame": results.frame,
        "noise": results.noise,
        "histograms": results.histograms,
        "limit": results.limit,
    }
    return {
        name: (table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)).drop(
            columns="trace"
        )
        for name, table in found.items()
    }


def check_equal(a, b):
    for (name, left), right in zip(tables(a).items(), tables(b).values()):
        pd.testing.assert_frame_equal(left, right, check_exact=True, obj=name)
    assert len(a.frame)


def temporary_folders():
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("apscope-")]


@pytest.mark.parametrize(
    "given",
    [
        TWO_STEPS,
        tuple(TWO_STEPS),
        {1: TWO_STEPS[1], 0: TWO_STEPS[0]},
        {np.int64(0): TWO_STEPS[0], np.int64(1): TWO_STEPS[1]},
        [{name: list(g) for name, g in step.items()} for step in TWO_STEPS],
        [{name: torch.from_numpy(g) for name, g in step.items()} for step in TWO_STEPS],
        [{name: Foreign(g) for name, g in step.items()} for step in TWO_STEPS],
        [{name: g.astype(np.float64) for name, g in step.items()} for step in TWO_STEPS],
        [{name: np.asfortranarray(g) for name, g in step.items()} for step in TWO_STEPS],
    ],
    ids=["list", "tuple", "mapping", "numpy-steps", "rows", "torch", "foreign", "fp64", "fortran"],
)
def test_rows_are_those_of_the_trace_written_by_hand(tmp_path, given):
    by_hand = apscope.replay(record(tmp_path / "hand", TWO_STEPS), FEW, limit=True)
    check_equal(apscope.replay(given, FEW, limit=True), by_hand)


@pytest.mark.parametrize(
    ("dtype", "of_torch"),
    [(np.float16, torch.float16), (ml_dtypes.bfloat16, torch.bfloat16)],
    ids=["float16", "bfloat16"],
)
def test_narrow_numbers_are_kept_in_their_dtype(tmp_path, dtype, of_torch):
    g = TWO_STEPS[0]["fc.bias"].astype(dtype)
    tensor = torch.from_numpy(g.astype(np.float32)).to(of_torch)
    by_hand = record(tmp_path / "hand", [{"a": g}])
    for given in (g, tensor):
        trace = from_arrays({"a": given})
        check_equal(apscope.replay(trace, "none:e4m3"), apscope.replay(by_hand, "none:e4m3"))
        (file, *_) = trace.files()
        assert file[1] == next(by_hand.files())[1]  # bytes: two per element


def test_one_step_is_a_mapping_of_names_and_every_function_takes_it(tmp_path):
    step = TWO_STEPS[0]
    trace = record(tmp_path / "arrays", [step])
    check_equal(
        apscope.replay(step, FEW, topology="ring"), apscope.replay(trace, FEW, topology="ring")
    )
    for call in (
        lambda given: apscope.ladder(given, ["e4m3fn"], topology="ring"),
        lambda given: apscope.search(given, 4, topology="ring"),
        lambda given: apscope.limit(given, ["none:e4m3"]).schemes,
        lambda given: studies.attribution.loss_change(given, "aps:e4m3fn", learning_rate=0.1),
    ):
        for given in (step, tmp_path / "arrays"):
            pd.testing.assert_frame_equal(call(given), call(trace))
    plans = [
        apscope.recommend(source, ["aps:e4m3fn", "aps:e5m2"], topology="ring", holdout=False)
        for source in (step, trace)
    ]
    assert plans[0].spec == plans[1].spec


def test_a_report_is_made_of_arrays_and_of_a_trace(tmp_path):
    step = {"a": TWO_STEPS[0]["fc.bias"]}
    page = apscope.report(step, tmp_path / "arrays.html").read_text()
    assert "aps:e4m3fn" in page and "arrays in memory/arrays" in page
    trace = record(tmp_path / "run", [step])
    assert "aps:e4m3fn" in apscope.explore(trace).page
    assert "aps:e4m3fn" in apscope.report(tmp_path / "run", tmp_path / "run.html").read_text()


def test_a_ladder_takes_the_path_of_results(tmp_path):
    trace = record(tmp_path / "run", [TWO_STEPS[0]])
    results = apscope.replay(trace, list(apscope.ladder(trace, ["e3m4"])["scheme"]))
    results.save(tmp_path / "results")
    assert len(apscope.ladder(str(tmp_path / "results"), ["e3m4"]))


def test_provenance_tells_where_the_gradients_were():
    results = apscope.replay(TWO_STEPS, "none:fp16", topology="ring")
    (told,) = results.provenance["traces"]
    assert told["name"] == "arrays" and told["reduction"] == "mean" and told["steps"] == [0, 1]
    assert results.provenance["command"].startswith("apscope replay 'arrays in memory/arrays' ")
    named = from_arrays(TWO_STEPS, name="mine", reduction="sum")
    assert named.manifest.metadata["recorded_from"] == "arrays in memory"
    both = apscope.replay([named, from_arrays(TWO_STEPS)], "none:fp16", topology="ring")
    assert [(t["name"], t["reduction"]) for t in both.provenance["traces"]] == [
        ("mine", "sum"),
        ("arrays", "mean"),
    ]


def test_nothing_is_left_and_nothing_of_the_callers_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    g = TWO_STEPS[0]["fc.bias"].copy()
    g.flags.writeable = False
    given = {"a": g}
    trace = from_arrays(given)
    assert temporary_folders() and given == {"a": g}
    del trace
    assert temporary_folders() == []
    results = apscope.replay(given, "none:e4m3")
    assert temporary_folders() == [] and len(results.frame)
    np.testing.assert_array_equal(g, TWO_STEPS[0]["fc.bias"])
    with pytest.raises(ValueError, match="not an fp32 value"):
        from_arrays({"a": g, "b": np.full((4, 2), 0.1)})
    assert temporary_folders() == []


def test_later_changes_of_an_array_do_not_change_the_trace():
    g = np.ones((2, 3), np.float32)
    trace = from_arrays({"a": g})
    g[:] = 5
    np.testing.assert_array_equal(trace.read(0, "a", 1), np.ones(3))


def test_special_values_are_kept():
    special = np.float32([[np.nan, np.inf, -np.inf, -0.0, 1e-45], [0, 0, 0, 0, 0]])
    trace = from_arrays(
        {
            "special": special,
            "zero": np.zeros((2, 3), np.float32),
            "empty": np.zeros((2, 0), np.float32),
            "integers": np.arange(6).reshape(2, 3),
            "pairs": np.array([[1 + 2j], [3 - 4j]], np.complex64),
        }
    )
    for worker in range(2):
        read = trace.read(0, "special", worker)
        np.testing.assert_array_equal(read.view(np.uint32)[1:], special[worker].view(np.uint32)[1:])
        np.testing.assert_array_equal(np.isnan(read), np.isnan(special[worker]))
    assert trace.shapes["empty"] == (0,) and trace.shapes["pairs"] == (1, 2)
    np.testing.assert_array_equal(trace.read(0, "integers", 1), np.float32([3, 4, 5]))
    assert (apscope.replay(trace, "none:e4m3").summary()["nonfinite"] > 0).any()


G = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (G, TypeError, r"an array of shape \(2, 3\) is given without a name; give \{'name'"),
        ({}, ValueError, "step 0 has no gradient; give"),
        ((), ValueError, "there is no trace to replay"),
        ([{}], ValueError, "step 0 has no gradient; give"),
        ({0: {}}, ValueError, "step 0 has no gradient; give"),
        ({0: G}, TypeError, "step 0 is of type ndarray; give"),
        ({"a": G, 0: {"a": G}}, TypeError, "keys are all names .* or all numbers"),
        ({True: {"a": G}}, TypeError, "the key True is of type bool"),
        ({(1, 2): {"a": G}}, TypeError, r"the key \(1, 2\) is of type tuple"),
        ({-1: {"a": G}}, ValueError, "step=-1 is not between 0 and"),
        ({0: {1: G}}, TypeError, "step 0 has a gradient named 1, of type int; names are strings"),
        ({"a": {"b": G}}, TypeError, "gradient 'a' of step 0 is a mapping; give"),
        ({"a": G[0]}, ValueError, r"'a' of step 0 has shape \(3,\).*x\[None\] is one worker"),
        ({"a": 1.0}, ValueError, r"'a' of step 0 has shape \(\); its first axis must be the"),
        ({"a": [1.0, 2.0]}, ValueError, r"'a' of step 0 has shape \(2,\).*first axis"),
        ({"a": []}, ValueError, r"'a' of step 0 has shape \(0,\); its first axis must be the"),
        ({"a": G[:0]}, ValueError, r"'a' of step 0 has shape \(0, 3\).*at least one"),
        ({"a": G, "b": np.ones((3, 3), np.float32)}, ValueError,
         "'b' of step 0 has 3 workers, its first axis, but gradient 'a' of step 0 has 2"),
        ([{"a": G}, {"a": G[:1]}], ValueError, "'a' of step 1 has 1 worker, its first axis"),
        ([{"a": G}, {"b": G}], ValueError, "step 1 lacks the tensor 'a'"),
        ([{"a": G}, {"a": G[:, :2]}], ValueError, r"has shape \(2,\), but had \(3,\) before"),
        ({"a": [G[0], G[0, :2]]}, ValueError, r"has shape \(2,\), but had \(3,\) before"),
        ({"a": np.full((2, 3), 0.1)}, ValueError,
         r"has dtype float64 and its element 0 \(0.1\) is not an fp32 value; round it to float32"),
        ({"a": np.full((2, 3), 2**24 + 1)}, ValueError, "is not an fp32 value"),
        ({"a": np.array([["x"], ["y"]])}, ValueError, "a trace has real numbers"),
        ({"a": np.ma.masked_array(G, G > 0)}, TypeError, "is a masked array"),
        ({"a\ud800": G}, ValueError, "half a surrogate pair"),
    ],
)  # fmt: skip
def test_other_arguments_are_refused_in_one_sentence(given, error, sentence, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(error, match=sentence) as refused:
        apscope.replay(given, "none:e4m3")
    assert "\n" not in str(refused.value)
    assert temporary_folders() == []


def test_a_wrong_type_is_answered_with_what_is_right():
    for call in (apscope.replay, apscope.limit, apscope.search, from_arrays):
        with pytest.raises(TypeError, match=r"3 is of type int, and not a trace"):
            call(3)
    for call in (apscope.recommend, apscope.ladder, apscope.explore):
        with pytest.raises(TypeError, match="results is of type int; give Results, or the path"):
            call(3)
    with pytest.raises(TypeError, match="apscope.record.from_arrays makes a trace of arrays"):
        apscope.open_trace({"a": G})
    with pytest.raises(TypeError, match="whose mask a trace cannot keep"):
        from_arrays({"a": [np.ma.masked_array(G[0], [True, False, False]), G[0]]})
