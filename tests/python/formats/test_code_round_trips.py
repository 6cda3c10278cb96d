"""Codes to values and back: every code of formats of at most 16 bits, samples of the wider ones."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from tests.reference.formats import EXOTIC, FORMATS, FP64_FORMATS, Format, ieee
from tests.reference.nans import code, kept, of_code

EVERY = FORMATS | EXOTIC | FP64_FORMATS
# Widths between the named ones: 20 to 63 bits.
WIDTHS = [(5, 14), (8, 16), (6, 25), (8, 24), (9, 23), (7, 40), (11, 36), (10, 52), (11, 51)]
BETWEEN = {f"e{e}m{m}": ieee(e, m) for e, m in WIDTHS}
FP32_NAMES = {name for name in (FORMATS | EXOTIC)} | {"e5m14", "e8m16"}


def code_dtype(f: Format):
    return next(
        t for t in (np.uint8, np.uint16, np.uint32, np.uint64) if f.storage_bits <= np.iinfo(t).bits
    )


def codes_of(f: Format) -> np.ndarray:
    """All codes, or those around every special place and some others."""
    if f.storage_bits <= 10:
        return np.arange(1 << f.storage_bits).astype(code_dtype(f))
    rng, m = np.random.default_rng(f.storage_bits), 1 << f.mantissa_bits
    places = [
        0,
        m // 2,
        m,
        2 * m,
        f.magnitude_codes // 2,
        f.top,
        f.top + 2,
        f.top + m // 2,
        f.magnitude_codes - 1,
    ]
    codes = {p + d for p in places for d in (-2, -1, 0, 1, 2)}
    codes |= {int.from_bytes(rng.bytes(8)) % f.magnitude_codes for _ in range(60)}
    codes = [c for c in codes if 0 <= c < f.magnitude_codes]
    return np.array(
        sorted(codes + [c + f.magnitude_codes for c in codes if f.is_signed]), code_dtype(f)
    )


def decoded(codes, f: Format, dtype, keep_payload: bool) -> np.ndarray:
    """As bits."""
    fields, unsigned = ((8, 23), np.uint32) if dtype == np.float32 else ((11, 52), np.uint64)
    values = np.array([f.decode(int(c)) for c in codes])
    bits = values.astype(dtype).view(unsigned).copy()
    for i in np.flatnonzero(np.isnan(values)):
        bits[i] = of_code(int(codes[i]), f, keep_payload).bits(*fields)
    return bits


def canonical(c: int, f: Format, keep_payload: bool) -> int:
    """The code that the value of c is given."""
    value = f.decode(c)
    if np.isnan(value):
        return code(kept(of_code(c, f), f, keep_payload), f)
    return 0 if value == 0 and f.zero == "single" else c


@pytest.mark.parametrize("name", EVERY | BETWEEN)
def test_codes_decode_to_their_values_and_encode_back(name):
    f = (EVERY | BETWEEN)[name]
    codes, dtype = codes_of(f), np.float32 if name in FP32_NAMES else np.float64
    for keep in (False, True):
        values = apscope.decode(codes, name, keep_payload=keep)
        assert values.dtype == dtype
        bits = values.view(np.uint32 if dtype == np.float32 else np.uint64)
        np.testing.assert_array_equal(bits, decoded(codes, f, dtype, keep))
        expected = np.array([canonical(c, f, keep) for c in codes.tolist()], codes.dtype)
        for mode in ("ties_to_even", "away_from_zero", "stochastic_exact"):
            given = values if f.has_nan else values[~np.isnan(values)]
            back = apscope.encode(given, name, rounding=mode, keep_payload=keep)
            assert back.dtype == codes.dtype
            np.testing.assert_array_equal(back, expected, f"{mode}, keep_payload={keep}")
            if dtype == np.float32:  # codes from fp64 numbers are the same
                with np.errstate(invalid="ignore"):
                    wide = given.astype(np.float64)
                np.testing.assert_array_equal(
                    apscope.encode(wide, name, rounding=mode, keep_payload=keep), back
                )


@pytest.mark.parametrize(
    ("name", "dtype", "bits"),
    [
        ("fp16", np.float16, np.uint16),
        ("fp32", np.float32, np.uint32),
        ("fp64", np.float64, np.uint64),
        ("bf16", ml_dtypes.bfloat16, np.uint16),
    ],
)
def test_the_interchange_formats_are_numpys_bits(name, dtype, bits):
    width = np.iinfo(bits).bits
    codes = np.random.default_rng(4).integers(0, 1 << width, 3000, dtype=np.uint64).astype(bits)
    values = apscope.decode(codes, name)
    with np.errstate(invalid="ignore"):
        theirs = codes.view(dtype).astype(values.dtype)
    nan = np.isnan(values)
    np.testing.assert_array_equal(nan, np.isnan(theirs))
    assert values[~nan].tobytes() == theirs[~nan].tobytes()


def test_a_wide_array_of_codes_is_read_as_a_short_one():
    for name in ("e11m4", "fp64", "e9m30", "e4m3"):
        f = EVERY[name]
        codes = np.resize(codes_of(f), 5003)
        whole = apscope.decode(codes, name, threads=2)
        assert whole[:40].tobytes() == apscope.decode(codes[:40], name).tobytes()
        assert whole[4990:].tobytes() == apscope.decode(codes[4990:], name).tobytes()


def openexr_float24(x: np.ndarray) -> np.ndarray:
    """The 24 bits that OpenEXR's PXR24 compression keeps of a finite fp32 number: halves up, and
    never to infinity."""
    bits = x.view(np.uint32)
    magnitude = bits & 0x7FFFFFFF
    rounded = (magnitude + (magnitude & 0x80)) >> 8
    return np.where(rounded >= 0x7F8000, magnitude >> 8, rounded) | (bits & 0x80000000) >> 8


def test_pxr24_is_what_openexr_keeps_of_fp32():
    rng = np.random.default_rng(24)
    x = rng.integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    edges = (np.arange(0, 0x7F8000, 4099, dtype=np.uint32)[:, None] << 8) + np.uint32(
        [0, 1, 0x7F, 0x80, 0x81, 0xFF]
    )
    x = np.concatenate(
        [
            x[np.isfinite(x)],
            edges.ravel().view(np.float32),
            np.float32([0.0, -0.0, 3.4028235e38, -3.4028235e38]),
        ]
    )
    f = apscope.FloatFormat("pxr24")
    assert (
        f == apscope.FloatFormat("e8m15") and f.storage_bits == 24 and f.has_infinity and f.has_nan
    )
    codes = apscope.encode(x, f, rounding="ties_to_away", overflow="saturate")
    assert np.array_equal(codes, openexr_float24(x))
    assert np.array_equal(
        apscope.decode(codes, f).astype(np.float32).view(np.uint32), codes.astype(np.uint32) << 8
    )
