"""identify: every named format is found from its values, and near misses are distinguished."""

import ml_dtypes
import numpy as np
import pytest

import apscope
from apscope import FloatFormat


def table(format):
    f = FloatFormat(format) if isinstance(format, str) else format
    return apscope.decode(np.arange(2**f.storage_bits, dtype=np.uint32), f)


@pytest.mark.parametrize(
    "name", [n for n, f in apscope.named_formats().items() if f.storage_bits <= 16]
)
def test_a_named_format_comes_back_first(name):
    found = apscope.identify(table(name))
    assert found[0] == FloatFormat(name)
    assert all(np.array_equal(table(f), table(name), equal_nan=True) for f in found)


def test_different_named_formats_have_different_tables():
    assert [f.name for f in apscope.identify(table("e4m3"))] == ["e4m3"]
    assert [f.name for f in apscope.identify(table("binary8p4se"))] == ["binary8p4se"]


@pytest.mark.parametrize(
    "name",
    """
        e4m3b9 e4m3fnb-3 e5m1 e2m4fnuz e3m3finite e4m3u binary8p5sf binary6p3ue e3m4nosub
        e4m3finiteb3sub-3 e2m3fnnan2 e6m3fnb20
    """.split(),
)
def test_the_general_families_with_any_bias(name):
    f = FloatFormat(name)
    assert f in apscope.identify(table(f))


@pytest.mark.parametrize("name", [n for n in dir(ml_dtypes) if n.startswith(("float", "bfloat"))])
def test_the_types_of_ml_dtypes(name):
    assert apscope.identify(getattr(ml_dtypes, name)) == [FloatFormat(name)]
    assert apscope.identify(np.dtype(getattr(ml_dtypes, name))) == [FloatFormat(name)]


def test_the_types_of_numpy():
    assert apscope.identify(np.float16) == [FloatFormat("fp16")]
    assert apscope.identify(np.dtype("float32")) == [FloatFormat("fp32")]


def test_the_types_of_torch():
    torch = pytest.importorskip("torch")
    names = """
        float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz
        float8_e8m0fnu
    """.split()
    assert [apscope.identify(getattr(torch, n))[0] for n in names] == [
        FloatFormat(n) for n in names
    ]
    with pytest.raises(ValueError, match="no conversion to single values"):
        apscope.identify(torch.float4_e2m1fn_x2)
    with pytest.raises(TypeError):
        apscope.identify(torch.int32)


def test_the_sign_of_zero_and_one_value_decide():
    t = table("e4m3fn").astype(np.float64)
    t[0x7F] = 480
    with pytest.raises(
        ValueError,
        match="nearest named one is e4m3fn, which differs at 1 codes, first at code 0x7f",
    ):
        apscope.identify(t)
    t = table("e2m1fn").copy()
    t[8] = 0.0
    with pytest.raises(ValueError, match="first at code 0x8: -0 there, 0 here"):
        apscope.identify(t)


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ([1, 2, 3], ValueError, "has 3 values"),
        ([], ValueError, "has 0 values"),
        ([[1, 2]], ValueError, "shape"),
        (["a", "b"], TypeError, "not a number"),
        ("e4m3", TypeError, "str is neither"),
        (np.int8, TypeError, "neither"),
        (np.float64, ValueError, "64 bits"),
        ([0, 3, 1, 5], ValueError, "no named format has 2 bits"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(what, error, words):
    with pytest.raises(error, match=words) as caught:
        apscope.identify(what)
    assert "\n" not in str(caught.value)
