"""Arithmetic and sums of any fp64 numbers, in formats up to fp64 itself, against exact
fractions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apscope
from apscope._arrays.inputs import as_format
from tests.python.formats.test_any_format import formats, made
from tests.reference.casts import Rounding
from tests.reference.compare import equal
from tests.reference.exact_operations import OrderedSum, operate
from tests.reference.formats import EXOTIC, FORMATS, FP64_FORMATS, ieee
from tests.reference.random_words import QUANTIZE, random_integers, words_of
from tests.reference.rounding import COUNTED, DETERMINISTIC, UNDERFLOWS

OPERATIONS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}
WIDE = {
    **FP64_FORMATS,
    "e11m30": ieee(11, 30),
    "e9m23": ieee(9, 23),
    "e10m52": ieee(10, 52),
    "e8m30": ieee(8, 30),
}
EVERY = {**FORMATS, **EXOTIC, **WIDE}
TESTED = ["fp64", "e11m4", "e11m30", "e9m23", "e10m52", "e8m30", "e11m51nosub", "e11m51sub-1023",
          "e11m40b1035",
          "e11m4b1070nosub", "e10m52fnuz", "e11m20u", "e11m0finiteb1024", "fp32", "e4m3",
              "dlfloat16", "e4m3finiteb20sub-20"]  # fmt: skip
BITS = {
    "stochastic": [1, 8, 20, 53, 64],
    "stochastic_b": [1, 20, 62],
    "stochastic_c": [1, 20, 62],
    "stochastic_equal": [8, 64],
}
SEED = 11


def bits(x):
    return np.asarray(x, np.float64).view(np.uint64)


def roundings(overflows=("ieee",), underflows=("gradual",)):
    for mode in [*DETERMINISTIC, *COUNTED]:
        for n in BITS.get(mode, [32]):
            for overflow, underflow in itertools.product(overflows, underflows):
                yield Rounding(mode, overflow, n, underflow)


def words(count, n):
    """The random integers of n bits of the first elements."""
    return random_integers(words_of(SEED), np.arange(count), n, QUANTIZE)


def keywords(r):
    return {
        "rounding": r.mode,
        "overflow": r.overflow,
        "underflow": r.underflow,
        "random_bits": r.bits,
        "seed": SEED,
    }


def numbers(f, rng, count):
    """Any bits, fp64 subnormals, special numbers; short and long significands around the format's
    smallest values, its largest, and 1."""
    emin, emax = (
        math.frexp(f.smallest_normal or f.smallest_positive)[1],
        math.frexp(f.value(f.top))[1],
    )
    centre = rng.choice([emin, emin - f.mantissa_bits, 1, emax], count)
    significand = (
        1
        + rng.integers(0, 2 ** np.minimum(52, f.mantissa_bits + rng.integers(0, 4, count)))
        * 2.0**-52
    )
    short = rng.integers(0, 2 ** min(f.mantissa_bits + 2, 52), count) / 2.0 ** min(
        f.mantissa_bits + 2, 52
    )
    with np.errstate(over="ignore"):
        near = np.ldexp(
            np.where(rng.random(count) < 0.6, 1 + short, significand),
            centre + rng.integers(-4, 3, count),
        )
    kinds = [
        rng.integers(0, 2**63, count, dtype=np.uint64).view(np.float64),
        rng.integers(0, 2**52, count, dtype=np.uint64).view(np.float64),
        rng.choice(
            [0.0, 1.0, math.inf, math.nan, 5e-324, 2.0**-1022, 1.7976931348623157e308], count
        ),
        near,
    ]
    chosen = np.choose(rng.choice(4, count, p=[0.15, 0.05, 0.1, 0.7]), kinds)
    return np.where(rng.random(count) < 0.5, -chosen, chosen)


def beside(x, rng):
    """fp64 numbers up to two units away."""
    return (np.maximum(bits(np.abs(x)).astype(np.int64) + rng.integers(-2, 3, x.shape), 0)).view(
        np.float64
    ) * np.where(np.signbit(x), -1, 1)


def operands_of(op, f, rng, count):
    """Operands whose results lie where the format has something to decide."""
    a, b, c = (numbers(f, rng, count) for _ in range(3))
    with np.errstate(all="ignore"):
        if op == "sqrt":
            a = np.where(rng.random(count) < 0.5, beside(b * b, rng), a)
        elif op == "multiply":
            b = np.where(rng.random(count) < 0.6, c / a, b)
        elif op == "divide":
            b = np.where(rng.random(count) < 0.6, a / c, b)
        elif op == "fma":
            b = np.where(rng.random(count) < 0.5, c / a, b)
            c = np.where(rng.random(count) < 0.5, -beside(a * b, rng), c)
        else:
            b = np.where(
                rng.random(count) < 0.3,
                np.where(rng.random(count) < 0.5, 1, -1) * beside(a, rng),
                b,
            )
    return [a, b, c][: OPERATIONS[op]]


def check(op, operands, name, r, f=None):
    """Every element of one call; `name` is EVERY's, or a FloatFormat that is the reference's f."""
    f = f or EVERY[name]
    got = np.asarray(getattr(apscope, op)(*operands, name, **keywords(r)))
    assert got.dtype == (np.float32 if as_format(name).fits_fp32 else np.float64)
    random = words(len(got), r.bits) if r.is_stochastic else [None] * len(got)
    for i, numbers_of_one in enumerate(zip(*(x.tolist() for x in operands))):
        wanted = operate(op, list(numbers_of_one), f, r, random[i])
        assert equal(np.float64(got[i]), wanted), (
            op,
            name,
            r,
            [x.hex() for x in numbers_of_one],
            float(got[i]).hex(),
            wanted.hex(),
        )


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("op", OPERATIONS)
def test_every_operation_and_rounding_is_the_fraction_rounded_once(op, name):
    rng = np.random.default_rng([len(name), len(op), ord(op[0])])
    for r in roundings():
        check(op, operands_of(op, EVERY[name], rng, 16), name, r)


@pytest.mark.parametrize(
    "name",
    """
        fp64 e11m4b1070nosub e11m40b1035 e11m10fnb1024 e11m20u bf16 hfp8_forward e4m3fn
    """.split(),
)
@pytest.mark.parametrize("op", OPERATIONS)
def test_underflow_and_overflow_rules(op, name):
    rng = np.random.default_rng([len(name), len(op), 5])
    f = EVERY[name]
    overflows = (
        ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan
    )
    for mode, overflow, underflow in itertools.product(
        ["ties_to_even", "toward_negative", "stochastic_b"], overflows, UNDERFLOWS
    ):
        check(op, operands_of(op, f, rng, 12), name, Rounding(mode, overflow, 20, underflow))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_operands_into_any_format(data):
    name, op = (
        data.draw(st.sampled_from(sorted(EVERY))),
        data.draw(st.sampled_from(sorted(OPERATIONS))),
    )
    f = EVERY[name]
    mode = data.draw(st.sampled_from([*DETERMINISTIC, *COUNTED]))
    overflow = data.draw(
        st.sampled_from(
            ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan
        )
    )
    underflow = data.draw(st.sampled_from(UNDERFLOWS)) if f.smallest_normal else "gradual"
    n = data.draw(st.sampled_from([1, 8, 20, 53, 62]))
    size = data.draw(st.integers(1, 8))
    if data.draw(st.booleans()):
        operands = [
            np.array(data.draw(st.lists(st.floats(), min_size=size, max_size=size)))
            for _ in range(OPERATIONS[op])
        ]
    else:
        operands = operands_of(op, f, np.random.default_rng(data.draw(st.integers(0, 2**32))), size)
    check(op, operands, name, Rounding(mode, overflow, n, underflow))


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(formats(), st.data())
def test_operations_into_formats_that_nobody_has_named(f, data):
    format = made(f)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    mode = data.draw(st.sampled_from([*DETERMINISTIC, *COUNTED]))
    overflow = data.draw(
        st.sampled_from(
            ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan
        )
    )
    underflow = data.draw(st.sampled_from(UNDERFLOWS)) if f.smallest_normal else "gradual"
    op, n = (
        data.draw(st.sampled_from(sorted(OPERATIONS))),
        data.draw(st.integers(1, 62 if mode[-2:] in ("_b", "_c") else 64)),
    )
    operands = operands_of(op, f, rng, 8)
    if data.draw(st.booleans()) and format.fits_fp32:
        with np.errstate(all="ignore"):
            operands = [x.astype(np.float32) for x in operands]
    check(op, operands, format, Rounding(mode, overflow, n, underflow), f)


def two_factors(k):
    """k as a product of two fp64 numbers, or None if no factor is found in a short search."""
    least = max(k >> 53, 1) + 1
    for m in range(least, least + 3000):
        if k % m == 0:
            return m, k // m
    return None


@pytest.mark.parametrize(
    ("mode", "n"),
    [
        ("stochastic", 64),
        ("stochastic", 53),
        ("stochastic_b", 62),
        ("stochastic_c", 62),
        ("stochastic_equal", 64),
    ],
)
def test_the_last_random_bit_counts(mode, n):
    """1 + a b in fp64, where a b lies within a few 2^-(N + 2) of the fraction that the element's
    word decides on."""
    a, b = [], []
    for i, word in enumerate(words(4000, n)):
        decided = (1 << n) - word
        k = 4 * decided + i % 7 - 3
        factors = two_factors(k) if 0 < k < 1 << n + 2 else None
        a.append(math.ldexp(factors[0], -26) if factors else 1.0)
        b.append(math.ldexp(factors[1], 26 - (n + 2) - 52) if factors else 0.0)
    assert np.count_nonzero(b) > 400
    check("fma", [np.array(a), np.array(b), np.ones(4000)], "fp64", Rounding(mode, bits=n))


@pytest.mark.parametrize("mode", COUNTED)
@pytest.mark.parametrize("op", ["divide", "sqrt", "multiply", "add"])
def test_results_beside_the_fraction_that_decides(op, mode):
    """Results on and next to k 2^-20 of a step of e11m4, k being where the element's word begins to
    round up."""
    n, count, rng = 20, 600, np.random.default_rng(3)
    steps = 2**n - np.array(words(count, n))
    target = (1 + rng.integers(0, 16, count) / 16) + (
        2 * steps + rng.integers(-1, 2, count)
    ) / 2.0 ** (n + 5)  # 26 bits
    if op == "sqrt":
        operands = [beside(target * target, rng)]
    elif op == "divide":
        b = rng.integers(1, 2**26, count).astype(np.float64)
        operands = [beside(target * b, rng), b]
    elif op == "multiply":
        operands = [beside(target, rng), np.full(count, 8.0)]
    else:
        operands = [target, rng.integers(-1, 2, count) * 2.0 ** -rng.integers(40, 300, count)]
    check(op, operands, "e11m4", Rounding(mode, bits=n))


def test_fp64_to_nearest_is_the_processor_on_a_million_bit_patterns():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 2**64, 1_000_000, dtype=np.uint64).view(np.float64) for _ in range(2))
    # Exponents close to one another, and results near the subnormals.
    near = rng.random(a.size) < 0.5
    with np.errstate(all="ignore"):
        b[near] = np.ldexp(
            np.frexp(b[near])[0], np.frexp(a[near])[1] + rng.integers(-55, 56, near.sum())
        )
        assert equal(apscope.add(a, b, "fp64"), a + b).all()
        assert equal(apscope.subtract(a, b, "fp64"), a - b).all()
        assert equal(apscope.multiply(a, b, "fp64"), a * b).all()
        assert equal(apscope.divide(a, b, "fp64"), a / b).all()
        assert equal(apscope.sqrt(np.abs(a), "fp64"), np.sqrt(np.abs(a))).all()
        inverse = np.ldexp(b, -np.frexp(b)[1] - np.frexp(a)[1] - 1050)  # products around 2^-1050
        assert equal(apscope.multiply(a, inverse, "fp64"), a * inverse).all()


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_path_never_shows(op):
    """The same fp32 operands as an fp32 array, and beside one number that fp32 lacks."""
    rng = np.random.default_rng(7)
    for name in """
        fp32 bf16 tf32 e4m3 e5m2 hfp8_forward e4m3finiteb20sub-20 e5m2ub10nosub e8m0fnu
        binary8p1uf
    """.split():
        f = EVERY[name]
        for r in roundings():
            with np.errstate(over="ignore", invalid="ignore"):
                operands = [x.astype(np.float32) for x in operands_of(op, f, rng, 500)]
            beside_them = [np.append(x.astype(np.float64), 0.1) for x in operands]
            narrow = getattr(apscope, op)(*operands, name, **keywords(r))
            wide = getattr(apscope, op)(*beside_them, name, **keywords(r))[:-1]
            assert wide.dtype == np.float32 and equal(narrow, wide).all(), (name, r)


def test_sums_inside_an_irregular_gap_that_carry():
    # dlfloat16 has no number between 0 and (1 + 2^-9) 2^-31: twice a third of it is nearer to it.
    third = float(EVERY["dlfloat16"].smallest_positive) / 3
    assert apscope.add(third, third, "dlfloat16") == 3 * third
    assert apscope.add(-third, -third, "dlfloat16") == -3 * third


def test_exact_sums_see_the_smallest_number_beside_the_largest():
    largest, least = 1.7976931348623157e308, 5e-324
    assert apscope.sum([1.0, 2.0**-53, least], "fp64", order="exact") == 1 + 2.0**-52
    assert apscope.sum([1.0, 2.0**-53, -least], "fp64", order="exact") == 1.0
    assert (
        apscope.dot(
            [largest, least, -largest],
            [largest, least, largest],
            "fp64",
            order="exact",
            rounding="away_from_zero",
        )
        == least
    )
    assert (
        apscope.dot([largest, 1.0, -largest], [largest, least, largest], "fp64", order="exact")
        == least
    )
    assert apscope.sum([largest, largest, -largest], "fp64", order="exact") == largest
    assert apscope.sum([largest, largest, -largest], "fp64") == math.inf


ORDERS = ["sequential", "pairwise", "chunked:3", "kahan", "exact"]
MIXED = [
    ("fp64", None, None),
    ("e11m30", None, "fp64"),
    ("e9m23", "e11m30", "e10m52"),
    ("bf16", "fp32", "fp64"),
    ("e11m4b1070nosub", "e11m51nosub", None),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "products", "accumulate"), MIXED)
def test_sums_and_dot_products_of_fp64_numbers(order, name, products, accumulate):
    rng = np.random.default_rng([len(name), len(order)])
    f, elements = EVERY[name], 3
    accumulate = None if order == "exact" else accumulate
    accumulator = EVERY[accumulate or name]
    result = f if accumulate else None
    for r in roundings(underflows=("gradual", "flush_both")):
        count = int(rng.integers(1, 9))
        shared = {"order": order, "accumulate": accumulate, **keywords(r)}
        x = numbers(accumulator, rng, elements * count).reshape(count, elements)
        x[:, 1:] = np.where(np.isfinite(x[:, 1:]), x[:, 1:], 1.5)
        if count > 2:
            x[-1] = -x[0]
        got = apscope.sum(x, name, axis=0, **shared)
        for j in range(elements):
            wanted = OrderedSum(accumulator, r, SEED, j, None, result).run(x[:, j].tolist(), order)
            assert equal(np.float64(got[j]), wanted), (
                "sum",
                r,
                [v.hex() for v in x[:, j].tolist()],
                got[j],
                wanted,
            )
        if order == "pairwise" and products is None:
            continue  # two exact products of fp64 numbers at once: refused
        y = numbers(EVERY[name], rng, elements * count).reshape(count, elements)
        y[:, 1:] = np.where(np.isfinite(y[:, 1:]), y[:, 1:], 0.75)
        if count > 2:
            y[-1] = y[0]
        got = apscope.dot(x, y, name, axis=0, product=products, **shared)
        for j in range(elements):
            terms = list(zip(x[:, j].tolist(), y[:, j].tolist()))
            wanted = OrderedSum(accumulator, r, SEED, j, EVERY.get(products), result).run(
                terms, order
            )
            assert equal(np.float64(got[j]), wanted), (
                "dot",
                r,
                [(v.hex(), w.hex()) for v, w in terms],
                got[j],
                wanted,
            )


@pytest.mark.parametrize("order", [*ORDERS, "chunked:1"])
@pytest.mark.parametrize("underflow", UNDERFLOWS)
def test_sums_of_fp32_numbers_flush_their_operands(order, underflow):
    rng = np.random.default_rng(8)
    for name, products in [("e4m3", "e5m2"), ("fp32", None), ("e4m3", None)]:
        f = EVERY[name]
        for mode in ["ties_to_even", "toward_negative", "stochastic"]:
            r = Rounding(mode, "ieee", 12, underflow)
            with np.errstate(over="ignore", invalid="ignore"):
                x, y = (numbers(f, rng, 28).reshape(7, 4).astype(np.float32) for _ in range(2))
            got = apscope.sum(x, name, axis=0, order=order, **keywords(r))
            assert equal(
                got, [OrderedSum(f, r, SEED, j).run(x[:, j].tolist(), order) for j in range(4)]
            ).all(), (name, r)
            if order == "pairwise" and products is None and r.flushes_input:
                continue
            got = apscope.dot(x, y, name, axis=0, order=order, product=products, **keywords(r))
            terms = [list(zip(x[:, j].tolist(), y[:, j].tolist())) for j in range(4)]
            wanted = [
                OrderedSum(f, r, SEED, j, EVERY.get(products)).run(terms[j], order)
                for j in range(4)
            ]
            assert equal(got, wanted).all(), (name, r, x, y, got, wanted)


@pytest.mark.parametrize("shapes",
                         [((4, 2, 3), (4, 3, 5)), ((4, 2, 3), (3, 5)), ((2, 1, 2, 3), (3, 3, 1)), ((3,), (6, 3, 2)), ((6, 2, 3), (3,)),
                                    ((0, 2, 3), (3, 5)), ((2, 2, 0), (2, 0, 3)), ((5, 1, 2, 3), (1, 4, 3, 2)), ((3, 0, 2), (2, 4))])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrix_products_of_batches_are_numpy_s(shapes, dtype):
    rng = np.random.default_rng(9)
    a, b = ((rng.integers(-50, 50, s) / 8).astype(dtype) for s in shapes)  # every sum is exact
    if dtype == np.float64 and a.size:
        a.flat[0] = 2.0**-30 + 64  # no fp32 number
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    got = apscope.matmul(a, b, "fp64")
    assert got.shape == exact.shape and got.dtype == np.float64 and np.array_equal(got, exact)
    r = Rounding("stochastic", bits=20)
    got = apscope.matmul(a, b, "e4m3", product="bf16", **keywords(r))
    assert got.shape == exact.shape and got.dtype == np.float32
    left, right = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left, right = (
        np.broadcast_to(left, batch + left.shape[-2:]),
        np.broadcast_to(right, batch + right.shape[-2:]),
    )
    element = 0
    for index in np.ndindex(*batch):
        for i, j in itertools.product(range(left.shape[-2]), range(right.shape[-1])):
            terms = list(zip(left[index][i].tolist(), right[index][:, j].tolist()))
            assert got.flat[element] == OrderedSum(
                FORMATS["e4m3"], r, SEED, element, FORMATS["bf16"]
            ).run(terms, "sequential")
            element += 1
    assert element == got.size


def test_results_are_float32_where_the_format_is():
    x = np.array([0.1, 1e300])
    assert (
        apscope.add(x, x, "bf16").dtype == np.float32
        and apscope.add(x, x, "e9m23").dtype == np.float64
    )
    assert (
        apscope.sum(np.float32([1, 2]), "fp64").dtype == np.float64
        and apscope.sum(x, "e4m3").dtype == np.float32
    )
    out = np.empty(2)
    assert apscope.multiply(x, x, "fp64", out=out) is out and out.tolist() == [0.1 * 0.1, math.inf]
    assert apscope.add(x, x, "fp64", out=x) is x and x.tolist() == [0.2, 2e300]
    with pytest.raises(TypeError, match="out has dtype float64, the result float32"):
        apscope.add(x, x, "bf16", out=out)
    with pytest.raises(TypeError, match="out has dtype float32, the result float64"):
        apscope.add(np.ones(2, np.float32), 1, "fp64", out=np.empty(2, np.float32))
