"""The command line: what works prints what it did; what does not is one sentence and exit code
2."""

import json
import os

import numpy as np
import pytest

import apscope
from apscope._folders.results import FILES
from apscope.cli import main
from tests.python.argv import argv, command
from tests.python.cli.conftest import refused


def test_formats_prints_the_table(capsys):
    assert main(["formats"]) == 0
    out = capsys.readouterr().out
    for name in apscope.named_formats():
        assert f"\n{name} " in out or out.lstrip().startswith(name)
    for name in apscope.named_block_formats():
        assert f"\n{name} " in out
    assert main(["formats", "mxint8", "blocks:e4m3,block=16"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [
        ["mxint8", "8.25", "int8", "32", "e8m0fnu", "floor"],
        ["blocks:e4m3,block=16", "8.5", "e4m3", "16", "e8m0fnu", "floor"],
    ]
    assert main(["formats", "nvfp4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "nvfp4": apscope.named_block_formats()["nvfp4"].to_dict()
    }
    assert main(["formats", "float8_e4m3fn", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["e4m3fn"]["nan_codes"] == 1


def test_schemes_prints_keys_and_needs(capsys):
    assert main(["schemes"]) == 0
    out = capsys.readouterr().out
    for d in apscope.schemes.definitions():
        assert d.summary.split(";")[0][:40] in " ".join(out.split())
        for key in d.keys:
            assert f"{key.name}={key.default}" in out


def test_replay_and_merge_write_results(capsys, digits, tmp_path):
    common = argv(
        "{} --scheme aps:e4m3 --topology ring --steps 0:2 --workers 4 --tensors head", digits
    )
    assert main(["replay", *common, "-o", str(tmp_path / "all")]) == 0
    for i in range(2):
        assert main(["replay", *common, "-o", str(tmp_path / f"s{i}"), "--shard", f"{i}/2"]) == 0
    assert (
        main(["merge", str(tmp_path / "s1"), str(tmp_path / "s0"), "-o", str(tmp_path / "joined")])
        == 0
    )
    assert (tmp_path / "joined/results.csv").read_bytes() == (
        tmp_path / "all/results.csv"
    ).read_bytes()
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == sorted(
        set(FILES) - {"limit.parquet", "persistence.parquet"}  # without --limit, --persistence
    )
    # The command in the provenance repeats the run.
    command = apscope.Results.open(tmp_path / "joined").provenance["command"].split()
    assert main([*command[1:], "-o", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again/results.csv").read_bytes() == (
        tmp_path / "all/results.csv"
    ).read_bytes()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["formats", "fp8"], "several meanings"),
        (
            ["replay", "DIGITS", "-o", "OUT", "--topology", "ring+kahan"],
            "cannot keep a compensation",
        ),
        (["replay", "DIGITS", "-o", "OUT", "--workers", "9"], "between 1 and the 8"),
        (["replay", "DIGITS", "-o", "OUT", "--steps", "5"], "'5'"),
        (["replay", "DIGITS", "-o", "OUT", "--steps", "5000:"], "5000"),
        (["replay", "DIGITS", "-o", "OUT", "--tensors", "nothing"], "'nothing'"),
        (["replay", "DIGITS", "-o", "OUT", "--tensors", "("], "regular expression"),
        (["replay", "DIGITS", "-o", "OUT", "--shard", "3/3"], "3/3"),
        (["replay", "DIGITS", "-o", "OUT", "--threads", "-1"], "-1"),
        (["replay", "DIGITS", "-o", "OUT", "--draws", "2"], "draws=2"),
        (["replay", "DIGITS", "-o", "OUT", "--device", "gpu"], "'gpu'"),
        (["replay", "DIGITS", "-o", "OUT", "--seed", "-1"], "seed=-1"),
        (["replay", "DIGITS", "DIGITS", "-o", "OUT"], "two traces are named 'digits'"),
    ],
)
def test_mistakes_are_one_sentence(capsys, digits, tmp_path, arguments, word):
    place = {"DIGITS": digits, "OUT": tmp_path / "out"}
    assert word in refused(capsys, *(place.get(a, a) for a in arguments))
    assert list(tmp_path.iterdir()) == []


def test_an_output_place_that_is_a_file_is_refused(capsys, digits, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "file" in refused(capsys, "replay", digits, "-o", tmp_path / "file")
    assert "file" in refused(capsys, "replay", digits, "-o", tmp_path / "file/below")
    assert (tmp_path / "file").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_an_output_folder_that_cannot_be_written_is_named(capsys, digits):
    # /proc takes no new folders, whoever asks.
    assert "/proc/out" in refused(
        capsys, "replay", digits, "-o", "/proc/out", "--scheme", "none:e4m3", "--steps", "0:1"
    )


def test_other_files_in_the_results_folder_stay(digits, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    assert command("replay {} -o {} --scheme none:e4m3 --steps 0:1", digits, tmp_path / "out") == 0
    assert (tmp_path / "out/notes.txt").read_text() == "mine"
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]
    capsys.readouterr()


def test_an_empty_output_name_is_refused(capsys, digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["replay", str(digits), "--steps", "0:1", "-o", ""]) == 2
    assert "is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [5, np.int64(5)])
def test_a_single_number_of_steps_is_asked_about(digits, number):
    with pytest.raises(
        ValueError,
        match="steps '5' could be one step or a number of steps; "
        "give 5:6 for step 5, or a range A:B",
    ):
        apscope.replay(digits, "aps:e4m3", steps=number)


def test_what_is_no_scheme_and_what_matches_no_tensor_is_told(digits):
    with pytest.raises(
        TypeError, match="scheme is int; give a Scheme or a spec such as 'aps:e4m3'"
    ):
        apscope.replay(digits, 3)
    with pytest.raises(
        ValueError, match=r"matches no name in trace 'digits'; did you mean conv2.weight\?"
    ):
        apscope.replay(digits, "aps:e4m3", tensors="conv2_weight")
    resnet18 = os.path.join(os.path.dirname(digits), "resnet18")
    with pytest.raises(
        ValueError,
        match=r"matches no name in trace 'resnet18'; it has conv1.weight, .* and 56 more$",
    ):
        apscope.replay(resnet18, "aps:e4m3", tensors="nothing at all")


def test_one_results_folder_may_be_merged_alone(digits, tmp_path):
    one = apscope.replay(digits, "aps:e4m3", topology="ring", steps=[0])
    one.save(tmp_path / "one")
    assert apscope.merge(str(tmp_path / "one")).frame.equals(
        apscope.merge([tmp_path / "one"]).frame
    )
