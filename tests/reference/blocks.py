"""The definition of block formats: scales in exact fractions, NVFP4's in single fp32 operations.

Read from the bottom: `quantize_line` cuts a line of numbers into blocks, `power_of_two` and
`nvfp4_block` say what a block becomes. Elements are rounded by `rounding.py`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .formats import FORMATS
from .rounding import Format, project

TWO = Fraction(2)
FLT_MAX = np.finfo(np.float32).max


@dataclass(frozen=True)
class Blocks:
    element: Format
    size: int = 32
    rule: str = "floor"
    nonfinite: str = "apart"
    least: int = -127  #: exponents of E8M0
    most: int = 127


def fixed_point(bits: int, zero: str) -> Format:
    """Magnitudes 0 .. 2^(bits-1) - 1 in units of 2^-(bits-2)."""
    return Format(0, bits - 1, 0, zero=zero, subnormal_exponent=1)


BLOCKS = {
    "mxfp8_e4m3": Blocks(FORMATS["e4m3fn"]),
    "mxfp8_e5m2": Blocks(FORMATS["e5m2"]),
    "mxfp6_e3m2": Blocks(FORMATS["e3m2fn"]),
    "mxfp6_e2m3": Blocks(FORMATS["e2m3fn"]),
    "mxfp4": Blocks(FORMATS["e2m1fn"]),
    "mxint8": Blocks(fixed_point(8, "single")),
    "bfp:8:16": Blocks(fixed_point(8, "both_signs"), 16),
    "bfp:4:16": Blocks(fixed_point(4, "both_signs"), 16),
    "bfp:2:3": Blocks(fixed_point(2, "both_signs"), 3),
}


def floor_log2(x: Fraction) -> int:
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if TWO**k <= x else k - 1


def scale_exponent(amax: Fraction, b: Blocks) -> int:
    largest = b.element.value(b.element.top)
    emax = floor_log2(largest)
    exponent = floor_log2(amax)
    match b.rule:
        case "floor":
            k = exponent - emax
        case "ceil":
            k = (exponent if amax == TWO**exponent else exponent + 1) - emax
        case "rceil":
            k = exponent - emax - 2
            while largest * TWO**k < amax:
                k += 1
        case "even":
            # One unit of the element's last place in its top binade, carried to amax's binade.
            unit = (b.element.value(b.element.top + 1) - largest) / TWO ** (emax - exponent)
            k = floor_log2(round(amax / unit) * unit) - emax
        case "nearest":
            # 2^(k - 1/2) <= amax / largest < 2^(k + 1/2), squared.
            square = (amax / largest) ** 2
            k = floor_log2(amax / largest) - 1
            while square >= TWO ** (2 * k + 1):
                k += 1
        case _:
            raise ValueError(b.rule)
    return min(max(k, b.least), b.most)


def power_of_two(
    block: list[float], b: Blocks, mode: str, overflow: str
) -> tuple[float, list[float]]:
    """The scale and the element values of a block."""
    has_nan, has_infinity = any(map(math.isnan, block)), any(map(math.isinf, block))
    makes_nan = {
        "apart": has_nan and not b.element.has_nan,
        "torchao": has_nan or has_infinity,
        "torchao_0.18": has_nan,
        "transformer_engine": False,
    }
    if makes_nan[b.nonfinite]:
        return math.nan, [0.0] * len(block)
    amax = max((abs(Fraction(x)) for x in block if math.isfinite(x)), default=Fraction(0))
    k = scale_exponent(amax, b) if amax else b.least
    if has_infinity and b.nonfinite == "transformer_engine":
        k = b.most
    elif has_infinity and b.nonfinite == "torchao_0.18":
        k = b.most if b.rule == "rceil" else scale_exponent(max(amax, TWO**128), b)
    scaled = [math.ldexp(x, -k) for x in block]
    if b.nonfinite == "transformer_engine" and not b.element.has_nan:
        largest = float(b.element.value(b.element.top))
        scaled = [largest if math.isnan(x) else x for x in scaled]
    return math.ldexp(1.0, k), [project(x, b.element, mode, overflow) for x in scaled]


def nvfp4_tensor_scale(x: np.ndarray, nonfinite: str = "apart") -> np.float32:
    amax = nvfp4_amax(x, nonfinite)
    if amax == 0 or np.isinf(amax):
        return np.float32(1)
    with np.errstate(over="ignore"):
        return min(np.float32(448 * 6) / amax, FLT_MAX)


def nvfp4_amax(x: np.ndarray, nonfinite: str) -> np.float32:
    counts = np.isfinite(x) if nonfinite == "apart" else ~np.isnan(x)
    return np.max(np.abs(x[counts]), initial=np.float32(0))


def nvfp4_block(
    block: np.ndarray,
    tensor_scale: np.float32,
    mode: str = "ties_to_even",
    nonfinite: str = "apart",
) -> tuple[float, list[float]]:
    """In fp32 operations, in this order."""
    one = np.float32(1)
    if np.isnan(block).any() and nonfinite == "apart":
        return math.nan, [0.0] * len(block)
    amax = nvfp4_amax(block, nonfinite)
    block = np.where(np.isnan(block), np.float32(np.inf), block)
    ratio = amax * (tensor_scale * (one / np.float32(6)))
    scale = np.float32(project(float(ratio), FORMATS["e4m3fn"], overflow="saturate"))
    with np.errstate(divide="ignore", over="ignore"):
        multiply = min(one / (scale * (one / tensor_scale)), FLT_MAX)
        scaled = np.clip(block * multiply, np.float32(-6), np.float32(6))
    return float(scale), [project(float(v), FORMATS["e2m1fn"], mode, "saturate") for v in scaled]


def quantize_line(
    line: np.ndarray, b: Blocks, mode: str = "ties_to_even", overflow: str = "saturate"
) -> np.ndarray:
    """A line of fp32 or fp64 numbers, as values of the same dtype."""
    result = np.empty_like(line)
    for begin in range(0, len(line), b.size):
        scale, elements = power_of_two(
            [float(x) for x in line[begin : begin + b.size]], b, mode, overflow
        )
        result[begin : begin + b.size] = [e * scale for e in elements]
    return result


def quantize_nvfp4(
    x: np.ndarray, mode: str = "ties_to_even", nonfinite: str = "apart"
) -> np.ndarray:
    """An array of one dimension: blocks of 16 under one tensor scale."""
    tensor_scale = nvfp4_tensor_scale(x, nonfinite)
    result = np.empty_like(x)
    for begin in range(0, len(x), 16):
        scale, elements = nvfp4_block(x[begin : begin + 16], tensor_scale, mode, nonfinite)
        result[begin : begin + 16] = np.float32(np.array(elements) * scale) / tensor_scale
    return result
