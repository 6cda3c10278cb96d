"""Arrays in a GPU's memory, as far as a machine without a GPU can test them: nothing is imported
unless requested, the messages if something is missing, and the interface's description."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import apscope
from apscope import _core, cuda
from apscope._arrays import device_arrays, gpu
from apscope._arrays.device_arrays import device_view
from apscope.cli import main


class Fake:
    """An array that claims to be in a GPU's memory."""

    def __init__(self, **changes: Any) -> None:
        self.interface = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (0x7F0000000000, False),
            "version": 3,
            "strides": None,
            "stream": 1,
        }
        self.interface.update(changes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.interface


class FakeDlpack:
    def __init__(self, device: int) -> None:
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_nothing_of_it_is_imported_unless_asked_for():
    code = (
        "import sys, numpy, apscope; apscope.quantize(numpy.float32([1]), 'e4m3'); "
        "apscope.quantize([1.0], 'e4m3'); assert not {'apscope.cuda', 'apscope._arrays.gpu', "
        "'apscope._cuda', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def calls() -> dict[str, Any]:
    x = Fake()
    codes = Fake(typestr="|u1")
    return {
        "quantize": lambda: apscope.quantize(x, "e4m3"),
        "encode": lambda: apscope.encode(x, "e4m3"),
        "decode": lambda: apscope.decode(codes, "e4m3"),
        "allreduce": lambda: apscope.allreduce(x, "e4m3"),
        "quantize_blocks": lambda: apscope.quantize_blocks(x, "mxfp8_e4m3"),
        "encode_blocks": lambda: apscope.encode_blocks(x, "mxfp8_e4m3"),
        "decode_blocks": lambda: apscope.decode_blocks(
            codes, Fake(typestr="|u1", shape=(2, 1)), "mxfp8_e4m3"
        ),
        "matmul": lambda: apscope.matmul(x, Fake(shape=(3, 4)), "e4m3"),
        "cast_statistics": lambda: apscope.cast_statistics(x, "e4m3"),
        "require": lambda: cuda.require(),
    }


@pytest.fixture
def no_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "apscope._cuda", None)
    monkeypatch.delattr(apscope, "_cuda", raising=False)


@pytest.mark.parametrize("name", calls())
def test_without_the_module_a_sentence_says_so(name, no_module):
    with pytest.raises(
        RuntimeError, match="built without its CUDA module; build it with -DAPSCOPE_CUDA=ON"
    ):
        calls()[name]()
    assert not cuda.is_available()


@pytest.mark.parametrize("name", calls())
def test_without_a_gpu_a_sentence_says_so(name):
    pytest.importorskip("apscope._cuda")
    if cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(
        RuntimeError, match="no GPU that CUDA can use; give arrays in the CPU's memory"
    ):
        calls()[name]()


def test_what_an_interface_says():
    x = Fake(stream=2, data=(0x1000, True))
    view = device_view(x)
    assert (view.address, view.shape, view.dtype, view.stream, view.read_only, view.size) == (
        0x1000,
        (2, 3),
        np.float32,
        2,
        True,
        6,
    )
    assert view.owner is x
    # Nothing to wait for: the legacy default stream.
    assert device_view(Fake(stream=None)).stream == 1
    assert device_view(Fake(stream=0x5555)).stream == 0x5555
    assert device_view(Fake(strides=(12, 4))).shape == (2, 3)
    assert device_view(Fake(shape=(1, 3), strides=(999, 4))).shape == (1, 3)
    assert device_view(Fake(shape=(0, 3), strides=(7, 7), data=(0, False))).size == 0
    assert device_view(Fake(shape=())).size == 1
    old = Fake(version=2)
    del old.interface["stream"]
    assert device_view(old).stream == 1


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"stream": 0}, ValueError, "stream 0, which is ambiguous; 1 is the legacy default stream"),
        ({"version": 1}, ValueError, "version 1; give one of version 2 or 3"),
        ({"strides": (4, 8)}, TypeError, r"strides \(4, 8\); give a contiguous copy in C order"),
        ({"strides": (24, 8)}, TypeError, "give a contiguous copy in C order"),
        ({"typestr": ">f4"}, TypeError, "byte order is not the GPU's"),
        ({"mask": Fake()}, TypeError, "has a mask"),
    ],
)
def test_interfaces_that_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        device_view(Fake(**changes))


def test_an_interface_without_its_address_is_refused():
    x = Fake()
    del x.interface["data"]
    with pytest.raises(ValueError, match="has no 'data'"):
        device_view(x)


@pytest.fixture
def stand_in(monkeypatch):
    """A module that stores the arguments of its calls."""
    noted: list[tuple] = []

    columns = apscope.cast_statistics(np.zeros(0, np.float32), "e4m3").to_dict()

    def note(name: str) -> Any:
        return lambda *arguments: (
            noted.append((name, *arguments)) or (columns if name == "cast_statistics" else None)
        )

    names = """
        quantize encode decode quantize_blocks decode_blocks matmul release cast_statistics wait_for
    """.split()
    module = SimpleNamespace(
        require_device=lambda device: None,
        device_of=lambda address: 0,
        allocate=lambda size, device: 0x2000,
        Projection=lambda *parts: parts,
        **{name: note(name) for name in names},
    )
    monkeypatch.setattr(device_arrays, "module", lambda: module)
    return noted


def test_arrays_go_in_and_out_where_they_are(stand_in):
    out = Fake(data=(0x3000, False))
    assert (
        apscope.quantize(
            Fake(stream=2), "e4m3", rounding="stochastic", seed=3, random_bits=8, out=out
        )
        is out
    )
    assert stand_in == [
        ("wait_for", 2, 1, 0),  # for out
        (
            "quantize",
            0x7F0000000000,
            0x3000,
            6,
            4,
            "e4m3",
            ("stochastic", "ieee", "gradual", False, 8),
            3,
            0,
            2,
        ),
    ]
    # What the stand-in gives.
    assert apscope.cast_statistics(Fake(), "e4m3", rounding="to_odd", out=out).count == 0
    assert stand_in.pop() == (
        "cast_statistics",
        0x7F0000000000,
        0x3000,
        6,
        "e4m3",
        ("to_odd", "ieee", "gradual", False, 32),
        0,
        0,
        1,
    )
    result = apscope.encode(Fake(), "fp16")
    assert result.__cuda_array_interface__ == {
        "shape": (2, 3),
        "typestr": "<u2",
        "data": (0x2000, False),
        "version": 3,
        "strides": None,
        "stream": 1,
    }
    assert result.nbytes == 12


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: apscope.quantize(Fake(typestr="<f2"), "e4m3"),
            TypeError,
            "float16; give float32 or float64 on a GPU",
        ),
        (lambda: apscope.quantize(Fake(), "fp64"), TypeError, "give x as float64"),
        (
            lambda: apscope.quantize(Fake(), "e4m3", random=np.zeros((2, 3), int)),
            ValueError,
            "random= is not supported",
        ),
        (
            lambda: apscope.quantize(Fake(), "e4m3", out=Fake(data=(1, True))),
            ValueError,
            "out is read-only",
        ),
        (
            lambda: apscope.quantize(Fake(), "e4m3", out=Fake(shape=(6,))),
            ValueError,
            r"out has shape \(6,\), the result \(2, 3\)",
        ),
        (
            lambda: apscope.quantize(Fake(), "e4m3", out=Fake(typestr="<f8")),
            TypeError,
            "out has dtype float64, the result float32",
        ),
        (
            lambda: apscope.decode(Fake(typestr="<i4"), "e4m3"),
            TypeError,
            "int32; give unsigned integers on a GPU",
        ),
        (lambda: apscope.decode(Fake(typestr="<u8"), "e4m3"), TypeError, "in at most 32 bits"),
        (
            lambda: apscope.allreduce(Fake(shape=(0, 3)), "e4m3"),
            ValueError,
            "first axis must be the workers",
        ),
        (
            lambda: apscope.quantize_blocks(Fake(typestr="<f8"), "mxfp4"),
            TypeError,
            "this takes float32 on a GPU",
        ),
        (
            lambda: apscope.decode_blocks(Fake(typestr="|u1"), Fake(typestr="|u1"), "mxfp8_e4m3"),
            ValueError,
            r"need \(2, 1\)",
        ),
        (
            lambda: apscope.decode_blocks(Fake(typestr="|u1"), Fake(typestr="|u1"), "nvfp4"),
            ValueError,
            "needs a tensor_scale",
        ),
        (
            lambda: apscope.cast_statistics(Fake(typestr="<f8"), "e4m3"),
            TypeError,
            "this takes float32 on a GPU",
        ),
        (
            lambda: apscope.cast_statistics(Fake(), "e4m3", out=Fake(shape=(6,))),
            ValueError,
            r"out has shape \(6,\)",
        ),
        (
            lambda: apscope.matmul(Fake(), Fake(), "e4m3"),
            ValueError,
            r"a has shape \(2, 3\), "
            r"b \(2, 3\)",
        ),
        (
            lambda: apscope.matmul(Fake(), np.zeros((3, 4), np.float32), "e4m3"),
            ValueError,
            "b is not in a GPU's memory",
        ),
        (
            lambda: apscope.matmul(
                Fake(), Fake(shape=(3, 4)), "fp32", order="unit:h100", c=np.zeros((2, 4))
            ),
            ValueError,
            "c is not in a GPU's memory",
        ),
        (
            lambda: apscope.matmul(
                Fake(), Fake(shape=(3, 4)), "fp32", order="unit:h100", c=Fake(shape=(4,))
            ),
            ValueError,
            r"c has shape \(4,\), the result \(2, 4\)",
        ),
    ],
)
def test_what_is_not_served_is_refused(stand_in, call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert not [name for name, *_ in stand_in if name != "release"]


def test_memory_that_runs_out_is_named(stand_in, monkeypatch):
    def full(size: int, device: int) -> int:
        raise MemoryError(f"the GPU does not have enough memory for an allocation of {size} bytes")

    monkeypatch.setattr(device_arrays.module(), "allocate", full)
    with pytest.raises(MemoryError, match="24 bytes"):
        apscope.quantize(Fake(), "e4m3")


def test_dlpack_on_the_cpu_is_no_gpu_array():
    with pytest.raises(TypeError, match="DLPack device type is 1"):
        device_view(FakeDlpack(1))


def test_on_a_gpu_the_bits_are_those_of_the_cpu():
    if not cuda.is_available():
        pytest.skip("there is no GPU, or no CUDA module")
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no support for a GPU")
    rng = np.random.default_rng(1)
    a = np.ascontiguousarray(rng.normal(0, 3, (8, 1003)).astype(np.float32))
    b = np.ascontiguousarray(rng.normal(0, 3, (1003, 17)).astype(np.float32))
    x, y = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()

    def same(on_gpu: Any, on_cpu: Any) -> None:
        assert on_gpu.is_cuda
        got, expected = on_gpu.cpu().numpy(), np.asarray(on_cpu)
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()

    with torch.cuda.stream(torch.cuda.Stream()):
        for options in ({}, {"rounding": "stochastic", "seed": 4}, {"rounding": "toward_zero"}):
            same(apscope.quantize(x, "e4m3", **options), apscope.quantize(a, "e4m3", **options))
            same(apscope.encode(x, "e4m3", **options), apscope.encode(a, "e4m3", **options))
        codes = apscope.encode(x, "e4m3")
        same(apscope.decode(codes, "e4m3"), apscope.quantize(a, "e4m3"))
        same(
            apscope.allreduce(x, "e5m2", topology="ring"),
            apscope.allreduce(a, "e5m2", topology="ring"),
        )
        same(apscope.quantize_blocks(x, "nvfp4"), apscope.quantize_blocks(a, "nvfp4"))
        encoded = apscope.encode_blocks(x, "nvfp4")
        assert encoded.tensor_scale == apscope.encode_blocks(a, "nvfp4").tensor_scale
        same(
            apscope.decode_blocks(
                encoded.codes, encoded.scales, "nvfp4", tensor_scale=encoded.tensor_scale
            ),
            apscope.quantize_blocks(a, "nvfp4"),
        )
        for order in ("sequential", "kahan", "pairwise"):
            same(
                apscope.matmul(x, y, "fp16", order=order, product="e5m2"),
                apscope.matmul(a, b, "fp16", order=order, product="e5m2"),
            )
        for options in ({}, {"rounding": "stochastic", "seed": 4}, {"overflow": "saturate"}):
            out = torch.empty_like(x)
            assert apscope.cast_statistics(
                x, "e4m3", out=out, **options
            ) == apscope.cast_statistics(a, "e4m3", **options)
            same(out, apscope.quantize(a, "e4m3", **options))
        torch.cuda.current_stream().synchronize()


# Replays
# ----------------------------------------------------------------------------------------------

TRACES = ("digits", "digits_w64", "characters")
SCHEMES = [
    "aps:e4m3",
    "aps:e5m2,rounding=stochastic",
    "loss_scaling:fp16,scale=1000",
    "stochastic:bf16,random_bits=8",
    "qsgd",
    "error_feedback(sign)",
]


def test_a_replay_without_the_module_says_so(digits, no_module, capsys, tmp_path):
    with pytest.raises(
        RuntimeError,
        match="device='cuda' asks for a GPU, and this apscope was built without its CUDA module; "
        ".*, or use device='cpu'$",
    ):
        apscope.replay(digits, "aps:e4m3", device="cuda")
    assert main(["replay", digits, "-o", str(tmp_path / "out"), "--device", "cuda"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("apscope: device='cuda' asks for a GPU") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.fixture
def gpus(monkeypatch):
    """A module that stands for a machine with so many GPUs, whose handle is `row_device`."""

    def put(count: int, row_device: Any = None) -> None:
        module = SimpleNamespace(device_count=lambda: count, row_device=lambda number: row_device)
        monkeypatch.setattr(device_arrays, "module", lambda why, instead: module)

    return put


def test_a_replay_without_a_gpu_says_so(digits, gpus):
    gpus(0)
    with pytest.raises(
        RuntimeError, match="this machine has none that CUDA can use; use device='cpu'"
    ):
        apscope.replay(digits, "aps:e4m3", device="cuda")


def test_a_handle_of_something_else_is_refused(digits, gpus):
    gpus(1, object())
    with pytest.raises(RuntimeError, match="not built from the same sources; build both again"):
        apscope.replay(digits, "aps:e4m3", device="cuda")


def test_a_gpu_that_fails_during_a_replay_is_one_sentence_on_the_command_line(
    digits, gpus, monkeypatch, capsys, tmp_path
):
    def full(*arguments: Any) -> None:
        raise MemoryError("the GPU does not have enough memory for an allocation of 131072 bytes")

    gpus(1)
    monkeypatch.setattr(_core, "replay", full)
    assert main(["replay", digits, "-o", str(tmp_path / "out"), "--device", "cuda"]) == 2
    assert (
        capsys.readouterr().err
        == "apscope: the GPU does not have enough memory for an allocation of 131072 bytes\n"
    )
    assert main(["replay", digits, "-o", str(tmp_path / "out")]) == 2
    # Of the machine's, in the words that every command has for it.
    assert "memory" in capsys.readouterr().err


def made(folder, other):
    """The names of the files of both folders, which are the same."""
    names = sorted(path.name for path in folder.iterdir())
    assert names and names == sorted(path.name for path in other.iterdir())
    return names


def test_no_result_tells_the_device(digits, gpus, tmp_path):
    # None stands for the CPU: here only the package's part is tested;
    # tests/analysis/cuda/test_cuda_replay.cpp has the rows.
    gpus(1)
    for device in ("cpu", "cuda"):
        apscope.replay(digits, SCHEMES, steps="0:2", device=device).save(tmp_path / device)
    for name in made(tmp_path / "cpu", tmp_path / "cuda"):
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / "cuda" / name).read_bytes()


def test_measurements_choose_the_items_of_a_gpu(monkeypatch):
    asked = []
    module = SimpleNamespace(device_count=lambda: 1, row_device=lambda *given: asked.append(given))
    monkeypatch.setattr(device_arrays, "module", lambda why, instead: module)
    gpu.row_device()
    monkeypatch.setattr(gpu, "min_values", 0)
    gpu.row_device(1)
    assert asked == [(0,), (1, 0)]


def test_on_a_gpu_replays_are_those_of_the_cpu(request, monkeypatch, tmp_path):
    if not cuda.is_available():
        pytest.skip("there is no GPU, or no CUDA module")
    monkeypatch.setattr(gpu, "min_values", 0)
    traces = [request.config.rootpath / "notebooks/data" / name for name in TRACES]
    topologies = ["sequential", "ring", "tree", "hierarchical:3", "sequential+kahan"]
    for device in ("cpu", "cuda"):
        apscope.replay(traces, SCHEMES, topology=topologies, draws=3, device=device).save(
            tmp_path / device
        )
    for name in made(tmp_path / "cpu", tmp_path / "cuda"):
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / "cuda" / name).read_bytes()
