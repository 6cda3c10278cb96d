"""The reference against independent sources: published words, NumPy, ml_dtypes, fractions, fsum."""

import math
from fractions import Fraction

import numpy as np
import pytest

from apscope import _core
from tests.reference.allreduce import allreduce
from tests.reference.casts import (
    UNIT,
    Limits,
    Rounding,
    as_float,
    cast,
    cast_units,
    exact,
    moments,
    project,
)
from tests.reference.formats import EXOTIC, FORMATS, FP64_FORMATS
from tests.reference.random_words import (
    DEEPER,
    EXACT_BITS,
    QUANTIZE,
    philox,
    random_integers,
    words_of,
)
from tests.reference.rounding import DETERMINISTIC, MODES, UNDERFLOWS, Random
from tests.reference.rounding import project as project_one
from tests.reference.schemes import Scheme, ceil_log2_of_root, first_loss_scale, shift
from tests.reference.statistics import fixed_shape_sum
from tests.reference.topologies import reduce


@pytest.mark.parametrize(
    "counter, key, words",
    [
        (
            "00000000 00000000 00000000 00000000",
            "00000000 00000000",
            "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        ),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_words(counter, key, words):
    c, k, w = ([int(x, 16) for x in text.split()] for text in (counter, key, words))
    assert [int(x) for x in philox(c, tuple(k))] == w


def test_the_digits_of_a_number_are_words_highest_first():
    key = words_of(7)
    digits = random_integers(key, [0, 1, 9], EXACT_BITS, QUANTIZE)
    assert [d >> EXACT_BITS - 64 for d in digits] == random_integers(key, [0, 1, 9], 64, QUANTIZE)
    assert [d >> EXACT_BITS - 192 & 2**64 - 1 for d in digits] == random_integers(
        key, [0, 1, 9], 64, DEEPER, hop=2
    )


def numbers(f, n=50, seed=0):
    """fp32 numbers at, beside and between values of the format, beyond it, and not finite."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, f.top + 1, n).tolist()
    low, high = (
        np.array([float(f.value(c)) for c in codes]),
        np.array([float(f.value(c + 1)) for c in codes]),
    )
    x = (
        (low + (high - low) * rng.choice([0, 0.25, 0.5, 0.7, 0.75], n))
        .clip(max=3.4e38)
        .astype(np.float32)
    )
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(3.4e38))])
    x = np.concatenate([x, np.float32([0, np.inf, np.nan, 3.4028234e38, 2.0**-149, 1e-38])])
    return np.concatenate([x, -x]).astype(np.float64)


def same(got, expected):
    zero = expected == 0
    return np.array_equal(got, expected, equal_nan=True) and np.array_equal(
        np.signbit(got[zero]), np.signbit(expected[zero])
    )


@pytest.mark.parametrize("name", [*FORMATS, *EXOTIC])
def test_casts_are_those_in_fractions(name):
    f, rng = (FORMATS | EXOTIC)[name], np.random.default_rng(1)
    x = numbers(f, 5)
    overflows = (
        ["ieee", "saturate", "propagate"] + ["infinity"] * f.has_infinity + ["nan"] * f.has_nan
    )
    for mode in MODES:
        for overflow, underflow in zip(rng.choice(overflows, 2), rng.choice(UNDERFLOWS, 2)):
            bits = EXACT_BITS if mode == "stochastic_exact" else 5
            random = [int(r) << bits - 5 for r in rng.integers(0, 2**5, x.size)]
            got = cast(x, f, Rounding(mode, overflow, 5, underflow), random)
            expected = [
                project_one(v, f, mode, overflow, Random(r, bits), underflow)
                for v, r in zip(x.tolist(), random)
            ]
            assert same(got, np.array(expected)), (mode, overflow, underflow)


@pytest.mark.parametrize("name", FP64_FORMATS)
def test_casts_of_fp64_numbers_are_those_in_fractions(name):
    f, rng = FP64_FORMATS[name], np.random.default_rng(2)
    special = np.uint64(
        [1, 2, 3, 2**52 - 1, 2**52, 2**63 + 1, 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF]
    )
    x = np.concatenate([rng.integers(0, 2**64, 30, dtype=np.uint64), special]).view(np.float64)
    for mode in MODES:
        bits = EXACT_BITS if mode == "stochastic_exact" else 64 if mode[-1] == "l" else 62
        random = [
            int.from_bytes(rng.bytes(8)) >> 64 - bits
            if bits <= 64
            else int.from_bytes(rng.bytes(bits // 8))
            for _ in x
        ]
        underflow = UNDERFLOWS[rng.integers(4)]
        got = cast(x, f, Rounding(mode, "ieee", bits, underflow), random)
        expected = [
            project_one(v, f, mode, "ieee", Random(r, bits), underflow)
            for v, r in zip(x.tolist(), random)
        ]
        assert same(got, np.array(expected)), (mode, underflow)


@pytest.mark.parametrize("mode", DETERMINISTIC)
def test_casts_of_integers_are_rounded_once(mode):
    """Odd integers around 2^64 that fp64 cannot represent."""
    f = FORMATS["fp16"] if mode == "to_odd" else FORMATS["fp32"]
    for x in [2**53 + 1, 2**63 + 2**39 + 1, -(2**63 + 2**39), 2**64 - 1, -(2**63) + 1]:
        k, rough = np.array([x << UNIT], object), np.array([float(x)])
        assert cast_units(k, rough, f, Rounding(mode))[0] == project_one(x, f, mode)


def test_sums_are_rounded_once():
    """1 + 2^-60 upward is the next number, which no fp64 sum can tell; 2^-24 is half of 1's ulp in
    fp32."""
    up = Rounding("toward_positive")
    assert (
        allreduce(np.float32([[1], [2.0**-60]]), FORMATS["bf16"], "sequential", up)[0] == 1.0078125
    )
    assert (
        allreduce(np.float32([[1], [2.0**-24], [2.0**-60]]), FORMATS["fp32"], "hierarchical:1")[0]
        == 1.0
    )
    tie = exact(np.array([1.0])) + exact(np.array([2.0**-24])) + exact(np.array([2.0**-140]))
    assert project(tie, np.array([1.0]), FORMATS["fp32"], Rounding())[0] == 1 + 2.0**-23


@pytest.mark.parametrize(
    "topology", [t.replace(":G", ":3") for t in _core.orders() if t != "exact"]
)
@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_every_topology_adds_every_worker_once(topology, workers):
    codes = 4.0 ** np.arange(workers)[:, None] * np.ones(11)
    hops = []

    def add(a, b, hop, elements):
        hops.append(hop)
        return a + b

    assert (reduce(codes, topology, add) == (4.0**workers - 1) / 3).all()
    count = (workers - 1) * (4 if "kahan" in topology else 1)
    assert len(set(hops)) == count
    if topology != "pat":  # where a value that is rounded by itself has a number, too
        assert sorted(set(hops)) == list(range(count))


@pytest.mark.parametrize("mode", ["stochastic", "stochastic_b", "stochastic_c", "stochastic_equal"])
def test_moments_are_the_mean_and_variance_over_all_random_integers(mode):
    f, bits = FORMATS["e4m3"], 4
    x = numbers(f, 60, seed=3)
    x = x[np.abs(x) <= 240]
    r = Rounding(mode, bits=bits)
    draws = [cast(x, f, r, [integer] * x.size) for integer in range(1 << bits)]
    bias, variance, risky = moments(exact(x), draws[0], f, r)
    assert not risky
    for i in range(x.size):
        y = [Fraction(d[i]) for d in draws]
        mean = sum(y) / len(y)
        assert bias[i] == mean - Fraction(x[i])
        assert variance[i] == sum((v - mean) ** 2 for v in y) / len(y)
    assert moments(exact(np.array([247.0])), np.array([240.0]), f, r)[2]


def test_exact_stochastic_rounding_has_no_bias():
    x = numbers(FORMATS["e4m3"], 60, seed=3)
    x = x[np.abs(x) <= 240]
    bias, variance, _ = moments(exact(x), x, FORMATS["e4m3"], Rounding("stochastic_exact"))
    assert set(bias) == {0} and max(variance) > 0


def test_exact_integers_are_the_numbers():
    x = np.array([0.0, -1.5, 5e-324, -(2.0**-1040) * 1.1, 1.7976931348623157e308, 0.1])
    assert [Fraction(int(k), 1 << UNIT) for k in exact(x)] == [Fraction(v) for v in x.tolist()]
    limits = Limits.of(FORMATS["e4m3"])
    assert [as_float(v) for v in (limits.largest, limits.smallest, limits.smallest_normal)] == [
        240.0,
        2.0**-9,
        2.0**-6,
    ]


def test_exponents_of_scales():
    assert [ceil_log2_of_root(Fraction(4) ** k) for k in (-140, 0, 99)] == [-140, 0, 99]
    assert ceil_log2_of_root(Fraction(4) ** 9 + Fraction(1, 10**50)) == 10
    e4m3 = FORMATS["e4m3"]
    assert shift(1.0, e4m3, "workers", 8) == 7 - 3 and shift(1.0000001, e4m3, "workers", 8) == 7 - 4
    assert shift(2.0**-149, e4m3, "one", 8) == 7 + 126 and shift(0.0, e4m3, "one", 8) == 0
    assert (
        shift(1.875, e4m3, "one", 8, "tight") == 7
        and shift(1.8750001, e4m3, "one", 8, "tight") == 6
    )


def test_first_loss_scales():
    for spec, expected in {
        "e4m3": 256,
        "e5m2": 65536,
        "fp16": 65536,
        "e3m0": 16,
        "fp32": 65536,
        "e4m3,init=3": 3,
    }.items():
        assert first_loss_scale(Scheme.parse(f"dynamic_loss_scaling:{spec}")) == expected


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 4095, 4096, 4097, 9000])
def test_sums_of_fixed_shape_are_sums(n):
    terms = np.random.default_rng(n).standard_normal(n)
    assert abs(fixed_shape_sum(terms) - math.fsum(terms)) <= n * 2.0**-53 * np.abs(terms).sum()
    order = np.zeros(32)
    order[[0, 8, 1]] = 1.0, 2.0**-53, 2.0**-53  # lanes 0 and 8 first: each is lost on 1
    assert fixed_shape_sum(order) == 1.0
    order[[0, 8, 1, 9]] = 1.0, 0.0, 2.0**-53, 2.0**-53  # lanes 1 and 9 join before they meet lane 0
    assert fixed_shape_sum(order) == 1 + 2.0**-52
