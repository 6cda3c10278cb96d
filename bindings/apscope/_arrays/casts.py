"""Formats applied to arrays: quantize, encode and decode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from .. import _core
from .._core import FloatFormat
from .checks import flag, integer, number, taken
from .inputs import (
    FormatLike,
    _as_array,
    _input,
    _is_torch,
    _on_gpu,
    _run,
    _torch_to_numpy,
    _widened,
    _without_gradient,
    as_format,
    beyond_float64,
    contiguous,
)  # fmt: skip
from .options import CastOptions, Options, Settings

QUANTIZE = Options(CastOptions, in_full=True)
ENCODE = Options(CastOptions)

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def _random_words(random: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The caller's random integers as uint64, flat."""
    a = _torch_to_numpy(random, "random") if _is_torch(random) else np.asarray(random)
    if a.dtype.kind not in "iu" and a.size:
        raise TypeError(f"random has dtype {a.dtype}; give integers")
    if a.shape != shape:
        raise ValueError(f"random has shape {a.shape}, x {shape}; they must agree")
    if a.dtype.kind == "i" and a.size and a.min() < 0:
        raise ValueError(f"random has {a.min()}; give integers from 0 to 2^random_bits - 1")
    return contiguous(a, np.uint64).reshape(-1)


def _values(x: Any, f: FloatFormat, s: Settings, random: Any) -> np.ndarray:
    """x in the dtype of the results: float32 if its values and the format's fit, else float64."""
    a = x if type(x) is np.ndarray else _as_array(x, "x")
    if a.dtype.kind in "iu" and beyond_float64(a):
        return _round_integers(a, f, s, random)
    if not (
        (a.dtype is _FLOAT32 or a.dtype is _FLOAT64) and a.flags.c_contiguous and a.flags.aligned
    ):
        a = _input(a)
    return a if a.dtype != _FLOAT32 or f.fits_fp32 else _widened(a)


@functools.lru_cache(maxsize=256, typed=True)
def _quantizer(format: Any, **options: Any) -> _core.Quantizer:
    """The function that rounds arrays which C++ takes as they are; all options except the seed."""
    f, s = as_format(format), QUANTIZE.settings(options)
    return _core.Quantizer(f, s.projection, s.threads)


def _round_at_once(x: Any, format: Any, seed: Any, out: Any, options: Any) -> Any:
    """The fast path for most calls, small arrays above all; None for all other arrays."""
    if not (type(seed) is int and 0 <= seed < 2**64):
        return None
    try:
        rounds = _quantizer(format, **options)
    except TypeError:  # a format or an option that cannot be remembered, or is of a wrong kind
        rounds = _quantizer.__wrapped__(format, **options)
    return rounds(x, out, seed)


def _rounder(
    x: Any, f: FloatFormat, s: Settings, random: Any
) -> tuple[Callable[..., None], np.ndarray]:
    """The values of x, and call(function, target, *more), which runs a function of _core."""
    values = _values(x, f, s, random)
    words = None if random is None else _random_words(random, values.shape)

    def call(function: Callable[..., Any], target: np.ndarray, *more: Any) -> None:
        function(values.reshape(-1), target, f, s.projection, s.seed, words, s.threads, *more)

    return call, values


def _round_integers(a: np.ndarray, f: FloatFormat, s: Settings, random: Any) -> np.ndarray:
    """Integers beyond float64, rounded once: as the exact sum of two float64 numbers."""
    if (
        random is not None
        or s.projection.rounding == "stochastic_exact"
        or s.projection.underflow in ("flush_input", "flush_both")
    ):
        raise ValueError(
            "x has integers beyond 2^53, which do not support random=, stochastic_exact or flushed "
            "input; omit these or give floating-point numbers"
        )
    low = a & a.dtype.type(0x7FF)
    high = a - low
    result = np.empty(a.shape, np.float64)
    first, second = (np.ascontiguousarray(part, np.float64).reshape(-1) for part in (high, low))
    _core.arithmetic("add", first, second, np.empty(0), result.reshape(-1), f, *s)
    return result


def _scale(scale: Any, x: Any) -> float:
    """The caller's scale, which x supports."""
    factor = float(number("scale", scale))
    if not 0 < factor < float("inf"):
        raise ValueError(f"scale={factor} must be a positive finite number")
    a = _as_array(x, "x")
    if a.dtype.kind in "iu" and beyond_float64(a):
        raise ValueError(
            "x has integers beyond 2^53, which do not support scale=; give floating-point numbers"
        )
    return factor


@QUANTIZE
def quantize(
    x: Any,
    format: FormatLike,
    *,
    scale: float | None = None,
    random: Any = None,
    out: Any = None,
    **options: Unpack[CastOptions],
) -> Any:
    """Round every element to a value of a format.

    Parameters
    ----------
    x : array_like, torch.Tensor, Series or DataFrame, any shape
        float32 or float64 (rounded once, never through float32); float16, bfloat16, float8 and
        integers are exact, also 64-bit integers. Not changed. Arrays in a GPU's memory are
        rounded there: `apscope.cuda`. A tensor that requires grad is refused outside of
        ``torch.no_grad()``: the result carries no gradient.
    format : FloatFormat, str or dtype
        The target; a floating-point dtype of NumPy, ml_dtypes or torch is the format of its codes.
    scale : float, optional
        A positive finite number S, usually a power of two, that x is multiplied by before it is
        rounded, and the result divided by: round(x S) / S, as under a loss scale. Product and
        quotient are float64 numbers, to nearest, ties to even. The product is exact for float32
        (and narrower) x and an S of at most 29 significant bits, and for every power of two; one
        beyond float64's range is infinite or 0. The quotient is rounded to float32 once more if
        the result is float32. A NaN is converted as without a scale. For several scales multiply x
        yourself, or use `quantize_blocks`. Not on a GPU, nor for integers beyond 2^53.
    random : array_like of integers, of x's shape, optional
        Random integers R, from 0 to 2^random_bits - 1, instead of the stream's.
    out : array or tensor, optional
        Written instead of a new array: same shape and dtype as the result, ``x`` itself allowed.
    **options

    Returns
    -------
    array or tensor of x's shape
        Same kind of array as `x`, with the labels of a Series or DataFrame; float32 for float32 and
        narrower inputs if the format's values are float32 numbers (``format.fits_fp32``), else
        float64. Every element is a value of `format`, an infinity or NaN.

    Notes
    -----
    NaN gives NaN, also in formats without NaN. -0, and values that round to it, give -0 in formats
    that have it. Unsigned formats: a negative result is NaN, or the lowest value when saturating.
    Empty arrays give empty arrays. Small numbers become 0 without a warning: `cast_statistics`
    tells the share of them, ``underflow_rate``. The rule is docs/definitions.md, section 6 (IEEE
    754-2019 section 4.3; P3109 for its formats).

    Raises
    ------
    ValueError
        Unknown format, rounding, overflow or underflow; a projection together with its parts; a
        wrong shape of `out` or `random`; a read-only `out`; random integers beyond `random_bits`,
        or for a rounding that draws none; a scale that is not positive and finite.
    TypeError
        A dtype that is not a number's; a wrong `out` dtype; random numbers that are not integers; a
        scale that is not a number.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> apscope.quantize(np.float32([0.1, 247.0, 248.0]), "e4m3")
    array([1.015625e-01, 2.400000e+02,          inf], dtype=float32)
    >>> small = np.float32([1e-5, -3e-6])
    >>> apscope.quantize(small, "e4m3"), apscope.quantize(small, "e4m3", scale=2.0**16)
    (array([ 0., -0.], dtype=float32), array([ 9.5367432e-06, -3.0994415e-06], dtype=float32))
    """
    seed = taken(options.pop("seed", 0)) if options else 0
    if (
        scale is None
        and random is None
        and (result := _round_at_once(x, format, seed, out, options)) is not None
    ):
        return result
    f, s = as_format(format), QUANTIZE.settings({**options, "seed": seed})
    if type(x) is not np.ndarray and _on_gpu(x):
        from . import gpu

        if scale is not None:
            raise ValueError(
                "scale= is not supported on a GPU; give x * scale and divide the result, or an "
                "array in the CPU's memory"
            )
        return gpu.quantize(x, f, s, random, out)
    if scale is None:
        call, values = _rounder(x, f, s, random)
        return _run(lambda flat: call(_core.quantize, flat), x, values.dtype, out, values.shape)
    factor = _scale(scale, x)
    call, values = _rounder(x, f, s, random)
    return _run(
        lambda flat: call(_core.quantize_scaled, flat, factor), x, values.dtype, out, values.shape
    )


def _code_dtype(f: FloatFormat) -> np.dtype:
    bits = f.storage_bits
    return np.dtype(
        np.uint8
        if bits <= 8
        else np.uint16
        if bits <= 16
        else np.uint32
        if bits <= 32
        else np.uint64
    )


@ENCODE
def encode(
    x: Any,
    format: FormatLike,
    *,
    random: Any = None,
    nan: int | None = None,
    out: Any = None,
    **options: Unpack[CastOptions],
) -> Any:
    """Round every element to a format and return the codes.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        As for `quantize`.
    format, random, out
        As for `quantize`.
    nan : int, optional
        The code of a NaN in a format without NaN. Without it such a NaN is an error.
    **options

    Returns
    -------
    array or tensor of x's shape
        uint8 for formats up to 8 bits, uint16 up to 16, uint32 up to 32, else uint64: the sign bit,
        the exponent field and the stored significand bits, in the low bits, high bits zero.

    Raises
    ------
    ValueError
        As `quantize`; a NaN that has no code, named by its index.
    """
    f, s = as_format(format), ENCODE.settings(options)
    code = None if nan is None else integer("nan", nan, 0, 2**64 - 1)
    if _on_gpu(x):
        from . import gpu

        return gpu.encode(x, f, s, random, code, _code_dtype(f), out)
    call, values = _rounder(x, f, s, random)
    return _run(lambda flat: call(_core.encode, flat, code), x, _code_dtype(f), out, values.shape)


def decode(
    codes: Any, format: FormatLike, *, keep_payload: bool = False, out: Any = None, threads: int = 1
) -> Any:
    """The values of codes.

    Parameters
    ----------
    codes : array_like or torch.Tensor of integers, any shape
        Codes as returned by `encode`; ml_dtypes arrays, and bfloat16 and float8 tensors, are read
        by their bits.
    format : FloatFormat, str or dtype
        The codes' format.
    keep_payload : bool
        NaN codes give a NaN with their sign and payload, not the canonical one.
    out, threads
        As for `quantize`.

    Returns
    -------
    array or tensor of the same shape
        float32 if the format's values are float32 numbers (``format.fits_fp32``), else float64.

    Raises
    ------
    ValueError
        A code with bits beyond the format's width.
    TypeError
        Codes that are not integers.
    """
    f = as_format(format)
    if _on_gpu(codes):
        from . import gpu

        return gpu.decode(codes, f, keep_payload, out)
    if _is_torch(codes) and str(codes.dtype).startswith(("torch.bfloat16", "torch.float8")):
        import torch

        codes = _without_gradient(codes, "codes").view(
            torch.uint16 if codes.dtype == torch.bfloat16 else torch.uint8
        )
    a = _torch_to_numpy(codes, "codes") if _is_torch(codes) else np.asarray(codes)
    if a.dtype.kind == "V" or a.dtype.name.startswith(
        ("float8_", "bfloat16", "float4_", "float6_")
    ):
        a = np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")
    if a.dtype.kind not in "iu":
        raise TypeError(f"codes have dtype {a.dtype}; give unsigned integers")
    if a.dtype.kind == "i" and a.size and a.min() < 0:
        raise ValueError(f"code {a.min()} is negative; give unsigned codes")
    width = np.dtype(f"u{a.dtype.itemsize}")
    # There is no loop from such wide codes to float32.
    if a.dtype.itemsize == 8 and f.storage_bits <= 32:
        if a.size and int(a.max()) >= 2**32:
            raise ValueError(
                f"code {a.max()} is wider than {f.name}, which has {f.storage_bits} bits"
            )
        width = np.dtype(np.uint32)
    a = contiguous(a, width).reshape(a.shape)
    payload, count = flag("keep_payload", keep_payload), integer("threads", threads, 0, 2**20)

    def write(flat: np.ndarray) -> None:
        _core.decode(a.reshape(-1), flat, f, payload, count)

    return _run(write, codes, np.dtype(np.float32 if f.fits_fp32 else np.float64), out, a.shape)
