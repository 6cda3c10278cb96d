"""Traces in Python; safetensors files against the safetensors package."""

import hashlib
import json
import pathlib

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from apscope import open_trace, replay
from apscope._traces.trace_info import check, describe
from apscope.cli import main
from apscope.record import TraceWriter
from tests.python.argv import argv

rng = np.random.default_rng(7)


@pytest.fixture
def trace(tmp_path):
    """Two workers, steps 4 and 9; weights, full batch and one layer's activations at step 9."""
    folder = tmp_path / "run"
    with TraceWriter(
        folder, workers=2, model="tiny", reduction="sum", metadata={"seed": "7"}
    ) as writer:
        for step in (4, 9):
            for worker in range(2):
                writer.add(
                    step,
                    worker,
                    "conv1.weight",
                    np.full((2, 1, 3, 3), step + worker / 4, np.float32),
                )
                writer.add(step, worker, "conv1.bias", np.array([step, worker], np.float16))
            if step == 9:
                for kind in ("weights", "full_batch"):
                    writer.add(step, 0, "conv1.weight", np.ones((2, 1, 3, 3)), kind=kind)
                    writer.add(step, 0, "conv1.bias", np.zeros(2), kind=kind)
                for worker in range(2):
                    writer.add(step, worker, "conv1", np.arange(5) + worker, kind="layer_input")
                    writer.add(
                        step, worker, "conv1", np.arange(6) - worker, kind="activation_gradient"
                    )
            writer.end_step(step, loss=10 / step, learning_rate=0.5)
    return open_trace(folder)


def test_a_trace_says_what_was_recorded(trace):
    assert trace.name == "run"
    assert trace.steps == (4, 9)
    assert trace.workers == 2
    assert trace.tensors == ("conv1.weight", "conv1.bias")
    assert trace.roles == {"conv1.weight": "conv", "conv1.bias": "bias"}
    assert trace.shapes["conv1.weight"] == (2, 1, 3, 3)
    assert trace.manifest.reduction == "sum"
    assert trace.manifest.steps[0].loss == 2.5
    assert trace.manifest.steps[1].learning_rate == 0.5
    assert trace.manifest.steps[1].loss_scale is None
    assert trace.manifest.metadata == {"seed": "7", "roles_guessed_by_name_and_shape": "all"}
    assert trace.recorded()["gradient"] == (4, 9)
    assert trace.recorded()["layer_input"] == (9,)
    assert trace.names(9, "layer_input") == ["conv1"]
    assert trace.hash == hashlib.sha256((trace.path / "manifest.json").read_bytes()).hexdigest()


def test_reading_gives_the_recorded_values_read_only(trace):
    gradient = trace.read(9, "conv1.weight", 1)
    assert gradient.dtype == np.float32 and gradient.shape == (2, 1, 3, 3)
    assert (gradient == 9.25).all()
    assert not gradient.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        gradient[0] = 0
    assert trace.read(4, "conv1.bias", 1).tolist() == [4, 1]
    assert trace.read(9, "conv1", 1, kind="activation_gradient").tolist() == [-1, 0, 1, 2, 3, 4]
    assert trace.read(9, "conv1.weight", kind="weights").sum() == 18


def test_fp32_is_read_without_a_copy_and_outlives_the_trace(tmp_path):
    values = rng.standard_normal(1 << 20).astype(np.float32)
    with TraceWriter(tmp_path / "run", workers=1) as writer:
        writer.add(0, 0, "w", values)
        writer.end_step(0)
    trace = open_trace(tmp_path / "run")
    first, second = trace.read(0, "w"), trace.read(0, "w")
    assert first.ctypes.data == second.ctypes.data  # the same mapped bytes
    del trace, second
    assert np.array_equal(first, values)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((5, "conv1.weight", 0), "step 5 was not recorded"),
        ((4, "conv1.weight", 2), "no worker 2"),
        ((4, "conv2.weight", 0), "no tensor 'conv2.weight'"),
        ((4, "conv1.weight", 0, "weights"), "weights was not recorded at step 4"),
        ((4, "conv1.weight", 0, "moments"), "unknown kind 'moments'"),
        ((9, "conv2", 0, "layer_input"), "no tensor 'layer_input/conv2'"),
    ],
)
def test_reading_what_is_not_there_says_so(trace, arguments, words):
    with pytest.raises(ValueError, match=words):
        trace.read(*arguments)


def test_files_of_the_safetensors_package_are_read(trace):
    """Its writer's files, in every dtype a gradient may have, under the manifest of this trace."""
    expected = {
        "conv1.weight": rng.standard_normal((2, 1, 3, 3)).astype(np.float32).astype(np.float64),
        "conv1.bias": np.array([1.5, -0.0]).astype(ml_dtypes.bfloat16),
    }
    path = trace.path / "step_00000004" / "worker_0000.safetensors"
    save_file(expected, path)
    manifest = json.loads((trace.path / "manifest.json").read_text())
    manifest["steps"][0]["files"]["worker_0000.safetensors"]["bytes"] = path.stat().st_size
    (trace.path / "manifest.json").write_text(json.dumps(manifest))
    changed = open_trace(trace.path)
    for name, values in expected.items():
        assert np.array_equal(changed.read(4, name, 0), values.astype(np.float32))
    with pytest.raises(ValueError, match="worker_0000.safetensors: its SHA-256 is"):
        check(changed)


def test_a_flipped_byte_of_a_worker_is_not_replayed(trace, tmp_path, capsys):
    """In Python and on the command line, the file being named; not compared, the values that it
    holds are replayed."""
    path = trace.path / "step_00000009" / "worker_0001.safetensors"
    before = replay(trace, "aps:e4m3", topology="ring").frame
    contents = bytearray(path.read_bytes())
    contents[-40] ^= 1 << 5
    path.write_bytes(contents)
    with pytest.raises(
        ValueError,
        match=r"step_00000009/worker_0001\.safetensors: its SHA-256 is [0-9a-f]{64}, but the "
        r"manifest says [0-9a-f]{64}; the file is damaged",
    ):
        replay(open_trace(trace.path), "aps:e4m3", topology="ring")
    command = argv(
        "replay {} --scheme aps:e4m3 --topology ring -o {}", trace.path, tmp_path / "results"
    )
    assert main(command) == 2
    assert (
        "step_00000009/worker_0001.safetensors: its SHA-256 is" in capsys.readouterr().err
        and not (tmp_path / "results").exists()
    )
    after = replay(open_trace(trace.path), "aps:e4m3", topology="ring", check=False).frame
    assert len(after) == len(before) and not after.equals(before)
    assert main([*command, "--no-check"]) == 0 and (tmp_path / "results").is_dir()


def test_the_safetensors_package_reads_our_files(trace):
    values = load_file(trace.path / "step_00000009" / "worker_0001.safetensors")
    assert values["conv1.weight"].dtype == np.float32 and (values["conv1.weight"] == 9.25).all()
    assert values["conv1.bias"].dtype == np.float16 and values["conv1.bias"].tolist() == [9, 1]


def test_info_describes_and_checks(trace):
    text = describe(trace)
    for words in ("model      tiny", trace.hash, "2: 4, 9", "1 step: 9", "tensors    2", "seed"):
        assert words in text
    assert check(trace) == 8


def test_a_step_that_is_checked_twice_is_read_once(trace):
    reports = []
    trace.check(steps=[0, 0, 1], update=lambda done, total: reports.append((done, total)))
    done, total = reports[-1]
    assert done == total and len(reports) == len(set(trace.files(steps=[0, 1])))


def refusal(path):
    with pytest.raises(ValueError) as caught:
        trace = open_trace(path)
        check(trace)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_folder_without_a_manifest_is_no_trace(tmp_path):
    assert "has no manifest.json" in refusal(tmp_path)
    assert "gone is not a trace" in refusal(tmp_path / "gone")


def test_a_file_that_cannot_be_opened_is_an_oserror(trace):
    path = trace.path / "step_00000004" / "worker_0000.safetensors"
    opened = open_trace(trace.path)
    path.unlink()
    with pytest.raises(OSError, match="worker_0000.safetensors"):
        opened.read(4, "conv1.weight", 0)


def test_ctrl_c_while_a_path_is_converted_is_ctrl_c(monkeypatch):
    as_text = pathlib.PurePath.__fspath__
    calls = 0

    def interrupted(path):
        nonlocal calls
        calls += 1
        if calls == chosen:
            raise KeyboardInterrupt
        return as_text(path)

    monkeypatch.setattr(pathlib.PurePath, "__fspath__", interrupted)
    chosen = 0
    open_trace("notebooks/data/digits")
    assert calls > 0
    for chosen in range(1, calls + 1):
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            open_trace("notebooks/data/digits")
