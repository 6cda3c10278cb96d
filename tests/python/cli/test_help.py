"""Help of the command line: in any spelling, with examples that run and hints for misspelt
words."""

import importlib
import importlib.util
import re
import shlex

import numpy as np
import pytest

from apscope.cli import VERBS, main
from tests.python.argv import command


def helped(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*words])
    assert ended.value.code == 0
    return capsys.readouterr().out


def example_of(verb):
    return importlib.import_module(f"apscope.cli._{verb}").EXAMPLE.splitlines()


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_ends_with_its_example(capsys, verb):
    out = helped(capsys, verb, "--help")
    lines = example_of(verb)
    assert out.endswith("\nexample:\n" + "".join(f"  {line}\n" for line in lines))
    assert any(line.startswith(f"apscope {verb} ") for line in lines)
    assert helped(capsys, "help", verb) == out


def test_help_is_a_verb_too(capsys):
    assert helped(capsys, "help") == helped(capsys, "--help") == helped(capsys, "-h")
    assert set(re.findall(r"^    (\w+)", helped(capsys, "help"), re.MULTILINE)) == set(VERBS)


@pytest.mark.parametrize(("words", "sentence"), [
    (["--verison"], "there is no argument '--verison'; did you mean --version?"),
    (["-V"], "there is no argument '-V'; see apscope --help"),
    (["version"], "unknown verb 'version'; did you mean --version?"),
    (["help", "sumary"], "unknown verb 'sumary'; did you mean summary?"),
    (["--verison", "summary"], "there is no argument '--verison'; did you mean --version?"),
    (["ladder", "x", "--fromats", "e4m3"], "ladder has no argument '--fromats'; "
                                           "did you mean --formats?"),
    (["schemes", "aps-e4m3"], "unknown scheme 'aps-e4m3'; did you mean aps:e4m3?"),
    (["schemes", "loss_scaling_e4m3fn"], "did you mean loss_scaling:e4m3fn?"),
    (["schemes", "apse5m2"], "did you mean aps:e5m2?"),
    (["schemes", "aps:e4m3,rounding=nearest"], "does not say where ties go; use ties_to_even"),
    (["formats", "e3m4b6fn"], "unknown format 'e3m4b6fn'; did you mean e3m4fnb6?"),
    (["report", "TRACE"], "is a trace, and no report may be written into "
                          "its folder; give -o FILE.html"), (["report", "nowhere"],
                              "nowhere is neither a trace nor a RESULTS folder: it does not exist"),
])  # fmt: skip
def test_what_is_misspelt_gets_a_hint(capsys, digits, words, sentence):
    assert main([digits if w == "TRACE" else w for w in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and sentence in err and err.count("\n") == 1


def dump(folder):
    """The input of the example of convert: one file per step and worker."""
    random = np.random.default_rng(0)
    for step in range(2):
        (folder / f"step_{step}").mkdir(parents=True)
        for worker in range(2):
            np.savez(
                folder / f"step_{step}/worker_{worker}.npz",
                **{"layer.weight": random.standard_normal((4, 3)).astype(np.float32)},
            )


#: The file that the example of train reads.
EXPERIMENT = """
gate = 0.01
seeds = 1
schemes = ["aps:e4m3"]
[[task]]
name = "digits"
steps = 2
"""


def test_the_examples_run(request, tmp_path, monkeypatch, capsys):
    """In one folder, those that write before those that read."""
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    (tmp_path / "notebooks").symlink_to(request.config.rootpath / "notebooks")
    dump(tmp_path / "dump")
    order = ["replay", "merge", *(verb for verb in VERBS if verb not in ("replay", "merge"))]
    lines = [line for verb in order for line in example_of(verb)]
    assert {line.split()[1] for line in lines} == set(VERBS)
    if importlib.util.find_spec("torch") is None:
        lines = [line for line in lines if line.split()[1] != "train"]
    monkeypatch.chdir(tmp_path)
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "apscope" and main(words) == 0, line
    out = capsys.readouterr().out
    for said in (
        "results/report.html: ",
        "both: ",
        "digits: underflow_wire by layer, ring",
        "plan.json: ",
        "0 of ",
        "results: results, whole",
    ):
        assert said in out
    assert b"<html" in (tmp_path / "results/report.html").read_bytes()


def test_a_report_lies_beside_its_results_and_is_replaced(capsys, tmp_path, digits):
    results = tmp_path / "r"
    assert (
        command("replay {} --scheme none:e4m3 --steps 0:1 --topology ring -o {}", digits, results)
        == 0
    )
    for _ in range(2):
        assert main(["report", str(results)]) == 0
        assert f"{results}/report.html: " in capsys.readouterr().out
    assert main(["check", str(results)]) == 0
    assert command("replay {} --scheme none:e4m3 --steps 0:1 -o {} --force", digits, results) == 0
    (results / "report.html").write_text("mine")
    capsys.readouterr()
    assert (
        main(["report", str(results)]) == 2
        and "is not a report of apscope" in capsys.readouterr().err
    )
