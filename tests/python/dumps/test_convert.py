"""convert: foreign dumps become traces, or one sentence gives the reason."""

import argparse

import numpy as np
import pytest
from safetensors.numpy import save_file

from apscope import open_trace
from apscope._dumps.patterns import DEFAULT_PATTERNS
from apscope.cli import _convert as convert_verb
from apscope.cli import _info as info_verb
from apscope.record import convert

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


def save_npz(folder, step, worker):
    path = folder / f"step_{step}" / f"worker_{worker}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays(step, worker))


def save_npz_rank_first(folder, step, worker):
    path = folder / f"rank_{worker}" / f"iter_{step:06d}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays(step, worker))


def save_flat_safetensors(folder, step, worker):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(arrays(step, worker), folder / f"step{step}_rank{worker}.safetensors")


def save_npy(folder, step, worker):
    for tensor, values in arrays(step, worker).items():
        path = folder / f"step_{step}" / f"worker_{worker}" / f"{tensor}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)


LAYOUTS = [save_npz, save_npz_rank_first, save_flat_safetensors, save_npy]


def dump(folder, save=save_npz, steps=(2, 10), workers=3):
    for step in steps:
        for worker in range(workers):
            save(folder, step, worker)
    return folder


@pytest.mark.parametrize("save", LAYOUTS)
def test_default_patterns_read_the_usual_layouts(tmp_path, save):
    result = convert(dump(tmp_path / "dump", save), tmp_path / "run", reduction="sum")
    trace = result.trace
    assert result.pattern in DEFAULT_PATTERNS and result.ignored == ()
    assert trace.steps == (2, 10) and trace.workers == 3 and set(trace.tensors) == set(TENSORS)
    assert trace.manifest.reduction == "sum" and trace.name == "run"
    assert trace.roles == {"conv.weight": "conv", "fc.bias": "bias"}
    for step in trace.steps:
        for worker in range(3):
            for tensor in TENSORS:
                assert np.array_equal(trace.read(step, tensor, worker), value(step, worker, tensor))


def test_a_pattern_names_step_worker_and_tensor(tmp_path):
    dump_folder = tmp_path / "dump"
    for step in range(2):
        for worker in range(2):
            path = dump_folder / "grads" / f"it{step}" / f"gpu{worker}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **arrays(step, worker))
    np.savez(dump_folder / "optimizer.npz", state=np.ones(3))
    with pytest.raises(ValueError, match="optimizer/state'"):
        convert(dump_folder, tmp_path / "run", reduction="mean")
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
    trace = convert(tmp_path / "all.npz", tmp_path / "run", reduction="mean", stage="reduced").trace
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
        with pytest.raises(
            ValueError, match=rf"worker_0.{suffix}: array 'w' .*element 1 .*--round-to-fp32"
        ):
            convert(folder, tmp_path / f"run-{suffix}", reduction="mean")
        assert not (tmp_path / f"run-{suffix}").exists()
        trace = convert(
            folder, tmp_path / f"run-{suffix}", reduction="mean", round_to_fp32=True
        ).trace
        assert trace.read(0, "w").tolist() == [0.5, float(np.float32(0.1))]
        save(folder / "step_0" / f"worker_0.{suffix}", {"w": np.array([0.5, -0.25])})
        assert convert(folder, tmp_path / f"exact-{suffix}", reduction="mean").trace.read(
            0, "w"
        ).tolist() == [0.5, -0.25]


def refusal(tmp_path, folder, **options):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError) as caught:
        convert(folder, tmp_path / "run", **{"reduction": "mean", **options})
    assert sorted(tmp_path.iterdir()) == before, "something half-written is left"
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_missing_combinations_are_named(tmp_path):
    folder = dump(tmp_path / "dump", save_npy)
    (folder / "step_10" / "worker_1" / "fc.bias.npy").unlink()
    assert "1 of 12 combinations are missing: (step 10, worker 1, fc.bias)" in refusal(
        tmp_path, folder
    )


def test_a_missing_worker_is_named(tmp_path):
    folder = dump(tmp_path / "dump")
    (folder / "step_2" / "worker_1.npz").unlink()
    assert "(step 2, worker 1, conv.weight), (step 2, worker 1, fc.bias)" in refusal(
        tmp_path, folder
    )


def test_shapes_that_differ_are_named(tmp_path):
    folder = dump(tmp_path / "dump", save_npy)
    np.save(folder / "step_10" / "worker_2" / "fc.bias.npy", np.zeros(4, np.float32))
    message = refusal(tmp_path, folder)
    assert (
        "worker_2/fc.bias.npy is worker 2 at step 10: tensor 'fc.bias' has shape [4]" in message
        and "it is [5]; leave it out with --tensors" in message
    )


def test_pickled_arrays_are_refused(tmp_path):
    folder = dump(tmp_path / "dump", save_npy)
    np.save(
        folder / "step_10" / "worker_2" / "fc.bias.npy",
        np.array([{}], dtype=object),
        allow_pickle=True,
    )
    assert "worker_2/fc.bias.npy contains objects, not numbers" in refusal(tmp_path, folder)


@pytest.mark.parametrize(
    "save, name",
    [
        (save_npz, "step_2/worker_0.npz"),
        (save_npy, "step_2/worker_0/fc.bias.npy"),
        (save_flat_safetensors, "step2_rank0.safetensors"),
    ],
)
def test_truncated_files_are_refused_by_name(tmp_path, save, name):
    folder = dump(tmp_path / "dump", save)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-5])
    assert name in refusal(tmp_path, folder)


def test_other_refusals(tmp_path):
    folder = dump(tmp_path / "dump")
    assert "is not a regular expression" in refusal(tmp_path, folder, pattern="(")
    assert "has the group 'layer'" in refusal(tmp_path, folder, pattern="(?P<layer>.*)")
    assert "matches none of 6 files; the first is " in refusal(
        tmp_path, folder, pattern="x(?P<step>1)"
    )
    assert "are both step 2, worker 0" in refusal(
        tmp_path, folder, pattern=r"step_(?P<step>\d+)/.*"
    )
    assert "gone does not exist" in refusal(tmp_path, tmp_path / "gone")
    assert "reduction is 'average'" in refusal(tmp_path, folder, reduction="average")
    (tmp_path / "empty").mkdir()
    assert "has no array" in refusal(tmp_path, tmp_path / "empty")
    (tmp_path / "run").mkdir()
    with pytest.raises(ValueError, match="run exists"):
        convert(folder, tmp_path / "run", reduction="mean")


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
