"""``python -m tests.exhaustive.instruction_sets``: a digest of the bits of every kind of result, on
the instruction set in use.

Run it with APSCOPE_SIMD=portable, sse4, avx2 and avx512: the lines are the same. One line per job,
"SHA-256 (its first 16 digits) job". The inputs: the values of every named format and the middles
between them (of formats beyond 12 bits 4096 values), their neighbours in the input's own type, both
signs, infinities and NaNs; and 10^6 random fp32 patterns. Every format takes the first set in every
rounding. The random patterns go through every rounding of RANDOM, which between them take every
loop.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

import apscope
from apscope import FloatFormat, _core, named_formats
from apscope.machine import OPERATIONS, ROUNDINGS

RANDOM_COUNT = 10**6
#: formats of addition, of the split with and without its second half, with gaps, without zero, and
#: fp64's
RANDOM = ("e4m3", "bf16", "fp16", "binary8p3se", "e8m0fnu")
BLOCKS = (
    "mxfp8_e4m3",
    "mxfp8_e5m2,rule=ceil",
    "mxfp6_e2m3,rule=rceil",
    "mxfp4,rule=even",
    "mxint8",
    "nvfp4",
    "bfp:8:16",
    "blocks:e4m3nosub,block=45",
)
BLOCK_ROUNDINGS = ("ties_to_even", "toward_negative", "to_odd", "stochastic")


def random_patterns(count: int = RANDOM_COUNT) -> np.ndarray:
    """fp32 numbers: half of them any pattern, half within the exponents that narrow formats
    have."""
    draw = np.random.default_rng(2026)
    bits = draw.integers(0, 2**32, count, dtype=np.uint32)
    near = (bits[::2] & 0x807FFFFF) | draw.integers(100, 150, bits[::2].size, dtype=np.uint32) << 23
    return np.concatenate([near, bits[1::2]]).view(np.float32)


def boundaries(format: FloatFormat, dtype: type) -> np.ndarray:
    """A format's values and middles, the numbers of `dtype` next to them, and what is special."""
    bits = format.storage_bits
    width = next(w for w in (8, 16, 32, 64) if w >= bits)
    codes = np.array(range(0, 2**bits, max(1, 2**bits // 4096)), f"uint{width}")
    wide = apscope.decode(codes, format).astype(np.float64)
    finite = np.unique(np.append(np.abs(wide[np.isfinite(wide)]), format.largest))
    middles = finite[:-1] + (finite[1:] - finite[:-1]) / 2
    with np.errstate(over="ignore", under="ignore"):
        x = np.concatenate([finite, middles, finite[-1:] * 2]).astype(dtype)
        x = np.concatenate(
            [
                x,
                np.nextafter(x, dtype(np.inf)),
                np.nextafter(x, dtype(0)),
                np.array([np.inf, np.nan, 0], dtype),
            ]
        )
    return np.concatenate([x, -x])


def rounded(x: np.ndarray, format: FloatFormat, rounding: str) -> Iterator[np.ndarray]:
    yield apscope.quantize(x, format, rounding=rounding, random_bits=16, seed=3)
    codes = apscope.encode(x, format, rounding=rounding, nan=None if format.has_nan else 0)
    yield codes
    yield apscope.decode(codes, format)


def casts() -> Iterator[tuple[str, list[np.ndarray]]]:
    random = random_patterns()
    for name, f in named_formats().items():
        x = boundaries(f, np.float32) if f.fits_fp32 else boundaries(f, np.float64)
        for rounding in ROUNDINGS:
            yield f"cast {name} {rounding}", list(rounded(x, f, rounding))
            if f.fits_fp32:
                yield (
                    f"cast {name} {rounding} of fp64",
                    list(rounded(boundaries(f, np.float64)[: 1 << 13], f, rounding)),
                )
            if name in RANDOM:
                yield (
                    f"cast {name} {rounding} of random patterns",
                    list(rounded(random, f, rounding)),
                )


def blocks() -> Iterator[tuple[str, list[np.ndarray]]]:
    x = random_patterns()[: 5 * 199 * 100].reshape(5, 199, 100)
    for name in BLOCKS:
        for rounding in BLOCK_ROUNDINGS:
            for axis in (-1, 1):
                settings = {"rounding": rounding, "axis": axis, "random_bits": 16, "seed": 3}
                codes, scales, tensor_scale = vars(
                    apscope.encode_blocks(x, name, **settings)
                ).values()
                back = apscope.decode_blocks(
                    codes, scales, name, axis=axis, tensor_scale=tensor_scale
                )
                yield (
                    f"blocks {name} {rounding} axis {axis}",
                    [apscope.quantize_blocks(x, name, **settings), codes, scales, back],
                )


def arithmetic() -> Iterator[tuple[str, list[np.ndarray]]]:
    for name in ("e4m3", "bf16"):
        values = apscope.quantize(random_patterns()[: 3 * 10**4], name).reshape(3, -1)
        for operation in OPERATIONS[1:]:
            operands = values[: {"sqrt": 1, "fma": 3}.get(operation, 2)]
            for rounding in ("ties_to_even", "toward_positive", "stochastic"):
                yield (
                    f"{operation} {name} {rounding}",
                    [getattr(apscope, operation)(*operands, name, rounding=rounding)],
                )


def digests() -> dict[str, str]:
    """Job -> digest of its results' bytes."""
    found = {}
    for part in (casts, blocks, arithmetic):
        for name, results in part():
            digest = hashlib.sha256()
            for result in results:
                digest.update(np.ascontiguousarray(result).tobytes())
            found[name] = digest.hexdigest()[:16]
    return found


if __name__ == "__main__":
    print(f"on {_core.simd_level()}")
    for job, digest in digests().items():
        print(digest, job)
