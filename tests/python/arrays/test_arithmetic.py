"""Arithmetic against exact integers, IEEE 754's special cases, and known traps."""

import math

import numpy as np
import pytest

import apscope
from tests.reference.arithmetic import operate
from tests.reference.casts import Rounding
from tests.reference.compare import equal
from tests.reference.formats import FORMATS

DETERMINISTIC = (
    "ties_to_even ties_to_away toward_zero toward_positive toward_negative to_odd".split()
)
OPERATIONS = {"add": 2, "subtract": 2, "multiply": 2, "divide": 2, "sqrt": 1, "fma": 3}


def compute(op, operands, *arguments, **keywords):
    return getattr(apscope, op)(*operands[: OPERATIONS[op]], *arguments, **keywords)


def check(op, operands, name, mode, overflow="ieee"):
    got = compute(op, operands, name, rounding=mode, overflow=overflow)
    a, b, c = (*operands, 0.0, 0.0)[:3]
    wanted = operate(op, a, b, c, FORMATS[name], Rounding(mode, overflow)).reshape(got.shape)
    wrong = np.flatnonzero(~equal(got, wanted))
    if wrong.size:
        i = wrong[0]
        raise AssertionError(
            f"{op} {name} {mode}: {[np.ravel(x)[i].hex() for x in operands]} -> {got.flat[i]}, "
            f"exactly {wanted.flat[i]}"
        )


def values(name, count, seed):
    """Values of a format: codes drawn evenly, and some close to one another so that sums cancel."""
    rng = np.random.default_rng(seed)
    f = apscope.FloatFormat(name)
    x = apscope.decode(rng.integers(0, 2**f.storage_bits, count, dtype=np.uint32), f)
    near = apscope.quantize(rng.standard_normal(count).astype(np.float32), f)
    return np.where(rng.random(count) < 0.5, x, near).astype(np.float32)


@pytest.mark.parametrize("name", ["fp16", "bf16", "tf32", "e4m3"])
def test_fma_of_many_triples_rounds_once(name):
    a, b, c = (values(name, 100_000, seed) for seed in range(3))
    for i, mode in enumerate(DETERMINISTIC):  # a sixth of the triples each
        check("fma", [x[i::6] for x in (a, b, c)], name, mode)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize(
    "name",
    "fp32 tf32 bf16 fp16 dlfloat16 binary8p1uf e8m0fnu hfp8_forward e5m2fnuz".split(),
)
def test_two_operands_of_wider_and_stranger_formats(name, op):
    a, b = values(name, 1800, 3), values(name, 1800, 4)
    for i, mode in enumerate(DETERMINISTIC):
        check(op, [a[i::6], b[i::6]], name, mode)


@pytest.mark.parametrize("name", ["fp16", "bf16", "dlfloat16", "fp16_ahp"])
def test_the_root_of_every_16_bit_code(name):
    x = apscope.decode(np.arange(2**16, dtype=np.uint16), name)
    for i, mode in enumerate(DETERMINISTIC):  # all codes to nearest, a sixth in each other mode
        check("sqrt", [x if i == 0 else x[i::6]], name, mode)


@pytest.mark.parametrize("name", [n for n in FORMATS if apscope.FloatFormat(n).storage_bits <= 8])
def test_the_root_of_every_8_bit_code(name):
    f = apscope.FloatFormat(name)
    x = apscope.decode(np.arange(2**f.storage_bits, dtype=np.uint8), f)
    for mode in DETERMINISTIC:
        check("sqrt", [x], name, mode)


@pytest.mark.parametrize(
    ("op", "operands", "name", "mode", "wanted"),
    [
        ("add", ("0x1p0", "0x1p-60"), "bf16", "toward_positive", "0x1.02p0"),
        ("add", ("-0x1p0", "-0x1p-60"), "bf16", "toward_negative", "-0x1.02p0"),
        ("multiply", ("0x1.008p-60", "0x1.7f4p-76"), "tf32", "ties_to_even", "0x1p-136"),
        ("multiply", ("0x1.008p-57", "0x1.7f4p-76"), "bf16", "ties_to_even", "0x1p-133"),
    ],
)
def test_traps_of_rounding_twice(op, operands, name, mode, wanted):
    operands = [float.fromhex(x) for x in operands]
    assert getattr(apscope, op)(*operands, name, rounding=mode) == float.fromhex(wanted)
    check(op, [np.float32([x]) for x in operands], name, mode)


def test_the_trap_of_fma_through_fp32():
    a, b, c = np.float32([0.141357422]), np.float32([-0.174438477]), np.float32([-0.908691406])
    for x in (a, b, c):
        x[...] = apscope.quantize(x, "fp16")
    through_fp32 = apscope.quantize(np.float32(np.float64(a) * b + c), "fp16")
    check("fma", [a, b, c], "fp16", "ties_to_even")
    assert apscope.fma(a, b, c, "fp16") != through_fp32


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("op", "operands", "wanted"),
    [
        ("add", (INF, -INF), NAN),
        ("add", (INF, 1), INF),
        ("subtract", (INF, INF), NAN),
        ("add", (-0.0, -0.0), -0.0),
        ("add", (0.0, -0.0), 0.0),
        ("subtract", (1, 1), 0.0),
        ("multiply", (0, INF), NAN),
        ("multiply", (-0.0, 3), -0.0),
        ("multiply", (2.0**-9, -(2.0**-9)), -0.0),
        ("divide", (0, 0), NAN),
        ("divide", (INF, INF), NAN),
        ("divide", (-1, 0), -INF),
        ("divide", (-1, -0.0), INF),
        ("divide", (-1, INF), -0.0),
        ("sqrt", (-0.0,), -0.0),
        ("sqrt", (-1,), NAN),
        ("sqrt", (-INF,), NAN),
        ("sqrt", (INF,), INF),
        ("fma", (0, INF, 1), NAN),
        ("fma", (INF, 1, -INF), NAN),
        ("fma", (1, 1, -1), 0.0),
        ("fma", (-0.0, 1, -0.0), -0.0),
        ("fma", (NAN, 1, 1), NAN),
        ("add", (240, 8), INF),
        ("add", (240, 7), 240),
    ],
)
def test_special_cases_are_those_of_ieee_754(op, operands, wanted):
    got = getattr(apscope, op)(*operands, "e4m3")
    assert equal(got, wanted), got


def test_exact_zeros_are_negative_when_rounding_down():
    down = {"rounding": "toward_negative"}
    assert math.copysign(1, apscope.add(1, -1, "e4m3", **down)) == -1
    assert math.copysign(1, apscope.subtract(0.0, 0.0, "e4m3", **down)) == -1
    assert math.copysign(1, apscope.fma(1, 1, -1, "e4m3", **down)) == -1
    assert math.copysign(1, apscope.add(0.0, 0.0, "e4m3", **down)) == 1
    assert math.copysign(1, apscope.subtract(1, 1, "e4m3fnuz", **down)) == 1  # one zero only


@pytest.mark.parametrize(
    ("name", "ieee", "saturate"), [("e4m3", INF, 240), ("e4m3fn", NAN, 448), ("e2m1fn", 6, 6)]
)
def test_a_quotient_by_zero_is_an_infinity_of_the_format(name, ieee, saturate):
    assert equal(apscope.divide(1, 0, name), ieee)
    assert equal(apscope.divide(1, 0, name, overflow="saturate"), saturate)
    assert equal(apscope.divide(1, 0, name, rounding="toward_zero"), ieee)  # exact: not an overflow
    assert equal(apscope.divide(0, 0, name, overflow="saturate"), NAN)


def test_operands_broadcast_and_keep_their_kind():
    torch = pytest.importorskip("torch")
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([[1], [2]])
    assert np.array_equal(apscope.add(a, b, "fp16"), a + b)
    assert np.array_equal(apscope.multiply(a.T, 2, "fp16"), a.T * 2)
    assert np.array_equal(
        apscope.subtract([1, 2], a[:, :2].astype(np.float16), "fp16"), [1, 2] - a[:, :2]
    )
    assert isinstance(apscope.add(1, 2.5, "fp16"), float)
    both = apscope.add(torch.from_numpy(a), b, "fp16")
    assert isinstance(both, torch.Tensor) and np.array_equal(both.numpy(), a + b)
    assert apscope.add(np.zeros((0, 3), np.float32), b[0], "fp16").shape == (0, 3)
    assert apscope.add(a, np.float64(0.5), "fp16").dtype == np.float32


def test_out_is_written_and_may_be_an_operand():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    kept, out = a.copy(), np.empty((3, 2), np.float32).T
    assert (
        apscope.add(a, 1, "fp16", out=out) is out
        and np.array_equal(out, kept + 1)
        and np.array_equal(a, kept)
    )
    assert apscope.multiply(a, a, "fp16", out=a) is a and np.array_equal(a, kept * kept)


def test_threads_do_not_change_a_bit():
    a, b = values("bf16", 70_001, 5), values("bf16", 70_001, 6)
    for op in OPERATIONS:
        for mode in ("ties_to_even", "stochastic"):
            one, three = (
                compute(op, (a, b, a), "e5m2", rounding=mode, seed=3, threads=n) for n in (1, 3)
            )
            assert equal(three, one).all()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: apscope.add(0.1, 1, "e4m3", rounding="stochastic_exact"),
            ValueError,
            "is only for quantize and encode",
        ),
        (lambda: apscope.add(np.ones(2), np.ones(3), "e4m3"), ValueError, "do not broadcast"),
        (lambda: apscope.add(1, 1, "e4m9000"), ValueError, "e4m9000"),
        (
            lambda: apscope.add(1, 1, "e4m3fn", overflow="infinity"),
            ValueError,
            "needs a format with infinity",
        ),
        (
            lambda: apscope.add(1, 1, "dlfloat16", rounding="stochastic_c", random_bits=63),
            ValueError,
            "between 1 and 62",
        ),
        (lambda: apscope.add("one", 1, "e4m3"), TypeError, "a has dtype"),
        (
            lambda: apscope.add(np.ones(2), 1, "e4m3", out=np.ones(2)),
            TypeError,
            "out has dtype float64",
        ),
        (
            lambda: apscope.add(np.ones(2), 1, "e4m3", out=np.ones(3, np.float32)),
            ValueError,
            "out has shape",
        ),
    ],
)
def test_errors_are_one_sentence(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
