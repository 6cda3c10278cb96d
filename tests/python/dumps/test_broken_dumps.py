"""Broken dumps: each is refused in one sentence that names the file, with exit code 2, and nothing
is left behind."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import apscope
from apscope.cli import main
from tests.python.argv import argv, command
from tests.python.broken_dumps import BROKEN, good, stacked
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all


def test_there_are_forty_kinds():
    assert len(BROKEN) >= 40


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
def test_a_broken_dump_is_one_sentence(tmp_path, capfd, make):
    dump = tmp_path / "dump"
    dump.mkdir()
    make(dump)
    before = sorted(tmp_path.rglob("*"))
    capfd.readouterr()
    code = main(["convert", str(dump), str(tmp_path / "new" / "run"), "--reduction", "mean"])
    out, err = capfd.readouterr()
    assert code == 2 and err.count("\n") == 1, err
    assert err.startswith("apscope: ") and len(err) < 700 + len(str(tmp_path)) * 4
    assert re.search(
        BROKEN[make].format(d=re.escape(str(dump))) if "{d}" in BROKEN[make] else BROKEN[make], err
    ), err
    assert str(dump) in err or "array" in err
    assert sorted(tmp_path.rglob("*")) == before, "something is left"


#: Arguments that are wrong whatever the dump.
ARGUMENTS = [
    (["--worker-axis", "-1"], "worker_axis is '-1'; it must be an integer, 0 or more, or none"),
    (["--worker-axis", "x"], "worker_axis is 'x'; it must be an integer, 0 or more, or none"),
    (
        ["--worker-axis", "0"],
        "worker_axis is 0, but the names already contain the worker, as in 'step_0/rank_0/w'; give "
        "only one of them",
    ),
    (["--workers", "0"], "workers is 0; it must be at least 1"),
    (
        ["--workers", "3"],
        "has 2 workers, not 3; give --worker-axis or --pattern so "
        "that all are found, or another --workers",
    ),
    (
        ["--steps", "3"],
        "steps '3' could be one step or a number of steps; give 3:4 for step 3, or a range A:B",
    ),
    (["--steps", "7:"], "has no step in the range that --steps gives; it has 2 steps from 0 to 1"),
    (["--sample", "0"], "sample is 0; it must be above 0 and at most 1"),
    (["--loss-scale", "big"], "loss_scale is 'big'; it must be a number above 0, or recorded"),
    (
        ["--loss-scale", "recorded"],
        "loss_scale is 'recorded', but the files of step 0 have no loss_scale; give the number",
    ),
    (["--accumulation", "0"], "accumulation is 0; it must be at least 1"),
    (["--raw-dtype", "bf16"], "raw_dtype is 'bf16'; it must be one of bfloat16, float8_e4m3fn"),
    (
        ["--order", "/nowhere"],
        "/nowhere cannot be read as a list of names: No such file or directory",
    ),
    (["--tensors", "("], "tensors '(' is not a regular expression"),
]


@pytest.mark.parametrize(
    "words, sentence",
    ARGUMENTS,
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_are_one_sentence(tmp_path, capsys, words, sentence):
    good(tmp_path / "dump")
    line = argv("convert {} {} --reduction mean", tmp_path / "dump", tmp_path / "run")
    assert main([*line, *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["dump"]


def test_an_order_names_every_tensor_once(tmp_path, capsys):
    good(tmp_path / "dump")
    for text, sentence in (("w\nb\nw\n", "has 'w' twice"), ("w\n", "lacks the tensor 'b'")):
        (tmp_path / "order").write_text(text)
        places = [tmp_path / name for name in ("dump", "run", "order")]
        assert command("convert {} {} --reduction mean --order {}", *places) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, shape",
    [
        (["--worker-axis", "0"], (2, 3)),
        (["--workers", "1"], (4, 2, 3)),
        (["--worker-axis", "none"], (4, 2, 3)),
        (["--worker-axis", "1"], None),
    ],
)
def test_what_is_stacked_is_as_the_caller_says(tmp_path, capsys, words, shape):
    stacked(tmp_path)
    line = argv("convert {} {} --reduction mean --stage local", tmp_path, tmp_path / "run")
    code = main([*line, *words])
    if shape is None:
        assert code == 2 and "has 5 workers on axis 1, but" in capsys.readouterr().err
    else:
        trace = apscope.open_trace(tmp_path / "run")
        assert trace.shapes["w"] == shape and trace.workers == (4 if len(shape) == 2 else 1)


def test_missing_libraries_are_named(tmp_path, monkeypatch, capsys):
    pytest.importorskip("h5py")
    pytest.importorskip("zarr")
    dumps = Path(__file__).parents[2] / "dumps" / "four_workers"
    for library, source, sentence in (
        (
            "h5py",
            dumps / "hdf5/gradients.h5",
            "h5py is not installed; pip install 'apscope[dumps]'",
        ),
        ("zarr", dumps / "gradients.zarr", "zarr is not installed; pip install 'apscope[dumps]'"),
        ("fsspec", "s3://bucket/dump", "s3://bucket/dump needs fsspec, which is not installed"),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        assert command("convert {} {} --reduction mean", source, tmp_path / "run") == 2
        assert sentence in capsys.readouterr().err


def test_a_python_without_torch_is_told_of(tmp_path, capsys):
    dumps = Path(__file__).parents[2] / "dumps" / "four_workers"
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec python3 -S -I "$@"\n')
    bare.chmod(0o755)
    for python, sentence in (
        (bare, "it is a torch file, and torch is not installed here"),
        ("/nowhere/python", "the interpreter /nowhere/python cannot be started"),
    ):
        words = argv(
            "convert {} {} --reduction mean --python {}", dumps / "pt", tmp_path / "run", python
        )
        assert main(words) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("size", [None, 0, 1500])
def test_a_distributed_checkpoint_without_a_part_is_one_sentence(tmp_path, capfd, size):
    pytest.importorskip("torch")
    shutil.copytree(Path(__file__).parents[2] / "dumps" / "two_processes" / "dcp", tmp_path / "dcp")
    part = tmp_path / "dcp" / "step_1" / "__1_0.distcp"
    part.unlink() if size is None else os.truncate(part, size)
    assert (
        command("convert {} {} --reduction mean --trust-pickle", tmp_path / "dcp", tmp_path / "run")
        == 2
    )
    err = capfd.readouterr().err
    assert re.fullmatch(
        r"apscope: .*dcp/step_1: array 'rank_1/.*' cannot be read: "
        r"torch cannot read it: .*dump it again.*\n",
        err,
    ), err
    assert size is not None or f"No such file or directory: '{part}'" in err
    assert [p.name for p in tmp_path.iterdir()] == ["dcp"]
