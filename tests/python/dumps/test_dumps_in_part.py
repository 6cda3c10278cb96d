"""Dumps that are understood in part, or with a hint: folders, wrappers, old files, samples,
selections."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from apscope._dumps.patterns import DEFAULT_PATTERNS
from apscope._dumps.sample import BLOCK, chosen_blocks
from apscope.cli import main
from apscope.record import convert
from tests.python.converted import converted, pattern_of, refused
from tests.python.dumps.test_dumps import DUMPS, FOUR
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all


def test_a_folder_of_one_file_is_that_file(tmp_path):
    (tmp_path / "dump").mkdir()
    np.savez(
        tmp_path / "dump" / "grads.npz",
        **{"fc.w": np.ones(2, np.float32), "fc.b": np.ones(3, np.float32)},
    )
    for i, source in enumerate(("dump", "dump/grads.npz")):
        assert converted(tmp_path / source, tmp_path / f"run{i}").tensors == (
            "fc.w",
            "fc.b",
        )


def test_verbs_that_want_a_trace_name_convert_where_they_get_a_dump(tmp_path, capsys):
    for source in (
        FOUR / "npz",
        FOUR / "npz" / "step_0" / "worker_0.npz",
        FOUR / "gradients.zarr",
        FOUR / "pt_nested.pt",
    ):
        for words in (
            ["info"],
            ["replay", "-o", str(tmp_path / "out")],
            ["report", "-o", str(tmp_path / "out.html")],
        ):
            assert main([words[0], str(source), *words[1:]]) == 2
            err = capsys.readouterr().err
            assert (
                str(source) in err
                and err.endswith("apscope convert makes a trace of a dump of gradients\n")
                and err.count("\n") == 1
            )
    assert list(tmp_path.iterdir()) == []


def test_a_list_of_tensors_is_numbered(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save([torch.ones(2 + i) for i in range(11)], tmp_path / "step_0.pt")
    assert converted(tmp_path, tmp_path / "run").tensors == tuple(map(str, range(11)))


def test_arrays_of_numpy_in_files_of_torch_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    for step in range(2):
        torch.save(
            {
                "w": np.full((2, 3), step, np.float32),
                "b": np.ones(4, np.float16),
                "loss": np.float64(0.5),
            },
            tmp_path / f"step_{step}.pt",
        )
    trace = converted(tmp_path, tmp_path / "run")
    assert trace.tensors == ("w", "b") and trace.read(1, "w").tolist() == [[1] * 3] * 2
    assert [step.loss for step in trace.manifest.steps] == [0.5, 0.5]


def test_empty_tensors_and_single_numbers_are_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    for name, save in (
        ("pt", torch.save),
        ("npz", lambda a, p: np.savez(p, **{k: v.float().numpy() for k, v in a.items()})),
    ):
        (tmp_path / name).mkdir()
        for worker in range(2):
            arrays = {
                "none": torch.ones(0, 3),
                "logit_scale": torch.tensor(2.0 + worker),
                "w": torch.ones(4).bfloat16(),
            }
            save(arrays, tmp_path / name / f"step_0_rank_{worker}.{name}")
        trace = converted(tmp_path / name, tmp_path / f"run-{name}", sample=0.5)
        assert (
            trace.read(0, "logit_scale", 1) == 3
            and trace.read(0, "none").size == 0
            and trace.read(0, "w").tolist() == [1] * 4
        )


def test_gradients_beside_weights_are_asked_for(tmp_path):
    names = ("module.fc.weight", "module.fc.bias")
    np.savez(
        tmp_path / "step_0.npz",
        **{
            f"{group}/{name}": np.ones(2 + len(name), np.float32)
            for group in ("model", "grads")
            for name in names
        },
    )
    refused(
        r"step_0.npz: array 'model/module.fc.weight': the same tensors are under 'model', "
        r"'grads'; .*--tensors '\^grads/'",
        tmp_path,
    )
    assert converted(tmp_path, tmp_path / "run", tensors="^grads/").tensors == (
        "fc.weight",
        "fc.bias",
    )


def test_what_is_no_dump_beside_one_is_left_out_by_the_pattern_that_is_offered(tmp_path):
    for worker in range(2):
        np.savez(
            tmp_path / f"step_1_rank_{worker}.npz",
            w=np.full(3, worker, np.float32),
            b=np.ones(2, np.float32),
        )
    np.savez(tmp_path / "optimizer.npz", state=np.ones(3, np.float32))
    error = refused(
        r"optimizer.npz: array 'state' has the address 'optimizer/state'.*\(1 of 5 arrays\) "
        r"pass --pattern '(.*)'$",
        tmp_path,
    )
    pattern = pattern_of(error)
    assert convert(tmp_path, tmp_path / "run", reduction="mean", pattern=pattern).ignored == (
        "optimizer/state",
    )


def test_old_files_of_torch_are_read_too(tmp_path):
    torch = pytest.importorskip("torch")
    for step in range(2):
        torch.save(
            {"w": torch.full((3,), 1.0 * step), "b": torch.ones(2)},
            tmp_path / f"step_{step}.pth",
            _use_new_zipfile_serialization=False,
        )
    assert converted(tmp_path, tmp_path / "run").read(1, "w").tolist() == [
        1,
        1,
        1,
    ]


# ---- a part of a dump -------------------------------------------------------------------------


def test_steps_and_tensors_are_selected(tmp_path):
    trace = converted(FOUR / "npz", tmp_path / "run", steps="1:", tensors=r"^blocks\.")
    assert trace.steps == (1,) and trace.tensors == ("blocks.2.weight", "blocks.10.weight")
    refused("has no step 5; it has 2 steps from 0 to 1", FOUR / "npz", steps=[5])
    refused("tensors 'conv' matches none of stem.weight", FOUR / "npz", tensors="conv")


def test_a_sample_is_of_whole_blocks_the_same_everywhere(tmp_path):
    random = np.random.default_rng(1)
    whole = {}
    for step in range(2):
        for worker in range(2):
            whole[step, worker] = {
                "w": random.standard_normal((30, 1000)).astype(np.float32),
                "b": random.standard_normal(7).astype(np.float32),
            }
            save_file(whole[step, worker], tmp_path / f"step_{step}_rank_{worker}.safetensors")
    trace = converted(tmp_path, tmp_path / "run", sample=0.3)
    blocks = chosen_blocks("w", 30000, 0.3)
    assert len(blocks) == 3 and blocks.tolist() == sorted(set(blocks.tolist())) and blocks.max() < 8
    for (step, worker), tensors in whole.items():
        flat = tensors["w"].ravel()
        assert np.array_equal(
            trace.read(step, "w", worker),
            np.concatenate([flat[b * BLOCK : (b + 1) * BLOCK] for b in blocks]),
        )
        assert np.array_equal(trace.read(step, "b", worker), tensors["b"])  # a block at least
    assert trace.manifest.metadata["sample"] == "0.3 of the blocks of 4096 elements"
    assert json.loads(trace.manifest.metadata["sample_of_shapes"]) == {"b": [7], "w": [30, 1000]}
    assert trace.roles == {"b": "bias", "w": "linear"}  # of the shapes they had


def test_help_and_page_list_the_patterns(capsys):
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    page, text = (DUMPS.parents[1] / "docs" / "dumps.md").read_text(), capsys.readouterr().out
    for pattern in DEFAULT_PATTERNS:
        assert f"\n{pattern}\n" in page and f"\n  {pattern}\n" in text
