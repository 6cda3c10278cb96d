"""The reference of matrix units: what the recordings say of it, what changes of it they refuse, cases
computed by hand, and what other emulators give."""

from __future__ import annotations

import os
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cuda import matrix_units as reader
from tests.reference import matrix_unit_recordings as recordings
from tests.reference.matrix_units import DTYPES, NAN_BITS, UNITS, Unit, fp4, mxfp8, values

RECORDED = [*recordings.of_h100(), *recordings.of_sample()]
NAMES = [recording.name for recording in RECORDED]
#: The folder model_validation of MATLAB-tensor-core (tests/data/README.md).
PUBLISHED = os.environ.get("APSCOPE_MATRIX_UNIT_RECORDINGS")


@pytest.mark.parametrize("recording", RECORDED, ids=NAMES)
def test_the_reference_gives_every_recorded_result(recording: recordings.Recording) -> None:
    assert recording.differing() == 0


def test_no_recording_is_left_out() -> None:
    """Ten instructions of an H100, 48 files of eight devices."""
    assert len(set(NAMES)) == 58
    assert sum(len(recording.d) for recording in RECORDED) == 51200 + 48 * 250


@pytest.mark.skipif(PUBLISHED is None, reason="APSCOPE_MATRIX_UNIT_RECORDINGS names no folder")
def test_the_reference_gives_every_published_result() -> None:
    every = list(recordings.of_folder(Path(PUBLISHED or "")))
    assert [(r.name, r.differing()) for r in every if r.differing()] == []
    assert sum(len(recording.d) for recording in every) == 240_000


def halved(unit: Unit) -> Unit:
    """Each step's products in two steps."""
    parts = unit.parts or (tuple(range(unit.k)),)
    halves = [half for p in parts for half in (p[: len(p) // 2], p[len(p) // 2 :])]
    return replace(unit, parts=tuple(halves))


def with_fraction(unit: Unit, more: int) -> Unit:
    return replace(unit, step=replace(unit.step, fraction=unit.step.fraction + more))


CHANGES = {
    "one fraction bit less": lambda unit: with_fraction(unit, -1),
    "one fraction bit more": lambda unit: with_fraction(unit, 1),
    "half of K": halved,
    "C at the other place": lambda unit: replace(unit, late=not unit.late),
}


#: Of FP8 by mma.sync the published recordings with fp32 results, of a B200, say little: C towers.
WITH_A_LARGE_C = {"B200 E4M3 fp32", "B200 E5M2 fp32"}


@pytest.mark.parametrize("change", CHANGES)
def test_which_recordings_refuse_a_changed_unit(change: str) -> None:
    """All of the H100's; of the published ones, fp16's results say nothing of 23 to 25 fraction bits,
    four products of tf32 nothing of a K of 8, and a C of zero nothing of C's place."""
    silent = {
        recording.name
        for recording in RECORDED
        if recording.differing(CHANGES[change](UNITS[recording.unit])) == 0
    }
    expected = WITH_A_LARGE_C
    if "fraction" in change:
        expected = expected | {
            r.name for r in RECORDED if r.d.itemsize == 2 and UNITS[r.unit].step.fraction > 13
        }
    elif change == "half of K":
        expected = expected | {r.name for r in RECORDED if UNITS[r.unit].k > r.a.shape[-1]}
    else:
        expected = {r.name for r in RECORDED if not r.c.any()}
    assert silent == expected


def test_fp8_of_mma_is_interleaved() -> None:
    """By k mod 4, not in halves and not in one sum of 32."""
    halves = (tuple(range(16)), tuple(range(16, 32)))
    for recording in RECORDED:
        unit = UNITS[recording.unit]
        if unit.parts is not None and recording.name not in WITH_A_LARGE_C:
            assert recording.differing(replace(unit, parts=None)) > 0
            assert recording.differing(replace(unit, parts=halves)) > 0


#: Sixteen products: twice 2^20 and -2^20 and eight times 1.75 2^-4, which is below 2^20 by 25 bits
#: and a half.
SEPARATING_A = np.tile([1024.0, 1.75, -1024.0, 1.75], 4)
SEPARATING_B = np.tile([1024.0, 0.0625, 1024.0, 0.0625], 4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v100", 0.0),  # each cut to a multiple of 2^-3
        ("t4", 0.5),  # of 2^-4
        ("a100", 0.5),
        ("ada", 0.5),
        ("mi300x", 0.5),
        ("h100", 0.75),  # of 2^-5
        ("b200", 0.75),
        ("mi100", 0.875),  # exact
        ("mi250x", 1.0),  # rounded to a multiple of 2^-3 beside 2^20
    ],
)
def test_one_product_tells_units_apart(name: str, expected: float) -> None:
    assert UNITS[name].dot(SEPARATING_A, SEPARATING_B) == expected


def test_the_sum_is_cut_to_the_result() -> None:
    """C = 1 and products that add up to 1.5 2^-23: a bit of the sum is lost, toward zero, whatever
    its sign. The products by themselves, each 1.5 2^-25, lose nothing."""
    a, b = np.full(4, 1.5 * 2.0**-12), np.full(4, 2.0**-13)
    assert UNITS["h100"].dot(a, b, 1.0) == np.float32(1 + 2.0**-23)
    assert UNITS["h100"].dot(-a, b, -1.0) == np.float32(-1 - 2.0**-23)
    assert UNITS["h100"].dot(a, b) == np.float32(1.5 * 2.0**-23)
    assert UNITS["a100"].dot(a, b, 1.0) == 1


def test_an_exponent_is_of_the_operands() -> None:
    """1.5 times 1.5 is 2.25, with the exponent 0: 2^-24 beside it is 24 bits below."""
    a, b = np.array([1.5, 2.0**-12]), np.array([1.5, 2.0**-12])
    a = np.append(a, -1.5)
    b = np.append(b, 1.5)
    assert UNITS["a100"].dot(a, b) == 2.0**-24
    assert UNITS["v100"].dot(a, b) == 0


def test_fp8_results_have_13_bits() -> None:
    a = np.array([1.0, 2.0**-6, 2.0**-6])
    b = np.array([1.0, 2.0**-6, 2.0**-8])
    assert UNITS["h100:fp8"].dot(a, b) == 1 + 2.0**-12
    assert UNITS["h100:mma_fp8"].dot(a, b) == 1 + 2.0**-12 + 2.0**-14


def test_a_zero_term_has_an_exponent() -> None:
    """Two products of exponent -149 and -160: with C = 0 a unit of 25 bits cuts at 2^-158, so that
    the negative one is lost. With a unit of 24 bits, and fp16's results, alike."""
    a, b = np.array([2.0**-75, -(2.0**-80)]), np.array([2.0**-74, 2.0**-80])
    assert UNITS["h100"].dot(a, b, form="bf16") == 2.0**-149
    b[1] = 2.0**-78
    assert UNITS["h100"].dot(a, b, form="bf16") == 0
    for name, unit_bit in (("v100:fp16", -42), ("a100:fp16", -44), ("h100:fp16", -46)):
        # Half of the smallest result and one bit: above the tie only if the bit is kept.
        a, b = np.array([2.0**-13, 2.0**-22]), np.array([2.0**-12, 2.0 ** (unit_bit + 22)])
        assert UNITS[name].dot(a, b) == 2.0**-24
        b[1] /= 2
        assert UNITS[name].dot(a, b) == 0


def test_promoted_and_split_chains() -> None:
    """C = 2^24 takes a chain's 1.5 or 3 in an addition that rounds; ties go to even."""
    ones = np.full(32, 1.5 / 16)
    for keys in ({"promote": 16}, {"split": 2}):
        assert UNITS["h100"].dot(ones, np.ones(32), 2.0**24, **keys) == 2.0**24 + 4
    assert UNITS["h100"].dot(ones, np.ones(32), 2.0**24) == 2.0**24


@pytest.mark.parametrize("name", UNITS)
def test_what_is_not_finite(name: str) -> None:
    unit = UNITS[name]
    inf, nan = np.inf, np.nan
    a = np.array([[inf, 1], [inf, inf], [inf, 1], [inf, 0], [nan, 1], [1, 1], [1, 1], [1, 1]])
    b = np.array([[1, 1], [1, -1], [-1, 1], [0, 1], [1, 1], [1, 1], [1, 1], [1, 1]])
    c = np.array([0, 0, 0, 0, 0, inf, -inf, nan])
    expected = np.array([inf, nan, -inf, nan, nan, inf, -inf, nan])
    d = unit.dot(a, b, c)
    np.testing.assert_array_equal(d, expected)
    assert set(d.view(f"u{d.itemsize}")[np.isnan(d)]) == {NAN_BITS[unit.result]}


def test_a_result_beyond_the_format_is_infinite() -> None:
    """Even where results are rounded toward zero; terms beyond it that cancel are not."""
    big = np.array([2.0**127, 2.0**127])
    assert UNITS["h100"].dot(big, np.ones(2), form="bf16") == np.inf
    assert UNITS["h100"].dot(big, np.array([2.0, -2.0]), form="bf16") == 0
    assert UNITS["h100"].dot(big[:1], np.ones(1), -(2.0**127), form="bf16") == 0
    # fp16's results are rounded to nearest: 65504 + 16 is the tie to infinity.
    b = np.array([65504.0, 16.0])
    assert UNITS["h100:fp16"].dot(np.ones(2), b) == np.inf
    assert UNITS["h100:fp16"].dot(np.array([1.0, 1 - 2.0**-11]), b) == 65504
    assert np.isnan(UNITS["mi300x"].dot(big, np.array([2.0, -2.0]), form="bf16"))


@pytest.mark.parametrize("name", [name for name in UNITS if not name.startswith("mi")])
def test_a_zero_is_positive(name: str) -> None:
    d = UNITS[name].dot(np.array([-0.0, 1.0, -1.0]), np.ones(3), -0.0)
    assert d == 0
    assert not np.signbit(d)


def test_subnormal_numbers() -> None:
    """NVIDIA's units keep them; CDNA 2 takes them for zeros and flushes results."""
    tiny = np.array([2.0**-24])
    assert UNITS["h100"].dot(tiny, np.ones(1)) == 2.0**-24
    assert UNITS["mi250x"].dot(tiny, np.ones(1)) == 0
    assert UNITS["h100"].dot(np.array([2.0**-100]), np.array([2.0**-40]), form="bf16") == 2.0**-140
    assert UNITS["mi250x"].dot(np.array([2.0**-100]), np.array([2.0**-40]), form="bf16") == 0


def test_fp4_by_hand() -> None:
    """The exponent is the scales': 36 16 in one group is exact beside 2^-2 in another; 35 bits below
    the larger scale a sum is cut."""
    a = np.zeros((2, 64))
    b = np.ones((2, 64))
    a[:, :16], b[:, :16], a[:, 16] = 6, 6, 0.5
    b[:, 16] = 0.5
    scales = np.ones((2, 4))
    scales[1, :2] = 448, 2.0**-9
    d = fp4(a, b, scales, scales, np.zeros(2))
    assert d[0] == 576.25
    # 576 448^2 + 2^-20, of which 23 fraction bits remain.
    assert d[1] == 576 * 448**2


def test_what_the_recorder_writes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/cuda/matrix_units.py on a file as an H100's would be, and with one result changed."""
    g = np.random.default_rng(3)
    cases, m, n, k = 2 * len(reader.CASES), 16, 8, 16
    a, b = draw(g, "bf16", (cases, m, k), 4), draw(g, "bf16", (cases, n, k), 4)
    c = g.normal(size=(cases, m, n)).astype(np.float32)
    shape = (cases, m, n, k)
    x = np.broadcast_to(values(a, "bf16")[:, :, None], shape)
    y = np.broadcast_to(values(b, "bf16")[:, None], shape)
    d = UNITS["h100"].dot(x, y, c, "bf16")
    head = np.array([m, n, k, 2, 4, cases, len(reader.CASES)], np.int32)
    path, saved = tmp_path / "mma_bf16.bin", tmp_path / "saved.npz"
    monkeypatch.setattr(sys, "argv", ["matrix_units", str(tmp_path), "--save", str(saved)])
    path.write_bytes(b"".join(array.tobytes() for array in (head, a, b, c, d)))
    assert reader.main() == 0
    assert "3584 results: equal to h100, b200" in capsys.readouterr().out
    with np.load(saved) as arrays:
        assert recordings.tiles(arrays, "mma_bf16", "h100", "bf16").differing() == 0
    d[1, 0, 0] += 1
    path.write_bytes(b"".join(array.tobytes() for array in (head, a, b, c, d)))
    assert reader.main() == 1
    assert "none; h100 does not give 1 of within 2^1" in capsys.readouterr().out


def draw(
    g: np.random.Generator, form: str, shape: tuple[int, ...], spread: int | None
) -> np.ndarray:
    """Codes: any finite one, or of numbers within 2^spread; one of twenty a zero."""
    dtype = np.dtype(DTYPES[form])
    if spread is None:
        x = g.integers(0, 1 << 8 * dtype.itemsize, shape).astype(f"u{dtype.itemsize}")
    else:
        scale = g.integers(-spread, spread + 1, shape)
        with np.errstate(over="ignore"):
            x = np.ldexp(g.normal(size=shape), scale).astype(dtype).view(f"u{dtype.itemsize}")
    if form == "tf32":
        x &= np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values(x, form)) & (g.random(shape) > 0.05), x, 0).astype(x.dtype)


#: A unit, a format, and what MMA-Sim calls the instruction.
MMASIM = [
    ("v100", "fp16", "MMA", "Volta", "m8n8k4.f32.f16.f16.f32"),
    ("v100:fp16", "fp16", "MMA", "Volta", "m8n8k4.f16.f16.f16.f16"),
    ("t4", "fp16", "MMA", "Turing", "m16n8k8.f32.f16.f16.f32"),
    ("t4:fp16", "fp16", "MMA", "Turing", "m16n8k8.f16.f16.f16.f16"),
    ("a100", "bf16", "MMA", "Ampere", "m16n8k16.f32.bf16.bf16.f32"),
    ("a100:tf32", "tf32", "MMA", "Ampere", "m16n8k8.f32.tf32.tf32.f32"),
    ("ada:fp8", "e4m3fn", "MMA", "Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32"),
    ("ada:fp8_fp16", "e5m2", "MMA", "Ada Lovelace", "m16n8k32.f16.e5m2.e5m2.f16"),
    ("h100", "bf16", "WGMMA", "Hopper", "m64n8k16.f32.bf16.bf16"),
    ("h100:fp16", "fp16", "WGMMA", "Hopper", "m64n8k16.f16.f16.f16"),
    ("h100:fp8", "e4m3fn", "WGMMA", "Hopper", "m64n8k32.f32.e4m3.e4m3"),
    ("h100:fp8_fp16", "e5m2", "WGMMA", "Hopper", "m64n8k32.f16.e5m2.e5m2"),
    ("b200", "fp16", "TCGen05MMA", "Blackwell", "m64n8k16.kind::f16.f32.f16.f16"),
    ("b200:tf32", "tf32", "TCGen05MMA", "Blackwell", "m64n8k8.kind::tf32.f32.tf32.tf32"),
    ("b200:fp8", "e4m3fn", "TCGen05MMA", "Blackwell", "m64n8k32.kind::f8f6f4.f32.e4m3.e4m3"),
    ("b200:fp8", "e5m2", "TCGen05MMA", "Blackwell", "m64n8k32.kind::f8f6f4.f32.e5m2.e5m2"),
    ("b200:fp8_fp16", "e4m3fn", "TCGen05MMA", "Blackwell", "m64n8k32.kind::f8f6f4.f16.e4m3.e4m3"),
    ("mi100", "fp16", "MFMA", "CDNA1", "f32_32x32x8f16"),
    ("mi100:bf16", "bf16", "MFMA", "CDNA1", "f32_32x32x4bf16"),
    ("mi250x", "fp16", "MFMA", "CDNA2", "f32_32x32x8f16"),
    ("mi250x", "bf16", "MFMA", "CDNA2", "f32_32x32x8bf16_1k"),
    ("mi250x:bf16", "bf16", "MFMA", "CDNA2", "f32_32x32x4bf16"),
    ("mi300x", "fp16", "MFMA", "CDNA3", "f32_32x32x8_f16"),
    ("mi300x", "bf16", "MFMA", "CDNA3", "f32_32x32x8_bf16"),
    ("mi300x:xf32", "tf32", "MFMA", "CDNA3", "f32_16x16x8_xf32"),
    ("mi300x:fp8", "e4m3fnuz", "MFMA", "CDNA3", "f32_16x16x32_fp8_fp8"),
    ("mi300x:fp8", "e5m2fnuz", "MFMA", "CDNA3", "f32_16x16x32_bf8_bf8"),
]


@pytest.mark.parametrize(("name", "form", "kind", "device", "instruction"), MMASIM)
def test_mmasim_gives_the_same(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    form: str,
    kind: str,
    device: str,
    instruction: str,
) -> None:
    """MMA-Sim 2: chains of two instructions. Its own multiply-add, compiled where it is imported, is
    not needed. A NaN is compared as a NaN."""
    multiply_add = types.ModuleType("mmasim.arithmetic.fma")
    multiply_add.MMA_FMA = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mmasim.arithmetic.fma", multiply_add)
    pytest.importorskip("mmasim")
    torch = pytest.importorskip("torch")
    module = pytest.importorskip("mmasim.amd" if kind == "MFMA" else "mmasim.nv_ptx")
    unit = UNITS[name]
    dtype = np.float16 if unit.result == "fp16" else np.float32
    g = np.random.default_rng(1)
    for spread in (None, 0, 3, 12):
        cases, K = 500, 2 * unit.k
        a, b = (draw(g, form, (cases, K), spread) for _ in "ab")
        c = np.ldexp(g.normal(size=cases), g.integers(-10, 11, cases)).astype(dtype)
        c[g.random(cases) < 0.3] = 0
        mine = unit.dot(values(a, form), values(b, form), c, form)
        signed = (torch.from_numpy(x.view(f"i{x.itemsize}")) for x in (a, b))
        view = {"fp16": "float16", "bf16": "bfloat16", "tf32": "float32"}.get(
            form, f"float8_{form}"
        )
        operands = (x.view(getattr(torch, view)) for x in signed)
        theirs = getattr(module, kind)(device, instruction).dpa(*operands, torch.from_numpy(c))
        np.testing.assert_array_equal(mine, theirs.numpy())


def packed_fp4(codes: np.ndarray) -> np.ndarray:
    """Two codes of a byte, the first in its lower half."""
    return codes[..., ::2] | codes[..., 1::2] << 4


@pytest.mark.parametrize(
    ("instruction", "element", "scale", "block"),
    [
        ("m128n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3", "e2m1fn", "e4m3fn", 16),
        ("m128n8k64.kind::mxf4.block32.f32.e2m1.e2m1.ue8m0", "e2m1fn", "e8m0fnu", 32),
        ("m128n8k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.ue8m0", "e4m3fn", "e8m0fnu", 32),
        ("m128n8k32.kind::mxf8f6f4.block32.f32.e5m2.e5m2.ue8m0", "e5m2", "e8m0fnu", 32),
    ],
)
def test_mmasim_gives_the_same_with_scales(
    monkeypatch: pytest.MonkeyPatch, instruction: str, element: str, scale: str, block: int
) -> None:
    """Chains of two instructions."""
    multiply_add = types.ModuleType("mmasim.arithmetic.fma")
    multiply_add.MMA_FMA = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mmasim.arithmetic.fma", multiply_add)
    pytest.importorskip("mmasim")
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("mmasim.nv_ptx").TCGen05MMABlockScale("Blackwell", instruction)
    g, cases, half = np.random.default_rng(4), 500, 64 if element == "e2m1fn" else 32
    for spread in (0, 3, 30):
        shape = (cases, 2, half)
        if element == "e2m1fn":
            codes = [g.integers(0, 16, shape).astype(np.uint8) for _ in "ab"]
            a, b = (c.view(DTYPES[element]).astype(np.float64) for c in codes)
            given = [torch.from_numpy(packed_fp4(c)) for c in codes]
        else:
            codes = [draw(g, element, shape, min(spread, 6)) for _ in "ab"]
            a, b = (values(c, element) for c in codes)
            given = [
                torch.from_numpy(c.view(np.int8)).view(getattr(torch, f"float8_{element}"))
                for c in codes
            ]
        pieces = (cases, 2, half // block)
        if scale == "e8m0fnu":
            drawn = [g.integers(127 - spread, 128 + spread, pieces).astype(np.uint8) for _ in "ab"]
            scales = [np.ldexp(1.0, c.astype(int) - 127) for c in drawn]
            dtype = torch.float8_e8m0fnu
        else:
            drawn = [g.integers(0, 127, pieces).astype(np.uint8) for _ in "ab"]
            scales = [values(c, scale) for c in drawn]
            dtype = torch.float8_e4m3fn
        of_both = [torch.from_numpy(c.view(np.int8)).view(dtype) for c in drawn]
        c = np.ldexp(g.normal(size=cases), g.integers(-10, 11, cases)).astype(np.float32)
        c[g.random(cases) < 0.3] = 0
        d = torch.from_numpy(c)
        for i in (0, 1):
            d = theirs.dpa(*(x[:, i] for x in given), d, *(s[:, i] for s in of_both))
        flat = [x.reshape(cases, -1) for x in (a, b, *scales)]
        if element == "e2m1fn":
            mine = fp4(*flat, c, block, -6 if block == 16 else -127)
        else:
            mine = mxfp8(*flat[:2], (element, element), *flat[2:], c)
        np.testing.assert_array_equal(mine, d.numpy())


@pytest.mark.parametrize(("preset", "name"), [("ada", "ada:fp8"), ("hopper", "h100:fp8")])
@pytest.mark.parametrize("form", ["e4m3fn", "e5m2"])
def test_mmaemu_gives_the_same(preset: str, name: str, form: str) -> None:
    """mmaemu 0.1: chains from a C, and the sum of chains of 128."""
    pytest.importorskip("mmaemu")
    torch = pytest.importorskip("torch")
    chain = pytest.importorskip("mmaemu.model.chain")
    plan = pytest.importorskip("mmaemu.model.plan")
    g = np.random.default_rng(2)
    unit = UNITS[name]
    for spread in (None, 0, 3):
        a, b = (draw(g, form, (500, 96), spread) for _ in "ab")
        c = np.ldexp(g.normal(size=500), g.integers(-10, 11, 500)).astype(np.float32)
        operands = (torch.from_numpy(x).view(getattr(torch, f"float8_{form}")) for x in (a, b))
        theirs = chain.dot(*operands, torch.from_numpy(c), preset=preset).numpy()
        mine = unit.dot(values(a, form), values(b, form), c, form)
        np.testing.assert_array_equal(mine.view(np.uint32), theirs.view(np.uint32))
    forms = {"fmt_a": form[:4], "fmt_b": form[:4]}
    for fast in (True, False):
        a, b = draw(g, form, (8, 1040), 3), draw(g, form, (6, 1040), 3)
        theirs = plan.execute_plan(
            plan.make_plan(1040, fast=fast, preset=preset),
            *(torch.from_numpy(x) for x in (a, b)),
            **forms,
            chain_fn=lambda x, y: chain.chain_gemm(x, y, **forms, preset=preset),
        ).numpy()
        x, y = values(a, form)[:, None], values(b, form)[None]
        x, y = (np.broadcast_to(v, (8, 6, 1040)) for v in (x, y))
        mine = unit.dot(x, y, 0.0, form, promote=None if fast else 128)
        np.testing.assert_array_equal(mine.view(np.uint32), theirs.view(np.uint32))
