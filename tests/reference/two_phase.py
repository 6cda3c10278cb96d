"""A reduction in two phases, shard by shard, by section 1 of docs/definitions.md, with the casts of
ml_dtypes. `encode(row)` returns what a receiver reads of a row that is encoded alone."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from .formats import FORMATS
from .schemes import amax, shift

Encode = Callable[[np.ndarray], np.ndarray]

#: ml_dtypes' names of the formats that the tests use.
DTYPES = {
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3": ml_dtypes.float8_e4m3,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e3m4": ml_dtypes.float8_e3m4,
    "e2m1fn": ml_dtypes.float4_e2m1fn,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp32": np.float32,
}


def cast(name: str) -> Encode:
    """Ties to even; a value beyond the format is infinite, or NaN where it has no infinity. NaN
    stays NaN in a format without one."""
    dtype = DTYPES[name]

    def encode(row: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            cast_row = np.asarray(row, np.float64).astype(dtype).astype(np.float64)
        return np.where(np.isnan(row), np.nan, cast_row)

    return encode


def scaled(name: str, unit: int | None = None) -> Encode:
    """By the largest power of two that keeps the unit within the format, as if its largest were
    at least 2^-126; 1 for a unit of zeros. Non-finite values do not count."""
    inner = cast(name)

    def encode(row: np.ndarray) -> np.ndarray:
        out = np.empty(row.size)
        for first in range(0, row.size, unit or max(row.size, 1)):
            part = np.asarray(row[first : first + (unit or row.size)], np.float64)
            s = shift(amax(part), FORMATS[name], "one", 1, "tight")
            out[first : first + part.size] = inner(np.ldexp(part, s)) * 2.0**-s
        return out

    return encode


def reduce(
    x: np.ndarray,
    leaf: Encode,
    finish: Encode | None,
    *,
    sum_dtype: type = np.float32,
    own: bool = False,
) -> np.ndarray:
    """The sum of the workers' rows x (W, n). finish: what encodes the sums, None for none; own: the
    owner's part of its shard is not encoded."""
    workers, n = x.shape
    with np.errstate(over="ignore", invalid="ignore"):
        sent = np.stack([leaf(row) for row in x]).astype(np.float32)
    length = -(-n // workers)
    result = np.empty(n)
    for s in range(workers):
        shard = slice(s * length, min((s + 1) * length, n))
        if shard.start >= n:
            break
        rows = sent[:, shard].copy()
        if own:
            rows[s] = x[s, shard]
        with np.errstate(over="ignore", invalid="ignore"):
            total = rows[0].astype(np.float64)
            for row in rows[1:]:
                # Of two fp32 numbers; in fp64 first, whose 53 bits make the second rounding the one.
                total = (total + row).astype(sum_dtype).astype(np.float64)
        result[shard] = total if finish is None else finish(total)
    return result
