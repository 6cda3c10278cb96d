"""Block formats applied to arrays (MX, NVFP4, shared exponents), and codes packed without gaps."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from .. import _core
from .._core import BlockFormat
from .axes import around, check_scales, scale_shape
from .checks import flag, integer, text
from .inputs import _input, _is_torch, _like, _on_gpu, _run, _torch_to_numpy, as_format
from .options import Options, RoundingOptions

__all__ = [
    "BlockFormat", "EncodedBlocks", "decode_blocks", "encode_blocks", "named_block_formats",
    "pack", "quantize_blocks", "unpack",
]  # fmt: skip

BLOCKS = Options(RoundingOptions, overflow="saturate")

#: The arguments of `BlockFormat` besides a name, and what makes each of them.
_FIELDS: dict[str, Callable[[Any], Any]] = {
    "element": as_format,
    "scale": as_format,
    "block_size": functools.partial(integer, "block_size", low=-(2**31), high=2**31 - 1),
    "rule": functools.partial(text, "rule"),
    "twos_complement": functools.partial(flag, "twos_complement"),
    "tensor_scale": functools.partial(flag, "tensor_scale"),
    "nonfinite": functools.partial(text, "nonfinite"),
}
_make = BlockFormat.__init__


@functools.wraps(_make)
def _init(self: BlockFormat, *given: Any, **fields: Any) -> None:
    names = [*given, *([fields["name"]] if "name" in fields else [])]
    if len(names) + bool(fields.keys() - {"name"}) > 1:
        raise TypeError(
            "BlockFormat takes a name alone, such as BlockFormat('mxfp4,block=16'), or its "
            f"fields by keyword: {', '.join(_FIELDS)}"
        )
    if names:
        _make(self, names[0])
    else:
        _make(self, **_checked(fields))


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `BlockFormat` as C++ takes them; formats may be names or dtypes."""
    for name in fields:
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.5)
            raise TypeError(
                f"BlockFormat has no argument '{name}'; "
                + (f"did you mean {near[0]}?" if near else f"its fields are {', '.join(_FIELDS)}")
            )
    if missing := [name for name in ("element", "scale") if name not in fields]:
        raise TypeError(
            f"BlockFormat needs {' and '.join(missing)}, such as element='e2m1fn', "
            "scale='e8m0fnu', or a block format's name alone, such as 'mxfp4'"
        )
    return {name: _FIELDS[name](value) for name, value in fields.items()}


# The class is made in C++, its messages here.
BlockFormat.__init__ = _init  # type: ignore[method-assign]


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedBlocks:
    """The result of `encode_blocks`; its parts are arguments of `decode_blocks`."""

    codes: Any  #: uint8 element codes, of the array's shape
    scales: Any  #: uint8 scale codes; along the axis one for each block
    tensor_scale: float | None  #: a float32 number, None for formats without one


def named_block_formats() -> dict[str, BlockFormat]:
    """The block formats that have names.

    Returns
    -------
    dict
        Name -> block format, in the table's order.
    """
    return {row["name"]: row["format"] for row in _core.named_block_formats()}


def _as_block_format(format: BlockFormat | str) -> BlockFormat:
    if isinstance(format, BlockFormat):
        return format
    if isinstance(format, str):
        return BlockFormat(format)
    raise TypeError(
        f"format is {type(format).__name__}; give a BlockFormat or a block format's name"
    )


def _bytes(codes: Any, what: str) -> np.ndarray:
    """Codes as contiguous uint8; one-byte dtypes (int8, of ml_dtypes, of torch) by their bits."""
    if _is_torch(codes):
        if codes.element_size() == 1:
            import torch

            codes = codes.view(torch.uint8)
        a = _torch_to_numpy(codes, what)
    else:
        a = np.asarray(codes)
        if a.dtype.itemsize == 1 and (a.dtype.kind in "ibV" or a.dtype.name.startswith("float")):
            a = np.ascontiguousarray(a).view(np.uint8).reshape(a.shape)
    if a.dtype.kind not in "iu" and a.size:
        raise TypeError(f"{what} have dtype {a.dtype}; give unsigned 8-bit integers")
    if a.size and not 0 <= int(a.min()) <= int(a.max()) <= 255:
        bad = a.min() if a.min() < 0 else a.max()
        raise ValueError(f"{what} hold {bad}, which is not between 0 and 255")
    return np.ascontiguousarray(a, np.uint8).reshape(a.shape)


def _check_tensor_scale(f: BlockFormat, tensor_scale: float | None) -> None:
    if f.tensor_scale != (tensor_scale is not None):
        raise ValueError(
            f"{f.name} {'needs a' if f.tensor_scale else 'has no'} tensor_scale; "
            f"tensor_scale={tensor_scale} was given"
        )
    if tensor_scale is not None and not 0 < tensor_scale < np.inf:
        raise ValueError(f"tensor_scale={tensor_scale} is not a positive finite number")


@BLOCKS
def quantize_blocks(
    x: Any,
    format: BlockFormat | str,
    *,
    axis: int = -1,
    out: Any = None,
    **options: Unpack[RoundingOptions],
) -> Any:
    """Round every element to a value of a block format.

    Parameters
    ----------
    x : array_like or torch.Tensor, at least one dimension
        float32 or float64; narrower floats and integers are widened exactly. Not changed. Formats
        with ``rule=ratio`` (NVFP4) are defined by float32 operations and do not accept float64.
    format : BlockFormat or str
        ``"mxfp8_e4m3"``, ``"nvfp4"``, ``"mxfp4,rule=ceil"``, ``"bfp:8:16"``, ...
    axis : int
        Blocks are runs of ``format.block_size`` elements along this axis; the last may be shorter.
    out : array or tensor, optional
        Written instead of a new array: same shape and dtype as the result, ``x`` itself allowed.
    **options
        They apply to elements: power-of-two scales are exact by their rule; ratio scales are
        rounded to nearest, ties to even. Elements above the largest, and infinite ones, become the
        largest by default, and always with ``rule=ratio``; a projection has its own overflow rule.
        Element ``i`` (in C order) uses random word ``i``.

    Returns
    -------
    array or tensor of x's shape
        Same kind of array as `x`; float32 for float32 and narrower inputs, else float64.

    Notes
    -----
    A block's scale is computed from its largest finite magnitude and is a value of the scale
    format. A block of zeros stays zeros (signs kept where the elements have -0). OCP does not say
    what an infinity or a NaN does to its block. By default (``nonfinite=apart``) an infinity
    becomes the largest value under the scale of the finite elements, and a NaN stays in its
    element if elements have NaN (``mxfp8``), otherwise the whole block becomes NaN;
    ``nonfinite=torchao``, ``torchao_0.18`` and ``transformer_engine`` are the rules of those
    libraries. A value beyond float32 is infinite in a float32 result, though the codes represent
    it: next to the largest float32 number (3.4e38), the rules ``ceil``, ``rceil``, ``even`` and
    ``nearest`` can round up to 2^128. docs/definitions.md, section 11, has every rule.

    Raises
    ------
    ValueError
        Unknown format, rounding or overflow; no such axis; a wrong `out` shape; float64 where it is
        not accepted.
    TypeError
        A dtype that is not a number's; a wrong `out` dtype.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> apscope.quantize_blocks(np.float32([500.0, 1.0, 0.3]), "mxfp8_e4m3")
    array([4.480e+02, 1.000e+00, 3.125e-01], dtype=float32)
    """
    f, s = _as_block_format(format), BLOCKS.settings(options)
    if _on_gpu(x):
        from . import gpu

        return gpu.quantize_blocks(x, f, axis, s, out)
    a = _input(x)
    _, shape = around(a.shape, axis)

    def write(flat: np.ndarray) -> None:
        _core.quantize_blocks(a.reshape(-1), flat, shape, f, *s)

    return _run(write, x, a.dtype, out, a.shape)


@BLOCKS
def encode_blocks(
    x: Any,
    format: BlockFormat | str,
    *,
    axis: int = -1,
    **options: Unpack[RoundingOptions],
) -> EncodedBlocks:
    """Round to a block format and return the codes of elements and scales.

    Parameters
    ----------
    x, format, axis
        As for `quantize_blocks`.
    **options

    Returns
    -------
    EncodedBlocks
        ``codes``: uint8 of x's shape, the code in the low bits. ``scales``: uint8, x's shape with
        ceil(length / block_size) along `axis`. Both are of x's kind of array; 8-bit codes can be
        viewed as the dtypes of ml_dtypes or torch without a copy. ``tensor_scale``: the number
        that values are divided by after decoding, None for formats without one.

    Raises
    ------
    ValueError, TypeError
        As `quantize_blocks`.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> encoded = apscope.encode_blocks(np.float32([500.0, 1.0, -0.5]), "mxfp8_e4m3")
    >>> encoded.codes, encoded.scales
    (array([126,  56, 176], dtype=uint8), array([127], dtype=uint8))
    """
    f, s = _as_block_format(format), BLOCKS.settings(options)
    if _on_gpu(x):
        from . import gpu

        codes, scales, tensor_scale = gpu.encode_blocks(x, f, axis, s)
        return EncodedBlocks(codes, scales, tensor_scale if f.tensor_scale else None)
    a = _input(x)
    at, shape = around(a.shape, axis)
    codes = np.empty(a.shape, np.uint8)
    scales = np.empty(scale_shape(a.shape, at, f), np.uint8)
    tensor_scale = _core.encode_blocks(
        a.reshape(-1), codes.reshape(-1), scales.reshape(-1), shape, f, *s
    )
    return EncodedBlocks(
        _like(x, codes), _like(x, scales), tensor_scale if f.tensor_scale else None
    )


def decode_blocks(
    codes: Any,
    scales: Any,
    format: BlockFormat | str,
    *,
    axis: int = -1,
    tensor_scale: float | None = None,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The values of block codes.

    Parameters
    ----------
    codes, scales : array_like or torch.Tensor of uint8
        As returned by `encode_blocks`; arrays of 8-bit ml_dtypes and torch dtypes are read by their
        bits.
    format, axis
        As for `encode_blocks`.
    tensor_scale : float, optional
        Needed by formats that have one, and only by those.
    out : float32 array or tensor, optional
        Written instead of a new array: the shape of `codes`.
    threads : int
        0 uses all of the machine's. Their number never changes a bit.

    Returns
    -------
    float32 array or tensor of the shape of `codes`
        element * scale, divided by the tensor scale in float32. All NaN if the scale is. The same
        as `quantize_blocks` of a float32 array, bit for bit.

    Raises
    ------
    ValueError
        Shapes that disagree; a code wider than its format; a tensor scale missing or not positive
        and finite, or given for a format without one.
    TypeError
        Codes that are not integers.
    """
    f = _as_block_format(format)
    if _on_gpu(codes):
        from . import gpu

        _check_tensor_scale(f, tensor_scale)
        return gpu.decode_blocks(codes, scales, f, axis, tensor_scale, out)
    a, s = _bytes(codes, "codes"), _bytes(scales, "scales")
    at, shape = around(a.shape, axis)
    check_scales(a.shape, s.shape, at, f)
    _check_tensor_scale(f, tensor_scale)
    threads = integer("threads", threads, 0, 2**20)

    def write(flat: np.ndarray) -> None:
        divisor = 1.0 if tensor_scale is None else tensor_scale
        _core.decode_blocks(a.reshape(-1), s.reshape(-1), divisor, flat, shape, f, threads)

    return _run(write, codes, np.dtype(np.float32), out, a.shape)


def pack(codes: Any, bits: int) -> Any:
    """Put codes of 1 to 8 bits side by side without gaps.

    Parameters
    ----------
    codes : array_like or torch.Tensor of integers, at least one dimension
        Each below 2^bits.
    bits : int
        Width of a code, 1 to 8.

    Returns
    -------
    uint8 array or tensor
        Each line along the last axis takes ceil(length * bits / 8) bytes. Code i of a line occupies
        the bits i*bits .. i*bits + bits - 1 of its bytes, low bit first (little-endian); the unused
        high bits of the last byte are 0. With bits=4 the first code of a pair is the low nibble, as
        in torch.float4_e2m1fn_x2.

    Raises
    ------
    ValueError
        A code that is too wide; bits outside 1 to 8; an array without an axis.
    TypeError
        Codes that are not integers.

    Examples
    --------
    >>> import apscope
    >>> apscope.pack([1, 2, 3], 4)
    array([33,  3], dtype=uint8)
    """
    bits = integer("bits", bits, 1, 8)
    a = _bytes(codes, "codes")
    _, (_, length, _) = around(a.shape, -1)
    result = np.empty((*a.shape[:-1], _core.packed_size(length, bits)), np.uint8)
    _core.pack(a.reshape(-1), result.reshape(-1), int(np.prod(a.shape[:-1])), bits)
    return _like(codes, result)


def unpack(bytes: Any, bits: int, count: int) -> Any:
    """The inverse of `pack`.

    Parameters
    ----------
    bytes : array_like or torch.Tensor of uint8, at least one dimension
        Packed lines along the last axis.
    bits : int
        Width of a code, 1 to 8.
    count : int
        Codes in a line.

    Returns
    -------
    uint8 array or tensor
        Shape of `bytes` with `count` for the last axis.

    Raises
    ------
    ValueError
        A last axis that is not ceil(count * bits / 8) long; bits outside 1 to 8; a negative count.
    TypeError
        Bytes that are not integers.
    """
    bits, count = integer("bits", bits, 1, 8), integer("count", count, 0, 2**62)
    a = _bytes(bytes, "bytes")
    _, (_, length, _) = around(a.shape, -1)
    needed = _core.packed_size(count, bits)
    if length != needed:
        raise ValueError(f"a line has {length} bytes; {count} codes of {bits} bits take {needed}")
    result = np.empty((*a.shape[:-1], count), np.uint8)
    _core.unpack(a.reshape(-1), result.reshape(-1), int(np.prod(a.shape[:-1])), bits)
    return _like(bytes, result)
