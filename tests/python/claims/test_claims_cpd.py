"""The scheme `cpd` against the published code: every documented deviation, and nothing else.

The reference casts in integers and rationals, from a description of the code's behaviour; the right
cast it is compared with is `apscope.quantize`.
"""

import math

import numpy as np
import pytest

import apscope
from tests.reference import cpd
from tests.reference.compare import equal

FORMATS = {
    "e5m2": (5, 2),
    "e4m3": (4, 3),
    "e3m0": (3, 0),
    "fp16": (5, 10),
    "bf16": (8, 7),
}


def cast(x, name):
    """CPD's cast, one worker, no scale: 0 is added first, which casts."""
    return apscope.exchange(
        f"cpd:{name},aps=false,input_cast=true", np.float32(x).reshape(1, -1)
    ).sent[0]


def right(x, name):
    return apscope.quantize(np.float32(x), name).astype(np.float64)


@pytest.fixture(params=FORMATS)
def name(request):
    return request.param


def test_the_documented_inputs_give_what_the_code_gives():
    """Overflow decided before rounding, sticky bits dropped, fp32's subnormals to +0."""
    for x, fmt, got, correct in [
        (61440.0, "e5m2", 65536.0, np.inf), (65504.0, "e5m2", 65536.0, np.inf),
        (248.0, "e4m3", 256.0, np.inf),
        (3.81469763e-05, "e5m2", 2.0**-15, 1.5 * 2**-15),
        (0.0126953134, "e4m3", 0.01171875, 0.013671875), (0.125000015, "e3m0", 0.0, 0.25),
        (-1e-40, "e5m2", 0.0, -0.0), (1e-40, "bf16", 0.0, None),
    ]:  # fmt: skip
        assert equal(cast(x, fmt), got).all(), x
        if correct is not None:
            assert equal(right([x], fmt), correct).all(), x
    assert right([1e-40], "bf16")[0] > 0


def test_the_cast_is_the_described_one_and_differs_from_the_right_one_only_as_described(name):
    """Every number of fp16 and 20000 random bit patterns, half of them near the format's subnormals
    and its top."""
    e, m = FORMATS[name]
    rng = np.random.default_rng(7)
    anywhere = rng.integers(0, 2**32, 10000, dtype=np.uint32).view(np.float32)
    bias = 2 ** (e - 1) - 1
    near = np.ldexp(
        np.float32(1) + (rng.integers(0, 2**m * 4, 10000) / 2 ** (m + 2)).astype(np.float32),
        rng.choice([*range(max(-m - 2 - bias, -126), 2 - bias), bias], 10000),
    ).astype(np.float32)
    near = (near.view(np.uint32) + rng.integers(0, 3, 10000).astype(np.uint32) - np.uint32(1)).view(
        np.float32
    )
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    top = np.float32(2.0**bias * (2 - 2.0 ** -(m + 1))) * np.float32([1, -1, 1 + 2.0**-20])
    x = np.concatenate([anywhere, top, near, -near, halves[np.isfinite(halves)][::3]])
    got, correct = cast(x, name), right(x, name)
    expected = [cpd.slow_cast(v, e, m) for v in x]
    assert equal(got, [v for v, _ in expected]).all()
    why = np.array([w or "" for _, w in expected])
    differs = ~equal(got, correct) & ~np.isnan(x)
    assert (why[differs] != "").all()
    if name != "bf16":  # whose subnormals are fp32's, and 2^128 is an infinity there
        assert {"overflow", "sticky"} <= set(why[differs])


def test_a_million_random_bit_patterns_differ_only_in_the_described_classes(name):
    e, m = FORMATS[name]
    bias = 2 ** (e - 1) - 1
    rng = np.random.default_rng(11)
    x = rng.integers(0, 2**32, 10**6, dtype=np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    differs = ~equal(cast(x, name), right(x, name))
    size = np.abs(x.astype(np.float64))
    exponent = np.frexp(size)[1] - 1
    overflow = (exponent == bias) & (size >= 2.0**bias * (2 - 2.0 ** -(m + 1)))
    input_subnormal = exponent < -126
    sticky = (exponent < 1 - bias) & (exponent >= -126)
    assert differs.any() and not (differs & ~overflow & ~input_subnormal & ~sticky).any()
    assert differs[overflow].all() or name == "bf16"  # there 2^(E+1) is not an fp32 number


@pytest.mark.parametrize("fmt", ["e5m2", "e4m3", "e3m0", "fp16"])
@pytest.mark.parametrize("kahan", [False, True])
@pytest.mark.parametrize("aps, input_cast", [(True, True), (False, False), (False, True)])
def test_the_sum_is_the_codes_in_rank_order_from_zero(fmt, kahan, aps, input_cast):
    e, m = FORMATS[fmt]
    rng = np.random.default_rng(3)
    for workers in (1, 3, 8):
        g = (
            rng.standard_normal((workers, 40)) * 2.0 ** rng.integers(-18, 2, (workers, 40))
        ).astype(np.float32)
        spec = f"cpd:{fmt},aps={str(aps).lower()},kahan={str(kahan).lower()}" + (
            "" if aps or not input_cast else ",input_cast=true"
        )
        e_ = apscope.exchange(spec, g)
        codes = cpd.cast(g, e, m) if input_cast and not aps else g
        assert equal(e_.reduced, cpd.sum_gradients(codes, aps, e, m, kahan)).all()
        assert e_.payload_bits == [32 * 40] * workers and e_.side_bits == [32 * aps] * workers


def test_without_a_scale_the_first_value_is_cast_by_the_sum_alone():
    g = np.float32([[1.1], [2.0**-9]])
    e = apscope.exchange("cpd:e5m2,aps=false", g)
    assert (e.sent == g).all() and e.reduced[0] == 1.0
    assert apscope.exchange("cpd:e5m2,aps=false,input_cast=true", g).sent[0, 0] == 1.0


def test_a_tensor_of_zeros_and_one_infinity_are_not_a_number():
    assert np.isnan(apscope.exchange("cpd:e5m2", np.zeros((3, 5), np.float32)).reduced).all()
    g = np.ones((2, 4), np.float32)
    g[1, 2] = np.inf
    assert np.isnan(apscope.exchange("cpd:e5m2", g).reduced).all()
    g[1, 2] = np.nan  # the other rank's exponent is a number: the rest survives
    out = apscope.exchange("cpd:e5m2", g).reduced
    assert np.isnan(out[2]) and (out[[0, 1, 3]] == 2).all()
    assert np.isnan(apscope.exchange("cpd:e5m2", g[1:]).reduced).all()


def test_bf16_is_unusable_below_one_and_e7_far_below():
    """The scale 2^(127 - k) is not an fp32 number for k < 0; with seven exponent bits for k <
    -64."""
    fine = apscope.exchange("cpd:bf16", np.float32([[1.0, 0.5]])).reduced
    assert (fine == [1, 0.5]).all()
    broken = apscope.exchange("cpd:bf16", np.float32([[0.25, 0.0]])).reduced
    assert np.isnan(broken).all()
    assert np.isfinite(apscope.exchange("cpd:e7m2", np.float32([[2.0**-64]])).reduced).all()
    assert not np.isfinite(apscope.exchange("cpd:e7m2", np.float32([[2.0**-65]])).reduced).any()


@pytest.mark.parametrize(
    "k, ulps",
    [
        (4, 1),
        (-5, 1),
        (10, 2),
        (-10, 2),
        (20, 5),
        (-20, 5),
        (40, 11),
        (-40, 11),
        (65, 22),
        (-65, 22),
        (3, 0),
        (-4, 0),
        (0, 0),
    ],
)
def test_the_exponent_is_that_of_a_logarithm_in_fp32(k, ulps):
    """Up to so many units above 2^k the rounded logarithm is k; the exact rule of `aps` gives k + 1
    at once."""
    at = np.float32(2.0**k).view(np.uint32)
    for above in (0, ulps, ulps + 1):
        x = np.array([[(at + np.uint32(above))]], np.uint32).view(np.float32)
        got = apscope.exchange("cpd:e5m2", x)
        assert got.scale_exponent == 15 - (k if above <= ulps else k + 1)
        assert got.scale_exponent == 15 - math.ceil(np.float32(math.log2(float(x[0, 0]))))
        assert apscope.exchange("aps:e5m2", x).scale_exponent == 15 - (k if above == 0 else k + 1)


def test_away_from_its_deviations_it_is_aps():
    rng = np.random.default_rng(5)
    g = rng.uniform(0.5, 1, (8, 200)).astype(np.float32) * rng.choice([-1, 1], (8, 200)).astype(
        np.float32
    )
    a = apscope.exchange("aps:e5m2", g, topology="sequential")  # the code's order
    b = apscope.exchange("cpd:e5m2", g)
    assert (
        (a.sent == b.sent).all()
        and (a.reduced == b.reduced).all()
        and a.scale_exponent == b.scale_exponent
    )


@pytest.mark.parametrize("fmt", ["fp32", "e4m3fn", "e5m2fnuz"])
def test_formats_that_the_code_has_not_are_refused(fmt):
    with pytest.raises(ValueError, match="not a format of CPD"):
        apscope.schemes.Scheme(f"cpd:{fmt}")
