"""Finds the formats that agree with a dtype or a table of values, code by code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._arrays.casts import decode
from .._arrays.dtypes import dtype_bits, is_dtype, is_torch_dtype, numpy_dtype
from .._core import FloatFormat
from .._text import count_of
from .blackbox import name_of, same
from .formats import named_formats

WIDEST = 20  # bits: a table of a million values


def identify(what: Any) -> list[FloatFormat]:
    """The formats in which every code has the same value as in `what`.

    Parameters
    ----------
    what : dtype or sequence of float, 2^K values
        A floating-point dtype of NumPy, ml_dtypes or torch, or the values of the codes 0, 1, ...,
        2^K - 1 in that order, 1 <= K <= 20, with NaN, infinities and -0 in their places.

    Returns
    -------
    list of FloatFormat
        At least one: named formats first, then unnamed ones, of every exponent and mantissa width,
        any bias, any number of NaN codes, with and without infinity, subnormals, signed zero and
        sign. Formats that differ only by `even_code_ties` have the same values, so both can be in
        the list.

    Notes
    -----
    All NaNs are one value here; the signs of zeros are compared. float32 has too many codes for a
    table; its answer comes from its definition, IEEE 754 binary32.

    Raises
    ------
    ValueError
        A table whose length is not a power of two; a table that matches no format (the message has
        the nearest named one and the first differing code); a dtype that is too wide.
    TypeError
        Neither a dtype nor a sequence of numbers.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> apscope.identify(np.float16)
    [FloatFormat('fp16')]
    >>> apscope.identify([0, 1, 2, 3, -0.0, -1, -2, -3])[0]
    FloatFormat('e1m1finite')
    """
    if is_dtype(what) and dtype_bits(what) == 32:
        return [FloatFormat("fp32")]
    table = table_of(what)
    bits = _width(table)
    formats = [
        f
        for f in named_formats().values()
        if f.storage_bits == bits and same(_values(f), table).all()
    ]
    for f in _general(table, bits):
        if f not in formats:
            formats.append(f)
    if not formats:
        raise ValueError(f"{_what(what, table)} matches no format; {_nearest(table, bits)}")
    return formats


def table_of(what: Any) -> np.ndarray:
    """The float64 values of all codes of a dtype, or a sequence of values as an array."""
    if is_torch_dtype(what):
        return _torch_table(what)
    dtype = numpy_dtype(what)
    if dtype is not None:
        bits = _narrow(what)
        codes = np.arange(2**bits, dtype=f"u{dtype.itemsize}")
        with np.errstate(all="ignore"):
            return codes.view(dtype).astype(np.float64)
    if isinstance(what, (str, bytes)) or not hasattr(what, "__len__"):
        raise TypeError(
            f"{type(what).__name__} is neither a floating-point dtype nor a sequence of values"
        )
    try:
        table = np.asarray(what, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "the table has an entry that is not a number; give the values of the codes in order"
        ) from None
    if table.ndim != 1:
        raise ValueError(
            f"the table has shape {table.shape}; give one axis, the values of the codes in order"
        )
    return table


def _narrow(what: Any) -> int:
    bits = dtype_bits(what)
    if bits > WIDEST:
        raise ValueError(
            f"{name_of(what)} has {bits} bits per code; a table of "
            f"at most {WIDEST} bits can be compared"
        )
    return bits


def _torch_table(what: Any) -> np.ndarray:
    import torch

    bits = _narrow(what)
    if "_x2" in str(what):
        raise ValueError(f"{what} has no conversion to single values; give a table of them")
    codes = torch.from_numpy(np.arange(2**bits, dtype=np.uint8 if bits == 8 else np.int32))
    if bits == 16:
        codes = codes.to(torch.uint16)
    return codes.view(what).to(torch.float64).numpy()


def _width(table: np.ndarray) -> int:
    bits = len(table).bit_length() - 1
    if len(table) != 1 << max(bits, 0) or not 1 <= bits <= WIDEST:
        raise ValueError(
            f"the table has {count_of(len(table), 'value')}; a format of K bits "
            f"has 2^K, with K from 1 to {WIDEST}"
        )
    return bits


def _values(f: FloatFormat) -> np.ndarray:
    dtype = np.uint16 if f.storage_bits <= 16 else np.uint32
    return decode(np.arange(2**f.storage_bits, dtype=dtype), f).astype(np.float64)


def _general(table: np.ndarray, bits: int) -> list[FloatFormat]:
    """Every format of this width with these values; candidates come from the table itself."""
    formats = []
    for is_signed in (True, False):
        half = len(table) // 2 if is_signed else len(table)
        magnitudes = table[:half]
        specials = _specials(magnitudes)
        for mantissa_bits in range(bits - is_signed + 1):
            exponent_bits = bits - is_signed - mantissa_bits
            if not 0 <= exponent_bits <= 11:
                continue
            for f in _candidates(
                table, magnitudes, exponent_bits, mantissa_bits, is_signed, specials
            ):
                if same(_values(f), table).all():
                    formats.append(f)
                    break  # the other is an equivalent description
    return formats


def _specials(magnitudes: np.ndarray) -> tuple[int, bool]:
    """NaN codes at the top of one sign, and whether an infinity is below them."""
    numbers = np.flatnonzero(~np.isnan(magnitudes))
    if numbers.size == 0:
        return 0, False
    return len(magnitudes) - 1 - int(numbers[-1]), math.isinf(magnitudes[numbers[-1]])


def _candidates(
    table: np.ndarray,
    magnitudes: np.ndarray,
    exponent_bits: int,
    mantissa_bits: int,
    is_signed: bool,
    specials: tuple[int, bool],
) -> Iterator[FloatFormat]:
    """With and without subnormals: the bias from the value of one code, the rest from the table."""
    nan_codes, has_infinity = specials
    one = 1 << mantissa_bits  # exponent field 1, fraction 0
    step = _log2(magnitudes[1]) if len(magnitudes) > 1 else None  # the smallest positive value
    normal = _log2(magnitudes[one]) if one < len(magnitudes) else None
    zero = "none" if magnitudes[0] != 0 else "single"
    if is_signed and table[len(magnitudes)] == 0:
        zero = "both_signs"
    common: dict[str, Any] = dict(
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
        is_signed=is_signed,
        zero=zero,
        nan_codes=nan_codes,
        has_infinity=has_infinity,
        nan_at_negative_zero=is_signed and math.isnan(table[len(magnitudes)]),
    )
    for subnormals in (True, False):
        # Exponent of field 0.
        lowest = step + mantissa_bits if step is not None and mantissa_bits else None
        if normal is not None:
            bias = 1 - normal
        elif lowest is not None:
            bias = 1 - lowest  # field 1 has no number
        else:
            continue
        choice = dict(common, bias=bias, subnormals=subnormals)
        if subnormals:
            choice["subnormal_exponent"] = 1 - bias if lowest is None else lowest
        try:
            yield FloatFormat(**choice)
        except ValueError:
            continue  # no such format: out of float64's range, or no finite value


def _log2(value: float) -> int | None:
    """The exponent of a positive power of two, else None."""
    if not (math.isfinite(value) and value > 0):
        return None
    significand, exponent = math.frexp(value)
    return exponent - 1 if significand == 0.5 else None


def _what(what: Any, table: np.ndarray) -> str:
    return name_of(what) if is_dtype(what) else f"the table of {count_of(len(table), 'value')}"


def _nearest(table: np.ndarray, bits: int) -> str:
    near: tuple[int, str, int, float] | None = None
    for name, f in named_formats().items():
        if f.storage_bits == bits:
            values = _values(f)
            differing = np.flatnonzero(~same(values, table))
            if near is None or len(differing) < near[0]:
                near = (len(differing), name, int(differing[0]), values[differing[0]])
    if near is None:
        widths = sorted(
            {f.storage_bits for f in named_formats().values() if f.storage_bits <= WIDEST}
        )
        return f"no named format has {bits} bits, they have {', '.join(map(str, widths))}"
    count, name, code, value = near
    return (
        f"the nearest named one is {name}, which differs at {count} codes, first at code "
        f"{code:#x}: {value:g} there, {table[code]:g} here"
    )
