"""An FP8 all-reduce in two phases, in NumPy and ml_dtypes: docs/definitions.md, section 8."""

import ml_dtypes
import numpy as np

DTYPES = {"e4m3fn": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def cast(x: np.ndarray, format: str, overflow: str) -> np.ndarray:
    """What fp32 numbers of one group read after the cast."""
    dtype = DTYPES[format]
    most = np.float32(ml_dtypes.finfo(dtype).max)
    if overflow == "pytorch":
        overflow = "saturate" if format == "e4m3fn" else "ieee"
    with np.errstate(all="ignore"):
        amax = np.abs(x).max(initial=0)
        amax = amax if amax > 0 else np.float32(1)
        scale = most * (np.float32(1) / amax)
        scaled = x * scale
        if overflow == "saturate":
            scaled = np.where(np.isnan(scaled), scaled, np.clip(scaled, -most, most))
        return scaled.astype(dtype).astype(np.float32) * (np.float32(1) / scale)


def in_groups(x: np.ndarray, length: int, format: str, overflow: str) -> np.ndarray:
    cuts = range(length, x.size, length)
    return np.concatenate([cast(part, format, overflow) for part in np.split(x, cuts)])


def allreduce(
    gradients: np.ndarray, format: str, group: int = 0, overflow: str = "pytorch"
) -> tuple[np.ndarray, np.ndarray]:
    """What each worker's message decodes to, and the sum that all of them get. `group`: elements,
    0 for the tensor and then the shard."""
    workers, n = gradients.shape
    sent = np.stack([in_groups(row, group or max(n, 1), format, overflow) for row in gradients])
    total = np.zeros(n, np.float32)
    with np.errstate(all="ignore"):
        for row in sent:
            total = total + row
    return sent, in_groups(total, group or max(-(-n // workers), 1), format, overflow)
