"""Formats applied to arrays: quantize, encode, decode and allreduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._core import FloatFormat
from .checks import integer, settings, text

__all__ = ["allreduce", "decode", "encode", "quantize"]


def as_format(format: FloatFormat | str) -> FloatFormat:
    """The format itself, or the one a name stands for."""
    if isinstance(format, FloatFormat):
        return format
    if isinstance(format, str):
        return FloatFormat(format)
    raise TypeError(f"format is {type(format).__name__}; give a FloatFormat or a format's name")


def _is_torch(x: Any) -> bool:
    return type(x).__module__.split(".")[0] == "torch" and hasattr(x, "detach")


def _torch_to_numpy(x: Any, what: str) -> np.ndarray:
    """A view of a CPU tensor's memory."""
    if x.device.type != "cpu":
        raise ValueError(f"{what} is a tensor on {x.device}; this build works on CPU tensors, so call .cpu() first")
    if str(x.dtype).startswith(("torch.bfloat16", "torch.float8")):  # NumPy has no such dtypes
        return x.detach().float().numpy()  # exact, and a copy
    return x.detach().numpy()


def _widen(a: np.ndarray, what: str) -> np.ndarray:
    """float32 or float64 with the same values; every other dtype is widened exactly or refused."""
    if a.dtype in (np.float32, np.float64):
        return a
    if a.dtype.kind == "f" and not a.dtype.isnative:
        return _widen(a.astype(a.dtype.newbyteorder("=")), what)
    if a.dtype == object:
        raise TypeError(f"{what} is an object array; give numbers of one floating-point dtype")
    if a.dtype == np.float16 or a.dtype.name == "bfloat16" or a.dtype.name.startswith("float8"):
        return a.astype(np.float32)
    if a.dtype.kind in "iu":
        if a.dtype.itemsize == 8 and a.size and not -(2**53) <= int(a.min()) <= int(a.max()) <= 2**53:
            raise ValueError(f"{what} holds integers beyond 2^53, which float64 cannot hold exactly")
        return a.astype(np.float64)
    raise TypeError(f"{what} has dtype {a.dtype}; use float32, float64, float16 or integers")


def _input(x: Any, what: str = "x") -> np.ndarray:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array, whose mask a result cannot keep; give {what}.filled(value) or {what}.compressed()")
    a = _torch_to_numpy(x, what) if _is_torch(x) else np.asarray(x)
    return np.ascontiguousarray(_widen(a, what)).reshape(a.shape)


def _output(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The caller's `out` as an array that results can be written to."""
    a = _torch_to_numpy(out, "out") if _is_torch(out) else out
    if not isinstance(a, np.ndarray):
        raise TypeError(f"out is {type(out).__name__}; give an array or a tensor")
    if a.shape != shape:
        raise ValueError(f"out has shape {a.shape}, the result {shape}; they must agree")
    # A narrow tensor's array is a widened copy: it would be written, and the tensor stay as it was.
    if a.dtype != dtype or (_is_torch(out) and out.dtype.itemsize != a.dtype.itemsize):
        raise TypeError(f"out has dtype {out.dtype}, the result {np.dtype(dtype)}; they must agree")
    if not a.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written to")
    return a


def _narrow(a: np.ndarray) -> np.ndarray:
    """float64 values that are float32 numbers, as float32, also where the caller flushes subnormals."""
    result = np.empty(a.shape, np.float32)
    _core.narrow(a.reshape(-1), result.reshape(-1))
    return result


def _like(x: Any, result: np.ndarray) -> Any:
    """The result as the kind of array that came in."""
    if _is_torch(x):
        import torch

        return torch.from_numpy(result)
    if isinstance(x, (float, int)) and not isinstance(x, np.generic):
        return result.item()
    return result if isinstance(x, np.ndarray) or result.ndim else result[()]


def _run(write, x: Any, result_dtype: np.dtype, out: Any, shape: tuple[int, ...]) -> Any:
    """Calls write(flat result) and returns `out`, or a new array of x's kind."""
    if out is None:
        result = np.empty(shape, result_dtype)
        write(result.reshape(-1))
        return _like(x, result)
    target = _output(out, shape, result_dtype)
    # Through a temporary unless the loop may write in place: `out` is contiguous and apart from x.
    source = _torch_to_numpy(x, "x") if _is_torch(x) else x
    if target.flags.c_contiguous and not (isinstance(source, np.ndarray) and np.may_share_memory(source, target)):
        write(target.reshape(-1))
    else:
        result = np.empty(shape, result_dtype)
        write(result.reshape(-1))
        target[...] = result
    return out


def quantize(
    x: Any,
    format: FloatFormat | str,
    *,
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    seed: int = 0,
    random_bits: int = 32,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """Round every element to a value of a format.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        float32 or float64 (rounded once, never through float32); float16, bfloat16, float8 and
        integers are widened exactly. Not changed.
    format : FloatFormat or str
        The target.
    rounding : str
        ``ties_to_even``, ``ties_to_away``, ``toward_zero``, ``toward_positive``,
        ``toward_negative``, ``to_odd`` or ``stochastic``.
    overflow : str
        ``ieee`` (by direction: infinity, else NaN, else the largest value), ``saturate``,
        ``infinity`` or ``nan``. Concerns rounded magnitudes above the largest finite value, and
        infinite inputs.
    seed : int
        Key of the Philox stream that stochastic rounding draws from; element ``i`` (in C order)
        always draws the same word for the same seed. Ignored by the other modes.
    random_bits : int
        N of stochastic rounding, 1 to 64: a value goes up with probability floor(eta 2^N) / 2^N.
    out : array or tensor, optional
        Written instead of a new array: same shape and dtype as the result, ``x`` itself allowed.
    threads : int
        0 takes all of the machine's. Their number never changes a bit.

    Returns
    -------
    array or tensor of x's shape
        Same kind of array as `x`; float32 for float32 and narrower inputs, else float64. Every
        element is a value of `format`, an infinity or NaN.

    Notes
    -----
    NaN gives the canonical quiet NaN, also where the format has none. -0, and what rounds to it,
    stays -0 in formats that have it. Unsigned formats: a negative result is NaN, or the lowest
    value when saturating. Empty arrays give empty arrays. The rule is docs/definitions.md,
    section 6 (IEEE 754-2019 section 4.3; P3109 for its formats).

    Raises
    ------
    ValueError
        Unknown format, rounding or overflow; a wrong `out` shape; a read-only `out`.
    TypeError
        A dtype that is not a number's; a wrong `out` dtype.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> apscope.quantize(np.float32([0.1, 247.0, 248.0]), "e4m3")
    array([  0.1015625, 240.       ,         inf], dtype=float32)
    """
    f = as_format(format)
    a = _input(x)

    def write(flat: np.ndarray) -> None:
        _core.quantize(a.reshape(-1), flat, f, *settings(rounding, overflow, seed, random_bits, threads))

    return _run(write, x, a.dtype, out, a.shape)


def _code_dtype(f: FloatFormat) -> np.dtype:
    return np.dtype(np.uint8 if f.storage_bits <= 8 else np.uint16 if f.storage_bits <= 16 else np.uint32)


def encode(
    x: Any,
    format: FloatFormat | str,
    *,
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    seed: int = 0,
    random_bits: int = 32,
    nan: int | None = None,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """Round every element to a format and give the codes.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        As for `quantize`.
    format, rounding, overflow, seed, random_bits, out, threads
        As for `quantize`.
    nan : int, optional
        The code a NaN takes in a format that has none. Without it such a NaN is an error.

    Returns
    -------
    array or tensor of x's shape
        uint8 for formats up to 8 bits, uint16 up to 16, else uint32: the sign bit, the exponent
        field and the stored significand bits, in the low bits, high bits zero.

    Raises
    ------
    ValueError
        As `quantize`; a NaN with nowhere to go, named by its index.
    """
    f = as_format(format)
    a = _input(x)
    if a.dtype == np.float64:
        # One rounding, in float64; the results are float32 values, which encode as they are.
        rounded = np.empty_like(a)
        _core.quantize(a.reshape(-1), rounded.reshape(-1), f, *settings(rounding, overflow, seed, random_bits, threads))
        a = _narrow(rounded)

    *shared, count = settings(rounding, overflow, seed, random_bits, threads)
    code = None if nan is None else integer("nan", nan, 0, 2**32 - 1)

    def write(flat: np.ndarray) -> None:
        _core.encode(a.reshape(-1), flat, f, *shared, code, count)

    return _run(write, x, _code_dtype(f), out, a.shape)


def decode(codes: Any, format: FloatFormat | str, *, out: Any = None, threads: int = 1) -> Any:
    """The values of codes.

    Parameters
    ----------
    codes : array_like or torch.Tensor of integers, any shape
        Codes as `encode` gives them; ml_dtypes arrays, and bfloat16 and float8 tensors, are read by their bits.
    format : FloatFormat or str
        The codes' format.

    Returns
    -------
    float32 array or tensor of the same shape
        NaN codes give the canonical quiet NaN.

    Raises
    ------
    ValueError
        A code with bits beyond the format's width.
    TypeError
        Codes that are not integers.
    """
    f = as_format(format)
    if _is_torch(codes) and str(codes.dtype).startswith(("torch.bfloat16", "torch.float8")):
        import torch

        codes = codes.detach().view(torch.uint16 if codes.dtype == torch.bfloat16 else torch.uint8)
    a = _torch_to_numpy(codes, "codes") if _is_torch(codes) else np.asarray(codes)
    if a.dtype.kind == "V" or a.dtype.name.startswith(("float8_", "bfloat16", "float4_", "float6_")):
        a = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")
    if a.dtype.kind not in "iu":
        raise TypeError(f"codes have dtype {a.dtype}; give unsigned integers")
    if a.dtype.kind == "i" and a.size and a.min() < 0:
        raise ValueError(f"code {a.min()} is negative; give unsigned codes")
    if a.dtype.itemsize == 8 and a.size and a.max() >= 2**32:
        raise ValueError(f"code {a.max()} is wider than {f.name}, which has {f.storage_bits} bits")
    dtype = np.uint8 if a.dtype.itemsize == 1 else np.uint16 if a.dtype.itemsize == 2 else np.uint32
    a = np.ascontiguousarray(a, dtype=dtype).reshape(a.shape)

    def write(flat: np.ndarray) -> None:
        _core.decode(a.reshape(-1), flat, f, integer("threads", threads, 0, 2**20))

    return _run(write, codes, np.dtype(np.float32), out, a.shape)


def allreduce(
    x: Any,
    format: FloatFormat | str,
    *,
    topology: str = "sequential",
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    accumulate: FloatFormat | str | None = None,
    hop_rounding: str | None = None,
    input_cast: bool = True,
    seed: int = 0,
    random_bits: int = 32,
    threads: int = 1,
) -> Any:
    """Sum workers' arrays as a low-precision all-reduce does, one rounding an addition.

    Parameters
    ----------
    x : array_like or torch.Tensor of float32, shape (workers, ...)
        One array a worker. Not changed.
    format : FloatFormat or str
        What inputs and partial sums are rounded to.
    topology : str
        ``exact`` (fp64 sum of the rounded inputs, not rounded), ``sequential``, ``ring``,
        ``tree``, ``hierarchical:G``, ``sequential+kahan``, ``hierarchical:G+kahan``: the order of
        the additions, docs/definitions.md section 1.
    rounding, overflow, random_bits, threads
        As for `quantize`.
    accumulate : FloatFormat or str, optional
        What partial sums are rounded to, if not `format`.
    hop_rounding : str, optional
        How partial sums are rounded, if not as the inputs.
    input_cast : bool
        Round the inputs to `format` first. Without, they enter as they are.
    seed : int
        Key of the streams of stochastic rounding: inputs draw by worker, sums by addition.

    Returns
    -------
    array or tensor of shape x.shape[1:]
        The sum (not the mean): float32, float64 for ``exact``.

    Raises
    ------
    ValueError
        No worker; an unknown topology; +kahan where no accumulator keeps a compensation.
    TypeError
        A dtype other than float32 and narrower floats.
    """
    f = as_format(format)
    a = _input(x)
    if a.dtype != np.float32:
        raise TypeError(f"x has dtype {a.dtype}; allreduce takes float32")
    if a.ndim == 0 or a.shape[0] == 0:
        raise ValueError(f"x has shape {a.shape}; its first axis must be the workers, at least one")
    shared = settings(rounding, overflow, seed, random_bits, threads)
    if hop_rounding is not None:
        text("hop_rounding", hop_rounding)
    shape = a.shape[1:]
    result = np.empty(shape, np.float64)
    _core.allreduce(
        a.reshape(a.shape[0], -1), result.reshape(-1), f, text("topology", topology), *shared[:2],
        None if accumulate is None else as_format(accumulate), hop_rounding, bool(input_cast), *shared[2:],
    )
    exact = _core.parse_topology(topology) == "exact"
    return _like(x, result if exact else _narrow(result))
