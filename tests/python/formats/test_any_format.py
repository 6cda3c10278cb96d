"""Formats without names: fields drawn at random, casts against the executable
specification."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import apscope
from tests.reference.casts import Limits, Rounding, cast, count_up, exact
from tests.reference.nans import with_nans
from tests.reference.points import numbers
from tests.reference.rounding import COUNTED, DETERMINISTIC, UNDERFLOWS, Format


@st.composite
def formats(draw, widest=(11, 52)):
    e, m = (
        draw(st.integers(0, widest[0])),
        draw(st.one_of(st.integers(0, 4), st.integers(0, widest[1]))),
    )
    usual = (1 << e - 1) - 1 if e else 0
    bias = usual + draw(
        st.one_of(st.integers(-1, 1), st.integers(-60, 60), st.integers(-1100, 1100))
    )
    is_signed, subnormals = draw(st.booleans()), e == 0 or draw(st.booleans())
    zeros = ["single"] + ["both_signs"] * is_signed + ["none"] * (not is_signed and not subnormals)
    zero = draw(st.sampled_from(zeros))
    return Format(
        e,
        m,
        bias,
        is_signed,
        subnormals,
        1 - bias - (subnormals and draw(st.booleans())),
        zero,
        draw(st.sampled_from([0, 1, 2, 3, (1 << m) - 1])),
        draw(st.booleans()),
        is_signed and zero == "single" and draw(st.booleans()),
        m == 0 and draw(st.booleans()),
    )


def made(f: Format) -> apscope.FloatFormat:
    """The same format, where it is one: its values fp64 numbers, one of them finite and not
    zero."""
    least = (f.subnormal_exponent if f.subnormals else -f.bias) - f.mantissa_bits
    enough = f.top >= (0 if f.zero == "none" else 1)
    assume(
        0 < f.exponent_bits + f.mantissa_bits
        and enough
        and least >= -1074
        and f.value(f.top) < 2**1024
    )
    fields = {name: getattr(f, name) for name in f.__dataclass_fields__}
    return apscope.FloatFormat(**fields)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(formats(), st.data())
def test_casts_to_any_format_are_the_specification(f, data):
    format = made(f)
    assert format.largest == float(f.value(f.top))
    assert format.smallest_positive == float(
        f.smallest_positive
    ) and format.smallest_normal == float(f.smallest_normal)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = data.draw(
        st.sampled_from([np.float64, np.float32] if format.fits_fp32 else [np.float64])
    )
    x = numbers(f, dtype, rng, 1)
    mode = data.draw(st.sampled_from(DETERMINISTIC + COUNTED))
    overflows = (
        ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan
    )
    overflow = data.draw(st.sampled_from(overflows))
    underflow = data.draw(st.sampled_from(UNDERFLOWS if f.smallest_normal else ["gradual"]))
    keep, bits = (
        data.draw(st.booleans()),
        data.draw(st.integers(1, 62 if mode[-2:] in ("_b", "_c") else 64)),
    )
    random = None
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    if mode in COUNTED:  # the two integers between which the result changes
        brackets = [(abs(k), *Limits.of(f).neighbours(abs(k))[:2]) for k in exact(wide).tolist()]
        counts = [count_up(v - low, high - low, mode, bits) for v, low, high in brackets]
        first_up = [(1 << bits) - c for c in counts]
        random = [
            min(max(first - int(below), 0), (1 << bits) - 1)
            for first, below in zip(first_up, rng.integers(0, 2, x.size))
        ]
    r = Rounding(mode, overflow, bits, underflow)
    with np.errstate(invalid="ignore"):
        expected = with_nans(cast(wide, f, r, random).astype(dtype), x, f, keep)
    settings = dict(
        rounding=mode, overflow=overflow, underflow=underflow, keep_payload=keep, random_bits=bits
    )
    settings["random"] = None if random is None else np.array(random, np.uint64)
    got = apscope.quantize(x, format, **settings)
    words = np.uint32 if dtype == np.float32 else np.uint64
    wrong = got.view(words) != expected.view(words)
    assert not wrong.any(), (
        format.to_json(),
        r,
        x[wrong][0].hex(),
        got[wrong][0],
        expected[wrong][0],
    )
    if f.has_nan:
        back = apscope.decode(apscope.encode(x, format, **settings), format, keep_payload=keep)
        narrow = expected.astype(back.dtype)  # nothing is lost but a NaN's low bits
        assert (
            back.view(back.dtype.str.replace("f", "u")).tolist()
            == narrow.view(back.dtype.str.replace("f", "u")).tolist()
        )


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(formats())
def test_any_format_has_a_name_that_reads_back(f):
    format = made(f)
    assert apscope.FloatFormat(format.name) == format
    assert apscope.FloatFormat.from_json(format.to_json()) == format


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        # e2m1fn, e3m2fn and e2m3fn are OCP's elements, which have no NaN.
        ((2, 1, "fn"), "e2m1noinf"),
        ((3, 2, "fn"), "e3m2nan1noinf"),
        ((2, 3, "fn"), "e2m3nan1noinf"),
        ((8, 0, "ieee"), "e8m0finiteinf"),  # e8m0 is OCP's scale
    ],
)
def test_a_name_that_stands_for_another_format_is_not_given(fields, name):
    format = apscope.FloatFormat(
        exponent_bits=fields[0], mantissa_bits=fields[1], specials=fields[2]
    )
    assert format.name == name
    assert apscope.FloatFormat(name) == format


@pytest.mark.parametrize("bias", [-(2**31), -2201, 2201, 2**31 - 1])
@pytest.mark.parametrize("subnormals", [True, False])
def test_a_bias_that_no_format_has_is_refused(bias, subnormals):
    sentence = f"bias={bias} puts every value outside fp64's range; use -2200 to 2200$"
    with pytest.raises(ValueError, match=f"^{sentence}"):
        apscope.FloatFormat(exponent_bits=4, mantissa_bits=3, bias=bias, subnormals=subnormals)
    name = f"e4m3b{bias}{'' if subnormals else 'nosub'}"
    with pytest.raises(ValueError, match=f"^format '{name}': {sentence}"):
        apscope.FloatFormat(name)
