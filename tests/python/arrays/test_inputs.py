"""Callers' inputs: dtypes as formats, tensors that require grad, Series and DataFrames."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._arrays.inputs import as_format

torch = pytest.importorskip("torch")

X = np.float32([0.1, -247.0, 248.0, 3.3e-5])
ML_DTYPES = [
    t
    for name in dir(ml_dtypes)
    if name.startswith(("float", "bfloat")) and isinstance(t := getattr(ml_dtypes, name), type)
]
TORCH = [
    t
    for t in vars(torch).values()
    if isinstance(t, torch.dtype) and t.is_floating_point and "_x2" not in str(t)
]


@pytest.mark.parametrize(
    "dtype", [np.float16, np.dtype(np.float16), *ML_DTYPES, *dict.fromkeys(TORCH)], ids=str
)
def test_a_dtype_is_the_format_that_its_table_of_values_says(dtype):
    if as_format(dtype).storage_bits > 16:
        assert as_format(dtype).name == {32: "fp32", 64: "fp64"}[as_format(dtype).storage_bits]
    else:
        assert as_format(dtype) in apscope.identify(dtype)


@pytest.mark.parametrize(
    "dtype, name",
    [
        (np.float16, "fp16"),
        (np.dtype(">f4"), "fp32"),
        (ml_dtypes.bfloat16, "bf16"),
        (torch.float8_e4m3fn, "e4m3fn"),
        (ml_dtypes.float4_e2m1fn, "e2m1fn"),
    ],
)
def test_dtypes_are_taken_wherever_a_format_is(dtype, name):
    np.testing.assert_array_equal(apscope.quantize(X, dtype), apscope.quantize(X, name))
    codes = apscope.encode(X[:1], dtype)
    assert codes == apscope.encode(X[:1], name) and apscope.decode(codes, dtype) == apscope.decode(
        codes, name
    )
    np.testing.assert_array_equal(apscope.add(X, X, dtype), apscope.add(X, X, name))
    assert apscope.sum(X[[0, 3]], "fp32", accumulate=dtype) == apscope.sum(
        X[[0, 3]], "fp32", accumulate=name
    )
    np.testing.assert_array_equal(
        apscope.allreduce(X[None], dtype), apscope.allreduce(X[None], name)
    )
    assert (
        apscope.FloatFormat(dtype)
        == apscope.FloatFormat(name)
        == apscope.FloatFormat(apscope.FloatFormat(name))
    )
    assert apscope.plan("add", dtype) == apscope.plan("add", name)
    if as_format(name).fits_fp32:
        assert apscope.cast_statistics(X, dtype) == apscope.cast_statistics(X, name)


def test_a_dtype_of_doubles_is_a_format():
    assert apscope.FloatFormat(np.dtype("float64")) == apscope.FloatFormat("fp64")


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (np.int8, "format is <class 'numpy.int8'>; give a FloatFormat, a format's name such as "
                  "'e4m3', or a floating-point dtype"),
        (torch.int8, "format is torch.int8; give"), (5, "format is of type int; give"),
        (None, "format is of type NoneType; give"),
        (torch.float4_e2m1fn_x2, "packs two values into an element; the format of one is 'e2m1fn'"),
    ],
)  # fmt: skip
def test_what_is_no_format_is_told_what_is(wrong, sentence):
    for call in (
        lambda: apscope.quantize(X, wrong),
        lambda: apscope.FloatFormat(wrong),
        lambda: apscope.schemes.APS(wrong),
    ):
        with pytest.raises(TypeError, match=sentence):
            call()


def test_torch_is_not_imported_by_dtypes_of_others():
    program = (
        "import sys, numpy as np, apscope; apscope.quantize(np.float32([1.1]), np.float16); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.float64, torch.int32,
        ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e3m2fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16,
    ],
    ids=str,
)  # fmt: skip
def test_every_dtype_that_the_error_text_lists_is_taken(dtype):
    x = np.array([1.0, 3.0])
    x = torch.tensor(x).to(dtype) if isinstance(dtype, torch.dtype) else x.astype(dtype)
    assert apscope.quantize(x, "e5m2").tolist() == [1.0, 3.0]


def test_refused_dtypes_are_told_the_accepted_ones():
    with pytest.raises(
        TypeError,
        match="x has dtype complex64; use float64, float32, float16, bfloat16, a float8 or "
        "narrower, or integers",
    ):
        apscope.quantize(np.complex64([1]), "e4m3")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: apscope.quantize(x, "e4m3"),
        lambda x: apscope.encode(x, "e4m3"),
        lambda x: apscope.add(x, x, "e4m3"),
        lambda x: apscope.sum(x, "e4m3"),
        lambda x: apscope.allreduce(x, "e4m3"),
        lambda x: apscope.cast_statistics(x, "e4m3"),
        lambda x: apscope.exchange("aps:e4m3", x),
        lambda x: apscope.quantize_blocks(x, "mxfp8_e4m3"),
        lambda x: apscope.quantize(X.reshape(2, 2), "e4m3", out=x),
    ],
)
def test_a_tensor_that_requires_grad_is_not_detached_without_a_word(call):
    x = torch.ones((2, 2), requires_grad=True)
    with pytest.raises(
        ValueError,
        match=r"(x|a|out) requires grad, but results here have no gradient; give "
        r"(x|a|out)\.detach\(\), or call under torch\.no_grad",
    ):
        call(x)
    with torch.no_grad():
        call(x)
    assert not apscope.quantize(x.detach(), "e4m3").requires_grad


def test_series_and_frames_keep_their_labels():
    series = pd.Series(X, index=list("abcd"), name="gradient")
    pd.testing.assert_series_equal(
        apscope.quantize(series, "e4m3"),
        pd.Series(apscope.quantize(X, "e4m3"), index=list("abcd"), name="gradient"),
    )
    codes = apscope.encode(series, "e4m3")
    pd.testing.assert_series_equal(
        codes, pd.Series(apscope.encode(X, "e4m3"), index=list("abcd"), name="gradient")
    )
    pd.testing.assert_series_equal(apscope.decode(codes, "e4m3"), apscope.quantize(series, "e4m3"))
    frame = pd.DataFrame(X.reshape(2, 2), index=["step 0", "step 1"], columns=["fc", "conv"])
    pd.testing.assert_frame_equal(
        apscope.quantize(frame, "e4m3"),
        pd.DataFrame(
            apscope.quantize(X.reshape(2, 2), "e4m3"), index=frame.index, columns=frame.columns
        ),
    )
    assert isinstance(apscope.sum(frame, "e4m3", axis=0), np.ndarray)


def test_operands_with_labels_are_added_by_place_and_must_have_the_same():
    a, b = pd.Series(X, index=list("abcd")), pd.Series(X, index=list("dcba"))
    pd.testing.assert_series_equal(
        apscope.add(a, a, "e4m3"), pd.Series(apscope.add(X, X, "e4m3"), index=a.index)
    )
    pd.testing.assert_series_equal(
        apscope.add(X, a, "e4m3"), pd.Series(apscope.add(X, X, "e4m3"), index=a.index)
    )
    with pytest.raises(ValueError, match="Series.* with different labels; align them first"):
        apscope.add(a, b, "e4m3")


@pytest.mark.parametrize(
    "kind",
    [lambda a: pd.Series(a, copy=False), memoryview, lambda a: a],
    ids=["Series", "memoryview", "array"],
)
def test_out_may_lie_on_what_is_read_whatever_holds_it(kind):
    numbers = np.arange(1, 100_001, dtype=np.float32) / 7
    wanted = apscope.quantize(numbers[:-1].copy(), "e4m3", overflow="saturate")
    apscope.quantize(kind(numbers[:-1]), "e4m3", overflow="saturate", out=numbers[1:])
    assert np.array_equal(numbers[1:], wanted)
