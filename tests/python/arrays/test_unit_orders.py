"""Matrix units: the orders unit:... against NumPy's reference and recordings."""

import itertools
import json
import os
import re

import numpy as np
import pytest

import apscope
from apscope.cli import main
from tests.reference import matrix_unit_recordings as recordings
from tests.reference import matrix_units

RNG = np.random.default_rng(12)
SPECIALS = np.array([np.inf, -np.inf, np.nan], np.float32)


def bits(x):
    x = np.ascontiguousarray(x, np.float32)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), x.view(np.uint32))


def numbers(form, shape, spread, specials=False):
    """Values of the format around a random exponent, some of them zero or subnormal."""
    f = apscope.FloatFormat(form)
    middle = RNG.integers(max(f.emin - 3, -60), 4)
    exponents = middle + RNG.integers(-spread, spread + 1, shape)
    x = np.ldexp(RNG.uniform(-2, 2, shape), np.minimum(exponents, 2)).astype(np.float32)
    x[RNG.random(shape) < 0.1] = 0
    x = apscope.quantize(x, form)
    if specials:
        x[RNG.random(shape) < 0.02] = RNG.choice(SPECIALS) if f.has_infinity else np.nan
    return x


RECORDED = [*recordings.of_h100(), *recordings.of_sample()]


@pytest.mark.parametrize("recording", RECORDED, ids=[r.name for r in RECORDED])
def test_equal_to_every_recorded_result(recording):
    r = recording
    result = "fp32" if r.d.itemsize == 4 else "fp16"
    d = apscope.dot(r.a, r.b, result, order=f"unit:{r.unit},inputs={r.form}", c=r.c)
    assert (d.astype(matrix_units.RESULTS[result][0]).view(r.d.dtype) == r.d).all()


UNITS = sorted(unit["name"] for unit in apscope.units() if not unit["scales"])
SCALED = [unit for unit in apscope.units() if unit["scales"]]
#: Results of one instruction that are compared, at least, for every unit; by default those of 12
#: small products of up to 80 terms.
RESULTS = int(os.environ.get("APSCOPE_UNIT_RESULTS", "0"))


@pytest.mark.parametrize("name", UNITS)
def test_equal_to_the_reference(name):
    unit, compared = matrix_units.UNITS[name], 0
    most = (5, 80, 40) if RESULTS == 0 else (400, unit.k + 1, 400)
    for trial in itertools.count():
        if trial >= 12 and compared >= RESULTS:
            break
        form = unit.formats[trial % len(unit.formats)]
        m, k, n = RNG.integers(1, most)
        specials, spread = trial % 4 == 3, 1 + trial % 12
        a, b = numbers(form, (m, k), spread, specials), numbers(form, (k, n), spread)
        c = np.ldexp(RNG.uniform(-2, 2, (m, n)), RNG.integers(-30, 15, (m, n))).astype(np.float32)
        if trial % 3 == 2:
            c[RNG.random((m, n)) < 0.2] = -0.0
            c[RNG.random((m, n)) < 0.1] = np.inf
        above = [{}, {"promote": 24}, {"split": 3}][trial % 3 if unit.result == "fp32" else 0]
        keys = "".join(f",{key}={value}" for key, value in above.items())
        order = f"unit:{name},inputs={form}{keys}"
        rows, columns = np.broadcast_arrays(a[:, None], b.T[None])
        expected = unit.dot(rows, columns, c, form, **above)
        found = apscope.matmul(a, b, unit.result, order=order, c=c)
        assert (bits(found) == bits(expected)).all(), (trial, form)
        compared += m * n
        if RESULTS != 0:
            continue
        one_by_one = apscope.dot(rows, columns, unit.result, order=order, c=c)
        assert (bits(found) == bits(one_by_one)).all(), (trial, form)


def test_the_fast_path_is_the_rule():
    """A NaN in one operand selects the path that applies the rule to every output."""
    for order in ("unit:h100", "unit:a100", "unit:b200:fp8", "unit:h100:mma_fp8,promote=64"):
        for spread in (1, 4, 9):
            a, b = numbers("e5m2", (40, 300), spread), numbers("e5m2", (300, 70), spread)
            c = np.ldexp(RNG.uniform(-2, 2, (40, 70)), RNG.integers(-99, 99, (40, 70)))
            c = c.astype(np.float32)
            fast = apscope.matmul(a, b, "fp32", order=order, c=c)
            slow = np.stack([
                apscope.matmul(row[None], np.hstack([b, np.full((300, 1), np.nan)]), "fp32",
                               order=order, c=np.append(of_c, 0)[None].astype(np.float32))[0, :-1]
                for row, of_c in zip(a[::13], c[::13], strict=True)
            ])  # fmt: skip
            assert (bits(fast[::13]) == bits(slow)).all()


def scaled_product(unit, forms, a, b, scales, c, promote=None):
    """The reference's product of matrices, zeros after the last term."""
    (m, terms), n, size = a.shape, b.shape[1], unit["scaled"]
    if promote is not None:
        total = np.float32(c)
        for first in range(0, terms, promote):
            part = slice(first, first + promote)
            pieces = slice(first // size, (first + promote) // size)
            total = total + scaled_product(
                unit, forms, a[:, part], b[part], (scales[0][:, pieces], scales[1][pieces]),
                np.zeros((m, n)),
            )  # fmt: skip
        return total
    rest = -terms % unit["k"]
    a, b = np.pad(a, [(0, 0), (0, rest)]), np.pad(b, [(0, rest), (0, 0)])
    rest = a.shape[1] // size - scales[0].shape[1]
    of_a = np.pad(scales[0], [(0, 0), (0, rest)], constant_values=1)
    of_b = np.pad(scales[1], [(0, rest), (0, 0)], constant_values=1)
    rows = [np.repeat(x, n, 0) for x in (a, of_a)]
    columns = [np.tile(x.T, (m, 1)) for x in (b, of_b)]
    parts = rows[0], columns[0], rows[1], columns[1]
    if unit["k"] == 64:
        smallest = -6 if unit["scales"] == "e4m3fn" else -127
        return matrix_units.fp4(*parts, c.reshape(-1), size, smallest).reshape(m, n)
    return matrix_units.mxfp8(*parts[:2], forms, *parts[2:], c.reshape(-1)).reshape(m, n)


@pytest.mark.parametrize("unit", SCALED, ids=[unit["name"] for unit in SCALED])
def test_scales_enter_the_unit(unit):
    size, compared = unit["scaled"], 0
    most = (9, 200, 40) if RESULTS == 0 else (400, unit["k"] + 1, 400)
    for trial in itertools.count():
        if trial >= 24 and compared >= RESULTS:
            break
        forms = [RNG.choice(unit["inputs"].split()) for _ in "ab"]
        m, k, n = RNG.integers(1, most)
        spread = trial % 6
        a, b = numbers(forms[0], (m, k), spread), numbers(forms[1], (k, n), spread)
        pieces = -(-k // size)
        scales = [
            np.exp2(RNG.integers(-3 * spread, 3 * spread + 1, shape)).astype(np.float32)
            for shape in ((m, pieces), (pieces, n))
        ]
        if unit["scales"] == "e4m3fn":
            scales = [
                apscope.quantize(s * RNG.uniform(1, 2, s.shape), "e4m3fn", overflow="saturate")
                for s in scales
            ]
            scales[0][RNG.random((m, pieces)) < 0.1] = 0
        elif trial == 3:
            scales = [np.full_like(scales[0], 2.0**-127), np.full_like(scales[1], 2.0**127)]
        if trial % 4 == 3:
            scales[1][RNG.random((pieces, n)) < 0.1] = np.nan
        c = np.ldexp(RNG.uniform(-2, 2, (m, n)), RNG.integers(-30, 15, (m, n))).astype(np.float32)
        c[RNG.random((m, n)) < 0.2] = 0
        keys = {"promote": 2 * size} if trial % 2 else {}
        order = ",".join([
            f"unit:{unit['name']}", "inputs=" + "*".join(forms),
            *(f"{key}={value}" for key, value in keys.items()),
        ])  # fmt: skip
        found = apscope.matmul(a, b, "fp32", order=order, scales=scales, c=c)
        expected = scaled_product(unit, forms, a, b, scales, c, **keys)
        assert (bits(found) == bits(expected)).all(), (trial, order)
        compared += m * n


def test_encoded_blocks_are_operands_with_scales():
    """The result lies near the product of the decoded blocks; leading axes are batches."""
    x, y = RNG.normal(size=(2, 3, 64)), RNG.normal(size=(2, 64, 5))
    a, b = apscope.encode_blocks(x, "mxfp8_e4m3"), apscope.encode_blocks(y, "mxfp8_e4m3", axis=1)
    scales = [apscope.decode(e.scales, "e8m0fnu") for e in (a, b)]
    elements = [apscope.decode(e.codes, "e4m3fn") for e in (a, b)]
    d = apscope.matmul(*elements, "fp32", order="unit:b200:mxfp8", scales=scales)
    exact = apscope.quantize_blocks(x, "mxfp8_e4m3") @ apscope.quantize_blocks(
        y, "mxfp8_e4m3", axis=1
    )
    np.testing.assert_allclose(d, exact, atol=1e-5)
    one = apscope.matmul(
        elements[0][0, 0], elements[1][0], "fp32", order="unit:b200:mxfp8",
        scales=(scales[0][0, 0], scales[1][0]),
    )  # fmt: skip
    assert (one == d[0, 0]).all()


@pytest.mark.parametrize(
    ("sentence", "options"),
    [
        ("needs scales=(of a, of b), one for 16 terms of either", {}),
        ("scales must be two arrays, those of a and those of b, not 1", {"scales": 1}),
        (
            "the scales of b have shape (2, 3); they must have (3, 3), one for 16 terms",
            {"scales": (np.ones((2, 3)), np.ones((2, 3)))},
        ),
        (
            "the scales of a have shape (3, 2); they must have (2, 3)",
            {"scales": (np.ones((3, 2)), np.ones((3, 3)))},
        ),
        ("takes operands of e2m1fn", {"order": "unit:b200:nvfp4,inputs=e5m2*e2m1fn"}),
        (
            "the scales of a have 1.0625 at element 0, which is not a positive value or 0 of e4m3fn",
            {"scales": (np.full((2, 3), 1.0625), np.ones((3, 3)))},
        ),
        (
            "the scales of b have -1 at element 0, which is not",
            {"scales": (np.ones((2, 3)), -np.ones((3, 3)))},
        ),
        (
            "order=unit:h100 takes no scales, as unit:b200:mxfp8, unit:b200:mxfp4, unit:b200:nvfp4 do",
            {"scales": (np.ones((2, 3)), np.ones((3, 3))), "order": "unit:h100"},
        ),
        (
            "order=sequential takes no scales",
            {"scales": (np.ones((2, 3)), np.ones((3, 3))), "order": "sequential"},
        ),
        ("promote must be a multiple of 16", {"order": "unit:b200:nvfp4,promote=24"}),
        ("use promote=, a multiple of 16, instead of split=", {"order": "unit:b200:nvfp4,split=2"}),
        ("takes fraction, inputs and promote", {"order": "unit:b200:nvfp4,k=32"}),
    ],
)
def test_refusals_of_scales(sentence, options):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        apscope.matmul(
            np.ones((2, 40)), np.ones((40, 3)), "fp32", **{"order": "unit:b200:nvfp4"} | options
        )


@pytest.mark.parametrize("name", ["c", "scales"])
def test_the_functions_with_a_gradient_take_neither_c_nor_scales(name):
    torch = pytest.importorskip("torch")
    from apscope.torch import matmul

    with pytest.raises(TypeError, match=f"{name}= is not an option.*; call apscope.matmul"):
        matmul(torch.ones(2, 16), torch.ones(16, 2), "fp32", order="unit:b200:nvfp4",
               **{name: torch.ones(2, 2)})  # fmt: skip


def test_dot_takes_no_scales():
    with pytest.raises(ValueError, match="takes operands with scales; use matmul"):
        apscope.dot(np.ones(64), np.ones(64), "fp32", order="unit:b200:nvfp4")


def test_more_pieces_than_terms():
    a, b = numbers("fp16", (2, 5), 2), numbers("fp16", (5, 3), 2)
    many, five = (apscope.matmul(a, b, "fp32", order=f"unit:h100,split={s}") for s in (10**12, 5))
    assert (bits(many) == bits(five)).all()


def test_other_numbers_differ():
    a, b = numbers("fp16", (16, 64), 3), numbers("fp16", (64, 32), 3)
    order = "unit:k={},fraction={},result=23,inputs=fp16"
    h100 = apscope.matmul(a, b, "fp32", order="unit:h100")
    assert (bits(h100) == bits(apscope.matmul(a, b, "fp32", order=order.format(16, 25)))).all()
    for k, fraction in ((16, 24), (16, 26), (8, 25)):
        other = apscope.matmul(a, b, "fp32", order=order.format(k, fraction))
        assert (bits(h100) != bits(other)).any()


def test_an_absent_c_is_zero_and_no_terms_are_c():
    a, b = numbers("fp16", (3, 20), 2), numbers("fp16", (20, 5), 2)
    zeros = apscope.matmul(a, b, "fp32", order="unit:h100", c=np.zeros((3, 5)))
    assert (bits(zeros) == bits(apscope.matmul(a, b, "fp32", order="unit:h100"))).all()
    c = np.float32([[1, -0.0]])
    empty = apscope.matmul(np.zeros((1, 0)), np.zeros((0, 2)), "fp32", order="unit:h100", c=c)
    assert (bits(empty) == bits(c)).all()


@pytest.mark.parametrize(
    "sentence, a, format, options",
    [
        ("a has 1.0009765625 at element 1, which is not a value of e4m3fn or e5m2",
         [1, 1 + 2**-10], "fp32", {"order": "unit:h100:fp8"}),
        ("the results of order=unit:h100 are fp32, not fp16", [1, 2], "fp16",
         {"order": "unit:h100"}),
        ("has its own roundings", [1, 2], "fp32", {"order": "unit:h100", "product": "fp16"}),
        ("c is a term of order=unit:... only", [1, 2], "fp32", {"c": 1.0}),
        (r"c has shape \(2,\); it must have the result's, \(\)", [1, 2], "fp32",
         {"order": "unit:h100", "c": [1, 2]}),
        ("no matrix unit 'tpu'", [1, 2], "fp32", {"order": "unit:tpu"}),
    ],
)  # fmt: skip
def test_refusals(sentence, a, format, options):
    with pytest.raises(ValueError, match=sentence):
        apscope.dot(a, [1, 1], format, **options)


def test_a_sum_has_no_products():
    with pytest.raises(ValueError, match="adds products; use it in dot or matmul"):
        apscope.sum([1.0, 2.0], "fp32", order="unit:h100")


def test_the_command(capsys):
    assert main(["units", "h100:fp8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == apscope.units("h100:fp8")
    assert main(["units"]) == 0
    assert "mi300x:fp8" in capsys.readouterr().out
    assert main(["units", "trainium"]) == 2
    assert "no model of it has been published" in capsys.readouterr().err
