"""Types of arrays in dumps: packed FP4, DTensors, meta tensors, named npy headers, raw types."""

import json
import struct
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from apscope import open_trace
from tests.python.argv import command
from tests.python.converted import converted, refused
from tests.python.processes import run_ranks
from tests.python.torch_process import one_process_with_torch  # noqa: F401  # a fixture for all

# Codes 0 to 15 of e2m1fn: sign, two bits of exponent with bias 1, one of mantissa.
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
CODES = np.arange(16, dtype=np.uint8).reshape(2, 8)
PACKED = CODES[:, ::2] | CODES[:, 1::2] << 4  # the low half is the first of the two


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_packed_fp4_of_torch_is_twice_as_wide(tmp_path, kind, axis):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no packed fp4")
    tensor = torch.tensor(PACKED).view(torch.float4_e2m1fn_x2)
    if kind == "pt":
        torch.save({"w": tensor}, tmp_path / "step_0.pt")
    else:
        from safetensors.torch import save_file

        save_file({"w": tensor}, tmp_path / "step_0.safetensors")
    options = {"workers": 1} if axis is None else {"worker_axis": axis}
    trace = converted(tmp_path, tmp_path / "run", stage="local", **options)
    expected = np.array(FP4, np.float32).reshape(2, 8)
    if axis is None:
        found = trace.read(0, "w")
        assert np.array_equal(found, expected) and np.signbit(found[1, 0])
    else:
        assert trace.workers == expected.shape[axis]
        for worker in range(trace.workers):
            assert np.array_equal(trace.read(0, "w", worker), expected.take(worker, axis))


def test_an_odd_number_of_packed_values_per_row(tmp_path):
    header = {"w": {"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]}}
    text = json.dumps(header).encode()
    (tmp_path / "step_0.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + bytes([0x21, 0x43, 0x65])
    )
    trace = converted(tmp_path, tmp_path / "run", worker_axis=0)
    assert [trace.read(0, "w", i).tolist() for i in range(2)] == [[0.5, 1, 1.5], [2, 3, 4]]


MAKE_DTENSORS = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)  # nothing is sent
mesh, t = init_device_mesh("cpu", (2,)), torch.arange(12.0).reshape(4, 3)
for name, local, placement in (
    ("shard", t.chunk(2)[rank].clone(), Shard(0)), ("copy", t, Replicate()), ("part", t, Partial())
):
    tensor = DTensor.from_local(local, mesh, [placement], run_check=False)
    torch.save({"w": tensor}, f"{folder}/{name}_rank{rank}.pt")
"""


def test_dtensors_are_read_or_called_shards(tmp_path):
    """The finding: all of them were called damaged."""
    pytest.importorskip("torch.distributed.tensor")
    run_ranks(MAKE_DTENSORS, tmp_path)
    for name, words in (
        (
            "shard",
            r"shard_rank0.pt: array 'w' is the shard \[2, 3\] of a DTensor of shape \[4, 3\], one "
            r"of 2 processes'; save grad.full_tensor\(\)$",
        ),
        ("part", r"is a DTensor of partial sums, one of 2 processes'; save grad.full_tensor\(\)$"),
    ):
        refused(words, tmp_path, pattern=rf"{name}_rank(?P<worker>\d)")
    trace = converted(
        tmp_path,
        tmp_path / "run",
        pattern=r"copy_rank(?P<worker>\d)",
        stage="reduced",
        step_axis="none",
    )
    assert trace.read(0, "w", 1).ravel().tolist() == list(range(12))


def test_a_meta_tensor_is_called_so_and_can_be_left_out(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.empty(4, 3, device="meta"), "b": torch.ones(2)}, tmp_path / "step_0.pt")
    refused("step_0.pt: array 'w' is a tensor on the meta device, which has a shape", tmp_path)
    options = {"reduction": "mean", "tensors": "b", "workers": 1}
    assert converted(tmp_path, tmp_path / "run", **options).tensors == ("b",)


def npy(name, values):
    text = f"{{'descr': '{name}', 'fortran_order': False, 'shape': {values.shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + values.tobytes()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_an_npy_header_that_names_its_type_is_read(tmp_path, name):
    """The finding: the name bfloat16 was called damaged.

    A process without ml_dtypes, because NumPy knows the name once that is imported.
    """
    values = np.array([0.5, -2, 6, 0], getattr(ml_dtypes, name))
    (tmp_path / "w_step0.npy").write_bytes(npy(name, values))
    words = [tmp_path / "w_step0.npy", tmp_path / "run", "--reduction", "mean", "--workers", "1"]
    program = (
        "import sys; sys.modules['ml_dtypes'] = None; from apscope.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    subprocess.run([sys.executable, "-c", program, "convert", *words], check=True)
    assert open_trace(tmp_path / "run").read(0, "w").tolist() == [0.5, -2, 6, 0]


def test_raw_types_by_array(tmp_path, capsys):
    """The finding: there was one type for a whole archive."""
    values = [0.5, -2, 6]
    np.savez(
        tmp_path / "step0.npz",
        head=np.array(values, ml_dtypes.float8_e5m2).view(np.uint8),
        tail=np.array([*values, 1], ml_dtypes.float8_e4m3fn).view(np.uint8),
        wide=np.array([*values, 1, 1], ml_dtypes.bfloat16),
    )
    assert (
        command(
            "convert {} {} --reduction mean --raw-dtype head$=float8_e5m2 "
            "--raw-dtype tail=float8_e4m3fn --raw-dtype bfloat16",
            tmp_path,
            tmp_path / "run",
        )
        == 0
    )
    capsys.readouterr()
    raw = {"head$": "float8_e5m2", "tail": "float8_e4m3fn", "wide": "bfloat16"}
    trace = converted(tmp_path / "step0.npz", tmp_path / "two", raw_dtype=raw)
    assert [trace.read(0, name).tolist()[:3] for name in trace.tensors] == [values] * 3
    refused(r"raw_dtype '\[' is not a regular expression", tmp_path, raw_dtype={"[": "bfloat16"})
    refused(
        "array 'head' has dtype uint8, which is not a gradient's",
        tmp_path / "step0.npz",
        raw_dtype={"wide": "bfloat16"},
    )


def test_the_first_of_several_raw_types_for_the_same_arrays_counts(tmp_path):
    codes = np.array([0.5, -2, 6], ml_dtypes.float8_e4m3fn).view(np.uint8)
    np.savez(tmp_path / "step0.npz", w=codes)
    types = "--raw-dtype float8_e4m3fn --raw-dtype float8_e5m2"
    line = f"convert {{}} {{}} --reduction mean --workers 1 {types}"
    assert command(line, tmp_path / "step0.npz", tmp_path / "run") == 0
    assert open_trace(tmp_path / "run").read(0, "w").tolist() == [0.5, -2, 6]
    pairs = [("w", "float8_e4m3fn"), ("w", "float8_e5m2")]
    options = {"reduction": "mean", "workers": 1}
    trace = converted(tmp_path / "step0.npz", tmp_path / "two", raw_dtype=pairs, **options)
    assert trace.read(0, "w").tolist() == [0.5, -2, 6]
    refused(
        r"raw_dtype has 'bfloat16', which is not a pair of a reg",
        tmp_path / "step0.npz",
        raw_dtype=["bfloat16"],
        **options,
    )
