"""More than forty kinds of broken dumps: how each is made, and its error message."""

import json
import pickle
import struct
import warnings
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file


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


def flip(path):
    data = bytearray(path.read_bytes())
    data[data.index(struct.pack("<f", 1.0))] ^= 1  # of a value
    path.write_bytes(data)


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
    flip(d / "step_1" / "rank_0.npz")


def npz_without_arrays(d):
    with zipfile.ZipFile(d / "step_0.npz", "w") as archive:
        archive.writestr("readme", "none")


def npz_of_two_under_one_name(d):
    good(d)
    with warnings.catch_warnings(), zipfile.ZipFile(d / "step_1" / "rank_0.npz", "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("w.npy", archive.read("w.npy"))


def npz_of_objects(d):
    npz(d / "step_0.npz", w=np.array([{}], dtype=object))


def cut_npy(d):
    np.save(d / "w_step_0.npy", np.ones(100, np.float32))
    cut(d / "w_step_0.npy")


def npy_header_of_code(d):
    text = b"{'descr': __import__('os').name, 'fortran_order': False, 'shape': (1,)}\n"
    (d / "w_step_0.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"0000"
    )


def text_called_npz(d):
    (d / "step_0.npz").write_text("this is a text, and a long one")


def text_called_pt(d):
    (d / "step_0.pt").write_text("this is a text, and a long one")


def pickle_called_pt(d):
    (d / "step_0.pt").write_bytes(pickle.dumps({"w": [1.0]}))


def a_pickle(d):
    (d / "step_0.pkl").write_bytes(pickle.dumps({"w": np.ones(3)}))


def flipped_pt(d):
    torch_save(d / "step_0.pt", lambda t: {"w": t.ones(1000), "b": t.zeros(3)})
    flip(d / "step_0.pt")


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
    torch_save(
        d / "step_0.pt", lambda t: {"bn.weight": t.ones(3), "bn.num_batches_tracked": t.tensor(7)}
    )


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
    torch_save(
        d / "step_0.pt", lambda t: {"grads": {"w": t.ones(3), "b": t.ones(2)}, "loss_scale": 1024.0}
    )


def cut_safetensors(d):
    save_file({"w": np.ones(30, np.float32)}, d / "step_0.safetensors")
    cut(d / "step_0.safetensors")


def safetensors_overlap(d):
    header(d / "step_0.safetensors", {"a": tensor(), "b": tensor(offsets=(4, 12))}, b"\0" * 12)


def safetensors_hole(d):
    header(d / "step_0.safetensors", {"a": tensor(), "b": tensor(offsets=(12, 20))}, b"\0" * 20)


def safetensors_twice(d):
    header(
        d / "step_0.safetensors",
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "a": {}}',
        b"\0" * 8,
    )


def safetensors_no_json(d):
    header(d / "step_0.safetensors", b'{"a": [1, 2', b"\0" * 8)


def safetensors_wrong_shape(d):
    header(d / "step_0.safetensors", {"a": tensor(shape=(3,))}, b"\0" * 8)


def safetensors_negative_shape(d):
    header(d / "step_0.safetensors", {"a": tensor(shape=(-1, -2))}, b"\0" * 8)


def safetensors_dtype_of_number(d):
    header(d / "step_0.safetensors", {"a": tensor(dtype=5)}, b"\0" * 8)


def safetensors_shape_of_number(d):
    header(
        d / "step_0.safetensors",
        {"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}},
        b"\0" * 8,
    )


def index_of_a_list(d):
    save_file({"w": np.ones(3, np.float32)}, d / "step_0-00001-of-00001.safetensors")
    (d / "step_0.safetensors.index.json").write_text("[]")


def pt_of_two_under_one_name(d):
    torch_save(d / "step_0.pt", lambda t: {"a/b": t.ones(3), "a": {"b": t.zeros(3)}})


def cut_old_pt(d):
    torch_save(d / "step_0.pt", lambda t: {"w": t.ones(1000)}, _use_new_zipfile_serialization=False)
    cut(d / "step_0.pt", 4100)


def safetensors_unknown_dtype(d):
    header(
        d / "step_0.safetensors",
        {"a": tensor(dtype="F6_E2M3"), "b": tensor(shape=(3,), offsets=(8, 20))},
        b"\0" * 20,
    )


def shard_lost(d):
    save_file({"w": np.ones(3, np.float32)}, d / "step_0-00001-of-00002.safetensors")


def index_alone(d):
    (d / "step_0.safetensors.index.json").write_text('{"weight_map": {}}')


def index_of_another(d):
    for i, name in ((1, "w"), (2, "b")):
        save_file({name: np.ones(3 + i, np.float32)}, d / f"step_0-0000{i}-of-00002.safetensors")
    (d / "step_0.safetensors.index.json").write_text(
        '{"weight_map": {"w": "step_0-00002-of-00002.safetensors", "b": '
        '"step_0-00002-of-00002.safetensors"}}'
    )


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


def dangling_link(d):
    good(d)
    (d / "step_1" / "rank_2.npz").symlink_to("../elsewhere.npz")


def dangling_folder(d):
    good(d)
    (d / "step_2").symlink_to("/nowhere/step_2")


def dangling_chunk(d):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(d / "w_step_0.zarr"), data=np.ones((8, 2), np.float32), chunks=(4, 2))
    chunk = next(
        path
        for path in sorted((d / "w_step_0.zarr").rglob("*"))
        if path.is_file() and not path.name.endswith((".json", ".zarray", ".zattrs"))
    )
    chunk.unlink()
    chunk.symlink_to("/nowhere/chunk")


def step_of_65_bits(d):
    good(d)
    good(d, steps=(2**63 - 1, 2**63))


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
    nothing: "{d} has no array in a torch, npz, npy, safetensors, HDF5 or zarr file",
    only_text: "has no array .*; it has log.txt",
    empty_file: "step_0/rank_1.npz is empty; dump it again",
    cut_npz: "step_1/rank_0.npz is a damaged npz or torch file",
    flipped_npz: "step_1/rank_0.npz.* cannot be read: Bad CRC-32 .*; it may be damaged: dump it "
    "again or remove it$",
    npz_without_arrays: "step_0.npz is an npz file without arrays",
    npz_of_two_under_one_name: "step_1/rank_0.npz cannot be read: it has two arrays with the name "
    "'w'; save them under other keys",
    npz_of_objects: "step_0.npz: array 'w' contains objects, not numbers",
    cut_npy: "w_step_0.npy cannot be read: it has 508 bytes, its header needs 528; it may be "
    "damaged: dump it again or remove it$",
    npy_header_of_code: "w_step_0.npy cannot be read: its header b.* is not a dict of plain "
    "values; it may be damaged",
    text_called_npz: "step_0.npz is not a valid npz file: it begins with b'this is '",
    text_called_pt: "step_0.pt is not a valid pt file: it begins with b'this is '",
    pickle_called_pt: "step_0.pt is a pickle that torch.save did not write; it is not opened",
    a_pickle: "step_0.pkl is a pickle that torch.save did not write; it is not opened",
    flipped_pt: r"step_0.pt.* cannot be read: its record step_0/data/0 is damaged: the CRC-32 "
    r"differs; dump it again$",
    cut_pt: "step_0.pt is a damaged npz or torch file",
    pt_of_a_class: "step_0.pt cannot be read: it contains a pickled .*Gradient, which is not "
    "opened because that can run code; save plain tensors",
    pt_of_a_model: "step_0.pt cannot be read: it contains a pickled torch.nn.modules.linear.Linear",
    pt_without_tensors: "step_0.pt cannot be read: it has no array",
    pt_with_a_counter: "step_0.pt: array 'bn.num_batches_tracked' has dtype int64, which is not a "
    "gradient's; leave it out with --tensors",
    pt_sparse: "step_0.pt: array 'emb' is a sparse_coo tensor; pass --densify",
    pt_complex: "step_0.pt: array 'w' has dtype complex64",
    torchscript: "step_0.pt is a TorchScript program",
    checkpoint: "step_0 cannot be read: it is a torch distributed checkpoint, .* pass "
    "--trust-pickle",
    scaled_without_a_word: "step_0.pt has the loss scale 1024, .*pass --loss-scale recorded",
    cut_safetensors: "step_0.safetensors cannot be read: it has 172 bytes, its header needs 192; "
    "it may be damaged: dump it again or remove it$",
    safetensors_overlap: "step_0.safetensors cannot be read: tensor 'b': its data_offsets .4, 12. "
    "must begin at 8",
    safetensors_hole: "step_0.safetensors cannot be read: tensor 'b': its data_offsets .12, 20. "
    "must begin at 8",
    safetensors_twice: "step_0.safetensors cannot be read: the key 'a' occurs twice",
    safetensors_no_json: "step_0.safetensors cannot be read: its JSON is damaged",
    safetensors_wrong_shape: "step_0.safetensors cannot be read: tensor 'a': its shape .3. of F32 "
    "needs other data_offsets",
    safetensors_negative_shape: "step_0.safetensors cannot be read: tensor 'a': its shape and "
    "data_offsets must be integers, 0 or more",
    safetensors_dtype_of_number: "step_0.safetensors cannot be read: tensor 'a' has the dtype 5, "
    "which must be a word such as 'F32'",
    safetensors_shape_of_number: "step_0.safetensors cannot be read: tensor 'a': its shape and "
    "data_offsets must be lists of integers",
    index_of_a_list: "step_0.safetensors.index.json cannot be read: its weight_map must be an "
    "object of file names",
    pt_of_two_under_one_name: "step_0.pt cannot be read: it has two arrays with the name 'a/b'",
    cut_old_pt: "step_0.pt cannot be read: torch cannot read it: .*dump it again",
    safetensors_unknown_dtype: "step_0.safetensors: array 'a' has dtype F6_E2M3",
    shard_lost: "step_0-00001-of-00002.safetensors is one of 2 parts, and 1 of them",
    index_alone: "step_0.safetensors.index.json is an index of parts that are not in its folder",
    index_of_another: "step_0.safetensors.index.json cannot be read: its weight_map has 'w' in "
    "step_0-00002-of-00002.safetensors, but it is in step_0-00001",
    cut_hdf5: "step_0.h5 cannot be read: Unable to.*; it may be "
    "damaged: dump it again or remove it$",
    hdf5_of_texts: "step_0.h5: array 'w' contains objects, not numbers",
    broken_zarr: "step_0.zarr cannot be read: Expecting.*; it may be "
    "damaged: dump it again or remove it$",
    archive: "step_0.tar.gz is an archive; unpack it first",
    worker_lost: "2 of 12 combinations are missing: .step 1, worker 1, w.*; select the 1 complete step "
    "with --steps 0:1",
    rank_lost: "rank_2.npz: array 'w' is of a worker above 1, and no array is of worker 1",
    tensor_lost: "1 of 8 combinations are missing: .step 1, worker 1, "
    "b.*or leave tensors out with --tensors",
    shape_differs: "rank_1.npz: array 'w' is worker 1 at step 1: tensor 'w' has shape .3, 2., in "
    ".*rank_0.npz it is .2, 3.; leave it out with --tensors",
    two_for_one_place: "rank_1.npz: array 'w' and .*rank_1.safetensors: array 'w' are both step 1, "
    "worker 1, tensor 'w'; give --pattern",
    dangling_link: "{d}/step_1/rank_2.npz is a link to ../elsewhere.npz, which does not exist; "
    "restore it, or remove the link",
    dangling_folder: "{d}/step_2 is a link to /nowhere/step_2, which does not exist",
    dangling_chunk: "{d}/w_step_0.zarr/.* is a link to /nowhere/chunk, which does not exist",
    step_of_65_bits: "step_9223372036854775808/rank_0.npz: array 'w' is of step "
    "9223372036854775808, but a step's number must be below 2.63",
    stacked: "step_0.npz: array 'w' has shape .4, 2, 3., .*so they look stacked; pass "
    "--worker-axis N .*--workers 1 if",
    stacked_by_step: "rank_0.npz: array 'w' has shape .6, 2, 3., .*no name contains a step, so "
    "they look stacked; pass --step-axis N",
    names_say_nothing: "no default pattern matches all of 4 arrays; the first is 'a/w'",
    not_fp32: "step_0.npz: array 'w' has dtype float64 and its element 1 .* is not an fp32 value; "
    "pass --round-to-fp32",
    all_the_same: "step_0/rank_0.npz: all 2 workers have the same gradients at step 0, as after an "
    "all-reduce; pass --stage reduced",
}
