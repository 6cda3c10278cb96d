"""QuickReduce's two phases in NumPy: docs/definitions.md, section 8.

NumPy's float16 arithmetic rounds every operation once, ties to even; an overflow is infinite there,
and `finite` puts back what the hardware's mode keeps.
"""

import numpy as np

LIMITS = {"int8": 128, "int6": 32, "int4": 8}
LARGEST = np.float16(65504)


def finite(result: np.ndarray, overflow: str, *operands: np.ndarray) -> np.ndarray:
    """With `saturate`, infinities that finite operands gave become the largest number."""
    if overflow == "ieee":
        return result
    made = np.isinf(result) & np.logical_and.reduce([np.isfinite(x) for x in operands])
    return np.where(made, np.copysign(LARGEST, result), result)


def largest(block: np.ndarray) -> np.ndarray:
    """Of each row, the number of largest magnitude, of ties the negative one; NaN if none is a
    number; +0 for zeros."""
    numbers = ~np.isnan(block)
    top = np.where(numbers, block, -np.inf).max(axis=1)
    bottom = np.where(numbers, block, np.inf).min(axis=1)
    m = np.where(np.abs(top) > np.abs(bottom), top, bottom)
    return np.where(m == 0, 0, np.where(numbers.any(axis=1), m, np.nan)).astype(np.float16)


def code(
    x: np.ndarray, codec: str, epsilon: float, use: str, overflow: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of fp16 numbers, as many as fill units of 64: integers, a scale for each of 32, decoded."""
    limit = LIMITS[codec]
    blocks = x.reshape(-1, 32, 2).transpose(0, 2, 1).reshape(-1, 32)
    eps = np.float16(epsilon)
    with np.errstate(all="ignore"):
        d = largest(blocks) * np.float16(-1 / limit)
        if use == "bound":
            d = np.where(np.abs(d) < eps, np.copysign(eps, d), d)
            under = d
        else:
            under = finite(d + eps, overflow, d)
        e = np.float16(1) / under
        e = np.where(under == 0, e, finite(e, overflow, under))
        w = blocks * e[:, None]
        w = finite(w, overflow, blocks, np.broadcast_to(e[:, None], blocks.shape))
        w = np.fmin(np.fmax(w, np.float16(-limit)), np.float16(limit - 1))
        q = np.rint(w.astype(np.float64)).astype(np.int64)
        y = q.astype(np.float16) * d[:, None]
        y = finite(y, overflow, np.broadcast_to(d[:, None], y.shape))
    back = y.reshape(-1, 2, 32).transpose(0, 2, 1).ravel()
    return q.reshape(-1, 2, 32).transpose(0, 2, 1).ravel(), d, back


def allreduce(
    gradients: np.ndarray,
    codec: str,
    epsilon: float = 2.0**-24,
    use: str = "add",
    input: str = "fp16",
    overflow: str = "saturate",
) -> tuple[np.ndarray, np.ndarray]:
    """What each worker's message decodes to, and the sum that all of them get, as fp64."""
    import ml_dtypes

    workers, n = gradients.shape
    settings = (codec, epsilon, use, overflow)
    padded = np.zeros((workers, -(-n // (64 * workers)) * 64 * workers), np.float32)
    padded[:, :n] = gradients
    with np.errstate(all="ignore"):
        if input == "bf16":
            given = padded.astype(ml_dtypes.bfloat16).astype(np.float32)
            x = finite(given.astype(np.float16), overflow, given)
        else:
            x = padded.astype(np.float16)
        sent = np.stack([code(row, *settings)[2] for row in x])
        total = np.zeros(padded.shape[1], np.float16)
        for row in sent:
            total = finite(total + row, overflow, total, row)
        y = code(total, *settings)[2]
        if input == "bf16":
            y = y.astype(np.float32).astype(ml_dtypes.bfloat16)
    return sent[:, :n].astype(np.float64), y[:n].astype(np.float64)
