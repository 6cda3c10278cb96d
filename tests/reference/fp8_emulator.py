"""The casts of FP8 training by its author's emulator, and of 1-4-3 as Google's AQT has it.

e5m2 of an fp32 number: to fp16, to nearest even, and then the fp16 number's low 8 bits are rounded,
so that rounding to nearest rounds twice. Stochastic rounding adds 8 random bits and truncates; fp16
subnormals are rounded to nearest even all the same. Nothing saturates.

Sources: IntelLabs/FP8-Emulation-Toolkit at fcd26e9a (mpemu/e5m2_emu.py, mpemu/hybrid_emu.py,
mpemu/pytquant/cuda/fpemu_kernels.cu), whose method "direct" is that of Mellempudi et al., Mixed
Precision Training With 8-bit Floating Point, arXiv 1905.12334; google/aqt, jax_legacy, fp_cast,
for the formats of Sun et al., Hybrid 8-bit Floating Point Training, NeurIPS 2019.
"""

import ml_dtypes
import numpy as np

from .halp import fp16_by_13_bits

F = np.float32

#: The rounding of every tensor by "direct", all of them e5m2 without a scale.
TENSORS = {
    "weight": "nearest",
    "input": "nearest",
    "output": "nearest",
    "input_gradient": "stochastic",
    "output_gradient": "stochastic",
    "weight_gradient": "stochastic",
}


@np.errstate(over="ignore")
def e5m2(x: np.ndarray, words: np.ndarray | None = None, scale: float = 1.0) -> np.ndarray:
    """x scale as e5m2, an fp32 array, not divided by the scale. words: random integers, one per
    element, whose low 8 bits round stochastically; None rounds to nearest even."""
    h = (np.asarray(x, F) * F(scale)).astype(np.float16).view(np.uint16).astype(np.uint32)
    rest, odd, field = h & 0xFF, h >> 8 & 1, h >> 10 & 0x1F
    away = (rest > 0x80) | ((rest == 0x80) & (odd == 1))
    rounded = (h & 0xFF00) + (away.astype(np.uint32) << 8)
    if words is not None:
        drawn = h + (np.asarray(words).astype(np.uint32) & 0xFF) & 0xFF00
        rounded = np.where((field >= 1) & (field <= 30), drawn, rounded)
    result = np.where(h & 0x7F00 <= 0x7B00, rounded, h)  # infinities and NaNs are not rounded
    return result.astype(np.uint16).view(np.float16).astype(F)


def e4m3_scale(x: np.ndarray) -> F:
    """Of a forward tensor in the hybrid method: 448 / amax in fp32, and 65500 if above 32750."""
    with np.errstate(divide="ignore", over="ignore"):
        scale = F(448) / F(np.abs(np.asarray(x, F)).max(initial=0))
    return F(65500) if scale > 32750 else scale


def e4m3(x: np.ndarray, scale: float, through_fp16: bool = False) -> np.ndarray:
    """x scale to the nearest of e4m3 with a largest value of 448, ties to even, not divided by the
    scale; 448 beyond it. Whether this cast rounds to fp16 first as well, and what it does beyond
    448, is not known here."""
    scaled = np.asarray(x, F) * F(scale)
    if through_fp16:
        scaled = scaled.astype(np.float16).astype(F)
    kept = np.where(np.isnan(scaled), scaled, np.clip(scaled, F(-448), F(448)))
    return kept.astype(ml_dtypes.float8_e4m3fn).astype(F)


def hybrid_forward(x: np.ndarray) -> np.ndarray:
    """A weight or an input of the hybrid method, one scale per tensor."""
    scale = e4m3_scale(x)
    return e4m3(x, float(scale)) / scale


def master(w: np.ndarray, words16: np.ndarray, words8: np.ndarray | None = None) -> np.ndarray:
    """A master weight after every optimizer step: to fp16 stochastically, and with words8 to e5m2
    stochastically after that. How many random bits the first rounding has is not known here; it is
    all that fp32 has beyond fp16."""
    half = fp16_by_13_bits(w, words16)
    return half if words8 is None else e5m2(half, words8)


def without_subnormals(
    x: np.ndarray, fraction_bits: int = 3, least: int = -11, most: int = 4
) -> np.ndarray:
    """AQT's cast: the significand is rounded to nearest even, the result saturates at the largest
    value, and a result below 2^least becomes 0. So 2^least is a value, and a half of it is not
    rounded up. All exponents are ordinary; 1-4-3 has 2^-11 to 30. NaN and infinities stay."""
    x = np.asarray(x, F)
    significand, exponent = np.frexp(np.abs(x).astype(np.float64))  # in [1/2, 1)
    size = np.ldexp(
        np.round(np.ldexp(significand, fraction_bits + 1)), exponent - fraction_bits - 1
    )
    size = np.minimum(size, (2 - 2.0**-fraction_bits) * 2.0**most)
    size = np.where(size < 2.0**least, 0, size)
    return np.where(np.isfinite(x), np.copysign(size, x) + 0.0, x).astype(F)


def passes(x: np.ndarray, fraction_bits: int = 3, most: int = 4) -> np.ndarray:
    """The cast's gradient: 1 within the largest value, 0 beyond."""
    return (np.abs(np.asarray(x, F)) <= (2 - 2.0**-fraction_bits) * 2.0**most).astype(F)
