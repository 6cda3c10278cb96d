"""Dumps that plain torch, NumPy, safetensors, h5py and zarr wrote (tests/dumps): every one becomes
the same trace."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope.cli import main
from apscope.record import convert
from tests.python.argv import command
from tests.python.converted import converted, refused
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all

DUMPS = Path(__file__).parents[2] / "dumps"
FOUR, TWO = DUMPS / "four_workers", DUMPS / "two_processes"
LAYERS = ["stem.weight", "blocks.2.weight", "blocks.10.weight", "head.weight", "head.bias"]
BY_NAME = ["blocks.2.weight", "blocks.10.weight", "head.bias", "head.weight", "stem.weight"]
AXES = {"worker_axis": 1, "step_axis": 0}
#: Dump, options, files, libraries; whether the files say the order of layers.
KINDS = {
    "npz": ({}, 8, (), True),
    "stacked": ({"worker_axis": 0}, 2, (), True),
    "everything.npz": (AXES, 1, (), True),
    "npy": (AXES, 5, (), False),
    "safetensors": ({}, 8, (), False),
    "sharded": ({}, 8, (), True),
    "pt": ({}, 8, ("torch",), True),
    "pt_ddp": ({}, 8, ("torch",), True),
    "pt_nested.pt": ({}, 1, ("torch",), True),
    "hdf5/gradients.h5": ({}, 1, ("h5py",), True),
    "gradients.zarr": (AXES, 1, ("zarr",), False),
}


def manifest(trace):
    """Everything that does not differ between dumps; it contains the digest of every file."""
    found = json.loads((trace.path / "manifest.json").read_text())
    for step in found["steps"]:
        step.pop("loss", None), step.pop("learning_rate", None)
    return {key: value for key, value in found.items() if key not in ("name", "metadata")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return converted(FOUR / "npz", tmp_path_factory.mktemp("expected") / "run")


def test_the_values_are_those_of_the_files(expected):
    assert expected.tensors == tuple(LAYERS) and expected.steps == (0, 1) and expected.workers == 4
    for step in (0, 1):
        for worker in range(4):
            with np.load(FOUR / "npz" / f"step_{step}" / f"worker_{worker}.npz") as file:
                for name in LAYERS:
                    assert np.array_equal(expected.read(step, name, worker), file[name])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_dump_becomes_the_same_trace(tmp_path, expected, kind):
    options, files, libraries, ordered = KINDS[kind]
    for library in libraries:
        pytest.importorskip(library)
    order = {} if ordered else {"order": FOUR / "layers.txt"}
    result = convert(FOUR / kind, tmp_path / "run", reduction="mean", **options, **order)
    origin = "the files" if ordered else "the list given"
    assert (
        result.understood
        == f"{files} file{'s' * (files > 1)}: 2 steps x 4 workers, 5 tensors, order from {origin}"
    )
    assert manifest(result.trace) == manifest(expected)
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


@pytest.mark.parametrize("kind", [kind for kind, (*_, ordered) in KINDS.items() if not ordered])
def test_without_an_order_the_names_give_one_and_hybrids_warn(tmp_path, kind, capsys):
    options, _, libraries, _ = KINDS[kind]
    for library in libraries:
        pytest.importorskip(library)
    result = convert(FOUR / kind, tmp_path / "run", reduction="mean", **options)
    assert result.understood.endswith(
        "order from the names, which is a guess; --order gives another"
    )
    assert result.trace.tensors == tuple(BY_NAME)  # 2 before 10
    for end, layer in (("first", "blocks.2.weight"), ("last", "stem.weight")):
        with pytest.warns(
            UserWarning,
            match=f"so '{end}' in hybrid.* is {layer}, by the order of the names; convert again "
            "with --order FILE",
        ):
            apscope.replay(result.trace, f"hybrid({end}=none:fp16;else=aps:e4m3)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apscope.replay(result.trace, "hybrid(name:stem=none:fp16;else=aps:e4m3)")


def test_an_alphabetical_order_that_is_not_natural_is_a_guess(tmp_path):
    names = ["layers.0.w", "layers.10.w", "layers.2.w"]
    for order, origin in (
        (names, "the names, which is a guess"),
        (names[::-1], "the files"),
        (names[::2], "the files"),
    ):
        np.savez(
            tmp_path / "step_0.npz",
            **{name: np.ones(2 + i, np.float32) for i, name in enumerate(order)},
        )
        result = convert(tmp_path / "step_0.npz", tmp_path / "run", reduction="mean", dry_run=True)
        assert f"order from {origin}" in result.understood
    np.savez(
        tmp_path / "step_0.npz",
        **{name: np.ones(2 + i, np.float32) for i, name in enumerate(names)},
    )
    trace = converted(tmp_path / "step_0.npz", tmp_path / "run")
    assert (
        trace.tensors == ("layers.0.w", "layers.2.w", "layers.10.w")
        and trace.manifest.metadata["tensor_order"] == "the names"
    )


def test_a_hybrid_does_not_warn_where_the_files_have_an_order(expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apscope.replay(expected, "hybrid(first=none:fp16;else=aps:e4m3)")


def test_two_commands_to_the_report(tmp_path, capsys):
    pytest.importorskip("torch")
    assert main(["convert", str(FOUR / "pt"), str(tmp_path / "run"), "--reduction", "mean"]) == 0
    assert capsys.readouterr().out.startswith(
        "8 files: 2 steps x 4 workers, 5 tensors, order from the files\n"
    )
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")]) == 0
    assert "blocks.10.weight" in (tmp_path / "report.html").read_text()


def test_a_dry_run_says_what_it_understands_and_writes_nothing(tmp_path, capsys):
    assert command("convert {} {} --reduction mean --dry-run", FOUR / "npz", tmp_path / "run") == 0
    assert capsys.readouterr().out == (
        "8 files: 2 steps x 4 workers, 5 tensors, order from the files\n"
        "assumed: gradients before the all-reduce (--stage), no loss scale in them (--loss-scale), "
        "one backward pass per step (--accumulation)\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_loss_and_learning_rate_beside_the_gradients_are_recorded(tmp_path):
    pytest.importorskip("torch")
    trace = converted(FOUR / "pt_ddp", tmp_path / "run")
    assert [(step.loss, step.learning_rate, step.loss_scale) for step in trace.manifest.steps] == [
        (1.0, 0.1, None)
    ] * 2


def test_a_distributed_checkpoint(tmp_path):
    pytest.importorskip("torch")
    refused(r"dcp/step_0 .*a pickle that runs code.*--trust-pickle", TWO / "dcp")
    result = convert(TWO / "dcp", tmp_path / "run", reduction="mean", trust_pickle=True)
    assert (
        result.trace.tensors == ("0.weight", "0.bias", "2.weight", "2.bias")
        and result.trace.workers == 2
    )
    assert (
        "a torch distributed checkpoint stores each tensor name once, whatever the number of ranks"
        in result.notes
    )
    apart = convert(
        TWO,
        tmp_path / "own",
        reduction="mean",
        pattern=r"own_step_(?P<step>\d+)_rank_(?P<worker>\d+)",
    )
    # None was opened: nothing had to be trusted.
    assert apart.ignored == ("dcp/step_0", "dcp/step_1", "reduced_step_0", "reduced_step_1")
    assert "4 files that the pattern does not match left out, the first dcp/step_0" in apart.notes
    ours, theirs = manifest(result.trace), manifest(apart.trace)
    assert [t["name"] for t in theirs["tensors"]] == [t["name"] for t in ours["tensors"]]
    for step in (0, 1):
        for name in result.trace.tensors:
            for worker in range(2):
                assert np.array_equal(
                    result.trace.read(step, name, worker), apart.trace.read(step, name, worker)
                )


def test_one_workers_gradients_after_the_reduction(tmp_path):
    pytest.importorskip("torch")
    pattern = r"reduced_step_(?P<step>\d+)"
    trace = converted(TWO, tmp_path / "run", pattern=pattern, stage="reduced")
    assert trace.workers == 1 and trace.manifest.stage == "reduced"


@pytest.mark.parametrize("script", ["four_workers", "two_processes"])
def test_the_scripts_know_nothing_of_the_package_and_still_run(tmp_path, script):
    for library in ("torch", "h5py", "zarr"):
        pytest.importorskip(library)
    source = (DUMPS / f"{script}.py").read_text()
    assert "apscope" not in source
    subprocess.run(
        [sys.executable, DUMPS / f"{script}.py", tmp_path / script],
        check=True,
        capture_output=True,
        timeout=300,
    )
    files = [
        sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
        for root in (tmp_path / script, DUMPS / script)
    ]
    assert files[0] == files[1]


# ---- dtypes -----------------------------------------------------------------------------------

VALUES = np.array([[0.5, -2.0, 0.0], [448.0, 0.015625, -1.0]])
DTYPES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float64": "F32",
    "float8_e4m3fn": "F16",
    "float8_e5m2": "F16",
}


def stored(trace, name):
    file = apscope._core.SafetensorsFile.open(
        trace.path / "step_00000000" / "worker_0000.safetensors"
    )
    return file.dtype(name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_keep_their_values_exactly(tmp_path, dtype):
    torch = pytest.importorskip("torch")
    own = VALUES.astype(getattr(ml_dtypes, dtype, None) or dtype)
    folders = [tmp_path / "pt", tmp_path / "npy", tmp_path / "safetensors"]
    for folder in folders:
        folder.mkdir()
    for worker in range(2):
        tensor = torch.tensor(VALUES * (1 + worker)).to(getattr(torch, dtype))
        torch.save({"w": tensor}, folders[0] / f"step0_rank{worker}.pt")
        np.save(
            folders[1] / f"w_step0_rank{worker}.npy",
            (own.astype(np.float64) * (1 + worker)).astype(own.dtype),
        )
        from safetensors.torch import save_file as save_torch

        save_torch({"w": tensor}, folders[2] / f"step0_rank{worker}.safetensors")
    for folder in folders:
        raw = (
            {"raw_dtype": dtype}
            if folder.name == "npy" and dtype.startswith(("bf", "float8"))
            else {}
        )
        trace = converted(folder, tmp_path / f"run-{folder.name}", **raw)
        assert stored(trace, "w") == DTYPES[dtype]
        assert np.array_equal(trace.read(0, "w", 0), own.astype(np.float32))


def test_bytes_without_a_type_are_asked_about(tmp_path):
    np.savez(
        tmp_path / "step_0.npz", a=np.ones(3, ml_dtypes.bfloat16), b=np.ones(4, ml_dtypes.bfloat16)
    )
    refused(
        r"array 'a' has values of 2 bytes without a type, as NumPy writes bfloat16 and fp8; "
        r"pass --raw-dtype",
        tmp_path,
    )
    assert converted(tmp_path, tmp_path / "run", raw_dtype="bfloat16").read(0, "a").tolist() == [
        1,
        1,
        1,
    ]


def test_sparse_gradients_are_named_or_filled_up(tmp_path):
    torch = pytest.importorskip("torch")
    sparse = torch.sparse_coo_tensor([[0, 2], [1, 0]], [2.0, -3.0], (3, 2), check_invariants=True)
    torch.save({"emb.weight": sparse, "w": torch.ones(4)}, tmp_path / "step_1.pt")
    refused(r"step_1.pt: array 'emb.weight' is a sparse_coo tensor; pass --densify", tmp_path)
    assert converted(tmp_path, tmp_path / "run", densify=True).read(1, "emb.weight").tolist() == [
        [0, 2],
        [0, 0],
        [-3, 0],
    ]


# ---- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    """
        {t}_step{s}_rank{w} {t}.rank{w}.step{s} step_{s}/{t}-rank{w} rank_{w}/{t}_iter_{s:06d}
        step_{s}/rank_{w}/{t}
    """.split(),
)
def test_one_array_a_file(tmp_path, name):
    for s in (1, 12):
        for w in range(2):
            for t in ("fc.weight", "conv.weight"):
                path = tmp_path / "dump" / f"{name.format(s=s, w=w, t=t)}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, np.full(2 + len(t), s + w, np.float32))
    trace = convert(tmp_path / "dump", tmp_path / "run", reduction="sum").trace
    assert (
        trace.steps == (1, 12)
        and trace.workers == 2
        and trace.tensors == ("conv.weight", "fc.weight")
    )


@pytest.mark.parametrize("name", ["rank_{w}/{t}_iter_{s:06d}.pt", "rank_{w}/iter_{s:06d}/{t}.pt"])
def test_the_tensor_dumps_of_transformer_engine(tmp_path, name):
    torch = pytest.importorskip("torch")
    for s in (0, 100):
        for w in range(2):
            for t in ("decoder_layers_0_fc1_wgrad", "decoder_layers_1_fc1_wgrad"):
                path = tmp_path / "tensor_dumps" / name.format(s=s, w=w, t=t)
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.save(
                    {"high_precision": torch.full((2, len(t) + s), 1.0 + w)[:, :3].clone()}, path
                )
    result = convert(tmp_path, tmp_path / "run", reduction="mean", worker_axis="none")
    assert result.trace.steps == (0, 100) and result.trace.workers == 2
    assert result.trace.tensors == ("decoder_layers_0_fc1_wgrad", "decoder_layers_1_fc1_wgrad")


def test_wrappers_of_modules_leave_the_names(tmp_path):
    names = [
        "module._orig_mod.fc.weight",
        "module.layer._fsdp_wrapped_module.w",
        "module._checkpoint_wrapped_module.b",
    ]
    np.savez(
        tmp_path / "step_0.npz",
        **{f"grads/{name}.grad": np.ones(2 + i, np.float32) for i, name in enumerate(names)},
    )
    for i, pattern in enumerate(
        (None, r"step_(?P<step>\d+)", r"step_(?P<step>\d+)/(?P<tensor>.+)")
    ):
        trace = converted(tmp_path, tmp_path / f"run{i}", pattern=pattern)
        assert trace.tensors == ("fc.weight", "layer.w", "b")


def test_ranks_from_1_are_workers_from_0(tmp_path):
    (tmp_path / "dump").mkdir()
    for rank in (1, 2, 3):
        np.savez(
            tmp_path / "dump" / f"step_0_rank_{rank}.npz",
            w=np.full(3, rank, np.float32),
            b=np.ones(2, np.float32),
        )
    result = convert(tmp_path / "dump", tmp_path / "run", reduction="mean")
    assert (
        result.understood == "3 files: 1 step x 3 workers, 2 tensors, order from the "
        "files, ranks 1 to 3 as workers 0 to 2"
    )
    assert [result.trace.read(0, "w", worker)[0] for worker in range(3)] == [1, 2, 3]
    (tmp_path / "dump" / "step_0_rank_2.npz").unlink()
    refused(
        "no array is of worker 0; ranks count from 0, or all from 1, without gaps: find the "
        "missing files",
        tmp_path / "dump",
    )
