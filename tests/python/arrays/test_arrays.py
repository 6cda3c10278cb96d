"""quantize, encode, decode and FloatFormat as a caller meets them: dtypes, shapes, `out`,
errors."""

import json
import pickle

import ml_dtypes
import numpy as np
import pytest

import apscope

X = np.array([[0.1, -247.0, 248.0], [np.nan, -0.0, np.inf]], np.float32)
Q = np.array([[0.1015625, -240.0, np.inf], [np.nan, -0.0, np.inf]], np.float32)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_quantize_keeps_kind_shape_and_caller():
    before = X.copy()
    got = apscope.quantize(X, "e4m3")
    assert same(got, Q)
    assert same(X, before)
    assert apscope.quantize(X.astype(np.float64), "e4m3").dtype == np.float64
    assert apscope.quantize(X.astype(np.float16), "e4m3").dtype == np.float32
    assert same(
        apscope.quantize(X.astype(ml_dtypes.bfloat16), "fp32"),
        X.astype(ml_dtypes.bfloat16).astype(np.float32),
    )
    assert apscope.quantize(np.array([1, 3, 300]), "e4m3").tolist() == [1.0, 3.0, np.inf]
    assert apscope.quantize([0.1, 0.3], "e4m3").tolist() == [0.1015625, 0.3125]
    assert isinstance(apscope.quantize(0.1, "e4m3"), float)
    assert apscope.quantize(np.float32(0.1), "e4m3") == np.float32(0.1015625)
    assert apscope.quantize(np.zeros((0, 3), np.float32), "e4m3").shape == (0, 3)
    assert apscope.quantize(np.float32(1.0).reshape(()), "e4m3").shape == ()


def test_out_is_written_and_given_back():
    out = np.full_like(X, 7.0)
    assert apscope.quantize(X, "e4m3", out=out) is out
    assert same(out, Q)
    inplace = X.copy()
    assert apscope.quantize(inplace, "e4m3", out=inplace) is inplace
    assert same(inplace, Q)


def test_codes_are_the_fields_bits():
    codes = apscope.encode(X, "e4m3")
    assert codes.dtype == np.uint8
    assert [[f"{c:08b}" for c in row] for row in codes] == [
        ["00011101", "11110111", "01111000"],
        ["01111100", "10000000", "01111000"],
    ]
    assert same(apscope.decode(codes, "e4m3"), Q)
    assert apscope.encode(X, "fp16").dtype == np.uint16
    assert apscope.encode(X, "tf32").dtype == np.uint32
    # The field's own arrays hold the same codes.
    for name in (
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3",
        "float8_e3m4",
        "float8_e5m2fnuz",
        "bfloat16",
    ):
        dtype = np.dtype(getattr(ml_dtypes, name))
        finite = np.array([0.0, 0.1, -1.7, 13.0, 1e-4], np.float32).astype(dtype)
        assert same(apscope.encode(finite, name), finite.view(f"u{dtype.itemsize}"))
        assert same(apscope.decode(finite, name), finite.astype(np.float32))


def test_a_nan_needs_a_code():
    x = np.array([1.0, np.nan], np.float32)
    with pytest.raises(ValueError, match="element 1 is NaN"):
        apscope.encode(x, "e2m1fn")
    assert apscope.encode(x, "e2m1fn", nan=0b0111).tolist() == [2, 7]
    with pytest.raises(ValueError, match="16, is not a code of e2m1fn"):
        apscope.encode(x, "e2m1fn", nan=16)
    assert np.isnan(apscope.quantize(x, "e2m1fn")[1])


@pytest.mark.parametrize(
    "name",
    [
        *apscope.named_formats(),
        "e5m3fn",
        "e4m3finiteb11nosub",
        "e4m3b3sub-3",
        "binary6p3ue",
        "e4m3fnub9",
    ],
)
def test_formats_round_trip(name):
    f = apscope.FloatFormat(name)
    assert f.name == str(f) == name or name not in apscope.named_formats()
    assert apscope.FloatFormat(f.name) == f
    assert apscope.FloatFormat.from_json(f.to_json()) == f
    assert apscope.FloatFormat(**json.loads(f.to_json())) == f
    assert pickle.loads(pickle.dumps(f)) == f
    assert {f: 1}[apscope.FloatFormat(f.name)] == 1
    assert eval(repr(f), {"FloatFormat": apscope.FloatFormat}) == f


def test_aliases_mean_their_format():
    rows = apscope._core.named_formats()
    seen = set()
    for row in rows:
        for alias in (row["name"], *row["aliases"].split()):
            assert apscope.FloatFormat(alias) == row["format"]
            assert alias not in seen
            seen.add(alias)


def test_stochastic_bits_follow_the_element_not_the_call():
    x = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    whole = apscope.quantize(x, "e4m3", rounding="stochastic", seed=5)
    assert same(whole, apscope.quantize(x, "e4m3", rounding="stochastic", seed=5, threads=2))
    assert same(whole[:1000], apscope.quantize(x[:1000], "e4m3", rounding="stochastic", seed=5))
    assert not same(whole, apscope.quantize(x, "e4m3", rounding="stochastic", seed=6))


def test_torch_tensors_come_and_go_without_a_copy():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.tensor([0.1, -247.0, 248.0])
    got = apscope.quantize(x, "e4m3")
    assert isinstance(got, torch.Tensor) and got.dtype == torch.float32
    assert got.tolist() == [0.1015625, -240.0, float("inf")]
    out = torch.zeros(3)
    address = out.data_ptr()
    assert apscope.quantize(x, "e4m3", out=out) is out
    assert out.data_ptr() == address and out.tolist() == got.tolist()
    assert x.tolist() == torch.tensor([0.1, -247.0, 248.0]).tolist()
    assert apscope.quantize(x.detach().bfloat16(), "e4m3").tolist()[0] == 0.1015625
    codes = apscope.encode(x, "e4m3")
    assert codes.dtype == torch.uint8
    assert apscope.decode(codes, "e4m3").tolist() == got.tolist()
    assert apscope.encode(x, "fp16").dtype == torch.uint16
    with pytest.raises(ValueError, match="meta"):
        apscope.quantize(torch.zeros(2, device="meta"), "e4m3")


def test_narrow_tensors_are_read_and_never_written_as_a_copy():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.3, -2.0, 3.0])
    for dtype, name in (
        (torch.float8_e4m3fn, "e4m3fn"),
        (torch.float8_e5m2, "e5m2"),
        (torch.bfloat16, "bf16"),
    ):
        narrow = x.to(dtype)
        assert torch.equal(apscope.quantize(narrow, "fp32"), narrow.float())
        expected = apscope.quantize(narrow.float(), "e4m3")
        assert torch.equal(apscope.quantize(narrow, "e4m3"), expected)
        assert torch.equal(apscope.decode(narrow, name), narrow.float())
        out = torch.zeros(3, dtype=dtype)
        with pytest.raises(TypeError, match=f"{dtype}.*they must agree"):
            apscope.quantize(x, "e4m3", out=out)
        assert not out.float().any()


@pytest.mark.parametrize("name", ["e4m3b4294967303", "e4m3b99999999999999", "e4m3sub-4294967303"])
def test_numbers_in_names_do_not_wrap(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        apscope.FloatFormat(name)


def test_numpy_integers_are_whole_numbers():
    x = np.float32([0.3])
    assert same(
        apscope.quantize(x, "e4m3", rounding="stochastic", seed=np.int64(5)),
        apscope.quantize(x, "e4m3", rounding="stochastic", seed=5),
    )


def test_a_call_takes_one_of_its_draws_whatever_it_is_given():
    draws = apscope.Draws(7)
    settings = {"projection": apscope.Projection("stochastic"), "seed": draws}
    for x in (X, X.astype(np.float64), X.tolist(), X.T):
        apscope.quantize(x, "e4m3", **settings)
    with pytest.raises(ValueError, match="shape"):
        apscope.quantize(X, "e4m3", out=X[0].copy(), **settings)
    with pytest.raises(TypeError, match="object"):
        apscope.quantize(np.array([1.0, None], object), "e4m3", **settings)
    with pytest.raises(ValueError, match="both given"):
        apscope.quantize(X, "e4m3", rounding="to_odd", **settings)
    assert draws.calls == 7
