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


def test_strided_and_fortran_inputs_are_read_in_their_order():
    a = np.arange(24, dtype=np.float32).reshape(4, 6) / 7
    for view in (a[:, ::2], a[::-1], a.T, np.asfortranarray(a)):
        assert same(
            apscope.quantize(view, "e3m4"), apscope.quantize(np.ascontiguousarray(view), "e3m4")
        )


def test_out_is_written_and_given_back():
    out = np.full_like(X, 7.0)
    assert apscope.quantize(X, "e4m3", out=out) is out
    assert same(out, Q)
    inplace = X.copy()
    assert apscope.quantize(inplace, "e4m3", out=inplace) is inplace
    assert same(inplace, Q)
    # An out that overlaps x, shifted by one: as if x had been copied first.
    buffer = np.linspace(-3, 3, 1001, dtype=np.float32)
    expected = apscope.quantize(buffer[:-1].copy(), "e4m3")
    apscope.quantize(buffer[:-1], "e4m3", out=buffer[1:])
    assert same(buffer[1:], expected)
    strided = np.zeros((2, 6), np.float32)
    apscope.quantize(X, "e4m3", out=strided[:, ::2])
    assert same(np.ascontiguousarray(strided[:, ::2]), Q)


def test_wrong_out_and_dtypes_are_refused_and_nothing_changes():
    for out, error, word in [
        (np.zeros((2, 2), np.float32), ValueError, "shape"),
        (np.zeros((2, 3)), TypeError, "float64"),
        ([0.0], TypeError, "list"),
    ]:
        with pytest.raises(error, match=word):
            apscope.quantize(X, "e4m3", out=out)
    frozen = np.zeros((2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        apscope.quantize(X, "e4m3", out=frozen)
    assert not frozen.any()
    with pytest.raises(TypeError, match="object"):
        apscope.quantize(np.array([1.0, None], object), "e4m3")
    with pytest.raises(TypeError, match="complex"):
        apscope.quantize(np.zeros(3, complex), "e4m3")
    with pytest.raises(ValueError, match="2\\^53"):
        apscope.quantize(np.array([2**53 + 1]), "e4m3", underflow="flush_input")
    with pytest.raises(ValueError, match="seed=-1"):
        apscope.quantize(X, "e4m3", seed=-1)
    with pytest.raises(ValueError, match="unknown rounding 'up'"):
        apscope.quantize(X, "e4m3", rounding="up")
    with pytest.raises(ValueError, match="random_bits=0"):
        apscope.quantize(X, "e4m3", rounding="stochastic", random_bits=0)
    with pytest.raises(TypeError, match="give a FloatFormat"):
        apscope.quantize(X, 8)


def test_float64_is_rounded_once():
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert apscope.quantize(x, "bf16")[0] == 1.0078125
    assert apscope.quantize(x.astype(np.float32), "bf16")[0] == 1.0
    assert apscope.decode(apscope.encode(x, "bf16"), "bf16")[0] == 1.0078125
    tiny = np.array([5e-324, -5e-324, 2.0**-150 * 1.5])
    assert apscope.quantize(tiny, "fp32").tolist() == [0.0, -0.0, 2.0**-149]


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
    with pytest.raises(ValueError, match="nan=16 is not a code"):
        apscope.encode(x, "e2m1fn", nan=16)
    assert np.isnan(apscope.quantize(x, "e2m1fn")[1])


def test_wrong_codes_are_refused():
    with pytest.raises(ValueError, match="code 16 at element 1"):
        apscope.decode(np.array([3, 16], np.uint8), "e2m1fn")
    with pytest.raises(ValueError, match="negative"):
        apscope.decode(np.array([-1]), "e4m3")
    with pytest.raises(TypeError, match="float32"):
        apscope.decode(np.array([1.0], np.float32), "e4m3")
    with pytest.raises(ValueError, match="wider"):
        apscope.decode(np.array([2**40]), "e4m3")


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


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"exponent_bits": 12, "mantissa_bits": 3}, "exponent_bits=12"),
        ({"exponent_bits": -1, "mantissa_bits": 3}, "exponent_bits=-1"),
        ({"exponent_bits": 4, "mantissa_bits": 53}, "mantissa_bits=53"),
        ({"exponent_bits": 0, "mantissa_bits": 0}, "at least one"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "bias": 1200}, "fp64 cannot store"),
        ({"exponent_bits": 11, "mantissa_bits": 3, "specials": "fn"}, "fp64 cannot store"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "bias": 9999}, "bias=9999"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "specials": "ieeee"}, "unknown specials 'ieeee'"),
        ({"exponent_bits": 1, "mantissa_bits": 0}, "no finite value"),
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
        ({"exponent_bits": 4, "mantissa_bits": 3, "even_code_ties": True}, "precision 1"),
    ],
)
def test_contradictory_formats_are_refused_in_a_sentence(fields, word):
    with pytest.raises(ValueError, match="(?s)" + word.replace("(", "\\(")) as caught:
        apscope.FloatFormat(**fields)
    assert "\n" not in str(caught.value)


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


def test_the_callers_float_mode_changes_nothing_and_stays():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = np.array([2.0**-140, 3e-39, 1.0], np.float32)
    plain = apscope.quantize(x, "bf16")
    if not torch.set_flush_denormal(True):
        pytest.skip("this machine cannot flush subnormals")
    try:
        assert same(apscope.quantize(x, "bf16"), plain)
        assert float(np.float32(2.0**-130) * np.float32(0.5)) == 0.0  # still the caller's mode
    finally:
        torch.set_flush_denormal(False)
    assert plain.tolist() == [0.0, 33 * 2.0**-133, 1.0]


def test_codes_that_are_floats_are_refused():
    for codes in ([1.5], np.zeros(2), np.float32([1.0])):
        with pytest.raises(TypeError, match="give unsigned integers"):
            apscope.decode(codes, "e4m3")


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
        assert torch.equal(apscope.decode(narrow, name), narrow.float())
        out = torch.zeros(3, dtype=dtype)
        with pytest.raises(TypeError, match="they must agree"):
            apscope.quantize(x, "e4m3", out=out)


def test_other_byte_orders_are_read_and_masks_are_refused():
    assert same(apscope.quantize(X.astype(">f4"), "e4m3"), Q)
    assert same(apscope.quantize(X.astype(">f8"), "e4m3"), Q.astype(np.float64))
    with pytest.raises(TypeError, match="masked array"):
        apscope.quantize(np.ma.masked_array([1.1, 2.2], mask=[False, True]), "e4m3")


@pytest.mark.parametrize("name", ["e4m3b4294967303", "e4m3b99999999999999", "e4m3sub-4294967303"])
def test_numbers_in_names_do_not_wrap(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        apscope.FloatFormat(name)


def test_torch_dtypes_that_numpy_lacks():
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.1, -247.0, 248.0])
    expected = apscope.quantize(x.numpy().astype(ml_dtypes.bfloat16).astype(np.float32), "e4m3")
    assert same(apscope.quantize(x.to(torch.bfloat16), "e4m3").numpy(), expected)
    codes = apscope.encode(x.numpy(), "e4m3fn")
    assert same(
        apscope.quantize(x.to(torch.float8_e4m3fn), "fp32").numpy(), apscope.decode(codes, "e4m3fn")
    )
    # They are not results: an out of such a dtype would be written as a copy, and stay as it was.
    out = torch.full((3,), 7.0, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="torch.bfloat16"):
        apscope.quantize(x, "e4m3", out=out)
    assert (out == 7).all()


def test_results_are_the_same_where_subnormals_are_flushed():
    torch = pytest.importorskip("torch")
    x = np.float32([[3e-45, 1e-40, -2e-39, 1e-38, 1.0]] * 3)
    wide = x[0].astype(np.float64)

    def bits():
        return apscope.allreduce(x, "bf16").tobytes() + apscope.encode(wide, "bf16").tobytes()

    expected = bits()
    if not torch.set_flush_denormal(True):
        pytest.skip("this machine flushes no subnormals")
    try:
        got = bits()
    finally:
        torch.set_flush_denormal(False)
    assert got == expected


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"random_bits": 3.5}, TypeError, "random_bits=3.5 must be an integer"),
        ({"random_bits": None}, TypeError, "random_bits=None"),
        ({"random_bits": 65}, ValueError, "random_bits=65 is not between 1 and 64"),
        ({"seed": 1.5}, TypeError, "seed=1.5"),
        ({"seed": "1"}, TypeError, "seed='1'"),
        ({"seed": True}, TypeError, "seed=True must be an integer, not a bool"),
        ({"seed": 2**64}, ValueError, "2\\^64 - 1"),
        ({"threads": -1}, ValueError, "threads=-1"),
        ({"threads": 10**11}, ValueError, "threads=100000000000"),
        ({"rounding": None}, TypeError, "rounding=None must be a string"),
        ({"overflow": 3}, TypeError, "overflow=3"),
    ],
)
def test_settings_of_the_wrong_kind_are_one_sentence(options, error, word):
    for call in (apscope.quantize, apscope.encode, apscope.allreduce):
        with pytest.raises(error, match=word) as caught:
            call(np.ones((2, 3), np.float32), "e4m3", **options)
        assert "\n" not in str(caught.value)


def test_numpy_integers_are_whole_numbers():
    x = np.float32([0.3])
    assert same(
        apscope.quantize(x, "e4m3", rounding="stochastic", seed=np.int64(5)),
        apscope.quantize(x, "e4m3", rounding="stochastic", seed=5),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rounding": "stochastic", "random_bits": 16, "seed": 5},
        {"rounding": "to_odd", "overflow": "saturate"},
    ],
)
@pytest.mark.parametrize("name", ["e4m3", "e11m4"])  # what float32 holds, and what it does not
def test_arrays_of_every_layout_give_what_a_list_of_their_numbers_does(name, options):
    class Array(np.ndarray):
        pass

    square = np.linspace(-300, 300, 30).astype(np.float32).reshape(5, 6)
    unaligned = np.frombuffer(b"?" + square.tobytes(), np.uint8)[1:].view(np.float32).reshape(5, 6)
    layouts = [
        square,
        square[0, :1].reshape(()),
        square[:0],
        square.T,
        square[::-1],
        square.astype(">f4"),
        square.view(Array),
        unaligned,
    ]
    for x in [*layouts, *(layout.astype(np.float64) for layout in layouts)]:
        wide = x.dtype.itemsize == 8 or name == "e11m4"
        got = apscope.quantize(x, name, **options)
        listed = apscope.quantize(x.tolist(), name, **options)  # in float64
        assert (
            type(got) is np.ndarray
            and got.dtype == (np.float64 if wide else np.float32)
            and got.shape == x.shape
        )
        np.testing.assert_array_equal(got, np.asarray(listed).reshape(x.shape))
        for out in (
            np.zeros(x.shape, got.dtype),
            np.zeros(x.shape, got.dtype).view(Array),
            np.zeros(x.shape, got.dtype, "F"),
        ):
            assert apscope.quantize(x, name, out=out, **options) is out and same(
                np.array(out, order="C"), got
            )


def test_a_call_takes_one_of_its_draws_whatever_it_is_given():
    draws = apscope.Draws(7)
    settings = {"rounding": "stochastic", "seed": draws}
    for x in (X, X.astype(np.float64), X.tolist(), X.T):
        apscope.quantize(x, "e4m3", **settings)
    with pytest.raises(ValueError, match="shape"):
        apscope.quantize(X, "e4m3", out=X[0].copy(), **settings)
    with pytest.raises(TypeError, match="object"):
        apscope.quantize(np.array([1.0, None], object), "e4m3", **settings)
    assert draws.calls == 6
    for seed in (-1, 2**64, 1.5, True):
        with pytest.raises((ValueError, TypeError), match="seed"):
            apscope.quantize(X, "e4m3", rounding="stochastic", seed=seed)
