"""One tensor's stored values: micro-batches are added, then the loss scale is divided out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .._arrays.casts import decode, quantize
from .._text import plain_number
from .._traces.safetensors import as_bfloat16
from .dtypes import CODES, numpy_dtype, to_store


def stored_values(
    batches: Sequence[tuple[np.ndarray, str]],
    what: str,
    *,
    accumulate: str | None = None,
    scale: float = 1.0,
    round_to_fp32: bool = False,
) -> np.ndarray:
    """The values of one step, worker and tensor in a dtype of a trace.

    `batches`: the micro-batches in ascending order, each with the name of its dtype, or the one
    array. Their sum is rounded after every addition to fp32, as Megatron-LM's main_grad, or
    (`accumulate` is ``own``) to the arrays' own dtype, as autograd adds to ``.grad``; float64 is
    added in float64. The loss `scale` that the values still include is divided out. Where a value
    would not be an fp32 value, it is refused, or rounded if `round_to_fp32`. Every error begins
    with `what`.

    Raises
    ------
    ValueError
        A value is not an fp32 value, or micro-batches have several dtypes, or one in which none
        are added.
    """
    values, word = batches[0]
    if len(batches) > 1:
        values, word = _added(batches, what, accumulate == "own")
    if scale == 1:
        return to_store(values, word, what, round_to_fp32)
    return _narrow(_divided(_real(values, word), scale, what, round_to_fp32), word)


def _real(values: np.ndarray, word: str) -> np.ndarray:
    """The values in a floating-point type of NumPy's; exact."""
    if word not in CODES:
        return values
    codes = np.ascontiguousarray(values).view(np.dtype(numpy_dtype(word)))
    return np.asarray(decode(codes, CODES[word]), dtype=np.float32).reshape(values.shape)


def _added(
    batches: Sequence[tuple[np.ndarray, str]], what: str, in_own_dtype: bool
) -> tuple[np.ndarray, str]:
    words = {word for _, word in batches}
    word = batches[0][1]
    if in_own_dtype and len(words) > 1:
        raise ValueError(
            f"{what} has micro-batches of several dtypes, {' and '.join(sorted(words))}; pass "
            "--accumulate fp32"
        )
    if in_own_dtype and word in CODES and word != "BF16":
        raise ValueError(
            f"{what} has dtype {CODES[word]}, in which no training adds micro-batches; pass "
            "--accumulate fp32"
        )
    narrow = in_own_dtype and word in ("BF16", "F16")
    kind = np.float64 if "F64" in words else np.float32
    total = _real(*batches[0]).astype(kind)
    for values, of in batches[1:]:
        with np.errstate(over="ignore", invalid="ignore"):
            total = total + _real(values, of).astype(kind)
            if narrow:  # from fp32, whose 24 bits make the second rounding harmless
                total = np.asarray(quantize(total, "bfloat16" if word == "BF16" else "float16"))
    if narrow:
        return total.astype(np.float16) if word == "F16" else as_bfloat16(total).view("<u2"), word
    return total, "F64" if kind is np.float64 else "F32"


def _divided(values: np.ndarray, scale: float, what: str, allowed: bool) -> np.ndarray:
    """fp32: the quotients, all exact, or, if `allowed`, rounded as GradScaler rounds them."""
    wide = values.astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        quotient = (wide / scale).astype(np.float32)
        # 24 bits times 29: the product is exact, so that it proves the quotient.
        short = math.ldexp(math.frexp(scale)[0], 29).is_integer()
        exact = quotient.astype(np.float64) * scale == wide if short else wide == 0
    exact |= ~np.isfinite(wide)
    if exact.all():
        return quotient
    if not allowed:
        index = int(np.flatnonzero(~exact.ravel())[0])
        raise ValueError(
            f"{what}: its element {index} ({values.ravel()[index].item()!r}) divided by the loss "
            f"scale {plain_number(scale)} is not an fp32 value; pass --round-to-fp32 to round it as "
            "torch.amp.GradScaler does"
        )
    if math.frexp(scale)[0] == 0.5:
        return quotient
    # A product with the fp32 reciprocal.
    factor = np.float32(1 / scale)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return (
            values * values.dtype.type(factor)
            if values.dtype == np.float64
            else (values.astype(np.float32) * factor)
        ).astype(np.float32)


def _narrow(values: np.ndarray, word: str) -> np.ndarray:
    """fp32 values in the dump's narrower type where it has all of them, else as they are."""
    if word == "BF16":
        return as_bfloat16(values)
    if word in ("F32", "F64", "F8_E8M0"):
        return values
    with np.errstate(over="ignore", under="ignore"):
        short = values.astype(np.float16)
    return short if np.array_equal(short, values, equal_nan=True) else values
