"""A quantized linear layer and convolution written anew: NumPy, ml_dtypes, and sums of fractions.

Nothing here imports apscope or torch. Operands are fp32 arrays, casts are functions of an array and
the axis that the product sums over.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np


def fp32(x: Fraction) -> Fraction:
    """The nearest fp32 number, ties to even."""
    if x == 0:
        return x
    exponent = max(abs(x.numerator).bit_length() - x.denominator.bit_length(), -126)
    if exponent > -126 and abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    elif abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (max(exponent, -126) - 23)
    return round(x / quantum) * quantum


def exact(terms) -> float:
    """The exact sum, rounded once."""
    return float(fp32(sum((a * b for a, b in terms), Fraction(0))))


def sequential(terms) -> float:
    """Every product added exactly to the sum so far, each sum rounded to fp32."""
    total = Fraction(0)
    for a, b in terms:
        total = fp32(total + a * b)
    return float(total)


def product(a, b, adder):
    """The product of matrices (m, k) and (k, n)."""
    left = [[Fraction(float(v)) for v in row] for row in a]
    right = [[Fraction(float(v)) for v in column] for column in np.asarray(b).T]
    return np.float32([[adder(zip(row, column)) for column in right] for row in left])


# Casts ------------------------------------------------------------------------------------------


def pointwise(dtype, largest=None):
    """To an 8- or 16-bit dtype of NumPy or ml_dtypes, saturating at `largest`."""

    def cast(x, axis):
        clipped = x if largest is None else np.clip(x, -largest, largest)
        return clipped.astype(dtype).astype(np.float32)

    return cast


def _blocks(x, axis, size):
    """(lines, blocks, size) with zeros at the end, and the way back."""
    moved = np.moveaxis(x, axis, -1)
    lines = moved.reshape(-1, moved.shape[-1])
    filled = np.pad(lines, ((0, 0), (0, -lines.shape[1] % size)))

    def back(y):
        return np.moveaxis(
            y.reshape(len(lines), -1)[:, : lines.shape[1]].reshape(moved.shape), -1, axis
        )

    return filled.reshape(len(lines), -1, size), back


def mx(dtype, largest, emax, size=32):
    """OCP's rule: 2^(floor(log2 amax) - emax), elements saturate."""

    def cast(x, axis):
        parts, back = _blocks(x, axis, size)
        amax = np.abs(parts).max(-1, keepdims=True)
        _, exponent = np.frexp(amax)
        scale = np.ldexp(1.0, np.where(amax > 0, np.maximum(exponent - 1 - emax, -127), 0))
        scaled = np.clip(parts / scale, -largest, largest)
        return back((scaled.astype(dtype).astype(np.float64) * scale).astype(np.float32))

    return cast


def _nvfp4_runs(parts, whole):
    """Runs of (..., size) under e4m3 scales; `whole` is the tensor's largest magnitude; all in
    fp32."""
    one = np.float32
    tensor = one(448 * 6) / one(whole) if whole > 0 else one(1)
    tensor = min(tensor, np.finfo(one).max)
    amax = np.abs(parts).max(-1, keepdims=True).astype(one)
    ratio = np.clip(amax * one(tensor * one(1 / 6)), 0, 448)
    d = ratio.astype(ml_dtypes.float8_e4m3fn).astype(one)
    with np.errstate(divide="ignore", invalid="ignore"):
        encode = np.where(
            d > 0, np.minimum(one(1) / (d * (one(1) / tensor)), np.finfo(one).max), one(0)
        )
    codes = np.clip(parts * encode, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(one)
    return codes * d / tensor


def nvfp4(tile=False, turned=False):
    """NVFP4: runs of 16, or tiles of 16 x 16; `turned`: after the Hadamard transform, its axis
    filled up."""

    def cast(x, axis):
        x = np.float32(x)
        if turned:
            x = hadamard(x, axis)
        whole = np.abs(x).max()
        if not tile:
            parts, back = _blocks(x, axis, 16)
            return np.float32(back(_nvfp4_runs(parts, whole)))
        y = np.empty_like(x)
        for i in range(0, x.shape[0], 16):
            for j in range(0, x.shape[1], 16):
                for rest in np.ndindex(x.shape[2:]):
                    place = (slice(i, i + 16), slice(j, j + 16), *rest)
                    part = x[place]
                    y[place] = _nvfp4_runs(part.reshape(1, -1), whole).reshape(part.shape)
        return y

    return cast


SIGNS = np.float32([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1])


def hadamard(x, axis):
    """Runs of 16 along the axis, which is padded with zeros."""
    moved = np.moveaxis(x, axis, -1)
    moved = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, -moved.shape[-1] % 16)])
    runs = moved.reshape(-1, 16) * SIGNS
    for distance in (1, 2, 4, 8):
        turned = np.empty_like(runs)
        for i in range(16):
            low, high = runs[:, i & ~distance], runs[:, i | distance]
            turned[:, i] = low - high if i & distance else low + high
        runs = turned
    return np.moveaxis((runs * np.float32(0.25)).reshape(moved.shape), -1, axis)


# Layers -----------------------------------------------------------------------------------------


def same(x, axis):
    return x


class Casts:
    """Casts of every use; those of results follow the sums."""

    def __init__(self, fi=same, fw=same, ig=same, iw=same, wg=same, wi=same, result=same):
        self.fi, self.fw, self.ig, self.iw, self.wg, self.wi = fi, fw, ig, iw, wg, wi
        self.result = result


def linear(casts, adder, x, w, bias, g):
    """Output, and the gradients of x, w and bias for the output's gradient g."""
    y = casts.result(product(casts.fi(x, 1), casts.fw(w, 1).T, adder) + bias, 1)
    dx = casts.result(product(casts.ig(g, 1), casts.iw(w, 0), adder), 1)
    dw = casts.result(product(casts.wg(g, 0).T, casts.wi(x, 0), adder), 1)
    return y, dx, dw, casts.result(product(np.ones((1, len(g))), g, adder)[0], 0)


def _windows(x, rows, columns, stride, padding):
    """(batch, c, h, w) -> {(image, i, j): patch of (c, rows, columns)}."""
    filled = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high, wide = ((filled.shape[2 + a] - (rows, columns)[a]) // stride + 1 for a in (0, 1))
    return {
        (n, i, j): filled[n, :, i * stride : i * stride + rows, j * stride : j * stride + columns]
        for n in range(len(x))
        for i in range(high)
        for j in range(wide)
    }


def convolution(casts, adder, x, w, bias, g, stride, padding):
    """The same for a convolution."""
    rows, columns = w.shape[2:]
    patches = _windows(casts.fi(x, 1), rows, columns, stride, padding)
    matrix = np.stack([p.reshape(-1) for p in patches.values()])
    found = product(matrix, casts.fw(w, 1).reshape(len(w), -1).T, adder)
    y = np.empty(g.shape, np.float32)
    for (n, i, j), values in zip(patches, found):
        y[n, :, i, j] = values + bias
    # The gradient of a pixel: terms by output channel, row and column of the kernel turned by 180
    # degrees.
    gi, wi = casts.ig(g, 1), casts.iw(w, 0)
    dx = np.empty(x.shape, np.float32)
    for n, c, a, b in np.ndindex(x.shape):
        terms = []
        for o in range(len(w)):
            for r in reversed(range(rows)):
                for q in reversed(range(columns)):
                    i, j = a + padding - r, b + padding - q
                    if i % stride or j % stride:
                        continue
                    i, j = i // stride, j // stride
                    if 0 <= i < g.shape[2] and 0 <= j < g.shape[3]:
                        terms.append(
                            (Fraction(float(gi[n, o, i, j])), Fraction(float(wi[o, c, r, q])))
                        )
        dx[n, c, a, b] = adder(terms)
    # The gradient of a weight: terms by image, row and column of the output.
    gw = casts.wg(g, 0)
    patches = _windows(casts.wi(x, 0), rows, columns, stride, padding)
    matrix = np.stack([p.reshape(-1) for p in patches.values()])
    dw = product(gw.transpose(1, 0, 2, 3).reshape(len(w), -1), matrix, adder).reshape(w.shape)
    by_place = g.transpose(0, 2, 3, 1).reshape(-1, len(w))
    db = product(np.ones((1, len(by_place))), by_place, adder)[0]
    result = casts.result
    return result(y, 1), result(dx, 1), result(dw, 1), result(db, 0)
