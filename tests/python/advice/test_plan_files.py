"""plan.json: it reads back, is accepted as a scheme, and is refused with one sentence if damaged;
the command."""

import ast
import json
import re

import numpy as np
import pytest

import apscope
from apscope.cli import main
from apscope.schemes import as_scheme
from tests.fuzz.refusals import places
from tests.python.advice.cases import CANDIDATES
from tests.python.argv import command


@pytest.fixture(scope="module")
def digits(request):
    return request.config.rootpath / "notebooks/data/digits"


@pytest.fixture(scope="module")
def plan(digits):
    return apscope.recommend(digits, CANDIDATES, max_volume=0.2)


@pytest.fixture
def path(plan, tmp_path):
    return plan.save(tmp_path / "plan.json")


def test_a_plan_is_read_as_it_was_written(plan, path):
    read = apscope.Plan.open(path)
    assert read == plan and hash(read) == hash(plan) and read.scheme == plan.scheme
    assert read.to_dict() == json.loads(path.read_text()) and str(read) == str(plan)
    assert (
        read.figures.equals(plan.figures)
        and read.layers.equals(plan.layers)
        and read.front.equals(plan.front)
    )
    assert apscope.Plan.open(read.save(path.with_name("again.json"))) == plan


def test_a_plan_in_periods_and_with_overflow_is_read_as_it_was_written(request, tmp_path):
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/resnet18",
        ["loss_scaling:e3m0,scale=64", "aps:e3m0", "none:e4m3"],
        topology="ring",
    )
    plan = apscope.recommend(
        results, max_volume=0.2, periods=2, groups="role", holdout=False, fixed={"^fc": "none:e4m3"}
    )
    assert np.isnan(plan._table.chosen.log2).any()
    read = apscope.Plan.open(plan.save(tmp_path / "plan.json"))
    assert read == plan and read.solve(max_volume=0.24) == plan.solve(max_volume=0.24)


def test_another_budget_from_the_file_is_the_plan_that_a_replay_gives(digits, plan, path):
    again = apscope.Plan.open(path).solve(max_volume=0.3)
    fresh = apscope.recommend(digits, CANDIDATES, max_volume=0.3)
    assert again.spec == fresh.spec and again.layers.equals(fresh.layers) and again != plan


def test_a_plan_and_its_file_are_schemes_and_give_equal_rows(digits, plan, path):
    spelt, object_, named = (
        apscope.replay(digits, what, topology="ring", steps="0:2").frame
        for what in (plan.spec, plan, str(path))
    )
    assert object_.equals(spelt) and named.equals(spelt)
    assert as_scheme(plan) == as_scheme(str(path)) == apscope.schemes.Scheme(plan.spec)
    both = apscope.replay(digits, [plan, "aps:e3m0"], topology="ring", steps="0:2")
    assert len(both.compare(str(path), "aps:e3m0")) == 7


def test_the_command_writes_prints_and_solves_again(digits, tmp_path, capsys):
    out, other = str(tmp_path / "plan.json"), str(tmp_path / "other.json")
    words = [w for spec in CANDIDATES for w in ("--candidates", spec)]
    assert main(["recommend", str(digits), "-o", out, "--max-volume", "0.2", *words]) == 0
    text = capsys.readouterr().out
    assert (
        "best single candidate" in text.splitlines()[0]
        and "plan replayed" in text
        and f"again: apscope recommend {digits}" in text
    )
    assert main(["recommend", out, "-o", other, "--max-volume", "0.3"]) == 0
    assert apscope.Plan.open(other).spec == apscope.Plan.open(out).solve(max_volume=0.3).spec
    run = str(tmp_path / "run")
    assert main(["replay", str(digits), "--scheme", out, "--topology", "ring", "-o", run]) == 0
    assert main(["recommend", run, "-o", other]) == 2  # a hybrid alone is not a candidate
    assert (
        command(
            "replay {} --scheme aps:e3m0 --scheme none:e4m3 --topology ring -o {} --force",
            digits,
            run,
        )
        == 0
    )
    assert (
        command(
            "recommend {} -o {} --max-volume 0.2 --minimize step_nmse --groups role --periods 2 "
            "--holdout none",
            run,
            other,
        )
        == 0
    )
    assert "predicted only" in capsys.readouterr().out


def test_only_a_plan_is_replaced_without_force(digits, plan, tmp_path, capsys):
    mine = tmp_path / "mine.json"
    mine.write_text("precious\n")
    words = ["recommend", str(digits), "--candidates", "aps:e3m0", "--steps", "0:3",
             "--max-volume", "0.2", "-o", str(mine)]  # fmt: skip
    assert main(words) == 2 and mine.read_text() == "precious\n"
    assert capsys.readouterr().err == (
        f"apscope: {mine} exists and is not a plan of apscope; give another name, or --force "
        "(force=True in Python) to replace it\n"
    )
    with pytest.raises(ValueError, match="is not a plan of apscope"):
        plan.save(mine)
    assert main([*words, "--force"]) == 0 and apscope.Plan.open(mine).spec == "aps:e3m0"
    assert main(words) == 0 and apscope.Plan.open(plan.save(mine)) == plan
    mine.write_text("precious\n")
    assert apscope.Plan.open(plan.save(mine, force=True)) == plan


def test_a_plan_of_an_earlier_version_is_read(path, plan):
    told = json.loads(path.read_text())
    for side in ("chosen", "held_out"):
        for table in (told["table"], told["replayed"]):
            del table[side]["lost"], table[side]["rest"]
    for row in told["about"]["reductions"]:
        del row["reduction"], row["same_reduction"]
    path.write_text(json.dumps(told))
    read = apscope.Plan.open(path)
    assert read.figures.equals(plan.figures) and "the same in " in read.choices()[0]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--max-volume", "0.01"], "max_volume=0.01 is out of reach"),
        (["--max-volume", "-1"], "max_volume=-1.0 must be a finite number"),
        (["--min-cosine", "2"], "min_cosine=2.0 is above 1"),
        (["--minimize", "loss"], "minimize='loss' is unknown"),
        (["--candidates", "hardwar"], "did you mean hardware?"),
        (["--groups", "("], "or a regular expression"),
        (["--groups", "bucket:x"], "has no bucket size"),
        (["--groups", "zzz"], "matches no layer's name"),
        (["--fix", "head"], "--fix head is not REGEX=SPEC"),
        (["--holdout", "7"], "could be one step or a number of steps"),
        (["--as", "onnx"], "--as onnx: plans cannot be written for it"),
        (["--candidates", "missing.json"], "there is no plan missing.json"),
        (["-o", "plan.txt"], "does not end in .json"),
        (["-o", "nowhere/plan.json"], "its folder does not exist"),
    ],
)
def test_errors_are_one_sentence(digits, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    written = [] if words[0] == "-o" else ["-o", "plan.json"]
    assert main(["recommend", str(digits), *written, "--steps", "0:3", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, said",
    [
        (
            lambda d: d.update(apscope_plan=2),
            "is a plan of version 2; this apscope reads version 1",
        ),
        (lambda d: d.pop("apscope_plan"), "is not a plan: it has no key apscope_plan"),
        (lambda d: d.update(scheme=3), "scheme is 3; it must be a text"),
        (lambda d: d.update(scheme="aps:e4m3"), "change both, or neither"),
        (lambda d: d["layers"].pop(), "it has 5 layers, but its table 6"),
        (lambda d: d["layers"][0].update(scheme="aps:e9m9"), "it has no 'aps:e9m9'"),
        (lambda d: d["table"]["chosen"]["log2"].pop(), "is not a complete plan: log2"),
        (lambda d: d.pop("table"), "is not a complete plan: it has no table"),
        (lambda d: d["wish"].update(max_volume="x"), "give a number"),
    ],
)
def test_a_damaged_file_is_refused(path, change, said):
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told))
    with pytest.raises(ValueError, match="plan") as error:
        apscope.Plan.open(path)
    assert said in str(error.value)


def test_texts_that_are_no_plan_are_refused(plan, tmp_path):
    for name, text, said in (
        ("a.json", "{", "it is not a plan"),
        ("b.json", "[1]", "no key apscope_plan"),
        ("c.json", "[" * 100_000, "nested more than"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=said):
            as_scheme(str(tmp_path / name))
    with pytest.raises(ValueError, match="does not end in .json"):
        plan.save(tmp_path / "plan.txt")


def test_other_tools_read_their_syntax(request, tmp_path):
    results = apscope.replay(
        request.config.rootpath / "notebooks/data/gpt",
        ["aps:e4m3fn", "none:fp16"],
        topology="ring",
    )
    plan = apscope.recommend(results, max_volume=0.35, simplest=False)
    schemes = plan.layers.set_index("layer")["scheme"]
    small = {
        name.removesuffix(".weight")
        for name in schemes.index[schemes == "aps:e4m3fn"]
        if name.endswith(".weight")
    }
    assert 0 < len(small) < len(schemes)
    names: dict = {}
    exec(compile(ast.parse(plan.written_as("torchao")), "torchao", "exec"), names)
    modules = {name.rpartition(".")[0] for name in schemes.index}
    assert {m for m in modules if names["module_filter_fn"](None, m)} == small
    exec(compile(ast.parse(plan.written_as("te")), "te", "exec"), names)
    assert (
        names["FORMATS"] == dict.fromkeys(names["FORMATS"], "e4m3fn")
        and set(names["FORMATS"]) == small
    )

    class Role:
        name = "elsewhere"

    assert names["qfactory"](Role) is None
    lines = [line.split("  ") for line in plan.written_as("regex").splitlines()]
    assert {
        name: spec for name in schemes.index for pattern, spec in lines if re.search(pattern, name)
    } == schemes.to_dict()
    with pytest.raises(ValueError, match="plans cannot be written for 'onnx'"):
        plan.written_as("onnx")
    wide = apscope.recommend(results, minimize="step_nmse", max_volume=1.0, simplest=False)
    assert set(wide.layers["scheme"]) == {"none:fp16"}
    with pytest.raises(ValueError, match="'te' has only e4m3fn and e5m2, and the plan sends no"):
        wide.written_as("te")
    with pytest.raises(ValueError, match="has no ranges of steps"):
        apscope.recommend(results, max_volume=0.35, periods=2).written_as("regex")


def test_whatever_stands_in_a_file_is_read_or_refused(plan, tmp_path):
    """Any value of another kind, at any place: a ValueError or a plan that can be shown and
    solved."""
    whole = json.loads(json.dumps(plan.to_dict()))
    draw = np.random.default_rng(1)
    by_top: dict = {}
    for path in places(whole):
        if path:
            by_top.setdefault(path[:2], []).append(path)
    junk = [None, -1, 0, True, "x", "", [], {}, 1e308, [1], {"x": 1}, "aps:e4m3", ["x"], 2.5]
    read = 0
    for turn in range(400):
        group = list(by_top.values())[turn % len(by_top)]
        path = group[draw.integers(len(group))]
        told = json.loads(json.dumps(whole))
        inner = told
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = junk[draw.integers(len(junk))]
        (tmp_path / "plan.json").write_text(json.dumps(told))
        try:
            opened = apscope.Plan.open(tmp_path / "plan.json")
            read += 1
            assert str(opened) and opened.to_dict()
            opened.solve(max_volume=0.3)
        except ValueError:
            pass
        except Exception as error:
            raise AssertionError(f"{path} = {inner[path[-1]]!r}") from error
    assert read > 20
