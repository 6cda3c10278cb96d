"""fingerprint: right casts are recognised, and wrong ones, by the mistake they make."""

import json

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope import fingerprint
from apscope._formats.blackbox import same
from apscope.cli import main


def quantum(x, mantissa_bits, emin):
    """The distance of a format's values around x, float64."""
    return 2.0 ** (
        np.maximum(np.frexp(np.where(np.isfinite(x), x, 1))[1] - 1, emin) - mantissa_bits
    )


def round_with(rule, *, largest=240.0, mantissa_bits=3, emin=-6):
    """A cast to e4m3 by dividing by the quantum: right if `rule` rounds right."""

    def cast(x):
        x = x.astype(np.float64)
        q = quantum(x, mantissa_bits, emin)
        y = rule(x / q) * q
        y = np.where(np.abs(y) > largest, np.copysign(np.inf, x), y)
        return np.where(np.isnan(x), np.nan, y).astype(np.float32)

    return cast


right = round_with(np.rint)
ties_away = round_with(lambda s: np.copysign(np.floor(np.abs(s) + 0.5), s))


def no_sticky_bit(x):
    """Subnormals shifted right with a guard bit and nothing after it."""
    x = x.astype(np.float64)
    q = quantum(x, 3, -6) / 2
    cut = np.copysign(np.floor(np.abs(x) / q) * q, x)
    return right(np.where(np.abs(x) < 2.0**-6, cut, x).astype(np.float32))


def overflow_before_rounding(x):
    y = round_with(np.rint, largest=np.inf)(x)
    return np.where(np.abs(x) >= 256, np.copysign(np.float32(np.inf), x), y)


def nan_through_integers(x):
    """bf16 by integer rounding, without a test for NaN."""
    bits = x.view(np.uint32)
    return (
        (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    ).view(np.float32)


def floor_of_log2(x):
    """Truncation with the exponent from a logarithm in fp32, too large just below powers of two."""
    x32 = np.where(np.isfinite(x) & (x != 0), x, np.float32(1))
    q = 2.0 ** (np.maximum(np.floor(np.log2(np.abs(x32))), -6) - 3).astype(np.float64)
    y = np.trunc(x / q) * q
    return np.where(
        np.abs(x) > 256,
        np.copysign(240.0, x),
        np.where(np.isfinite(x), np.copysign(np.minimum(abs(y), 240), x), x),
    )


def through_fp16(x):
    return x.astype(np.float16).astype(ml_dtypes.float8_e4m3).astype(np.float32)


def sign_of_zero_lost(x):
    return right(x) + np.float32(0)


def flush_results(x):
    y = right(x)
    return np.where(np.abs(y) < 2.0**-6, np.copysign(np.float32(0), x), y)


def flush_inputs(x):
    return right(np.where(np.abs(x) < 2.0**-6, np.copysign(np.float32(0), x), x))


def one_digit_ties_down(x):
    """e3m0 with ties to the even code, where IEEE 754 takes the larger magnitude."""
    y = apscope.quantize(x, "e3m0")
    tie = (
        np.isfinite(x)
        & (np.frexp(x)[0] == np.copysign(0.75, x))
        & (np.abs(x) > 0.25)
        & (np.frexp(x)[1] % 2 == 1)
    )
    return np.where(tie, np.ldexp(np.copysign(0.5, x), np.frexp(x)[1]).astype(np.float32), y)


def overwrites_its_argument(x):
    x[:] = right(x)
    return x


PEERS = [n for n in dir(ml_dtypes) if n.startswith(("float", "bfloat")) and n != "float8_e8m0fnu"]


@pytest.mark.parametrize("name", PEERS)
def test_the_types_of_ml_dtypes(name):
    found = fingerprint(getattr(ml_dtypes, name))
    f = apscope.FloatFormat(name)
    assert (
        found.format == f.name
        and found.rounding == "ties_to_even"
        and found.subnormals == "gradual"
    )
    assert (
        found.overflow == f"ieee ({'inf' if f.has_infinity else 'NaN' if f.has_nan else 'largest'})"
    )
    assert found.signed_zero == ("kept" if f.zero == "both_signs" else "lost")
    if f.has_nan:
        assert (found.nan, found.differing, found.first) == ("kept", 0, "")
    else:
        assert "becomes" in found.nan and "(nan)" in found.first and found.differing > 0


@pytest.mark.parametrize("rounding", apscope.conformance.ROUNDINGS)
@pytest.mark.parametrize("name", ["e4m3fn", "binary8p4se", "hfp8_forward", "e4m3b9", "tf32"])
def test_every_rounding_of_apscope(name, rounding):
    found = fingerprint(lambda x: apscope.quantize(x, name, rounding=rounding, overflow="saturate"))
    assert found.differing == 0 and found.format == apscope.FloatFormat(name).name
    assert (found.rounding, found.infinity, found.nan) == (rounding, "largest", "kept")
    # Without infinity and NaN the two rules are one.
    assert found.overflow == ("ieee (largest)" if name == "hfp8_forward" else "saturate (largest)")


def test_codes():
    for name in ("e4m3", "e5m2fnuz", "bf16"):
        assert (
            fingerprint(lambda x, name=name: apscope.encode(x, name))
        ).preset == f"{name}, ties_to_even, overflow ieee"
    found = fingerprint(lambda x: apscope.encode(x, "e4m3b9"), codes="e4m3b9")
    assert (found.format, found.differing) == ("e4m3b9", 0)
    with pytest.raises(ValueError, match="not codes of a named format"):
        fingerprint(lambda x: np.zeros(x.shape, np.int32))


def test_numpy_and_torch():
    assert fingerprint(np.float16).preset == "fp16, ties_to_even, overflow ieee"
    found = fingerprint(np.float32)
    assert found.format == "fp32" and found.rounding.startswith("none") and found.differing == 0
    torch = pytest.importorskip("torch")
    for name in ("float16", "bfloat16", "float8_e5m2"):
        found = fingerprint(getattr(torch, name))
        assert (found.format, found.rounding, found.differing) == (
            apscope.FloatFormat(name).name,
            "ties_to_even",
            0,
        )
    found = fingerprint(lambda x: torch.from_numpy(x).to(torch.bfloat16))
    assert (found.format, found.differing) == ("bf16", 0)


def test_the_reference_of_the_wrong_casts_is_right():
    found = fingerprint(right)
    assert (found.preset, found.differing, found.signed_zero) == (
        "e4m3, ties_to_even, overflow ieee",
        0,
        "kept",
    )


@pytest.mark.parametrize(
    ("cast", "expected"),
    [
        (
            no_sticky_bit,
            {
                "format": "e4m3",
                "rounding": "ties_to_even",
                "subnormals": "mixed (gradual except for",
            },
        ),
        (
            overflow_before_rounding,
            {"format": "e4m3", "rounding": "ties_to_even", "overflow": "mixed ("},
        ),
        (
            nan_through_integers,
            {
                "format": "bf16",
                "rounding": "ties_to_even",
                "nan": "kept at",
                "overflow": "ieee (inf)",
            },
        ),
        (floor_of_log2, {"format": "e4m3", "rounding": "mixed (closest to toward_zero"}),
        (through_fp16, {"format": "e4m3", "rounding": "ties_to_even after a rounding to fp16"}),
        (
            sign_of_zero_lost,
            {
                "format": "e4m3",
                "rounding": "ties_to_even",
                "signed_zero": "lost",
                "subnormals": "gradual",
            },
        ),
        (one_digit_ties_down, {"format": "e3m0", "rounding": "mixed (closest to ties_to_zero"}),
        (
            flush_results,
            {"format": "e4m3", "rounding": "ties_to_even", "subnormals": "flushed to zero"},
        ),
        (
            flush_inputs,
            {"format": "e4m3", "rounding": "ties_to_even", "subnormals": "inputs flushed to zero"},
        ),
    ],
)
def test_mistakes(cast, expected):
    found = fingerprint(cast)
    for field, words in expected.items():
        assert getattr(found, field).startswith(words), found
    assert 0 < found.differing < found.probes // 2
    # The first differing input differs when it is tried.
    x = np.array([int(found.first.split()[0], 16)], np.uint32).view(np.float32)
    name, rounding, overflow = found.preset.replace("overflow ", "").split(", ")
    preset = apscope.quantize(x, name, rounding=rounding, overflow=overflow)
    assert not same(cast(x.copy()).astype(np.float64), preset.astype(np.float64)).any()


def test_the_first_difference_of_the_lost_sticky_bit():
    assert (
        fingerprint(no_sticky_bit).first
        == "0x3a800001 (0.000976562616) gives 0, the preset 0.001953125"
    )


def test_other_roundings_are_no_mistakes():
    found = fingerprint(ties_away)
    assert (found.rounding, found.differing) == ("ties_to_away", 0)
    found = fingerprint(round_with(np.trunc, largest=248.0))
    assert (found.rounding, found.subnormals) == ("toward_zero", "gradual")


def test_the_argument_of_a_cast_is_a_copy():
    assert fingerprint(overwrites_its_argument) == fingerprint(right)


def test_what_is_no_format():
    found = fingerprint(np.sin)
    assert (found.format, found.rounding, found.overflow) == ("unknown", "unknown", "unknown")
    assert fingerprint(np.zeros_like).format == "unknown"


@pytest.mark.parametrize(
    ("cast", "error", "words"),
    [
        (3, TypeError, "int is not a cast"),
        (lambda x: x[:2], ValueError, "shape"),
        (lambda x: x.astype(complex), ValueError, "complex128"),
        (lambda x: [1 / 0], ValueError, "raised ZeroDivisionError"),
        (lambda x: np.full(x.shape, "a"), ValueError, "must return numbers"),
    ],
)
def test_what_is_no_cast_is_refused_in_a_sentence(cast, error, words):
    with pytest.raises(error, match=words) as caught:
        fingerprint(cast)
    assert "\n" not in str(caught.value)


def test_the_command_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "fingerprint_casts.py").write_text(
        "def half(x):\n    return x.astype('float16')\nbad = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["fingerprint", "fingerprint_casts:half"]) == 0
    out = capsys.readouterr().out
    assert "format       fp16\n" in out and "differing    0\n" in out
    assert main(["fingerprint", "ml_dtypes:float8_e8m0fnu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["preset"].startswith("e8m0fnu, ties_to_even")
    for spec, words in [
        ("fingerprint_casts:bad", "is a int"),
        ("fingerprint_casts", "not MODULE:CALLABLE"),
        ("numpy:sum", "shape"),
    ]:
        assert main(["fingerprint", spec]) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1
