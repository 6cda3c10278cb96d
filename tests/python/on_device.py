"""A GPU that only seems to be one, for tests of code that must leave tensors where they are.

`CudaTensor` holds a tensor of the CPU and says that its device is cuda:0. An operation of it
together with a tensor of the CPU is refused, as CUDA refuses it; so are NumPy's views. Copies to and
from the CPU are counted. The package's kernels are the host's functions, so results have the bits
that a GPU's kernels are proved to have (tests/cuda). Of CUDA's own arithmetic one thing is
imitated: a quotient by a number is a product with its inverse.
"""

import contextlib
import ctypes
import functools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from apscope import _core
from apscope._arrays import device_arrays
from tests.reference.random_words import WIRE, random_integers

CUDA = torch.device("cuda:0")
#: Copies between the two memories that wait, and numbers that Python waited for.
moved: Counter[str] = Counter()

_aten = torch.ops.aten


def _is_cuda(device: Any) -> bool:
    return (
        device is not None and not isinstance(device, int) and torch.device(device).type == "cuda"
    )


def _is_elsewhere(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not isinstance(x, CudaTensor)


class CudaTensor(torch.Tensor):
    """A tensor that seems to be on cuda:0."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    inner: torch.Tensor

    @staticmethod
    def __new__(cls: type, inner: torch.Tensor) -> Any:
        assert not isinstance(inner, CudaTensor)
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, layout=inner.layout, device="cpu",
        )  # fmt: skip
        made.inner = inner
        return made

    device = property(lambda _: CUDA)
    is_cuda = property(lambda _: True)
    is_cpu = property(lambda _: False)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"CudaTensor({self.inner})"

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    def numpy(self, **_: Any) -> Any:  # type: ignore[override]
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __array__(self, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def tolist(self) -> Any:
        moved["numbers"] += 1
        return self.inner.tolist()

    def cpu(self, *_: Any) -> torch.Tensor:  # type: ignore[override]
        return self.to("cpu")

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:  # type: ignore[override]
        kwargs.pop("copy", None)
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        here = super().to(dtype) if dtype is not None else self
        if device is None or _is_cuda(device):
            return here
        moved["to the CPU"] += 1
        return here.inner.clone() if isinstance(here, CudaTensor) else here

    def __deepcopy__(self, memo: Any) -> Any:
        copied = CudaTensor(self.inner.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied.detach(), self.requires_grad)
        return memo.setdefault(id(self), copied)

    @classmethod
    def __torch_dispatch__(cls, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        flat, spec = tree_flatten((args, kwargs or {}))
        given = {id(x.inner): x for x in flat if isinstance(x, CudaTensor)}
        if func is _aten.copy_.default:
            to_gpu, from_gpu = (isinstance(x, CudaTensor) for x in args[:2])
            if to_gpu != from_gpu:
                moved["to the GPU" if to_gpu else "to the CPU"] += 1
        elif any(_is_elsewhere(x) for x in flat) and not (
            func is _aten.where.self and all(not _is_elsewhere(x) or x.dim() == 0 for x in flat)
        ):  # PyTorch's own losses give `where` a number
            raise RuntimeError(f"{func}: Expected all tensors to be on the same device")
        if func is _aten._local_scalar_dense.default:
            moved["numbers"] += 1
        values = [x.inner if isinstance(x, CudaTensor) else x for x in flat]
        values = [torch.device("cpu") if isinstance(x, torch.device) else x for x in values]
        args, kwargs = tree_unflatten(values, spec)
        if func is _aten.div.Tensor and not isinstance(args[1], torch.Tensor):
            wide = torch.float64 if args[0].dtype == torch.float64 else torch.float32
            inverse = (torch.ones((), dtype=wide) / torch.tensor(args[1], dtype=wide)).item()
            func, args = _aten.mul.Tensor, (args[0], inverse)
        result = func(*args, **kwargs)

        def wrapped(x: torch.Tensor) -> Any:
            return given[id(x)] if id(x) in given else CudaTensor(x)

        return tree_map_only(torch.Tensor, wrapped, result)


CudaTensor.__module__ = "torch.seeming"  # by which the package knows a tensor


class _Factories(TorchDispatchMode):
    """New tensors of device cuda, and tensors of the CPU that go there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if any(isinstance(x, CudaTensor) for x in tree_flatten((args, kwargs))[0]):
            return CudaTensor.__torch_dispatch__(func, types, args, kwargs)
        if not _is_cuda(kwargs.get("device")):
            return func(*args, **kwargs)
        if func is _aten._to_copy.default and not kwargs.get("non_blocking"):
            moved["to the GPU"] += 1
        return CudaTensor(func(*args, **{**kwargs, "device": "cpu"}))


def on_device(x: Any) -> Any:
    """The tensor, or the module in place with its parameters and buffers, on cuda:0."""
    if isinstance(x, torch.Tensor):
        return CudaTensor(x.detach().clone())
    for m in x.modules():
        for name, p in m._parameters.items():
            if p is not None:
                m._parameters[name] = torch.nn.Parameter(on_device(p), p.requires_grad)
        for name, b in m._buffers.items():
            if b is not None:
                m._buffers[name] = on_device(b)
    return x


def values(x: Any) -> Any:
    """Copies on the CPU of the tensors in any nest of lists and mappings."""
    return tree_map_only(
        torch.Tensor, lambda t: (t.inner if isinstance(t, CudaTensor) else t).detach().clone(), x
    )


# The CUDA module ------------------------------------------------------------------------------


def _at(address: int, shape: Any, dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(0, dtype)
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype)


def _quantize(source: int, out: int, n: int, size: int, f: str, p: Any, seed: int, *_: Any) -> None:
    x, y = (_at(a, n, f"f{size}") for a in (source, out))
    _core.quantize(x, y, _core.FloatFormat(f), p, seed, None, 1)


def _encode(
    source: int,
    out: int,
    n: int,
    size: int,
    code: int,
    f: str,
    p: Any,
    seed: int,
    nan: Any,
    *_: Any,
) -> None:
    x, y = _at(source, n, f"f{size}"), _at(out, n, f"u{code}")
    _core.encode(x, y, _core.FloatFormat(f), p, seed, None, 1, nan)


def _decode(
    codes: int, out: int, n: int, code: int, size: int, f: str, payload: bool, *_: Any
) -> None:
    _core.decode(
        _at(codes, n, f"u{code}"), _at(out, n, f"f{size}"), _core.FloatFormat(f), payload, 1
    )


def _matmul(
    a: int, b: int, c: int, out: int, batches: int, rows: int, terms: int, columns: int, f: str,
    order: str, accumulate: Any, product: Any, p: Any, seed: int, *_: Any,
) -> None:  # fmt: skip
    if order == "exact":
        raise ValueError("order=exact is not supported on a GPU")
    shapes = (batches, rows, terms), (batches, terms, columns), (batches, rows, columns)
    x, y, z = (_at(at, s, "f4") for at, s in zip((a, b, out), shapes, strict=True))
    wider, each = (None if g is None else _core.FloatFormat(g) for g in (accumulate, product))
    addend = _at(c, shapes[2] if c else 0, "f4")
    _core.ordered_matmul(
        x, y, batches, rows, z, _core.FloatFormat(f), order, wider, each, p, seed, 1, addend
    )


def _allreduce(
    rows: int, workers: int, out: int, n: int, f: str, topology: str, accumulate: Any, hops: Any,
    cast: bool, p: Any, seed: int, scale: float, divisor: float, *_: Any,
) -> None:  # fmt: skip
    x, y = _at(rows, (workers, n), "f4").reshape(workers, n), _at(out, n, "f8")
    format, wider = (None if g is None else _core.FloatFormat(g) for g in (f, accumulate))
    if scale != 1.0:  # the product is exact in fp64, and its rounding an fp32 number
        codes = x.astype(np.float64) * scale
        _core.quantize(codes.reshape(-1), codes.reshape(-1), format, p, seed, None, 1)
        x, cast = codes.astype(np.float32), False
    _core.allreduce(x, y, format, topology, wider, hops, cast, p, seed, 1)
    with np.errstate(all="ignore"):
        y /= scale
        y /= divisor


def _message(x: np.ndarray, f: Any, p: Any, scale: float, key: Any, worker: int) -> np.ndarray:
    """A worker's values under a scale, encoded and decoded."""
    words = None
    if p.rounding.startswith("stochastic"):
        drawn = random_integers(key, range(x.size), p.random_bits, WIRE, worker)
        words = np.array(drawn, np.uint64)
    codes = x.astype(np.float64) * scale
    _core.quantize(codes, codes, f, p, 0, words, 1)
    return codes / scale


def _add_messages(
    rows: int, n: int, f: str, p: Any, scales: list[float], key: Any, sums: int, *_: Any
) -> None:
    x, format = _at(rows, (len(scales), n), "f4").reshape(-1, n), _core.FloatFormat(f)
    with np.errstate(all="ignore"):
        messages = [
            _message(row, format, p, scale, key, worker).astype(np.float32)
            for worker, (row, scale) in enumerate(zip(x, scales, strict=True))
        ]
        _at(sums, n, "f4")[:] = functools.reduce(np.add, messages)


def _encode_sums(
    sums: int, n: int, workers: int, f: str, p: Any, scales: list[float], key: Any, divisor: float,
    out: int, *_: Any,
) -> None:  # fmt: skip
    y, x = _at(out, n, "f4"), _at(sums, n, "f4").astype(np.float64)
    format = _core.FloatFormat(f)
    m = -(-n // workers)
    with np.errstate(all="ignore"):
        for s, scale in enumerate(scales):
            shard = slice(s * m, (s + 1) * m)
            x[shard] = _message(x[shard], format, p, scale, key, workers + s)
        y[:] = x / np.float64(divisor)


def _quantize_blocks(source: int, out: int, shape: Any, f: str, p: Any, seed: int, *_: Any) -> None:
    x, y = (_at(a, shape, "f4") for a in (source, out))
    _core.quantize_blocks(x, y, tuple(shape), _core.BlockFormat(f), p, seed, 1)


def _scales_shape(shape: Any, f: Any) -> tuple[int, ...]:
    return shape[0], -(-shape[1] // f.block_size), shape[2]


def _encode_blocks(
    source: int, codes: int, scales: int, shape: Any, f: str, p: Any, seed: int, *_: Any
) -> float:
    block = _core.BlockFormat(f)
    x, y = _at(source, shape, "f4"), _at(codes, shape, "u1")
    of_blocks = _at(scales, _scales_shape(shape, block), "u1")
    return _core.encode_blocks(x, y, of_blocks, tuple(shape), block, p, seed, 1)


def _decode_blocks(
    codes: int, scales: int, tensor: float, out: int, shape: Any, f: str, *_: Any
) -> None:
    block = _core.BlockFormat(f)
    of_blocks = _at(scales, _scales_shape(shape, block), "u1")
    y = _at(out, shape, "f4")
    _core.decode_blocks(_at(codes, shape, "u1"), of_blocks, tensor, y, tuple(shape), block, 1)


_KERNELS = SimpleNamespace(
    require_device=lambda _: None, Projection=_core.Projection, quantize=_quantize, encode=_encode,
    decode=_decode, matmul=_matmul, allreduce=_allreduce, add_messages=_add_messages,
    encode_sums=_encode_sums, quantize_blocks=_quantize_blocks, encode_blocks=_encode_blocks,
    decode_blocks=_decode_blocks,
)  # fmt: skip


@contextlib.contextmanager
def seeming_gpu(monkeypatch: Any) -> Any:
    """While open, tensors can go to cuda:0; gives the count of what was moved."""
    stream = SimpleNamespace(cuda_stream=0)  # the only one
    torch._C._ensureCUDADeviceGuardSet()
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
    monkeypatch.setattr(device_arrays, "module", lambda *_: _KERNELS)
    moved.clear()
    with _Factories():
        yield moved


def same(a, b):
    """Whether nests of tensors and numbers are equal, bit by bit."""
    left, right = (torch.utils._pytree.tree_flatten(values(x)) for x in (a, b))
    assert left[1] == right[1]
    for x, y in zip(left[0], right[0], strict=True):
        if isinstance(x, torch.Tensor):
            assert x.dtype == y.dtype
            assert x.contiguous().numpy().tobytes() == y.contiguous().numpy().tobytes()
        else:
            assert x == y or (x != x and y != y)
