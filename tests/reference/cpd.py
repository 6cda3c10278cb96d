"""CPD (drcut/CPD, master ddd9a67) restated from a description of its behaviour: casts in rationals,
sums and products operation by operation."""

import math
from fractions import Fraction

import numpy as np


def as_float(q):
    """A rational that fp32 can represent, or one that overflows fp32."""
    return math.inf if q >= 2**128 else float(q)


def slow_cast(x, e, m):
    """One fp32 number: (result, which documented deviation changed it, or None)."""
    x = float(np.float32(x))
    if x == 0 or not math.isfinite(x):
        return x, None
    size, sign = Fraction(abs(x)), math.copysign(1.0, x)
    bias = 2 ** (e - 1) - 1
    exponent = math.frexp(abs(x))[1] - 1
    if exponent < -126:
        return 0.0, "subnormal input"
    if exponent > bias:
        return sign * math.inf, None
    least = max(exponent, 1 - bias)
    quantum = Fraction(2) ** (least - m)
    grain = Fraction(2) ** (least - 23)  # what is left of 24 bits after the shift
    shifted = size // grain * grain
    units, rest = divmod(shifted, quantum)
    odd = units % 2
    up = rest > quantum / 2 or (rest == quantum / 2 and odd)
    result = (units + up) * quantum
    true_units, true_rest = divmod(size, quantum)
    true_up = true_rest > quantum / 2 or (true_rest == quantum / 2 and odd)
    why = None
    if result >= Fraction(2) ** (bias + 1):
        why = "overflow"
    elif (units + up) != (true_units + true_up):
        why = "sticky"
    return sign * as_float(result), why


def cast(x, e, m):
    """Of an array; (8, 23) casts nothing."""
    x = np.asarray(x, np.float32)
    if (e, m) == (8, 23):
        return x.copy()
    return np.array([slow_cast(v, e, m)[0] for v in x.ravel()], np.float32).reshape(x.shape)


def gemm(a, b, e, m):
    """Kahan's sum over k of every output, each of its operations cast."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    s = np.zeros((a.shape[0], b.shape[1]), np.float32)
    c = np.zeros_like(s)
    for k in range(a.shape[1]):
        p = cast(np.multiply.outer(a[:, k], b[k]), e, m)
        y = cast(p - c, e, m)
        t = cast(s + y, e, m)
        c = cast(cast(t - s, e, m) - y, e, m)
        s = t
    return s


def ceil_log2(x):
    """Of an fp32 magnitude: the logarithm is rounded once to fp32 before."""
    return np.ceil(np.float32(np.log2(np.longdouble(np.float32(x)))))


@np.errstate(all="ignore")
def sum_gradients(rows, aps, e, m, kahan):
    """Of one parameter, rows in rank order."""
    rows = np.asarray(rows, np.float32)
    scale = np.float32(1)
    if aps:
        k = max(float(ceil_log2(np.abs(r * np.float32(len(rows))).max())) for r in rows)
        scale = np.float32(2.0 ** (2 ** (e - 1) - 1 - k))
        rows = cast(rows * scale, e, m)
    total, lost = np.zeros_like(rows[0]), np.zeros_like(rows[0])
    for g in rows:
        if kahan:
            y = cast(g - lost, e, m)
            t = cast(total + y, e, m)
            lost = cast(cast(t - total, e, m) - y, e, m)
            total = t
        else:
            total = cast(total + g, e, m)
    return total / scale


@np.errstate(all="ignore")
def emulate_node(rows, aps, e, m):
    """The micro-batches of one process; the exponent begins at -100."""
    rows = np.asarray(rows, np.float32)
    if len(rows) == 1:
        return rows[0]
    top = -100.0
    for g in rows:
        found = float(ceil_log2(np.abs(g * np.float32(len(rows))).max()))
        if found > top:
            top = found
    shift = 0.0 if top == -100 or not aps else 2 ** (e - 1) - 1 - top
    scale = np.float32(2.0**shift)
    total = np.zeros_like(rows[0])
    for g in rows:
        total = cast(total + cast(g * scale, e, m), e, m)
    return total / scale
