"""What a caller gives wrong is one sentence: a few of every kind that random calls found."""

import itertools
import pickle
import shutil

import numpy as np
import pytest

import apscope
from apscope.cli import main


@pytest.fixture(scope="module")
def results(digits):
    return apscope.replay(digits, "aps:e4m3", steps="0:2", topology="ring")


E4M3 = apscope.FloatFormat("e4m3")
CALLS = {
    "part": (lambda d, r: r.by(None), "part=None must be a string"),
    "no argument": (lambda d, r: E4M3.to_dict(1), "FloatFormat.to_dict takes no argument"),
    "one string": (lambda d, r: apscope.BlockFormat.from_json(1), "from_json takes one string"),
    "fixed": (
        lambda d, r: apscope.recommend(d, ["aps:e4m3"], fixed=[[]], steps="0:2"),
        r"fixed=\[\[\]\] must be a mapping",
    ),
    "Plan": (lambda d, r: apscope.Plan(), "a Plan is made by recommend, or read by Plan.open"),
    "Plan of numbers": (lambda d, r: apscope.Plan(*range(7)), "recommend makes a plan"),
    "Results": (lambda d, r: apscope.Results(), "Results are made by replay, or read by"),
    "Results of numbers": (lambda d, r: apscope.Results(1, 2, 3), "frame is 1, of type int"),
    "Trace": (lambda d, r: apscope.Trace(), "a Trace is made by apscope.open_trace"),
    "traces": (
        lambda d, r: apscope.replay(range(10**12)),
        "traces has more than 100000 values",
    ),
    "schemes without end": (
        lambda d, r: apscope.replay(d, itertools.repeat("sign")),
        "schemes has more than 100000 values",
    ),
    "steps": (
        lambda d, r: apscope.replay(d, "sign", steps=range(10**12)),
        "steps has more than 10000000 values",
    ),
    "one step": (lambda d, r: apscope.replay(d, "sign", steps=[0.5]), "step=0.5 must be an integ"),
    "ranks": (
        lambda d, r: apscope.open_trace(d).check(ranks=[99]),
        r"rank=99 is not between 0 and \d+",
    ),
    "rank": (lambda d, r: apscope.open_trace(d).check(ranks=["x"]), "rank='x' must be an integer"),
    "step's index": (
        lambda d, r: apscope.open_trace(d).check(steps=[10**6]),
        "step's index=1000000 is not between",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_sentence(name, digits, results):
    call, said = CALLS[name]
    with pytest.raises((TypeError, ValueError), match=said) as told:
        call(digits, results)
    text = str(told.value)
    assert "\n" not in text and len(text) < 400
    assert "incompatible" not in text and "has no attribute" not in text


def test_a_trace_is_pickled_as_its_place(digits, tmp_path, monkeypatch):
    shutil.copytree(digits, tmp_path / "t")
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(apscope.open_trace("t"))
    monkeypatch.chdir("/")
    trace = pickle.loads(data)
    assert trace.hash == apscope.open_trace(digits).hash and len(data) < 1000
    assert np.array_equal(
        trace.read(trace.steps[0], trace.tensors[0]),
        apscope.open_trace(digits).read(trace.steps[0], trace.tensors[0]),
    )
    manifest = tmp_path / "t/manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    with pytest.raises(ValueError, match="is another trace than the one that was pickled"):
        pickle.loads(data)


def test_a_link_to_nowhere_as_a_plan(digits, tmp_path, capsys):
    link = tmp_path / "plan.json"
    link.symlink_to(tmp_path / "gone")
    words = ["recommend", str(digits), "--steps", "0:2", "--candidates", "aps:e4m3", "-o"]
    assert main([*words, str(link)]) == 2
    assert "is a link to" in capsys.readouterr().err
    assert link.is_symlink() and not (tmp_path / "gone").exists()


def test_a_link_to_nowhere_as_a_page(results, tmp_path):
    link = tmp_path / "page.html"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(ValueError, match="is a link to"):
        apscope.report(results, link)
    assert link.is_symlink()


def test_toml_nested_too_deep(tmp_path, capsys):
    path = tmp_path / "experiment.toml"
    path.write_text("a = " + "[" * 10_000 + "]" * 10_000)
    assert main(["train", str(path), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "its tables or lists are nested too deep" in said and said.count("\n") == 1
