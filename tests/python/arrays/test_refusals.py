"""Arguments that quantize, encode, decode, allreduce and schemes refuse: one sentence, and nothing
is changed."""

import numpy as np
import pytest

import apscope

X = np.float32([[0.1, -1.3, 5.7], [-0.26, 100.1, 3e-3]])
CALLS = [apscope.quantize, apscope.encode]


def sentence(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text and 20 < len(text) < 400, text
    return text


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"exponent_bits": -1, "mantissa_bits": 3}, "exponent_bits=-1"),
        ({"exponent_bits": 4, "mantissa_bits": -1}, "mantissa_bits=-1"),
        ({"exponent_bits": 12, "mantissa_bits": 3}, "exponent_bits=12"),
        ({"exponent_bits": 11, "mantissa_bits": 53}, "mantissa_bits=53"),
        ({"exponent_bits": 0, "mantissa_bits": 0}, "at least one"),
        ({"exponent_bits": 11, "mantissa_bits": 52, "specials": "fn"}, "fp64 cannot store"),
        ({"exponent_bits": 11, "mantissa_bits": 52, "bias": 1024}, "fp64 cannot store"),
        ({"exponent_bits": 11, "mantissa_bits": 52, "bias": 1022}, "fp64 cannot store"),
        ({"exponent_bits": 11, "mantissa_bits": 52, "subnormals": False}, "fp64 cannot store"),
        (
            {"exponent_bits": 11, "mantissa_bits": 52, "subnormal_exponent": -1023},
            "fp64 cannot store",
        ),
        ({"exponent_bits": 4, "mantissa_bits": 30, "bias": -1020}, "fp64 cannot store"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "bias": 10**6}, "bias=1000000"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "nan_codes": 127}, "no finite value"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "nan_codes": 2**64 - 1}, "no finite value"),
        (
            {
                "exponent_bits": 11,
                "mantissa_bits": 52,
                "nan_codes": 2**63 - 1,
                "has_infinity": True,
            },
            "no finite value",
        ),
        ({"exponent_bits": 1, "mantissa_bits": 0}, "no finite value"),
        ({"exponent_bits": 0, "mantissa_bits": 3}, "no finite value"),
        (
            {"exponent_bits": 0, "mantissa_bits": 3, "specials": "fn", "subnormals": False},
            "subnormals",
        ),
        (
            {
                "exponent_bits": 4,
                "mantissa_bits": 3,
                "is_signed": False,
                "nan_at_negative_zero": True,
            },
            "nan_at_negative_zero",
        ),
        ({"exponent_bits": 4, "mantissa_bits": 3, "zero": "none", "subnormals": False}, "unsigned"),
        (
            {"exponent_bits": 4, "mantissa_bits": 3, "zero": "none", "is_signed": False},
            "subnormals=False",
        ),
        (
            {"exponent_bits": 4, "mantissa_bits": 3, "subnormal_exponent": -8},
            "subnormal_exponent=-8",
        ),
        ({"exponent_bits": 11, "mantissa_bits": 4, "even_code_ties": True}, "precision 1"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "bias": 1200}, "fp64 cannot store"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "specials": "ieeee"}, "unknown specials 'ieeee'"),
        ({"exponent_bits": 2, "mantissa_bits": 1, "nan_codes": 8}, "no finite value"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "zero": "none"}, "zero='none'"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "zero": "two"}, "unknown zero 'two'"),
        (
            {"exponent_bits": 4, "mantissa_bits": 3, "is_signed": False, "zero": "both_signs"},
            "no -0",
        ),
        (
            {"exponent_bits": 4, "mantissa_bits": 3, "nan_at_negative_zero": True},
            "nan_at_negative_zero",
        ),
        ({"exponent_bits": 4, "mantissa_bits": 3, "subnormal_exponent": 3}, "subnormal_exponent=3"),
    ],
)
def test_formats_that_cannot_be(fields, word):
    with pytest.raises(ValueError) as caught:
        apscope.FloatFormat(**fields)
    assert word in sentence(caught)


@pytest.mark.parametrize(
    "name",
    [
        "e12m3",
        "e11m53",
        "e4m3b9999",
        "e11m52nosub",
        "e11m52fn",
        "e1m0",
        "binary70p3se",
        "binary20p3se",
        "e4m3nan127",
        "fp65",
        "",
    ],
)
def test_names_of_formats_that_cannot_be(name):
    with pytest.raises(ValueError) as caught:
        apscope.quantize(X, name)
    assert f"'{name}'" in sentence(caught) or "P3109" in str(caught.value)


SETTINGS = [
    ({"rounding": "nearest"}, ValueError, "ties_to_even"),
    ({"rounding": "stochastic_d"}, ValueError, "'stochastic_d'"),
    ({"rounding": ""}, ValueError, "ties_to_zero"),
    ({"overflow": "wrap"}, ValueError, "propagate"),
    ({"underflow": "flush"}, ValueError, "flush_both"),
    ({"rounding": 1}, TypeError, "rounding=1"),
    ({"overflow": None}, TypeError, "overflow=None"),
    ({"underflow": None}, TypeError, "underflow=None"),
    ({"underflow": False}, TypeError, "underflow=False"),
    ({"keep_payload": "yes"}, TypeError, "keep_payload='yes'"),
    ({"keep_payload": None}, TypeError, "keep_payload=None"),
    ({"random_bits": 0, "rounding": "stochastic"}, ValueError, "random_bits=0"),
    ({"random_bits": 65, "rounding": "stochastic_equal"}, ValueError, "random_bits=65"),
    ({"random_bits": 63, "rounding": "stochastic_b"}, ValueError, "62"),
    ({"random_bits": 2.0, "rounding": "stochastic"}, TypeError, "random_bits=2.0"),
    ({"random_bits": None}, TypeError, "random_bits=None"),
    ({"seed": -1}, ValueError, "seed=-1"),
    ({"seed": 1.5}, TypeError, "seed=1.5"),
    ({"seed": "1"}, TypeError, "seed='1'"),
    ({"seed": True}, TypeError, "seed=True must be an integer, not a bool"),
    ({"seed": 2**64}, ValueError, "2^64 - 1"),
    ({"threads": -2}, ValueError, "threads=-2"),
    ({"threads": 10**11}, ValueError, "threads=100000000000"),
]


@pytest.mark.parametrize(
    ("call", "settings", "error", "word"),
    [
        (call, *row)
        for row in SETTINGS
        for call in (*CALLS, apscope.allreduce)
        if call in CALLS or not row[0].keys() & {"underflow", "keep_payload"}
    ],
)
def test_settings_that_cannot_be(call, settings, error, word):
    with pytest.raises(error) as caught:
        call(X, "e4m3", **settings)
    assert word in sentence(caught)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("e4m3fn", {"overflow": "infinity"}),
        ("e2m1fn", {"overflow": "nan"}),
        ("e11m0finiteb1024", {"overflow": "infinity"}),
        ("e0m3finite", {"underflow": "flush_result"}),
        ("e0m3finite", {"underflow": "flush_input"}),
        ("e0m4fnu", {"underflow": "flush_both"}),
    ],
)
def test_what_a_format_does_not_have(name, settings):
    for call in CALLS:
        with pytest.raises(ValueError) as caught:
            call(X, name, **settings)
        assert repr(next(iter(settings.values()))) in sentence(caught)


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (np.array([1.0, 2.0], object), "object"),
        (np.array([1, 2**70], object), "object"),
        (np.array([1j]), "complex"),
        (np.array(["1"]), "U1"),
        (np.array([True]), "bool"),
        (np.array([1], "M8[s]"), "datetime64"),
        (
            np.longdouble([1.0]),
            "longdouble"
            if np.dtype(np.longdouble).name == "longdouble"
            else np.dtype(np.longdouble).name,
        ),
        (np.ma.masked_array([1.0]), "masked"),
    ],
)
def test_arrays_that_are_no_numbers(x, word):
    for call in CALLS:
        with pytest.raises(TypeError) as caught:
            call(x, "e4m3")
        assert word in sentence(caught)


def outs():
    frozen = np.full((2, 3), 7, np.float32)
    frozen.flags.writeable = False
    return [
        ("e4m3", X, np.full((2, 2), 7, np.float32), ValueError, "shape"),
        ("e4m3", X, np.full(6, 7, np.float32), ValueError, "shape"),
        ("e4m3", X, np.full((2, 3), 7, np.float64), TypeError, "float64"),
        ("e4m3", X.astype(np.float64), np.full((2, 3), 7, np.float32), TypeError, "float32"),
        ("e11m4", X, np.full((2, 3), 7, np.float32), TypeError, "float32"),
        ("e4m3", X, np.full((2, 3), 7, ">f4"), TypeError, "f4"),
        ("e4m3", X, frozen, ValueError, "read-only"),
        ("e4m3", X, [[7] * 3] * 2, TypeError, "list"),
    ]


@pytest.mark.parametrize(("name", "x", "out", "error", "word"), outs())
def test_outs_that_cannot_be_written(name, x, out, error, word):
    before = x.tobytes()
    with pytest.raises(error) as caught:
        apscope.quantize(x, name, out=out, rounding="stochastic")
    assert word in sentence(caught)
    assert (np.array(out) == 7).all() and x.tobytes() == before


def test_outs_of_codes_and_values_have_their_width():
    for name, dtype in (
        ("e4m3", np.uint8),
        ("e5m10", np.uint16),
        ("e8m23", np.uint32),
        ("e9m30", np.uint64),
        ("fp64", np.uint64),
    ):
        out = np.zeros((2, 3), dtype)
        assert apscope.encode(X, name, out=out) is out
        wrong = np.zeros((2, 3), np.uint16 if dtype == np.uint8 else np.uint8)
        with pytest.raises(TypeError, match="they must agree"):
            apscope.encode(X, name, out=wrong)
        values = np.zeros((2, 3), np.float64 if dtype == np.uint64 else np.float32)
        assert apscope.decode(out, name, out=values) is values
        with pytest.raises(TypeError, match="they must agree"):
            apscope.decode(
                out, name, out=values.astype(np.float32 if dtype == np.uint64 else np.float64)
            )


def test_codes_that_cannot_be():
    for codes, name, error, word in [
        (np.array([2**40 + 2**40], np.uint64), "e9m30", ValueError, ""),
        (np.array([2**40]), "e4m3", ValueError, "wider"),
        (np.array([1 << 63], np.uint64), "e11m51", ValueError, ""),
        (np.array([-1], np.int64), "fp64", ValueError, "negative"),
        (np.array([-1]), "e4m3", ValueError, "negative"),
        (np.array([3, 16], np.uint8), "e2m1fn", ValueError, "code 16 at element 1"),
        (np.array([1.0]), "fp64", TypeError, "give unsigned integers"),
        (np.float32([1.0]), "e4m3", TypeError, "float32"),
        ([1.5], "e4m3", TypeError, "give unsigned integers"),
        (np.array([True]), "fp64", TypeError, ""),
    ]:
        with pytest.raises(error) as caught:
            apscope.decode(codes, name)
        assert word in sentence(caught)
    with pytest.raises(ValueError) as caught:
        apscope.encode(np.array([np.nan]), "e11m0finiteb1024")
    assert "element 0" in sentence(caught)
    assert apscope.encode(np.array([np.nan]), "e11m0finiteb1024", nan=5).tolist() == [5]
    for nan in (1 << 12, -1, 2**64):
        with pytest.raises(ValueError):
            apscope.encode(np.array([np.nan]), "e11m0finiteb1024", nan=nan)


WIDE = ["fp64", "e11m4", "e9m30", "e4m30", "e8m23nosub"]


@pytest.mark.parametrize("name", WIDE)
def test_what_works_on_fp32_numbers_refuses_wider_formats(name):
    with pytest.raises(ValueError) as caught:
        apscope.allreduce(X, name)
    assert name in sentence(caught) and "fp32" in str(caught.value)
    with pytest.raises(ValueError) as caught:
        apscope.allreduce(X, "fp16", accumulate=name)
    assert name in sentence(caught) and "fp32" in str(caught.value)
    for scheme in (
        f"aps:{name}",
        f"none:{name}",
        f"stochastic:{name}",
        f"aps:fp16,accumulate={name}",
    ):
        with pytest.raises(ValueError) as caught:
            apscope.schemes.Scheme(scheme)
        assert name in sentence(caught) and "fp32" in str(caught.value)
    with pytest.raises(ValueError) as caught:
        apscope.quantize_blocks(X, f"blocks:{name}")
    sentence(caught)


@pytest.mark.parametrize("name", ["e4m3", "e8m0fnu", "e11m4", "fp64", "fp32"])
def test_the_callers_arrays_stay_as_they_are(name):
    rng = np.random.default_rng(0)
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint16, np.int64, np.uint64):
        x = rng.integers(0, 100, (5, 7)).astype(dtype)
        random = rng.integers(0, 256, (5, 7)).astype(np.uint8)
        views = [x, x.T, x[::-1, ::2], np.asfortranarray(x)]
        for view in views:
            before, words = x.tobytes(), random.tobytes()
            given = random.T if view.shape == (7, 5) else random[: view.shape[0], : view.shape[1]]
            settings = dict(
                rounding="stochastic",
                random_bits=8,
                random=given,
                underflow="flush_both",
                keep_payload=True,
            )
            apscope.quantize(view, name, **settings)
            codes = apscope.encode(view, name, **settings)
            kept = codes.tobytes()
            apscope.decode(codes, name)
            assert x.tobytes() == before and random.tobytes() == words and codes.tobytes() == kept
