"""The package's functions for arrays in a GPU's memory: calls of the CUDA module."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._core import BlockFormat, FloatFormat
from . import device_arrays
from .axes import around, check_scales, scale_shape
from .checks import flag, integer, text, workers_first
from .device_arrays import DeviceArray, DeviceView, device_view, torch_dtype_of
from .inputs import _is_torch, _on_gpu, _without_gradient
from .options import Settings
from .projection import Projection


def is_available() -> bool:
    """Whether the CUDA module exists and finds a GPU.

    Returns
    -------
    bool
    """
    try:
        return device_arrays.module().device_count() > 0
    except RuntimeError:
        return False


def _ready(view: DeviceView, what: str = "x") -> int:
    """The number of the view's GPU, which is supported."""
    device = _located(view, what)
    device_arrays.module().require_device(device)
    return device


def _located(view: DeviceView, what: str) -> int:
    """The number of the view's GPU."""
    if view.device is not None:
        return view.device
    # Without a GPU, that is the reason for the bad address.
    device_arrays.module().require_device(0)
    number = 0 if view.size == 0 else device_arrays.module().device_of(view.address)
    if number < 0:
        raise ValueError(f"{what}'s address 0x{view.address:x} is not in a GPU's memory")
    return number


def _join(first: DeviceView, device: int, what: str, **others: DeviceView) -> None:
    """Check that other arrays are on the GPU of the first, whose stream then waits for theirs."""
    for name, view in others.items():
        if (other := _located(view, name)) != device:
            raise ValueError(f"{what} is on GPU {device}, {name} on GPU {other}; give all on one")
        if view.stream != first.stream:
            device_arrays.module().wait_for(first.stream, view.stream, device)


def _floats(x: Any, what: str = "x", narrow: bool = False) -> DeviceView:
    """A view of float32 or float64 numbers; other and strided tensors are converted on the GPU."""
    if _is_torch(x):
        import torch

        if x.dtype not in (torch.float32, torch.float64):
            half = x.dtype in (torch.float16, torch.bfloat16)
            if not half and not str(x.dtype).startswith("torch.float8"):
                raise TypeError(f"{what} has dtype {x.dtype}; give floating-point numbers on a GPU")
            x = x.float()
        x = _without_gradient(x, what).contiguous()
    view = device_view(x, what)
    if view.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise TypeError(f"{what} has dtype {view.dtype}; give float32 or float64 on a GPU")
    if narrow and view.dtype != np.float32:
        raise TypeError(f"{what} has dtype {view.dtype}; this takes float32 on a GPU")
    return view


def _result(
    like: Any, view: DeviceView, device: int, shape: tuple[int, ...], dtype: Any, out: Any = None
) -> tuple[Any, int]:
    """A new array of like's kind, or `out`, and its address."""
    dtype = np.dtype(dtype)
    if out is not None:
        if not _on_gpu(out):
            raise ValueError("out is not in a GPU's memory, but the input is; give it there, too")
        target = device_view(out, "out")
        if target.shape != shape:
            raise ValueError(f"out has shape {target.shape}, the result {shape}; they must agree")
        if target.dtype != dtype:
            raise TypeError(f"out has dtype {target.dtype}, the result {dtype}; they must agree")
        if target.read_only:
            raise ValueError("out is read-only; give an array that can be written to")
        _join(view, device, "the input", out=target)
        return out, target.address
    if not _is_torch(like):
        array = DeviceArray(shape, dtype, device, view.stream)
        return array, array._address
    import torch

    try:
        tensor = torch.empty(shape, dtype=torch_dtype_of(dtype), device=like.device)
    except torch.cuda.OutOfMemoryError as error:
        size = math.prod(shape) * dtype.itemsize
        raise MemoryError(
            f"the GPU does not have enough memory for the result's {size} bytes"
        ) from error
    return tensor, tensor.data_ptr()


def _as_given(like: Any, result: Any) -> Any:
    """The result, complete or on its way, as an array of JAX's if the argument is one.

    Unless its 64-bit types are enabled, JAX would cut numbers of 8 bytes to 4.
    """
    if not isinstance(result, DeviceArray) or not type(like).__module__.startswith("jax"):
        return result
    import jax

    keeps = result.dtype.itemsize < 8 or jax.config.jax_enable_x64
    return jax.dlpack.from_dlpack(result) if keeps else result


# The package's functions -----------------------------------------------------------


def _prepared(x: Any, f: FloatFormat, random: Any) -> tuple[DeviceView, int]:
    if random is not None:
        raise ValueError(
            "random= is not supported on a GPU; give seed and random_bits, or an array in the "
            "CPU's memory"
        )
    view = _floats(x)
    if view.dtype == np.float32 and not f.fits_fp32:
        if not _is_torch(x):
            raise TypeError(f"{f.name} has values beyond float32; give x as float64")
        view = _floats(x.double())
    device = _ready(view)
    return view, device


_PLAIN = Settings(Projection()._in_core(), 0, 1)


def _projection(s: Settings) -> Any:
    """A projection of the CUDA module's own class."""
    p = s.projection
    made = device_arrays.module().Projection
    return _made(made, p.rounding, p.overflow, p.underflow, p.keep_payload, p.random_bits)


@functools.lru_cache(maxsize=64)
def _made(projection: Any, *fields: Any) -> Any:
    return projection(*fields)


def quantize(x: Any, f: FloatFormat, s: Settings, random: Any, out: Any) -> Any:
    """`apscope.quantize`."""
    view, device = _prepared(x, f, random)
    result, address = _result(x, view, device, view.shape, view.dtype, out)
    device_arrays.module().quantize(
        view.address, address, view.size, view.dtype.itemsize, f.name, _projection(s), s.seed,
        device, view.stream,
    )  # fmt: skip
    return _as_given(x, result)


def encode(
    x: Any, f: FloatFormat, s: Settings, random: Any, nan: int | None, dtype: np.dtype, out: Any
) -> Any:
    """`apscope.encode`."""
    view, device = _prepared(x, f, random)
    if (view.dtype == np.float64 and dtype == np.uint64) or dtype.itemsize <= 4:
        result, address = _result(x, view, device, view.shape, dtype, out)
    else:
        raise TypeError(f"{f.name} has codes of {f.storage_bits} bits; give x as float64")
    device_arrays.module().encode(
        view.address, address, view.size, view.dtype.itemsize, dtype.itemsize, f.name,
        _projection(s), s.seed,
        nan, device, view.stream,
    )  # fmt: skip
    return _as_given(x, result)


def _codes(codes: Any, what: str) -> DeviceView:
    """A view of codes as unsigned integers; 8- and 16-bit float tensors by their bits."""
    if _is_torch(codes):
        import torch

        codes = _without_gradient(codes, "codes").contiguous()
        if codes.dtype == torch.bfloat16 or str(codes.dtype).startswith("torch.float8"):
            codes = codes.view(torch.uint16 if codes.element_size() == 2 else torch.uint8)
    view = device_view(codes, what)
    if view.dtype.kind != "u":
        raise TypeError(f"{what} have dtype {view.dtype}; give unsigned integers on a GPU")
    return view


def decode(codes: Any, f: FloatFormat, keep_payload: Any, out: Any) -> Any:
    """`apscope.decode`."""
    view = _codes(codes, "codes")
    dtype = np.dtype(np.float32 if f.fits_fp32 else np.float64)
    if view.dtype.itemsize == 8 and dtype == np.float32:
        raise TypeError(
            f"codes have dtype {view.dtype}; give codes of {f.name} in at most 32 bits on a GPU"
        )
    device = _ready(view, "codes")
    result, address = _result(codes, view, device, view.shape, dtype, out)
    device_arrays.module().decode(
        view.address, address, view.size, view.dtype.itemsize, dtype.itemsize, f.name,
        flag("keep_payload", keep_payload), device, view.stream,
    )  # fmt: skip
    return _as_given(codes, result)


def cast_statistics(x: Any, f: FloatFormat, s: Settings, out: Any) -> dict[str, int | float | None]:
    """`apscope.cast_statistics`."""
    view = _floats(x, narrow=True)
    device = _ready(view)
    address = 0 if out is None else _result(x, view, device, view.shape, view.dtype, out)[1]
    return device_arrays.module().cast_statistics(
        view.address, address, view.size, f.name, _projection(s), s.seed, device, view.stream
    )


def allreduce(
    x: Any,
    f: FloatFormat,
    topology: str,
    s: Settings,
    accumulate: FloatFormat | None,
    hop_rounding: str | None,
    input_cast: bool,
    *,
    scale: float = 1.0,
    divisor: float = 1.0,
    narrow: bool = False,
) -> Any:
    """`apscope.allreduce` of x * scale, the sum divided by the scale and then by the divisor.

    `narrow`: as float32, also for the topology `exact`.
    """
    view = _floats(x, narrow=True)
    shape = workers_first(view.shape)
    device = _ready(view)
    result, address = _result(x, view, device, shape, np.float64)
    device_arrays.module().allreduce(
        view.address, view.shape[0], address, view.size // view.shape[0], f.name,
        text("topology", topology),
        None if accumulate is None else accumulate.name, hop_rounding, input_cast, _projection(s),
        s.seed, scale, divisor, device, view.stream,
    )  # fmt: skip
    if topology != "exact" or narrow:
        result = _narrowed(x, view, device, result, address)
    return _as_given(x, result)


def _narrowed(x: Any, view: DeviceView, device: int, sums: Any, address: int) -> Any:
    """float64 values that are float32 numbers, as float32."""
    # By codes, which are float32's bits: a GPU's own conversion gives NaN other bits.
    result, target = _result(x, view, device, tuple(sums.shape), np.float32)
    count = math.prod(sums.shape)
    device_arrays.module().encode(
        address, target, count, 8, 4, "fp32", _projection(_PLAIN), 0, None, device, view.stream
    )
    return result


#: The encodings of a phase of a reduction: the key of the random words, then the format, the
#: projection and a scale for each row, as ``StepExchange.choose_in_phases`` gives them.
Encodings = tuple[tuple[int, int], FloatFormat, Any, list[float]]


def add_messages(rows: Any, encodings: Encodings, sums: Any) -> None:
    """The first of two phases: `sums` gets the fp32 sum of the encoded rows, of shape (workers, n).

    `sums` has n elements or more.
    """
    key, f, projection, scales = encodings
    view, target = _floats(rows, "rows", narrow=True), device_view(sums, "sums")
    device = _ready(view, "rows")
    device_arrays.module().add_messages(
        view.address, view.size // len(scales), f.name, _projection(Settings(projection, 0, 1)),
        scales, key, target.address, device, view.stream,
    )  # fmt: skip


def encode_sums(
    sums: Any, workers: int, encodings: Encodings | None, divisor: float, out: Any
) -> None:
    """The second phase: `out` gets the sums, encoded shard by shard and divided; None: not encoded.

    `out` has n elements, `sums` n or more.
    """
    key, f, projection, scales = encodings or ((0, 0), FloatFormat("fp32"), _PLAIN.projection, [])
    view, target = device_view(sums, "sums"), device_view(out, "out")
    device = _ready(view, "sums")
    device_arrays.module().encode_sums(
        view.address, target.size, workers, f.name, _projection(Settings(projection, 0, 1)), scales,
        key, divisor, target.address, device, view.stream,
    )  # fmt: skip


def matmul(
    a: Any,
    b: Any,
    f: FloatFormat,
    order: str,
    product: FloatFormat | None,
    accumulate: FloatFormat | None,
    c: Any,
    s: Settings,
    out: Any,
) -> Any:
    """`apscope.matmul` of matrices, or of equal numbers of them."""
    given = {"a": a, "b": b} | ({} if c is None else {"c": c})
    for what, operand in given.items():
        if not _on_gpu(operand):
            raise ValueError(
                f"{what} is not in a GPU's memory, but another operand is; give all on one GPU"
            )
    views = {what: _floats(operand, what, narrow=True) for what, operand in given.items()}
    left, right = views["a"], views["b"]
    if (
        len(left.shape) < 2
        or left.shape[:-2] != right.shape[:-2]
        or left.shape[-1] != right.shape[-2]
    ):
        raise ValueError(
            f"a has shape {left.shape}, b {right.shape}; on a GPU give (..., m, k) and (..., k, n) "
            "with the same leading axes"
        )
    shape = (*left.shape[:-1], right.shape[-1])
    if c is not None and views["c"].shape != shape:
        raise ValueError(f"c has shape {views['c'].shape}, the result {shape}; they must agree")
    device = _ready(left, "a")
    _join(left, device, "a", **views)
    result, address = _result(a, left, device, shape, np.float32, out)
    device_arrays.module().matmul(
        left.address, right.address, 0 if c is None else views["c"].address, address,
        math.prod(shape[:-2]), shape[-2], left.shape[-1], shape[-1], f.name,
        text("order", order), None if accumulate is None else accumulate.name,
        None if product is None else product.name, _projection(s), s.seed, device, left.stream,
    )  # fmt: skip
    return _as_given(a, result)


def quantize_blocks(x: Any, f: BlockFormat, axis: int, s: Settings, out: Any) -> Any:
    """`apscope.quantize_blocks`."""
    view = _floats(x, narrow=True)
    _, shape = around(view.shape, axis)
    device = _ready(view)
    result, address = _result(x, view, device, view.shape, np.float32, out)
    device_arrays.module().quantize_blocks(
        view.address, address, shape, f.name, _projection(s), s.seed, device, view.stream
    )
    return _as_given(x, result)


def encode_blocks(x: Any, f: BlockFormat, axis: int, s: Settings) -> tuple[Any, Any, float]:
    """Codes, scales and the tensor scale of `apscope.encode_blocks`."""
    view = _floats(x, narrow=True)
    at, shape = around(view.shape, axis)
    device = _ready(view)
    codes, code_address = _result(x, view, device, view.shape, np.uint8)
    scales, scale_address = _result(x, view, device, scale_shape(view.shape, at, f), np.uint8)
    tensor = device_arrays.module().encode_blocks(
        view.address, code_address, scale_address, shape, f.name, _projection(s), s.seed, device,
        view.stream,
    )  # fmt: skip
    return _as_given(x, codes), _as_given(x, scales), tensor


def decode_blocks(
    codes: Any, scales: Any, f: BlockFormat, axis: int, tensor_scale: float | None, out: Any
) -> Any:
    """`apscope.decode_blocks`."""
    view, of_scales = _codes(codes, "codes"), _codes(scales, "scales")
    for part, what in ((view, "codes"), (of_scales, "scales")):
        if part.dtype.itemsize != 1:
            raise TypeError(
                f"{what} have dtype {part.dtype}; give unsigned 8-bit integers on a GPU"
            )
    at, shape = around(view.shape, axis)
    check_scales(view.shape, of_scales.shape, at, f)
    device = _ready(view, "codes")
    _join(view, device, "codes", scales=of_scales)
    result, address = _result(codes, view, device, view.shape, np.float32, out)
    device_arrays.module().decode_blocks(
        view.address, of_scales.address, 1.0 if tensor_scale is None else tensor_scale, address,
        shape, f.name, device, view.stream,
    )  # fmt: skip
    return _as_given(codes, result)


#: Items of a replay with at least so many values, elements times workers, run on a GPU; None: the
#: number that the module estimates. For tests and measurements.
min_values: int | None = None


def row_device(device: int = 0) -> Any:
    """The device for `apscope.replay`: a handle of the GPU of that number, by default CUDA's first.

    RuntimeError with one sentence if the CUDA module is missing, there is no such GPU, or it is too
    old.
    """
    why, instead = "device='cuda' asks for a GPU", "use device='cpu'"
    cuda = device_arrays.module(why, instead)
    if cuda.device_count() == 0:
        raise RuntimeError(f"{why}, and this machine has none that CUDA can use; {instead}")
    return cuda.row_device(device) if min_values is None else cuda.row_device(device, min_values)


def require(device: int = 0) -> None:
    """Do nothing if there are the CUDA module and a GPU that it supports; else raise.

    Parameters
    ----------
    device : int
        The GPU's number.

    Raises
    ------
    RuntimeError
        What is missing, in one sentence.
    """
    device_arrays.module().require_device(integer("device", device, 0, 2**10))
