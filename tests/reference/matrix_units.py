"""How the matrix units of NVIDIA's and AMD's devices add the products of a dot product, in NumPy.

One instruction adds K products and C. NVIDIA's: the exponent of a product is the sum of its operands'
exponents, whatever its significand; the largest exponent of the terms decides where each term is cut,
toward zero, `fraction` bits below it; the terms are added exactly, and the sum is rounded once.
AMD's CDNA 1 adds K products and C exactly and rounds once; CDNA 2 adds products in pairs in fp32;
CDNA 3 cuts the products as NVIDIA's do, then rounds down where it adds their sum and C.

Every operation here is exact in float64, but for the roundings that the rules name: products have at
most 48 bits, and a sum of cut terms is an integer below 2^53 times a power of two.

Sources: recordings of one H100 (tests/data), those of F. A. Khattak and M. Mikaitis, "Accurate Models
of NVIDIA Tensor Cores" (doi:10.1145/3830409), and, where a device has not been recorded, what
P. Xie et al. found, "MMA-Sim" (arXiv:2511.10909).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

#: The exponent of the smallest normal number; subnormal numbers have it too.
SMALLEST_EXPONENT = {
    "fp32": -126,
    "fp16": -14,
    "bf16": -126,
    "tf32": -126,
    "e4m3fn": -6,
    "e5m2": -14,
    "e4m3fnuz": -7,
    "e5m2fnuz": -15,
    "e2m1fn": 0,
    "e2m3fn": 0,
    "e3m2fn": -2,
}
#: The format of results: its dtype, its fraction bits, its largest exponent.
RESULTS = {"fp32": (np.float32, 23, 127), "fp16": (np.float16, 10, 15)}
#: The bits of the NaN that every NVIDIA unit writes.
NAN_BITS = {"fp32": 0x7FFFFFFF, "fp16": 0x7FFF}
#: An exponent below that of every term.
NONE = -999
#: Numbers that are worked on at once.
CHUNK = 1 << 20

Step = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def exponents(x: np.ndarray, smallest: int) -> np.ndarray:
    """floor(log2 |x|), at least `smallest`; of zeros `smallest`."""
    return np.where(x == 0, smallest, np.maximum(np.frexp(x)[1] - 1, smallest))


def rounded(
    x: np.ndarray, form: str, rounding: Callable = np.trunc, bits: int | None = None
) -> np.ndarray:
    """To `bits` fraction bits of the number's own exponent, at most the format's; a number beyond
    the format is infinite in every rounding mode."""
    _, most, largest = RESULTS[form]
    shift = (most if bits is None else bits) - exponents(x, SMALLEST_EXPONENT[form])
    y = np.ldexp(rounding(np.ldexp(x, shift)), -shift)
    return np.where(np.abs(y) >= 2.0 ** (largest + 1), np.copysign(np.inf, y), y)


def cut_sum(terms: np.ndarray, exponent: np.ndarray, fraction: int) -> tuple[np.ndarray, ...]:
    """The sum over the last axis of the terms, each cut toward zero `fraction` bits below the
    largest exponent, and that exponent."""
    largest = exponent.max(-1)
    cut = np.trunc(np.ldexp(terms, fraction - largest[..., None]))
    return np.ldexp(cut.sum(-1), largest - fraction), largest


@dataclass(frozen=True)
class Aligned:
    """NVIDIA's step. `zero`: the exponent of a zero term. It matters where all terms lie below it,
    which needs a zero C: the cut is then `fraction` bits below `zero`."""

    fraction: int
    zero: int
    result: str = "fp32"
    result_bits: int | None = None

    def __call__(
        self, a: np.ndarray, b: np.ndarray, exponent: np.ndarray, c: np.ndarray
    ) -> np.ndarray:
        terms = np.concatenate([a * b, c[..., None]], -1)
        of_c = exponents(c, SMALLEST_EXPONENT[self.result])
        exponent = np.concatenate([exponent, of_c[..., None]], -1)
        total, _ = cut_sum(terms, np.where(terms == 0, self.zero, exponent), self.fraction)
        nearest = self.result == "fp16"
        d = rounded(total, self.result, np.rint if nearest else np.trunc, self.result_bits)
        return d + 0.0  # a zero result is +0


def pairwise(a: np.ndarray, b: np.ndarray, _: np.ndarray, c: np.ndarray) -> np.ndarray:
    """CDNA 2's step: products, their sums in pairs and C's sum in fp32, ties to even, each with
    subnormal results flushed to a zero of their sign."""
    values = flushed((a * b).astype(np.float32))
    while values.shape[-1] > 1:
        values = flushed(values[..., 0::2] + values[..., 1::2])
    return flushed(c.astype(np.float32) + values[..., 0]).astype(np.float64)


def flushed(x: np.ndarray, form: str = "fp32", signed: bool = True) -> np.ndarray:
    """Subnormal numbers are zeros, of their sign or +0."""
    subnormal = np.abs(x) < 2.0 ** SMALLEST_EXPONENT[form]
    return np.where(subnormal, np.copysign(0, x) if signed else 0, x).astype(x.dtype)


def down(x: np.ndarray, exponent: np.ndarray, fraction: int) -> np.ndarray:
    """Toward minus infinity, `fraction` bits below the exponent."""
    shift = fraction - exponent
    return np.ldexp(np.floor(np.ldexp(x, shift)), -shift)


def cdna3_sum(dot: np.ndarray, of_dot: np.ndarray, c: np.ndarray, forgets: bool) -> np.ndarray:
    """CDNA 3's end: the products' sum is rounded down 32 bits below the larger of its exponent and
    C's, C 24 bits below it. `forgets`: a C more than 25 exponents below counts as zero, even a
    negative one. The sum is rounded down to 31 fraction bits, then to fp32, ties to even."""
    of_c = exponents(c, -126)
    largest = np.maximum(of_dot, of_c)
    c = down(c, largest, 24)
    if forgets:
        c = np.where(of_c < largest - 25, 0, c)
    total = down(dot, largest, 32) + c
    return rounded(down(total, exponents(total, -126), 31), "fp32", np.rint)


def cdna3(a: np.ndarray, b: np.ndarray, exponent: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The products are cut toward zero 24 bits below their largest exponent."""
    products = a * b
    total, largest = cut_sum(products, np.where(products == 0, NONE, exponent), 24)
    return cdna3_sum(total, largest, c, forgets=False)


def cdna3_fp8(a: np.ndarray, b: np.ndarray, exponent: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Products of even and of odd k are cut and added apart; the two sums are rounded down 24 bits
    below the larger exponent."""
    products = a * b
    exponent = np.where(products == 0, NONE, exponent)
    sums = [cut_sum(products[..., i::2], exponent[..., i::2], 24) for i in (0, 1)]
    largest = np.maximum(sums[0][1], sums[1][1])
    total = sum(down(part, largest, 24) for part, _ in sums)
    return cdna3_sum(total, largest, c, forgets=True)


def exact(a: np.ndarray, b: np.ndarray, _: np.ndarray, c: np.ndarray) -> np.ndarray:
    """CDNA 1's step: products and C added exactly, rounded once to fp32, ties to even."""
    terms = np.concatenate([a * b, c[..., None]], -1)
    sums = np.array([to_odd(row) for row in terms.reshape(-1, terms.shape[-1])])
    return rounded(sums.reshape(terms.shape[:-1]), "fp32", np.rint)


def to_odd(terms: np.ndarray) -> float:
    """The exact sum in float64, rounded to odd: what a rounding to fp32 of it gives is what a
    rounding of the exact sum gives."""
    total = math.fsum(terms)
    rest = math.fsum([*terms, -total])
    if rest == 0 or np.float64(total).view(np.uint64) & 1:
        return total
    return float(np.nextafter(total, np.copysign(np.inf, rest)))


@dataclass(frozen=True)
class Unit:
    """`k`: products of an instruction. `parts`: which of them each step adds, in order; None: one
    step. `late`: the steps begin at +0, and C is added to their result in the result's format,
    ties to even. `limited`: a product of 2^128 or more is infinite. `flushes`: subnormal operands
    are +0."""

    k: int
    step: Step
    formats: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...] | None = None
    late: bool = False
    result: str = "fp32"
    limited: bool = False
    flushes: bool = False

    def instruction(
        self, a: np.ndarray, b: np.ndarray, exponent: np.ndarray, c: np.ndarray
    ) -> np.ndarray:
        """D of float64 operands (cases, k) and c (cases)."""
        carry = np.zeros_like(c) if self.late else c
        for part in self.parts or (tuple(range(self.k)),):
            take = list(part)
            carry = self.step(a[:, take], b[:, take], exponent[:, take], carry)
        if self.late:
            dtype = RESULTS[self.result][0]
            carry = (carry.astype(dtype) + c.astype(dtype)).astype(np.float64)
        return carry

    def chain(
        self, a: np.ndarray, b: np.ndarray, forms: tuple[str, str], c: np.ndarray
    ) -> np.ndarray:
        """Instruction after instruction over the last axis, whose end is filled with zeros."""
        for first in range(0, a.shape[-1], self.k):
            x, y = (v[:, first : first + self.k] for v in (a, b))
            fill = [(0, 0), (0, self.k - x.shape[-1])]
            x, y = np.pad(x, fill), np.pad(y, fill)
            with np.errstate(invalid="ignore", over="ignore"):
                products = x * y
                if self.limited:
                    beyond = np.abs(products) >= 2.0**128
                    products = np.where(beyond, np.copysign(np.inf, products), products)
                total = products.sum(-1) + c
                # CDNA 2's step is IEEE arithmetic, infinities included.
                finite = np.isfinite(total) | (self.step is pairwise)
                x, y = (np.where(finite[:, None], v, 0) for v in (x, y))
                exponent = sum(
                    exponents(v, SMALLEST_EXPONENT[form])
                    for v, form in zip((x, y), forms, strict=True)
                )
                d = self.instruction(x, y, exponent, np.where(finite, c, 0))
            c = np.where(finite, d, total)
        return c

    def dot(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray | float = 0.0,
        form: str | tuple[str, str] | None = None,
        promote: int | None = None,
        split: int | None = None,
    ) -> np.ndarray:
        """C + sum over k of a b, of arrays (..., K) of values of `form` (of the two operands', if
        they differ; None: the unit's first), C of the leading shape. `promote`: that many
        consecutive k make a chain from +0, and fp32 additions, ties to even, add the chains' results
        to C. `split`: so many pieces of k, each a chain from +0, added alike.

        The result's NaN is NVIDIA's. NaN comes of a NaN, infinity times zero and infinities of both
        signs; infinities of one sign give it."""
        forms = (form or self.formats[0],) * 2 if form is None or isinstance(form, str) else form
        shape, K = a.shape[:-1], a.shape[-1]
        a, b = (np.asarray(v, np.float64).reshape(-1, K) for v in (a, b))
        c = np.broadcast_to(np.asarray(c, np.float64), shape).reshape(-1)
        dtype = RESULTS[self.result][0]
        with np.errstate(over="ignore"):
            c = c.astype(dtype).astype(np.float64)
        if self.flushes:
            a, b = (flushed(v, f, signed=False) for v, f in zip((a, b), forms, strict=True))
            c = flushed(c, signed=False)
        bounds = pieces(K, promote, split)
        d = np.empty(c.shape, dtype)
        rows = max(1, CHUNK // max(K, 1))
        for first in range(0, len(c), rows):
            part = slice(first, first + rows)
            d[part] = self.pieces_sum(a[part], b[part], forms, c[part], bounds)
        bits = d.view(f"u{d.itemsize}")
        bits[np.isnan(d)] = NAN_BITS[self.result]
        return d.reshape(shape)

    def pieces_sum(
        self,
        a: np.ndarray,
        b: np.ndarray,
        forms: tuple[str, str],
        c: np.ndarray,
        bounds: list[int] | None,
    ) -> np.ndarray:
        """The chain, or the sum in fp32 of C and the pieces' chains."""
        if bounds is None:
            return self.chain(a, b, forms, c)
        total = c.astype(np.float32)
        for first, end in zip(bounds[:-1], bounds[1:], strict=True):
            with np.errstate(invalid="ignore", over="ignore"):
                piece = self.chain(a[:, first:end], b[:, first:end], forms, np.zeros_like(c))
                total = total + piece.astype(np.float32)
        return total


def pieces(K: int, promote: int | None, split: int | None) -> list[int] | None:
    """Where the pieces of k begin, and K."""
    if promote is not None:
        return [*range(0, K, promote), K]
    if split is not None:
        return [i * K // split for i in range(split + 1)]
    return None


def fp4(
    a: np.ndarray,
    b: np.ndarray,
    scale_a: np.ndarray,
    scale_b: np.ndarray,
    c: np.ndarray,
    block: int = 16,
    smallest: int = -6,
    fraction: int = 35,
) -> np.ndarray:
    """B200's mxf4nvf4 (scales of 16 elements, e4m3fn) and mxf4 (of 32, e8m0fnu, whose smallest
    exponent is -127): D of e2m1 operands (cases, K), K a multiple of 64, of scales (cases, K /
    block), which are not negative, and of c (cases). 64 products make an instruction. Each 16 are
    added exactly; the exponent of their sum is that of their scales' product, whatever the sum,
    unless all 16 are zero."""
    zero = -139
    c = np.asarray(c, np.float64)
    for first in range(0, a.shape[-1], 64):
        x, y = (v[:, first : first + 64].astype(np.float64) for v in (a, b))
        s, t = (
            np.repeat(v.astype(np.float64), block // 16, -1)[:, first // 16 : first // 16 + 4]
            for v in (scale_a, scale_b)
        )
        products = (x * y).reshape(len(x), -1, 16)
        sums = products.sum(-1) * s * t
        with np.errstate(invalid="ignore"):
            total = sums.sum(-1) + c
        finite = np.isfinite(total)
        sums, safe_c = np.where(finite[:, None], sums, 0), np.where(finite, c, 0)
        s, t = (np.where(np.isnan(v), 1, v) for v in (s, t))
        exponent = exponents(s, smallest) + exponents(t, smallest)
        none = (products == 0).all(-1) | (s * t == 0)
        exponent = np.where(none, zero, exponent)
        of_c = np.where(safe_c == 0, zero, exponents(safe_c, -126))
        terms = np.concatenate([sums, safe_c[:, None]], -1)
        exponent = np.concatenate([exponent, of_c[:, None]], -1)
        d = rounded(cut_sum(terms, exponent, fraction)[0], "fp32") + 0.0
        c = np.where(finite, d, total)
    return with_nan(c)


def mxfp8(
    a: np.ndarray,
    b: np.ndarray,
    forms: tuple[str, str],
    scale_a: np.ndarray,
    scale_b: np.ndarray,
    c: np.ndarray,
) -> np.ndarray:
    """B200's mxf8f6f4: D of operands (cases, K), K a multiple of 32, values of two formats, of
    scales (cases, K / 32), powers of two or NaN, and of c (cases). The scales' exponents are added
    to those of the products."""
    step = Aligned(25, -133)
    c = np.asarray(c, np.float64)
    for first in range(0, a.shape[-1], 32):
        x, y = (v[:, first : first + 32].astype(np.float64) for v in (a, b))
        s, t = (v[:, first // 32, None].astype(np.float64) for v in (scale_a, scale_b))
        with np.errstate(invalid="ignore"):
            total = (x * y * s * t).sum(-1) + c
        finite = np.isfinite(total)
        x, y = (np.where(finite[:, None], v, 0) for v in (x, y))
        s, t = (np.where(np.isnan(v), 1, v) for v in (s, t))
        exponent = sum(
            exponents(v, SMALLEST_EXPONENT[form]) for v, form in zip((x, y), forms, strict=True)
        ) + exponents(s * t, -300)
        c = np.where(finite, step(x * s, y * t, exponent, np.where(finite, c, 0)), total)
    return with_nan(c)


def with_nan(d: np.ndarray) -> np.ndarray:
    """In fp32, with NVIDIA's NaN."""
    with np.errstate(over="ignore"):
        d = d.astype(np.float32)
    d.view(np.uint32)[np.isnan(d)] = NAN_BITS["fp32"]
    return d


HALF = ("fp16", "bf16")
FP8 = ("e4m3fn", "e5m2")
MOD_4 = tuple(tuple(k for k in range(32) if k % 4 // 2 == i) for i in (0, 1))


def nvidia(
    k: int, fraction: int, formats: tuple[str, ...] = HALF, result: str = "fp32", **keys: int
) -> Unit:
    """A zero term's exponent lies 5, 6 or 7 below the smallest normal result's, on units of 23, 24
    and 25 fraction bits. FP8's 13 lose nothing there."""
    zero = SMALLEST_EXPONENT[result] + 18 - max(fraction, 24 if fraction == 13 else 0)
    return Unit(k, Aligned(fraction, zero, result, **keys), formats, result=result)


V100 = nvidia(4, 23, ("fp16",))
T4 = nvidia(8, 24, ("fp16",))
A100 = nvidia(8, 24)
A100_TF32 = nvidia(4, 24, ("tf32",))
H100 = nvidia(16, 25)
H100_TF32 = nvidia(8, 25, ("tf32",))
H100_FP8 = nvidia(32, 13, FP8, result_bits=13)
ADA_FP8 = nvidia(16, 13, FP8, result_bits=13)
MMA_FP8 = replace(nvidia(32, 25, FP8), parts=MOD_4, late=True)

UNITS = {
    "v100": V100,
    "v100:fp16": nvidia(4, 23, ("fp16",), "fp16"),
    "t4": T4,
    "t4:fp16": nvidia(8, 24, ("fp16",), "fp16"),
    "a100": A100,
    "a100:fp16": nvidia(8, 24, ("fp16",), "fp16"),
    "a100:tf32": A100_TF32,
    "ada": A100,
    "ada:fp16": nvidia(8, 24, ("fp16",), "fp16"),
    "ada:tf32": A100_TF32,
    "ada:fp8": ADA_FP8,
    "ada:fp8_fp16": nvidia(16, 13, FP8, "fp16"),
    "h100": H100,
    "h100:fp16": nvidia(16, 25, ("fp16",), "fp16"),
    "h100:tf32": H100_TF32,
    "h100:fp8": H100_FP8,
    "h100:fp8_fp16": nvidia(32, 13, FP8, "fp16"),
    "h100:mma_fp8": MMA_FP8,
    "h100:mma_fp8_fp16": replace(nvidia(32, 25, FP8, "fp16"), parts=MOD_4, late=True),
    "b200": H100,
    "b200:fp16": nvidia(16, 25, ("fp16",), "fp16"),
    "b200:tf32": H100_TF32,
    "b200:fp8": nvidia(32, 25, FP8),
    "b200:fp8_fp16": nvidia(32, 25, FP8, "fp16"),
    "mi100": Unit(4, exact, ("fp16",)),
    "mi100:bf16": Unit(2, exact, ("bf16",)),
    "mi250x": Unit(4, pairwise, HALF, limited=True, flushes=True),
    "mi250x:bf16": Unit(2, pairwise, ("bf16",), limited=True, flushes=True),
    "mi300x": Unit(8, cdna3, HALF, limited=True),
    "mi300x:xf32": Unit(4, cdna3, ("tf32",), limited=True),
    "mi300x:fp8": Unit(16, cdna3_fp8, ("e4m3fnuz", "e5m2fnuz")),
}

#: The dtype of codes of a format, and of their values in NumPy.
DTYPES = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "fp32": np.float32,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e2m1fn": ml_dtypes.float4_e2m1fn,
}


def values(codes: np.ndarray, form: str) -> np.ndarray:
    """The float64 values of codes; tf32's are the upper 19 bits of 32."""
    if form == "tf32":
        codes = codes & np.uint32(0xFFFFE000)
    with np.errstate(invalid="ignore"):
        return codes.view(DTYPES[form]).astype(np.float64)


def product(unit: Unit, a: np.ndarray, b: np.ndarray, c: np.ndarray, form: str) -> np.ndarray:
    """D = A B + C of tiles: values a (cases, m, k), b (cases, k, n), c (cases, m, n)."""
    x = np.broadcast_to(a[:, :, None, :], (*c.shape, a.shape[-1]))
    y = np.broadcast_to(b.transpose(0, 2, 1)[:, None, :, :], (*c.shape, a.shape[-1]))
    return unit.dot(x, y, c, form)
