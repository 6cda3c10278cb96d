"""sum, dot and matmul against exact fractions, order by order."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apscope
from apscope import _core
from tests.reference.casts import Rounding
from tests.reference.compare import equal
from tests.reference.exact_operations import OrderedSum
from tests.reference.formats import FORMATS

DETERMINISTIC = (
    "ties_to_even ties_to_away toward_zero toward_positive toward_negative to_odd".split()
)
ORDERS = ["sequential", "pairwise", "chunked:3", "kahan", "exact"]


def numbers(rng, *shape, spread=12):
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread // 2, shape)
    x = np.where(rng.random(shape) < 0.1, 0.0, x) * rng.choice([1, -1], shape)
    return x.astype(np.float32)


def reference(terms, name, order, r, seed=0, product=None, accumulate=None):
    """Terms are arrays with an element per sum, or pairs of such arrays: factors."""
    f, result = FORMATS[accumulate or name], FORMATS[name] if accumulate else None
    numbers = [
        list(zip(*(x.tolist() for x in t))) if isinstance(t, tuple) else t.tolist() for t in terms
    ]
    return np.array([
        OrderedSum(f, r, seed, i, FORMATS.get(product), result).run(list(one), order)
        for i, one in enumerate(zip(*numbers))
    ])  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", [*DETERMINISTIC, "stochastic"])
@pytest.mark.parametrize(
    ("name", "bits"), [("e4m3", 8), ("fp16", 16), ("fp32", 40), ("e5m2fnuz", 12)]
)
def test_sums_are_the_reference(order, mode, name, bits):
    rng = np.random.default_rng(bits)
    for terms in (1, 2, 3, 7, 12):
        x = numbers(rng, terms, 9)
        got = apscope.sum(x, name, axis=0, order=order, rounding=mode, seed=5, random_bits=bits)
        assert equal(got, reference(list(x), name, order, Rounding(mode, "ieee", bits), 5)).all(), (
            terms
        )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", ["ties_to_even", "toward_negative", "stochastic"])
@pytest.mark.parametrize(
    ("name", "product", "accumulate"),
    [
        ("bf16", None, "fp32"),
        ("bf16", "fp32", "fp32"),
        ("e4m3fn", "fp16", "bf16"),
        ("tf32", None, None),
        ("e5m2", "e4m3", None),
        ("dlfloat16", "hfp8_forward", "dlfloat16"),
    ],
)
def test_dot_products_of_mixed_formats_are_the_reference(order, mode, name, product, accumulate):
    rng = np.random.default_rng(6)
    accumulate = None if order == "exact" else accumulate
    a, b = numbers(rng, 11, 8), numbers(rng, 11, 8)
    r = Rounding(mode, "ieee", 24)
    arguments = {
        "order": order,
        "product": product,
        "accumulate": accumulate,
        "rounding": mode,
        "seed": 2,
        "random_bits": 24,
    }
    got = apscope.dot(a, b, name, axis=0, **arguments)
    # A final rounding to the accumulator's own format changes nothing and draws nothing.
    separate = None if accumulate == name else accumulate
    wanted = reference(list(zip(a, b)), name, order, r, 2, product, separate)
    assert equal(got, wanted).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", ["ties_to_even", "stochastic"])
def test_matrix_products_are_their_dot_products(order, mode):
    rng = np.random.default_rng(7)
    a, b = numbers(rng, 3, 6), numbers(rng, 6, 5)
    got = apscope.matmul(a, b, "e4m3", order=order, product="e5m2", rounding=mode, seed=4)
    terms = [(np.repeat(a[:, k], 5), np.tile(b[k], 3)) for k in range(6)]
    wanted = reference(terms, "e4m3", order, Rounding(mode, "ieee", 32), 4, "e5m2")
    assert equal(got.reshape(-1), wanted).all()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_exact_sums_of_any_fp32_products(data):
    n = data.draw(st.integers(1, 20))
    operand = st.lists(st.floats(width=32), min_size=n, max_size=n)
    a, b = np.float32(data.draw(operand)), np.float32(data.draw(operand))
    name, mode = (
        data.draw(st.sampled_from(["fp32", "bf16", "e4m3"])),
        data.draw(st.sampled_from(DETERMINISTIC)),
    )
    got = apscope.dot(a, b, name, order="exact", rounding=mode)
    terms = [(a[i : i + 1], b[i : i + 1]) for i in range(n)]
    assert equal(got, reference(terms, name, "exact", Rounding(mode))[0]), (a, b)


@pytest.mark.parametrize("bits", [8, 40, 64])
def test_exact_sums_do_not_depend_on_the_order_of_terms(bits):
    rng = np.random.default_rng(8)
    x = numbers(rng, 500, 3, spread=120)
    for mode in (*DETERMINISTIC, "stochastic"):
        wanted = apscope.sum(x, "fp32", axis=0, order="exact", rounding=mode, random_bits=bits)
        for _ in range(3):
            assert np.array_equal(
                apscope.sum(
                    rng.permutation(x),
                    "fp32",
                    axis=0,
                    order="exact",
                    rounding=mode,
                    random_bits=bits,
                ),
                wanted,
            )
        assert not np.array_equal(
            apscope.sum(x, "fp32", axis=0), apscope.sum(x[::-1], "fp32", axis=0)
        )


def test_an_exact_sum_of_many_terms_is_the_nearest():
    x = np.random.default_rng(9).standard_normal(20_000).astype(np.float32)
    exact = sum(map(Fraction, x.tolist()))
    got = Fraction(float(apscope.sum(x, "fp32", order="exact")))
    ulp = Fraction(float(np.spacing(np.float32(got))))
    assert abs(got - exact) <= ulp / 2


def test_huge_terms_cancel_exactly():
    huge, tiny = np.float32(3e38), np.float32(2.0**-149)
    a, b = np.array([huge, tiny, huge]), np.array([huge, 1, -huge], np.float32)
    assert apscope.dot(a, b, "fp32", order="exact") == tiny
    assert apscope.dot(a, b, "fp32") == math.inf  # the first partial sum overflows


@pytest.mark.parametrize("order", ORDERS)
def test_empty_sums_and_what_is_not_finite(order):
    empty = apscope.sum(np.empty(0, np.float32), "e4m3", order=order)
    assert empty.shape == () and empty == 0 and not np.signbit(empty)
    assert np.isnan(apscope.sum(np.empty(0, np.float32), "e8m0fnu", order=order))  # no zero
    assert (
        apscope.matmul(np.empty((2, 0)), np.empty((0, 3)), "e4m3", order=order).tolist()
        == [[0] * 3] * 2
    )
    assert apscope.sum(np.empty((4, 0), np.float32), "e4m3", axis=0, order=order).shape == (0,)
    inf, nan = math.inf, math.nan
    assert np.isnan(apscope.sum([1, nan, 2], "e4m3", order=order))
    assert np.isnan(apscope.sum([inf, 1, -inf], "e4m3", order=order))
    assert np.isnan(apscope.dot([0, 1], [inf, 1], "e4m3", order=order))
    assert apscope.sum([1, 2, -inf], "e4m3", order=order) == -inf
    assert np.signbit(apscope.sum([-0.0, -0.0], "e4m3", order=order))
    assert not np.signbit(apscope.sum([-0.0, 0.0], "e4m3", order=order))
    assert np.signbit(apscope.sum([1, -1, -0.0], "e4m3", order=order, rounding="toward_negative"))


@pytest.mark.parametrize("name", ["e8m0fn", "e8m0finiteinf", "e5m0fn"])
def test_a_tie_without_mantissa_bits_is_the_casts(name):
    """There both neighbours are even, and the larger one is the result."""
    tie = apscope.quantize(np.float32(3), name)
    assert tie == 4
    for order in ORDERS:
        assert apscope.sum([1, 2], name, order=order) == tie
        assert apscope.dot([1, 1], [1, 2], name, order=order) == tie
    for topology in ("sequential", "ring", "tree", "exact"):
        assert apscope.allreduce(np.float32([[1], [2]]), name, topology=topology) in (3, tie)
    assert apscope.allreduce(np.float32([[1], [2]]), name, topology="ring") == tie


def test_kahan_keeps_what_sequential_loses():
    x = np.float32([16] + [0.5] * 64)
    assert float(apscope.sum(x, "e4m3")) == 16
    assert float(apscope.sum(x, "e4m3", order="kahan")) == 48


def test_tensors_vectors_out_and_threads():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(10)
    a, b = numbers(rng, 40, 30), numbers(rng, 30, 600)
    wanted = apscope.matmul(a, b, "fp16", accumulate="fp32", rounding="stochastic")
    assert wanted.dtype == np.float32 and wanted.shape == (40, 600)
    assert equal(
        apscope.matmul(a, b, "fp16", accumulate="fp32", rounding="stochastic", threads=3), wanted
    ).all()
    best = _core.simd_level()
    _core.set_simd_level("portable")
    assert equal(
        apscope.matmul(a, b, "fp16", accumulate="fp32", rounding="stochastic"), wanted
    ).all()
    _core.set_simd_level(best)
    out = np.empty_like(wanted)
    assert (
        apscope.matmul(a, b, "fp16", accumulate="fp32", rounding="stochastic", out=out) is out
        and equal(out, wanted).all()
    )
    tensor = apscope.matmul(torch.from_numpy(a), b, "fp32", order="exact")
    assert isinstance(tensor, torch.Tensor)
    nearest = np.float32(
        [[float(sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[0], b[:, 0])))]]
    )
    assert tensor[0, 0] == nearest[0, 0]
    row, column = apscope.matmul(a[0], b, "fp32"), apscope.matmul(a, b[:, 0], "fp32")
    assert (
        row.shape == (600,)
        and column.shape == (40,)
        and row[0] == column[0] == apscope.dot(a[0], b[:, 0], "fp32")
    )
    assert apscope.sum(a, "fp32", axis=-1).tolist() == [
        float(apscope.sum(line, "fp32")) for line in a
    ]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: apscope.sum([1], "e4m3", order="random"), ValueError, "unknown order 'random'"),
        (lambda: apscope.sum([1], "e4m3", order="chunked:0"), ValueError, "N at least 1"),
        (
            lambda: apscope.sum([1], "e4m3", order="exact", accumulate="fp32"),
            ValueError,
            "has no partial sums",
        ),
        (lambda: apscope.sum([1], "e4m3", axis=1), ValueError, "axis=1 does not exist in x"),
        (lambda: apscope.dot([1], [1, 2], "e4m3"), ValueError, "they must agree"),
        (lambda: apscope.dot(1, 1, "e4m3"), ValueError, "axis=-1 does not exist in a"),
        (lambda: apscope.dot([0.1], [1], "e4m3", order="pairwise"), ValueError, "give product"),
        (
            lambda: apscope.dot([1], [1], "e4m3", order="pairwise", underflow="flush_input"),
            ValueError,
            "give product",
        ),
        (
            lambda: apscope.sum([1], "e4m3", rounding="stochastic_exact"),
            ValueError,
            "is only for quantize and encode",
        ),
        (
            lambda: apscope.matmul(np.ones((2, 3)), np.ones((2, 3)), "e4m3"),
            ValueError,
            "a's last axis",
        ),
        (lambda: apscope.matmul(1, np.ones((2, 3)), "e4m3"), ValueError, "vectors and matrices"),
        (
            lambda: apscope.matmul(np.ones((2, 1, 3)), np.ones((3, 3, 1)), "e4m3"),
            ValueError,
            "leading axes",
        ),
        (
            lambda: apscope.sum([1], "e4m3", out=np.empty(2, np.float32)),
            ValueError,
            "out has shape",
        ),
    ],
)
def test_errors_are_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
