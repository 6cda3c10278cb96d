"""Tables as one compressed block of bytes, which page/decode.js decodes.

gzip of: the length of a JSON header (4 bytes, little-endian), the header, the columns' bytes one
after another. Text is a dictionary and its codes; numbers are fp32, those of `EXACT` fp64, integers
unsigned of 1, 2 or 4 bytes. The bytes of a column are shuffled: first the lowest byte of every
value, then the next, so that gzip finds the bytes that repeat. Rounding to fp32 moves a number by
at most 6e-8 of itself.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .._text import visible

#: Columns whose differences are shown.
EXACT = ("nmse",)

#: Above this power of two fp32 overflows, and below minus this one its numbers lose digits.
_SAFE_EXPONENT = 120


def pack(tables: Mapping[str, pd.DataFrame], **others: Any) -> bytes:
    """The tables, and other values that JSON can hold, as bytes.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Columns of text (object or string), numbers, nullable integers and booleans.
    **others
        Entries of the header beside ``tables``.
    """
    header: dict[str, Any] = {"tables": {}, **others}
    parts = []
    for name, table in tables.items():
        columns = []
        for column in table:
            values, about = _encoded(table[column])
            columns.append({"name": str(column), "type": values.dtype.str[1:], **about})
            parts.append(
                np.ascontiguousarray(
                    values.view(np.uint8).reshape(len(values), values.dtype.itemsize).T
                ).tobytes()
            )
        header["tables"][name] = {"length": len(table), "columns": columns}
    header = _visible(header)  # as the names in the page's text
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return gzip.compress(
        b"".join([len(text).to_bytes(4, "little"), text, *parts]), compresslevel=7, mtime=0
    )


def _visible(value: Any) -> Any:
    """A value of JSON whose texts are `visible`."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {_visible(key): _visible(one) for key, one in value.items()}
    return [_visible(one) for one in value] if isinstance(value, list | tuple) else value


def base64_of(data: bytes) -> str:
    """Base64 text, which is safe between two tags."""
    return base64.b64encode(data).decode()


def _encoded(column: pd.Series) -> tuple[np.ndarray, dict[str, Any]]:
    """Stored values, little-endian, and the facts that decode.js needs to restore them."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(np.uint8), {}
    if not pd.api.types.is_numeric_dtype(column.dtype):
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes, levels = pd.factorize(column)  # the values present
        else:
            codes, levels = pd.factorize(column.astype(object).where(column.notna(), ""))
        return _unsigned(codes), {"levels": [str(level) for level in levels]}
    if pd.api.types.is_integer_dtype(column.dtype):
        empty = column.isna().to_numpy()
        whole = column.to_numpy(np.int64, na_value=0)
        first = int(whole[~empty].min(initial=0))
        # Code 0 is an empty cell, if there are any.
        return _unsigned(np.where(empty, 0, whole - first + bool(empty.any()))), {
            "first": first,
            "gaps": bool(empty.any()),
        }
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    if column.name in EXACT and column.dtype != np.float32:
        return numbers.astype("<f8"), {}
    sizes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    smallest, largest = (
        (math.frexp(sizes.min())[1], math.frexp(sizes.max())[1]) if len(sizes) else (0, 0)
    )
    shift = (
        0 if smallest > -_SAFE_EXPONENT and largest < _SAFE_EXPONENT else _SAFE_EXPONENT - largest
    )
    return np.ldexp(numbers, shift).astype("<f4"), {"shift": shift} if shift else {}


def _unsigned(codes: np.ndarray) -> np.ndarray:
    kind = np.min_scalar_type(int(codes.max(initial=0)))
    return codes.astype("<f8" if kind.itemsize > 4 else kind.newbyteorder("<"))
