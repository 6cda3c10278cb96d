"""convert: foreign dumps become traces, or one sentence gives the reason."""

import argparse

import numpy as np
import pytest
from safetensors.numpy import save_file

from apscope import open_trace
from apscope.cli import _convert as convert_verb
from apscope.cli import _info as info_verb
from apscope.record import convert
from tests.python.converted import converted, refused

TENSORS = {"conv.weight": (2, 1, 3, 3), "fc.bias": (5,)}


def value(step, worker, tensor):
    index = list(TENSORS).index(tensor)
    return (
        np.random.default_rng((step, worker, index))
        .standard_normal(TENSORS[tensor])
        .astype(np.float32)
    )


def arrays(step, worker):
    return {tensor: value(step, worker, tensor) for tensor in TENSORS}


def dump(folder):
    for step in (2, 10):
        for worker in range(3):
            path = folder / f"step_{step}" / f"worker_{worker}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **arrays(step, worker))
    return folder


def test_a_pattern_names_step_worker_and_tensor(tmp_path):
    dump_folder = tmp_path / "dump"
    for step in range(2):
        for worker in range(2):
            path = dump_folder / "grads" / f"it{step}" / f"gpu{worker}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **arrays(step, worker))
    np.savez(dump_folder / "optimizer.npz", state=np.ones(3))
    refused("optimizer/state'", dump_folder)
    full = r"grads/it(?P<step>\d+)/gpu(?P<worker>\d+)/(?P<tensor>.+)"
    result = convert(dump_folder, tmp_path / "run", reduction="mean", pattern=full)
    assert result.ignored == ("optimizer/state",)
    assert np.array_equal(result.trace.read(1, "fc.bias", 1), value(1, 1, "fc.bias"))
    # Without a tensor group the key is the tensor's name.
    short = r"grads/it(?P<step>\d+)/gpu(?P<worker>\d+)"
    again = convert(dump_folder, tmp_path / "run2", reduction="mean", pattern=short)
    assert again.trace.tensors == result.trace.tensors


def test_one_file_with_everything_in_its_keys(tmp_path):
    np.savez(tmp_path / "all.npz", **{f"step_{s}/w": np.float32([s]) for s in (5, 6)})
    trace = converted(tmp_path / "all.npz", tmp_path / "run", stage="reduced")
    assert trace.steps == (5, 6) and trace.workers == 1 and trace.manifest.stage == "reduced"
    assert trace.read(6, "w").tolist() == [6]


def test_float64_is_refused_unless_exact_or_rounded(tmp_path):
    for suffix, save in (
        ("npz", lambda p, a: np.savez(p, **a)),
        ("safetensors", lambda p, a: save_file(a, p)),
    ):
        folder = tmp_path / suffix
        (folder / "step_0").mkdir(parents=True)
        save(folder / "step_0" / f"worker_0.{suffix}", {"w": np.array([0.5, 0.1])})
        words = r"element 1 \(0\.1\) is not an fp32 value; pass --round-to-fp32"
        refused(rf"worker_0.{suffix}: array 'w' .*{words}", folder)
        trace = converted(folder, tmp_path / f"run-{suffix}", round_to_fp32=True)
        assert trace.read(0, "w").tolist() == [0.5, float(np.float32(0.1))]
        save(folder / "step_0" / f"worker_0.{suffix}", {"w": np.array([0.5, -0.25])})
        trace = converted(folder, tmp_path / f"exact-{suffix}")
        assert trace.read(0, "w").tolist() == [0.5, -0.25]


def test_other_refusals(tmp_path):
    folder = dump(tmp_path / "dump")
    refused("matches none of 6 files; the first is ", folder, pattern="x(?P<step>1)")
    refused("are both step 2, worker 0", folder, pattern=r"step_(?P<step>\d+)/.*")
    refused("gone does not exist", tmp_path / "gone")
    refused("reduction is 'average'", folder, reduction="average")


def run_verb(verb, *arguments):
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    return verb.run(parser.parse_args([*map(str, arguments)]))


def test_the_verbs_convert_and_describe(tmp_path, capsys):
    folder = dump(tmp_path / "dump")
    options = ["--reduction", "mean", "--role", "^fc=head", "--role", ".=conv", "--name", "dumped"]
    assert run_verb(convert_verb, folder, tmp_path / "run", *options) == 0
    assert (
        "6 files: 2 steps x 3 workers, 2 tensors, order from the files" in capsys.readouterr().out
    )
    trace = open_trace(tmp_path / "run")
    assert trace.roles == {"conv.weight": "conv", "fc.bias": "head"} and trace.name == "dumped"
    assert run_verb(info_verb, tmp_path / "run", "--check") == 0
    assert "6 files agree with the manifest" in capsys.readouterr().out
    with pytest.raises(ValueError, match="--role 'head' is not of the form REGEX=ROLE"):
        run_verb(convert_verb, folder, tmp_path / "run2", "--reduction", "mean", "--role", "head")
