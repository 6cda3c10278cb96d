"""The dtypes of arrays in dumps, by safetensors' names, and conversion to dtypes of a trace."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from .._arrays.casts import decode
from .._text import count_of
from .._traces.safetensors import BFLOAT16, storable

#: Names of floating-point codes without a NumPy type, and their formats.
CODES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn",
}
_PLAIN = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
_WORDS = {name: word for word, name in (_PLAIN | CODES).items()} | {"float4_e2m1fn_x2": "F4"}


@cache
def word_of(dtype: np.dtype | str) -> str:
    """The safetensors name of a NumPy, ml_dtypes or torch dtype; the dtype's own name if none."""
    name = dtype if isinstance(dtype, str) else dtype.name
    return _WORDS.get(name, name)


def numpy_dtype(word: str) -> np.dtype | None:
    """The memory layout of `word`, little-endian; unsigned integers for codes; else None."""
    if word in CODES:
        return np.dtype("<u2" if word == "BF16" else "u1")
    return np.dtype(_PLAIN[word]).newbyteorder("<") if word in _PLAIN else None


def of_name(name: str) -> tuple[np.dtype, str] | None:
    """Memory layout and word of a header that names a type NumPy lacks; None for other names."""
    word = _WORDS.get(name.lstrip("<|="))
    dtype = numpy_dtype(word) if word in CODES else None
    return None if dtype is None or word is None else (dtype, word)


def unpacked(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The codes of packed FP4, one per byte, in `shape`: a byte's low half is the first of its two.

    That is the order of ``torch.float4_e2m1fn_x2`` and of safetensors' F4.
    """
    codes = np.empty((values.size, 2), np.uint8)
    flat = values.view(np.uint8).ravel()
    np.bitwise_and(flat, 15, out=codes[:, 0])
    np.right_shift(flat, 4, out=codes[:, 1])
    return codes.ravel()[: math.prod(shape)].reshape(shape)


def plain(values: Any) -> np.ndarray:
    """An array of any library as NumPy's, little-endian, bytes without a type as codes."""
    array = np.asarray(values)
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize in (1, 2):
        return array.view(f"<u{array.dtype.itemsize}")
    dtype = numpy_dtype(word_of(array.dtype))
    return (
        array if dtype is None or word_of(array.dtype) in CODES else array.astype(dtype, copy=False)
    )


def code_word(name: str) -> str:
    """The safetensors name of ``--raw-dtype``.

    Raises
    ------
    ValueError
        An unknown name.
    """
    if name not in CODES.values():
        raise ValueError(f"raw_dtype is {name!r}; it must be one of {', '.join(CODES.values())}")
    return _WORDS[name]


def raw_word(word: str, raw: str | None) -> str:
    """The type of an array without a floating-point type whose bytes are codes of `raw`."""
    width = {"void16": 2, "void8": 1, "I16": 2, "U16": 2, "I8": 1, "U8": 1}.get(word)
    return raw if raw is not None and width == (2 if raw == "BF16" else 1) else word


def raw_types(
    raw: str | Mapping[str, str] | Sequence[tuple[str, str]] | None,
) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The words of ``--raw-dtype``, each with the expression of the addresses that it is for.

    Raises
    ------
    ValueError
        An unknown name, not a regular expression, or not a pair.
    """
    types = []
    pairs = [("", raw)] if isinstance(raw, str) else raw or ()
    for pair in pairs.items() if isinstance(pairs, Mapping) else pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(
                f"raw_dtype has {pair!r}, which is not a pair of a regular expression and a type"
            )
        address, name = pair
        try:
            types.append((re.compile(address), code_word(name)))
        except re.error as error:
            raise ValueError(
                f"raw_dtype {address!r} is not a regular expression: {error}"
            ) from None
    return tuple(types)


def check_word(word: str, what: str) -> None:
    """Refuses an array that is not a gradient, with a sentence that begins with `what`.

    Raises
    ------
    ValueError
        A dtype that is not floating point.
    """
    if word.startswith("F") or word == "BF16":
        if word in CODES or word in _PLAIN:
            return
    elif word.startswith("void"):
        raise ValueError(
            f"{what} has values of {count_of(int(word[4:]) // 8, 'byte')} without a type, as NumPy "
            "writes bfloat16 and fp8; pass --raw-dtype NAME"
        )
    elif word in _PLAIN:
        raise ValueError(
            f"{what} has dtype {_PLAIN[word]}, which is not a gradient's; leave it out with "
            "--tensors, or pass --raw-dtype if it contains codes"
        )
    elif word == "object":
        raise ValueError(
            f"{what} contains objects, not numbers (pickles are not opened because that can run "
            "code); leave it out with --tensors"
        )
    raise ValueError(
        f"{what} has dtype {word}; a trace has only real floating-point "
        "numbers; leave it out with --tensors"
    )


def to_store(values: np.ndarray, word: str, what: str, round_to_fp32: bool) -> np.ndarray:
    """The same values in a dtype of a trace.

    fp32, fp16 and bfloat16 are unchanged; fp8 and fp4 become fp16, E8M0 fp32, which is exact; fp64
    becomes fp32 if that is exact for every element, or if `round_to_fp32` allows rounding.

    Raises
    ------
    ValueError
        An fp64 value that is not an fp32 value; the sentence begins with `what`.
    """
    if word == "BF16":
        return values.astype("<u2").view(BFLOAT16)
    if word in CODES:
        numbers = np.asarray(decode(values.view(np.uint8), CODES[word]))
        return numbers.astype(np.float32 if word == "F8_E8M0" else np.float16).reshape(values.shape)
    return storable(values, what, round_to_fp32, remedy="pass --round-to-fp32 to round such values")
