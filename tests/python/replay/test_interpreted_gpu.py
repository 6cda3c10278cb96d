"""The package on a GPU in software: the CUDA module whose kernels the interpreter of PTX runs
(tests/cuda/interpreter), where `make cuda` has built it."""

import ctypes
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apscope
from apscope import _core
from apscope._arrays import gpu
from apscope._arrays.device_arrays import DeviceArray
from apscope.cli import main
from apscope.record import TraceWriter

ROOT = Path(__file__).parents[3]
BUILT = list((ROOT / "build/cuda/bindings/interpreted").glob("_cuda*.so"))

pytestmark = pytest.mark.skipif(not BUILT, reason="make cuda has not built the module")


@pytest.fixture(autouse=True)
def software_gpu(monkeypatch):
    """`apscope._cuda` over the interpreter; items of any size go there."""
    spec = importlib.util.spec_from_file_location("apscope._cuda", BUILT[0])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "apscope._cuda", module)
    monkeypatch.setattr(apscope, "_cuda", module, raising=False)
    monkeypatch.setattr(gpu, "min_values", 0)


class OnDevice:
    """A NumPy array over memory of the software's device, as a package on a GPU would show it."""

    def __init__(self, array: np.ndarray, owner: Any) -> None:
        self.array, self.owner = array, owner

    @classmethod
    def copy_of(cls, x: np.ndarray) -> "OnDevice":
        owner = DeviceArray(x.shape, x.dtype, 0, 0)
        address = owner.__cuda_array_interface__["data"][0]
        if x.size:
            ctypes.memmove(address, np.ascontiguousarray(x).ctypes.data, x.nbytes)
        buffer = (ctypes.c_uint8 * x.nbytes).from_address(address) if x.size else b""
        return cls(np.frombuffer(buffer, x.dtype).reshape(x.shape), owner)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = dict(self.array.__array_interface__)
        return {key: interface[key] for key in ("shape", "typestr", "data", "strides", "version")}


def numbers(count: int) -> np.ndarray:
    """Bits of every kind, and numbers like gradients."""
    generator = np.random.default_rng(3)
    bits = generator.integers(0, 2**32, count // 2, dtype=np.uint32).view(np.float32)
    small = generator.standard_normal(count - count // 2, dtype=np.float32)
    return np.concatenate([bits, small * np.float32(0.01)])


ROUNDINGS = ("ties_to_even", "toward_negative", "stochastic", "stochastic_b", "stochastic_exact")
CALLS = {
    **{
        f"{verb} {name}, {rounding}": lambda x, v=verb, n=name, r=rounding: getattr(apscope, v)(
            x, n, rounding=r, seed=5, **({"nan": 0} if v == "encode" else {})
        )
        for verb in ("quantize", "encode")
        for name in ("e4m3", "e4m3fnuz", "e2m1fn", "fp16", "e8m0fnu")
        for rounding in ROUNDINGS
        if name != "e8m0fnu" or "stochastic" not in rounding
    },
    **{
        f"{name}, axis {axis}": lambda x, n=name, a=axis: apscope.quantize_blocks(x, n, axis=a)
        for name in ("mxfp8_e4m3", "nvfp4", "mxint8", "bfp:8:12")
        for axis in (-1, 0)
    },
    **{
        f"sum {name}, {topology}": lambda x, n=name, t=topology: apscope.allreduce(
            x, n, topology=t, seed=3
        )
        for name in ("e4m3", "bf16")
        for topology in ("ring", "tree", "butterfly", "sequential+kahan")
    },
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_has_the_cpus_bits(what):
    x = numbers(8 * 333).reshape(8, 333)
    expected = np.asarray(CALLS[what](x))
    found = CALLS[what](OnDevice.copy_of(x))
    assert isinstance(found, DeviceArray)
    assert found.get().tobytes() == expected.tobytes()


def amax_and_nonfinite(rows: np.ndarray) -> tuple[list, list]:
    finite = np.isfinite(rows)
    return [[float(np.abs(r[f]).max(initial=0)) for r, f in zip(rows, finite, strict=True)]], [
        [int((~f).sum()) for f in finite]
    ]


@pytest.mark.parametrize("topology", ["two_phase", "reduce_scatter"])
@pytest.mark.parametrize(
    "spec", ["aps:e4m3", "aps:e5m2,rounding=stochastic", "loss_scaling:e4m3fn,scale=3"]
)
def test_an_exchange_in_two_phases_has_the_cpus_bits(spec, topology):
    workers, n, m = 3, 1000, 334
    rows = np.random.default_rng(4).standard_normal((workers, n), dtype=np.float32)
    rows[:, 5] = [np.inf, 1.0, 2.0]
    rows[:, 6] = [np.inf, -np.inf, 2.0]
    rows[:, 700] = [1.0, np.nan, 2.0]
    core = _core.StepExchange(spec, ["a"], ["other"], [[n]], workers, topology, 7, True)
    expected = np.empty(n, np.float32)
    core.run(2, 0, [rows], [expected], [], None, None, 1)

    def encodings(phase, x):
        (found,) = core.choose_in_phases(phase, 2, *amax_and_nonfinite(x))
        return None if found[1] is None else found

    sums = OnDevice.copy_of(np.zeros((workers, m), np.float32))
    out = OnDevice.copy_of(np.zeros(n, np.float32))
    messages = encodings(1, rows)
    gpu.add_messages(OnDevice.copy_of(rows), messages, sums)
    shards = encodings(2, sums.array)
    gpu.encode_sums(sums, workers, shards, float(workers), out)
    if topology == "reduce_scatter":  # NaNs of sums that are not encoded have any bits
        where = np.isnan(expected)
        assert (np.isnan(out.array) == where).all()
        expected[where] = out.array[where]
    assert out.array.tobytes() == expected.tobytes()


def test_an_array_of_jaxs_gives_one(monkeypatch):
    """JAX without a GPU takes the results as memory of the host, which the software's is."""
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(DeviceArray, "__dlpack_device__", lambda self: (1, 0))
    shown = type("ArrayImpl", (OnDevice,), {"__module__": "jaxlib._jax"})
    rows = numbers(40).reshape(2, 20)
    x = shown.copy_of(rows)
    codes = apscope.encode(x, "e4m3")
    for found, expected in (
        (apscope.quantize(x, "e4m3"), apscope.quantize(rows, "e4m3")),
        (codes, apscope.encode(rows, "e4m3")),
        (apscope.allreduce(x, "e4m3"), apscope.allreduce(rows, "e4m3")),
        (apscope.quantize_blocks(x, "mxfp8_e4m3"), apscope.quantize_blocks(rows, "mxfp8_e4m3")),
    ):
        assert isinstance(found, jax.Array)
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    # Sums in fp64, which JAX would round to fp32
    exact = apscope.allreduce(x, "e4m3", topology="exact")
    assert isinstance(exact, DeviceArray)
    assert exact.get().tobytes() == apscope.allreduce(rows, "e4m3", topology="exact").tobytes()


@pytest.mark.parametrize("order", ["sequential", "chunked:16", "kahan", "pairwise", "unit:h100"])
def test_a_product_has_the_cpus_bits(order):
    generator = np.random.default_rng(1)
    a, b = (
        apscope.quantize(generator.standard_normal(shape, dtype=np.float32), "e4m3fn")
        for shape in ((37, 50), (50, 29))
    )
    sums = "fp32" if order.startswith("unit") else "fp16"
    expected = apscope.matmul(a, b, sums, order=order)
    found = apscope.matmul(OnDevice.copy_of(a), OnDevice.copy_of(b), sums, order=order)
    assert found.get().tobytes() == expected.tobytes()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("software") / "trace"
    generator = np.random.default_rng(2)
    with TraceWriter(folder, workers=3, reduction="mean") as writer:
        for step in range(2):
            for worker in range(3):
                for name, size in (("large", 4096 + 777), ("small", 9), ("zero", 5)):
                    g = generator.standard_normal(size, dtype=np.float32) * np.float32(1e-3)
                    writer.add(step, worker, name, g * (name != "zero"))
            writer.end_step(step)
    return folder


def test_a_replay_has_the_cpus_files(trace, tmp_path):
    options = [
        str(trace), "--scheme", "aps:e4m3", "--scheme", "aps:e5m2,rounding=stochastic",
        "--scheme", "none:bf16", "--topology", "ring", "--topology", "tree",
        "--topology", "sequential+kahan", "--topology", "two_phase",
    ]  # fmt: skip
    for device in ("cpu", "cuda"):
        assert main(["replay", *options, "--device", device, "-o", str(tmp_path / device)]) == 0
    for name in ("results.csv", "results.parquet", "noise.parquet"):
        assert (tmp_path / "cuda" / name).read_bytes() == (tmp_path / "cpu" / name).read_bytes()
