"""Broken dumps: each is refused in one sentence that names the file, with exit code 2, and nothing is left behind."""

import json
import pickle
import re
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import apscope
from apscope.cli import main
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all


def npz(path, **arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(arrays or {"w": np.ones((2, 3), np.float32), "b": np.ones(4, np.float32)}))


def torch_save(path, value, **options):
    torch = pytest.importorskip("torch")
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value(torch), path, **options)


def good(d, steps=(0, 1), workers=2):
    for s in steps:
        for w in range(workers):
            npz(d / f"step_{s}" / f"rank_{w}.npz")


def cut(path, count=20):
    path.write_bytes(path.read_bytes()[:-count])


def header(path, text, data=b""):
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor(shape=(2,), offsets=(0, 8), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


class Gradient:
    """Something that only a pickle holds."""


# Each makes a broken dump in d.


def nothing(d):
    pass


def only_text(d):
    (d / "log.txt").write_text("loss 1.0")


def empty_file(d):
    good(d)
    (d / "step_0" / "rank_1.npz").write_bytes(b"")


def cut_npz(d):
    good(d)
    cut(d / "step_1" / "rank_0.npz")


def flipped_npz(d):
    good(d)
    path = d / "step_1" / "rank_0.npz"
    data = bytearray(path.read_bytes())
    data[data.index(struct.pack("<f", 1.0))] ^= 1
    path.write_bytes(data)


def npz_without_arrays(d):
    with zipfile.ZipFile(d / "step_0.npz", "w") as archive:
        archive.writestr("readme", "none")


def npz_of_objects(d):
    npz(d / "step_0.npz", w=np.array([{}], dtype=object))


def cut_npy(d):
    np.save(d / "w_step_0.npy", np.ones(100, np.float32))
    cut(d / "w_step_0.npy")


def npy_header_of_code(d):
    text = b"{'descr': __import__('os').name, 'fortran_order': False, 'shape': (1,)}\n"
    (d / "w_step_0.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"0000")


def text_called_npz(d):
    (d / "step_0.npz").write_text("this is a text, and a long one")


def text_called_pt(d):
    (d / "step_0.pt").write_text("this is a text, and a long one")


def pickle_called_pt(d):
    (d / "step_0.pt").write_bytes(pickle.dumps({"w": [1.0]}))


def a_pickle(d):
    (d / "step_0.pkl").write_bytes(pickle.dumps({"w": np.ones(3)}))


def cut_pt(d):
    torch_save(d / "step_0.pt", lambda t: {"w": t.ones(1000)})
    cut(d / "step_0.pt", 1000)


def pt_of_a_class(d):
    torch_save(d / "step_0.pt", lambda t: {"w": t.ones(3), "x": Gradient()})


def pt_of_a_model(d):
    torch_save(d / "step_0.pt", lambda t: t.nn.Linear(2, 3))


def pt_without_tensors(d):
    torch_save(d / "step_0.pt", lambda t: {"loss": 1.0})


def pt_with_a_counter(d):
    torch_save(d / "step_0.pt", lambda t: {"bn.weight": t.ones(3), "bn.num_batches_tracked": t.tensor(7)})


def pt_sparse(d):
    torch_save(d / "step_0.pt", lambda t: {"emb": t.eye(3).to_sparse(), "w": t.ones(2)})


def pt_complex(d):
    torch_save(d / "step_0.pt", lambda t: {"w": t.ones(2, dtype=t.complex64), "b": t.ones(3)})


def torchscript(d):
    torch = pytest.importorskip("torch")
    with zipfile.ZipFile(d / "step_0.pt", "w") as archive:
        archive.writestr("model/constants.pkl", b"")
        archive.writestr("model/code/x.py", "")
    assert torch


def checkpoint(d):
    (d / "step_0").mkdir()
    (d / "step_0" / ".metadata").write_bytes(pickle.dumps({}))


def scaled_without_a_word(d):
    torch_save(d / "step_0.pt", lambda t: {"grads": {"w": t.ones(3), "b": t.ones(2)}, "loss_scale": 1024.0})


def cut_safetensors(d):
    save_file({"w": np.ones(30, np.float32)}, d / "step_0.safetensors")
    cut(d / "step_0.safetensors")


def safetensors_overlap(d):
    header(d / "step_0.safetensors", {"a": tensor(), "b": tensor(offsets=(4, 12))}, b"\0" * 12)


def safetensors_hole(d):
    header(d / "step_0.safetensors", {"a": tensor(), "b": tensor(offsets=(12, 20))}, b"\0" * 20)


def safetensors_twice(d):
    header(d / "step_0.safetensors", b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "a": {}}', b"\0" * 8)


def safetensors_no_json(d):
    header(d / "step_0.safetensors", b'{"a": [1, 2', b"\0" * 8)


def safetensors_wrong_shape(d):
    header(d / "step_0.safetensors", {"a": tensor(shape=(3,))}, b"\0" * 8)


def safetensors_negative_shape(d):
    header(d / "step_0.safetensors", {"a": tensor(shape=(-1, -2))}, b"\0" * 8)


def safetensors_unknown_dtype(d):
    header(d / "step_0.safetensors", {"a": tensor(dtype="F4"), "b": tensor(shape=(3,), offsets=(8, 20))}, b"\0" * 20)


def shard_lost(d):
    save_file({"w": np.ones(3, np.float32)}, d / "step_0-00001-of-00002.safetensors")


def index_alone(d):
    (d / "step_0.safetensors.index.json").write_text('{"weight_map": {}}')


def index_of_another(d):
    for i, name in ((1, "w"), (2, "b")):
        save_file({name: np.ones(3 + i, np.float32)}, d / f"step_0-0000{i}-of-00002.safetensors")
    (d / "step_0.safetensors.index.json").write_text('{"weight_map": {"w": "step_0-00002-of-00002.safetensors", "b": "step_0-00002-of-00002.safetensors"}}')


def cut_hdf5(d):
    h5py = pytest.importorskip("h5py")
    with h5py.File(d / "step_0.h5", "w") as file:
        file["w"] = np.ones(1000, np.float32)
    cut(d / "step_0.h5", 2000)


def hdf5_of_texts(d):
    h5py = pytest.importorskip("h5py")
    with h5py.File(d / "step_0.h5", "w") as file:
        file["w"] = ["a", "bc"]


def broken_zarr(d):
    pytest.importorskip("zarr")
    (d / "step_0.zarr").mkdir()
    (d / "step_0.zarr" / "zarr.json").write_text("{")


def archive(d):
    (d / "step_0.tar.gz").write_bytes(b"\x1f\x8b" + b"0" * 100)


def worker_lost(d):
    good(d, workers=3)
    (d / "step_1" / "rank_1.npz").unlink()


def rank_lost(d):
    good(d, workers=3)
    for s in (0, 1):
        (d / f"step_{s}" / "rank_1.npz").unlink()


def tensor_lost(d):
    good(d)
    npz(d / "step_1" / "rank_1.npz", w=np.ones((2, 3), np.float32))


def shape_differs(d):
    good(d)
    npz(d / "step_1" / "rank_1.npz", w=np.ones((3, 2), np.float32), b=np.ones(4, np.float32))


def two_for_one_place(d):
    good(d)
    save_file({"w": np.ones((2, 3), np.float32)}, d / "step_1" / "rank_1.safetensors")


def stacked(d):
    npz(d / "step_0.npz", w=np.ones((4, 2, 3), np.float32), b=np.ones((4, 5), np.float32))


def stacked_by_step(d):
    for w in range(2):
        npz(d / f"rank_{w}.npz", w=np.ones((6, 2, 3), np.float32), b=np.ones((6, 5), np.float32))


def names_say_nothing(d):
    npz(d / "a.npz")
    npz(d / "b.npz")


def not_fp32(d):
    npz(d / "step_0.npz", w=np.array([0.5, 0.1]), b=np.ones(3, np.float32))


def all_the_same(d):
    good(d)


BROKEN = {
    nothing: "{d} holds no array in a torch, npz, npy, safetensors, HDF5 or zarr file",
    only_text: "holds no array .*; it holds log.txt",
    empty_file: "step_0/rank_1.npz is empty; dump it again",
    cut_npz: "step_1/rank_0.npz is a damaged npz or torch file",
    flipped_npz: "step_1/rank_0.npz.* cannot be read: Bad CRC-32",
    npz_without_arrays: "step_0.npz is an npz file without arrays",
    npz_of_objects: "step_0.npz: array 'w' holds objects, no numbers",
    cut_npy: "w_step_0.npy cannot be read: it has 508 bytes, its header needs 528",
    npy_header_of_code: "w_step_0.npy cannot be read: malformed node",
    text_called_npz: "step_0.npz is no npz file: it begins with b'this is '",
    text_called_pt: "step_0.pt is no pt file: it begins with b'this is '",
    pickle_called_pt: "step_0.pt is a pickle that torch.save did not write; it is not opened",
    a_pickle: "step_0.pkl is a pickle that torch.save did not write; it is not opened",
    cut_pt: "step_0.pt is a damaged npz or torch file",
    pt_of_a_class: "step_0.pt cannot be read: it holds a pickled .*Gradient, which is not opened because that can run code; save plain tensors",
    pt_of_a_model: "step_0.pt cannot be read: it holds a pickled torch.nn.modules.linear.Linear",
    pt_without_tensors: "step_0.pt cannot be read: it holds no array",
    pt_with_a_counter: "step_0.pt: array 'bn.num_batches_tracked' has dtype int64, which is no gradient's; leave it out with --tensors",
    pt_sparse: "step_0.pt: array 'emb' is a sparse_coo tensor; pass --densify",
    pt_complex: "step_0.pt: array 'w' has dtype complex64",
    torchscript: "step_0.pt is a TorchScript program",
    checkpoint: "step_0 cannot be read: it is a torch distributed checkpoint, .* pass --trust-pickle",
    scaled_without_a_word: "step_0.pt holds the loss scale 1024, .*pass --loss-scale recorded",
    cut_safetensors: "step_0.safetensors cannot be read: it has 172 bytes, its header needs 192",
    safetensors_overlap: "step_0.safetensors cannot be read: tensor 'b': its data_offsets .4, 12. must begin at 8",
    safetensors_hole: "step_0.safetensors cannot be read: tensor 'b': its data_offsets .12, 20. must begin at 8",
    safetensors_twice: "step_0.safetensors cannot be read: the key 'a' stands twice",
    safetensors_no_json: "step_0.safetensors cannot be read: Expecting",
    safetensors_wrong_shape: "step_0.safetensors cannot be read: tensor 'a': its shape .3. of F32 needs other data_offsets",
    safetensors_negative_shape: "step_0.safetensors cannot be read: tensor 'a': its shape and data_offsets must be integers, 0 or more",
    safetensors_unknown_dtype: "step_0.safetensors: array 'a' has dtype F4",
    shard_lost: "step_0-00001-of-00002.safetensors is one of 2 parts, and 1 of them",
    index_alone: "step_0.safetensors.index.json is an index of parts that are not beside it",
    index_of_another: "step_0.safetensors.index.json cannot be read: its weight_map has 'w' in step_0-00002-of-00002.safetensors, but step_0-00001",
    cut_hdf5: "step_0.h5 cannot be read: Unable to",
    hdf5_of_texts: "step_0.h5: array 'w' holds objects, no numbers",
    broken_zarr: "step_0.zarr cannot be read: Expecting",
    archive: "step_0.tar.gz is an archive; unpack it first",
    worker_lost: "2 of 12 combinations are missing: .step 1, worker 1, w.*; take complete steps, of which there are 1, with --steps 0:1",
    rank_lost: "rank_2.npz: array 'w' is of a worker above 1, and no array is of worker 1",
    tensor_lost: "1 of 8 combinations are missing: .step 1, worker 1, b.*or leave tensors out with --tensors",
    shape_differs: "rank_1.npz: array 'w' is worker 1 at step 1: tensor 'w' has shape .3, 2., in .*rank_0.npz it is .2, 3.",
    two_for_one_place: "rank_1.npz: array 'w' and .*rank_1.safetensors: array 'w' are both step 1, worker 1, tensor 'w'; give --pattern",
    stacked: "step_0.npz: array 'w' has shape .4, 2, 3., .*so they look stacked; pass --worker-axis N .*--workers 1 if",
    stacked_by_step: "rank_0.npz: array 'w' has shape .6, 2, 3., .*no name says a step, so they look stacked; pass --step-axis N",
    names_say_nothing: "no default pattern fits all of the 4 arrays, the first being 'a/w'",
    not_fp32: "step_0.npz: array 'w' has dtype float64 and its element 1 .* is no fp32 value; pass --round-to-fp32",
    all_the_same: "step_0/rank_0.npz: all 2 workers have the same gradients at step 0, as after an all-reduce; pass --stage reduced",
}


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
    assert re.search(BROKEN[make].format(d=re.escape(str(dump))) if "{d}" in BROKEN[make] else BROKEN[make], err), err
    assert str(dump) in err or "array" in err
    assert sorted(tmp_path.rglob("*")) == before, "something is left"


#: Arguments that are wrong whatever the dump.
ARGUMENTS = [
    (["--worker-axis", "-1"], "worker_axis is '-1'; it must be an integer, 0 or more, or none"),
    (["--worker-axis", "x"], "worker_axis is 'x'; it must be an integer, 0 or more, or none"),
    (["--worker-axis", "0"], "worker_axis is 0, but the worker stands in the names already, as in 'step_0/rank_0/w'; give only one of them"),
    (["--workers", "0"], "workers is 0; it must be at least 1"),
    (["--workers", "3"], "has 2 workers, not 3; give --worker-axis or --pattern so that all are found, or another --workers"),
    (["--steps", "3"], "steps '3' could be one step or a number of them; give 3:4 for step 3, or a range A:B"),
    (["--steps", "7:"], "has no step in the range that --steps gives; it has steps 0 to 1"),
    (["--sample", "0"], "sample is 0; it must be above 0 and at most 1"),
    (["--loss-scale", "big"], "loss_scale is 'big'; it must be a number above 0, or recorded"),
    (["--loss-scale", "recorded"], "loss_scale is 'recorded', but the files of step 0 hold no loss_scale; give the number"),
    (["--accumulation", "0"], "accumulation is 0; it must be at least 1"),
    (["--raw-dtype", "bf16"], "raw_dtype is 'bf16'; it must be one of bfloat16, float8_e4m3fn"),
    (["--order", "/nowhere"], "/nowhere cannot be read as a list of names: No such file or directory"),
    (["--tensors", "("], "tensors '(' is no regular expression"),
]


@pytest.mark.parametrize("words, sentence", ARGUMENTS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_arguments_are_one_sentence(tmp_path, capsys, words, sentence):
    good(tmp_path / "dump")
    assert main(["convert", str(tmp_path / "dump"), str(tmp_path / "run"), "--reduction", "mean", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["dump"]


def test_an_order_names_every_tensor_once(tmp_path, capsys):
    good(tmp_path / "dump")
    for text, sentence in (("w\nb\nw\n", "has 'w' twice"), ("w\n", "lacks the tensor 'b'")):
        (tmp_path / "order").write_text(text)
        assert main(["convert", str(tmp_path / "dump"), str(tmp_path / "run"), "--reduction", "mean", "--order", str(tmp_path / "order")]) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, shape", [(["--worker-axis", "0"], (2, 3)), (["--workers", "1"], (4, 2, 3)), (["--worker-axis", "none"], (4, 2, 3)), (["--worker-axis", "1"], None)]
)
def test_what_is_stacked_is_as_the_caller_says(tmp_path, capsys, words, shape):
    stacked(tmp_path)
    code = main(["convert", str(tmp_path), str(tmp_path / "run"), "--reduction", "mean", "--stage", "local", *words])
    if shape is None:
        assert code == 2 and "has 5 workers on axis 1, but" in capsys.readouterr().err
    else:
        trace = apscope.open_trace(tmp_path / "run")
        assert trace.shapes["w"] == shape and trace.workers == (4 if len(shape) == 2 else 1)


def test_missing_libraries_are_named(tmp_path, monkeypatch, capsys):
    pytest.importorskip("h5py")
    pytest.importorskip("zarr")
    dumps = Path(__file__).parents[1] / "dumps" / "four_workers"
    for name, path in (("h5py", "hdf5/gradients.h5"), ("zarr", "gradients.zarr")):
        monkeypatch.setitem(sys.modules, name, None)
        assert main(["convert", str(dumps / path), str(tmp_path / "run"), "--reduction", "mean"]) == 2
        assert f"and {name} is not installed; pip install 'apscope[dumps]'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert main(["convert", "s3://bucket/dump", str(tmp_path / "run"), "--reduction", "mean"]) == 2
    assert "s3://bucket/dump needs fsspec, which is not installed" in capsys.readouterr().err


def test_a_python_without_torch_is_told_of(tmp_path, capsys):
    dumps = Path(__file__).parents[1] / "dumps" / "four_workers"
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec python3 -S -I "$@"\n')
    bare.chmod(0o755)
    for python, sentence in ((bare, "it is torch's, and torch is not installed here"), ("/nowhere/python", "the interpreter /nowhere/python cannot be started")):
        words = ["convert", str(dumps / "pt"), str(tmp_path / "run"), "--reduction", "mean", "--python", str(python)]
        assert main(words) == 2
        assert sentence in capsys.readouterr().err
