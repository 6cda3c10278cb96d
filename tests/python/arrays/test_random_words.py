"""Random integers of the caller, and rounding with the exact probability."""

import math
from fractions import Fraction

import numpy as np
import pytest

import apscope
from tests.reference.casts import Rounding, cast
from tests.reference.formats import EXOTIC, FORMATS, FP64_FORMATS
from tests.reference.points import numbers
from tests.reference.random_words import QUANTIZE, random_integers, words_of
from tests.reference.rounding import COUNTED

EVERY = FORMATS | EXOTIC | FP64_FORMATS
X = np.float32([[0.1, -1.3, 5.7], [-0.26, 100.1, 3e-3]])


@pytest.mark.parametrize("mode", COUNTED)
@pytest.mark.parametrize("name", EVERY)
def test_given_integers_decide_as_the_specification_says(name, mode):
    f, rng = EVERY[name], np.random.default_rng(11)
    x = numbers(f, np.float64, rng, 2)
    x = x[~np.isnan(x)]
    for bits in (1, 8, 16, 17, 32, 62):
        random = rng.integers(0, 1 << bits, x.size, dtype=np.uint64)
        got = apscope.quantize(x, name, rounding=mode, random_bits=bits, random=random, seed=99)
        expected = cast(x, f, Rounding(mode, bits=bits), random.tolist())
        wrong = got.view(np.uint64) != expected.view(np.uint64)
        assert not wrong.any(), (
            bits,
            x[wrong][0].hex(),
            random[wrong][0],
            got[wrong][0],
            expected[wrong][0],
        )


@pytest.mark.parametrize("bits", [1, 8, 16, 17, 32, 33, 62, 64])
@pytest.mark.parametrize("name", ["e4m3", "fp16", "e11m4"])
def test_the_streams_integers_given_back_give_its_results(name, bits):
    x = np.random.default_rng(0).normal(size=1001)
    random = np.array(random_integers(words_of(5), np.arange(x.size), bits, QUANTIZE), np.uint64)
    kind = [np.float64] if name == "e11m4" else [np.float32, np.float64]
    for dtype in kind:
        settings = dict(rounding="stochastic", random_bits=bits)
        drawn = apscope.quantize(x.astype(dtype), name, **settings, seed=5)
        given = apscope.quantize(x.astype(dtype), name, **settings, random=random)
        assert drawn.tobytes() == given.tobytes()
        codes = apscope.encode(x.astype(dtype), name, **settings, seed=5)
        np.testing.assert_array_equal(
            codes, apscope.encode(x.astype(dtype), name, **settings, random=random)
        )


def test_integers_come_in_any_dtype_order_and_layout():
    random = np.array([[3, 250, 0], [255, 17, 128]])
    expected = apscope.quantize(X, "e4m3", rounding="stochastic", random_bits=8, random=random)
    for dtype in (np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, ">u2"):
        got = apscope.quantize(
            X, "e4m3", rounding="stochastic", random_bits=8, random=random.astype(dtype)
        )
        assert got.tobytes() == expected.tobytes()
    strided = np.zeros((2, 6), np.uint32)
    strided[:, ::2] = random
    for given in (np.asfortranarray(random), strided[:, ::2], random.tolist()):
        assert (
            apscope.quantize(
                X, "e4m3", rounding="stochastic", random_bits=8, random=given
            ).tobytes()
            == expected.tobytes()
        )
    turned = apscope.quantize(X.T, "e4m3", rounding="stochastic", random_bits=8, random=random.T)
    assert np.ascontiguousarray(turned.T).tobytes() == expected.tobytes()
    frozen = random.copy()
    frozen.flags.writeable = False
    before = X.copy()
    out = np.empty_like(X)
    assert (
        apscope.quantize(X, "e4m3", rounding="stochastic", random_bits=8, random=frozen, out=out)
        is out
    )
    assert (
        out.tobytes() == expected.tobytes()
        and X.tobytes() == before.tobytes()
        and (frozen == random).all()
    )
    scalar = apscope.quantize(0.1, "e4m3", rounding="stochastic", random_bits=8, random=255)
    assert scalar == 0.1015625


def test_tensors_take_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, random = torch.from_numpy(X), torch.tensor([[3, 250, 0], [255, 17, 128]])
    settings = dict(rounding="stochastic", random_bits=8)
    got = apscope.quantize(x, "e4m3", **settings, random=random)
    assert (
        got.numpy().tobytes()
        == apscope.quantize(X, "e4m3", **settings, random=random.numpy()).tobytes()
    )
    assert apscope.quantize(x, "e11m4", **settings, random=random).dtype == torch.float64
    out = torch.zeros((2, 3), dtype=torch.float64)
    assert apscope.quantize(x, "fp64", out=out) is out and torch.equal(out, x.double())
    assert torch.equal(apscope.decode(apscope.encode(x, "fp64"), "fp64"), x.double())
    for dtype, name in ((torch.float16, "fp16"), (torch.bfloat16, "bf16")):
        nans = torch.tensor([-1, 0x7FC1 if name == "bf16" else 0x7E01], dtype=torch.int16)
        assert torch.equal(
            apscope.encode(nans.view(dtype), name, keep_payload=True).view(torch.int16), nans
        )


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"random": np.zeros((2, 3), int)}, ValueError),  # a deterministic rounding
        ({"rounding": "to_odd", "random": np.zeros((2, 3), int)}, ValueError),
        ({"rounding": "stochastic_exact", "random": np.zeros((2, 3), int)}, ValueError),
        ({"rounding": "stochastic", "random": np.zeros((3, 2), int)}, ValueError),
        ({"rounding": "stochastic", "random": np.zeros(6, int)}, ValueError),
        ({"rounding": "stochastic", "random": 0}, ValueError),
        ({"rounding": "stochastic", "random": np.zeros((2, 3))}, TypeError),
        ({"rounding": "stochastic", "random": np.zeros((2, 3), bool)}, TypeError),
        ({"rounding": "stochastic", "random": np.zeros((2, 3), object)}, TypeError),
        ({"rounding": "stochastic", "random": "words"}, TypeError),
        ({"rounding": "stochastic", "random_bits": 8, "random": np.full((2, 3), 256)}, ValueError),
        ({"rounding": "stochastic", "random_bits": 8, "random": np.full((2, 3), -1)}, ValueError),
        ({"rounding": "stochastic", "random": np.full((2, 3), 2**32)}, ValueError),
        (
            {
                "rounding": "stochastic",
                "random_bits": 63,
                "random": np.full((2, 3), 2**63, np.uint64),
            },
            ValueError,
        ),
        (
            {"rounding": "stochastic_b", "random_bits": 63, "random": np.zeros((2, 3), int)},
            ValueError,
        ),
        ({"rounding": "stochastic_c", "random_bits": 64}, ValueError),
    ],
)
def test_wrong_integers_are_refused_in_one_sentence_and_nothing_is_written(settings, error):
    out, before = np.full_like(X, 7), X.copy()
    with pytest.raises(error) as caught:
        apscope.quantize(X, "e4m3", out=out, **settings)
    assert "\n" not in str(caught.value) and "random" in str(caught.value)
    assert (out == 7).all() and X.tobytes() == before.tobytes()
    with pytest.raises(error):
        apscope.encode(X, "e4m3", **settings)


@pytest.mark.parametrize(
    "name",
    """
        e4m3 e5m2ub10nosub e3m3ub3sub-3 e11m51 e11m4b1070nosub fp32 e0m3finite binary8p1uf
    """.split(),
)
def test_exact_rounding_goes_up_with_probability_eta(name):
    f, draws = EVERY[name], 20_000
    first = 1 << f.mantissa_bits
    codes = {c for c in (0, first // 2, first - 1, first + 1, f.top - 1) if 0 <= c < f.top}
    for low, high in [(f.value(c), f.value(c + 1)) for c in sorted(codes)]:
        for wanted in (2.0**-20, 0.001, 1 / 3, 0.5, 0.9, 1 - 2.0**-20):
            x = float(low + Fraction(wanted) * (high - low))
            eta = (Fraction(x) - low) / (high - low)
            for sign in (1, -1) if f.is_signed else (1,):
                got = apscope.quantize(
                    np.full(draws, sign * x), name, rounding="stochastic_exact", seed=draws + sign
                )
                ups = np.count_nonzero(got == float(sign * high))
                assert ups + np.count_nonzero(got == float(sign * low)) == draws
                # Bernstein's bound: a correct rounding fails once in 2 exp(25/2) = 5 * 10^5 such
                # sums.
                spread = 5 * math.sqrt(draws * eta * (1 - eta)) + 25 / 3
                assert abs(ups - draws * eta) <= spread, (x.hex(), ups, float(draws * eta))
                assert eta not in (0, 1) or ups == draws * eta


@pytest.mark.parametrize("name", ["e4m3", "bf16", "e11m4"])
def test_exact_rounding_of_short_fractions_counts_its_first_word_from_the_other_end(name):
    """U < eta is R >= 2^64 - count with R = 2^64 - 1 - U, wherever eta has at most 64 digits."""
    x = np.random.default_rng(2).normal(size=4000)
    words = np.array(random_integers(words_of(3), np.arange(x.size), 64, QUANTIZE), np.uint64)
    exact = apscope.quantize(x, name, rounding="stochastic_exact", seed=3)
    assert (
        exact.tobytes()
        == apscope.quantize(x, name, rounding="stochastic", random_bits=64, random=~words).tobytes()
    )


def test_exact_rounding_depends_on_seed_and_place_alone():
    x = np.random.default_rng(2).normal(size=20_001)
    settings = dict(rounding="stochastic_exact")
    whole = apscope.quantize(x, "e4m3", **settings, seed=3)
    for same in (dict(seed=3, threads=2), dict(seed=3, random_bits=7)):
        assert apscope.quantize(x, "e4m3", **settings, **same).tobytes() == whole.tobytes()
    assert (
        apscope.quantize(x[:1000], "e4m3", **settings, seed=3).tobytes() == whole[:1000].tobytes()
    )
    assert apscope.quantize(x, "e4m3", **settings, seed=4).tobytes() != whole.tobytes()
    narrow = x.astype(np.float32)
    wide = apscope.quantize(narrow.astype(np.float64), "e4m3", **settings, seed=3)
    np.testing.assert_array_equal(apscope.quantize(narrow, "e4m3", **settings, seed=3), wide)


def test_values_of_a_format_do_not_move_and_others_go_to_neighbours():
    for name, f in EVERY.items():
        top = min(f.top, 400)
        values = [float(f.value(c)) for c in range(top + 1)]
        for seed in range(3):
            got = apscope.quantize(np.array(values), name, rounding="stochastic_exact", seed=seed)
            np.testing.assert_array_equal(got, values, name)
        between = np.array([float((f.value(c) + 3 * f.value(c + 1)) / 4) for c in range(top)])
        got = apscope.quantize(between, name, rounding="stochastic_exact", seed=9)
        low, high = np.array(values[:-1]), np.array(values[1:])
        rounded = (between == low) | (between == high)  # fp64 holds no number there
        assert ((got == low) | (got == high))[~rounded].all(), name
