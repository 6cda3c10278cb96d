"""fingerprint of casts that round at random: rule, random bits, ties, bias; and every mistake.

Every cast draws from a generator with a fixed seed: nothing depends on luck.
"""

import itertools
import json

import numpy as np
import pytest

import apscope
from apscope import fingerprint
from apscope._formats.blackbox import same
from apscope._proof.differences import allowed, differences
from apscope.cli import main

ALL = "stochastic or stochastic_b or stochastic_c or stochastic_exact"


def stochastic(name="e4m3", rounding="stochastic", **options):
    """A cast of apscope that draws anew in every call."""
    seeds = itertools.count(1)
    return lambda x: apscope.quantize(x, name, rounding=rounding, seed=next(seeds), **options)


def fixed(name="e4m3", rounding="stochastic", **options):
    """A cast of apscope that draws the same in every call."""
    return lambda x: apscope.quantize(x, name, rounding=rounding, seed=3, **options)


def e4m3(probability):
    """A cast to e4m3 that goes up with probability(eta, lower / quantum, x)."""
    rng = np.random.default_rng(7)

    def cast(x):
        x = x.astype(np.float64)
        with np.errstate(invalid="ignore"):
            q = 2.0 ** (np.maximum(np.frexp(np.where(np.isfinite(x), x, 1))[1] - 1, -6) - 3)
            low = np.floor(np.abs(x) / q)
            up = rng.random(x.shape) < probability(np.abs(x) / q - low, low, x)
            y = (low + up) * q
        y = np.where(y > 240, np.inf, y)
        return np.where(np.isnan(x), np.nan, np.copysign(y, x)).astype(np.float32)

    return cast


def bf16(mask=0xFFFF0000, noise=0xFFFF, shift=0, nan=True):
    """bf16 by adding random bits below the last one kept and cutting: `stochastic`, 16 bits."""
    rng = np.random.default_rng(5)

    def cast(x):
        bits = rng.integers(0, 1 << 16, x.shape, dtype=np.uint32) & np.uint32(noise)
        y = ((x.view(np.uint32) + (bits << np.uint32(shift))) & np.uint32(mask)).view(np.float32)
        return np.where(np.isfinite(x), y, x) if nan else y

    return cast


def proportional(eta, low, x):
    return eta


@pytest.mark.parametrize(
    ("name", "rounding", "bits"),
    [
        *[("e4m3", "stochastic", n) for n in (1, 2, 5, 8, 12, 15)],
        *[(name, "stochastic", 7) for name in ("bf16", "fp16", "e3m0", "e5m2", "binary8p4se")],
        *[("e4m3", rounding, n) for rounding in ("stochastic_b", "stochastic_c") for n in (1, 6)],
    ],
)
def test_rounding_and_random_bits_are_named(name, rounding, bits):
    found = fingerprint(stochastic(name, rounding, random_bits=bits))
    assert (found.format, found.rounding) == (apscope.FloatFormat(name).name, rounding)
    assert found.random.random_bits == str(bits), found
    assert found.projection == apscope.Projection(
        rounding, overflow=found.projection.overflow, random_bits=bits
    )
    assert (found.differing, found.differences, found.first) == (0, (), "")
    assert found.nan == "kept" and found.overflow.startswith("ieee (")


@pytest.mark.parametrize("options", [{"random_bits": 20}, {}, {"rounding": "stochastic_exact"}])
def test_more_random_bits_than_frequencies_show(options):
    found = fingerprint(stochastic(**options))
    assert (found.rounding, found.random.random_bits) == (ALL, "at least 16")
    assert found.differences == ()
    # fp16 discards 13 bits of a normal fp32 number.
    found = fingerprint(stochastic("fp16", **options))
    assert (found.rounding, found.random.random_bits) == (ALL, "at least 13")


@pytest.mark.parametrize(
    ("rounding", "bits"),
    [("stochastic", n) for n in (4, 16, 17, 24, 32)]
    + [("stochastic_b", 20), ("stochastic_c", 20), ("stochastic_b", 3)],
)
def test_fixed_draws_show_random_bits_exactly(rounding, bits):
    found = fingerprint(fixed(rounding=rounding, random_bits=bits))
    assert (found.rounding, found.random.random_bits) == (rounding, str(bits))
    assert found.random.evidence == "by the fractions at which fixed draws change"
    assert found.differences == ()


def test_fixed_draws_with_more_bits_than_their_fractions_show():
    for options in ({"random_bits": 64}, {"rounding": "stochastic_exact"}):
        found = fingerprint(fixed(**options))
        words, least = found.random.random_bits.rsplit(" ", 1)
        assert (found.rounding, words) == (ALL, "at least") and 30 <= int(least) <= 40


def test_both_neighbours_equally_likely():
    found = fingerprint(stochastic(rounding="stochastic_equal", random_bits=8))
    assert (found.rounding, found.random.random_bits) == ("stochastic_equal", "any")
    assert found.differences == ()


@pytest.mark.parametrize("bits", [1, 3, 6])
def test_the_bias_is_that_of_the_rule(bits):
    random = fingerprint(stochastic(random_bits=bits)).random
    # floor(eta 2^N) / 2^N is half a step of 2^-N too small on average; 20 mantissa bits follow.
    bias = -0.5 * (2.0**-bits - 2.0**-20)
    assert random.bias_low < bias < random.bias_high < 0
    random = fingerprint(stochastic(rounding="stochastic_b", random_bits=bits)).random
    assert random.bias_low < 0 < random.bias_high and random.bias_high - random.bias_low < 0.004


def test_frequencies_are_those_of_the_exact_probability():
    for bits in (3, 9):
        random = fingerprint(stochastic(random_bits=bits)).random
        assert len(random.fractions) >= 12
        for eta, draws, up in random.fractions:
            p = np.floor(eta * 2**bits) / 2**bits
            assert abs(up / draws - p) <= 5 * np.sqrt(p * (1 - p) / draws)
        assert all(abs(tie - 0.5) < 0.01 for tie in random.ties)


@pytest.mark.parametrize(
    ("probability", "tie", "bias"),
    [
        (lambda eta, low, x: np.where(eta > 0, np.minimum(eta + 0.02, 1), 0), 0.52, 0.0198),
        (lambda eta, low, x: eta * eta, 0.25, -1 / 6),
        (lambda eta, low, x: np.where(eta == 0.5, low % 2, eta), 0.0, 0.0),
    ],
    ids=["biased by 0.02", "squared", "ties to even"],
)
def test_wrong_probabilities(probability, tie, bias):
    found = fingerprint(e4m3(probability))
    assert (found.format, found.rounding) == ("e4m3", "random, by no stochastic rounding")
    assert (found.random.rounding, found.random.random_bits) == ("none", "unknown")
    assert abs(found.random.ties[0] - tie) < 0.01
    assert found.random.bias_low < bias < found.random.bias_high
    assert found.differing == 0  # every result is a neighbour
    assert len(found.differences) == 1
    assert found.differences[0].startswith("P(up): no stochastic rounding; closest to stochastic")


def test_ties_of_their_own_show_the_parity():
    found = fingerprint(e4m3(lambda eta, low, x: np.where(eta == 0.5, low % 2, eta)))
    assert found.random.ties == (0.0, 1.0)


def test_the_reference_of_the_wrong_casts_is_right():
    for cast, name in ((e4m3(proportional), "e4m3"), (bf16(), "bf16")):
        found = fingerprint(cast)
        assert (found.format, found.rounding, found.differences) == (name, ALL, ())
        assert found.random.bias_low < 0 < found.random.bias_high


def test_random_bits_in_the_upper_half_alone():
    found = fingerprint(bf16(noise=0xFF, shift=8))
    assert (found.rounding, found.random.random_bits) == ("stochastic", "8")
    assert found.differences == ()


@pytest.mark.parametrize("noise", [0xFBFF, 0x7FFF, 0xFF], ids=["a hole", "a bit short", "low"])
def test_random_bits_that_are_masked_away(noise):
    found = fingerprint(bf16(noise=noise))
    assert (found.format, found.rounding) == ("bf16", "random, by no stochastic rounding")
    assert found.differences[0].startswith("P(up): no stochastic rounding")
    assert found.random.bias_high < 0


def test_few_random_bits_of_negative_numbers_alone():
    few = e4m3(lambda eta, low, x: np.where(x < 0, np.floor(eta * 16) / 16, eta))
    found = fingerprint(few)
    assert found.rounding == ALL  # of positive numbers
    assert len(found.differences) == 1
    assert "negative numbers above an even significand" in found.differences[0]
    assert "at eta = 0.300781, not 0.3008" in found.differences[0]


def test_a_mask_that_keeps_a_bit_too_many():
    found = fingerprint(bf16(mask=0xFFFF8000))
    assert (found.format, found.rounding) == (
        "unknown",
        "random, not between the values of one format",
    )
    assert found.preset.startswith("bf16, ") and found.random is None
    assert found.differences[0].startswith("not a value of the format at ")
    assert "a tie " in found.differences[0] and found.differing > found.probes // 3


def test_a_dropped_sign_and_a_lost_nan_are_both_listed():
    broken = bf16(nan=False)

    def cast(x):
        y = broken(x)
        return np.where(np.abs(x) < 1, np.abs(y), y)

    found = fingerprint(cast)
    assert (found.format, found.rounding) == ("bf16", ALL)
    kinds = [words.split(" at ")[0] for words in found.differences]
    assert kinds == ["the other sign", "the other zero", "no NaN"]
    assert "all negative" in found.differences[0] and "a tie " in found.differences[0]
    assert found.first.startswith("0x7f800001 (nan) gives inf")


def test_every_kind_of_difference_of_a_deterministic_cast_is_listed():
    def cast(x):
        y = apscope.quantize(x, "e4m3")
        y = np.where(np.abs(x) == 3.125, np.copysign(3.25, x), y)  # a tie, to the odd neighbour
        y = np.where(x == -5, 5, y)
        y = np.where(np.isnan(x), 0, y)
        y = np.where(x == 17, 17, y)
        return np.where(x == 2.0**-9, 0, y)

    found = fingerprint(cast)
    assert found.preset == "e4m3, ties_to_even, overflow ieee"
    kinds = {words.split(" at ")[0]: words for words in found.differences}
    assert list(kinds)[0] == "no NaN"
    assert set(kinds) == {
        "no NaN", "the other neighbour", "the other sign", "not a value of the format", "zero",
    }  # fmt: skip
    assert kinds["the other neighbour"].startswith("the other neighbour at 2 probes (a tie 2 of ")
    assert kinds["the other neighbour"].endswith("; 0x40480000 (3.125) gives 3.25, the preset 3")
    assert kinds["the other sign"].startswith(
        "the other sign at 1 probe, all negative (a value of the format 1 of "
    )
    assert kinds["the other sign"].endswith("; 0xc0a00000 (-5) gives 5, the preset -5")
    assert kinds["zero"].endswith("; 0x3b000000 (0.001953125) gives 0, the preset 0.001953125")
    assert found.differing == sum(
        int(words.split(" at ")[1].split(" probe")[0].replace(",", ""))
        for words in found.differences
    )


@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
@pytest.mark.parametrize("name", ["e4m3", "e4m3fn", "bf16", "e3m0", "e2m1fn", "e4m3b9"])
def test_the_results_allowed_are_those_that_occur(name, overflow):
    f = apscope.FloatFormat(name)
    x = apscope.conformance.inputs_of(f).view(np.float32)
    rights = allowed(x, f, "stochastic", overflow)
    occurred = [np.zeros(x.shape, bool), np.zeros(x.shape, bool)]
    for seed in range(64):
        y = apscope.quantize(x, f, rounding="stochastic_equal", overflow=overflow, seed=seed)
        y = y.astype(np.float64)
        hits = [same(y, right) for right in rights]
        assert (hits[0] | hits[1]).all()
        occurred = [a | b for a, b in zip(occurred, hits, strict=True)]
    assert occurred[0].all() and occurred[1].all()
    assert differences(x, rights[0], rights, f) == ()


def test_what_changes_from_call_to_call_without_rounding_at_random():
    calls = itertools.count()

    def cast(x):
        y = apscope.quantize(x, "e4m3")
        return np.where(x == 1, 1 + next(calls), y)

    found = fingerprint(cast)
    assert found.rounding.startswith("not deterministic (1 of ") and found.random is None
    noise = np.random.default_rng(1)
    found = fingerprint(lambda x: np.sin(x) + noise.random(x.shape))
    assert (found.format, found.rounding) == (
        "unknown",
        "random, not between the values of one format",
    )


def test_the_words_and_the_object(tmp_path, capsys, monkeypatch):
    (tmp_path / "random_casts.py").write_text(
        "import apscope, itertools\nseeds = itertools.count()\n"
        "def eight(x):\n"
        "    return apscope.quantize(\n"
        "        x, 'e5m2', rounding='stochastic', random_bits=8, seed=next(seeds))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["fingerprint", "random_casts:eight"]) == 0
    out = capsys.readouterr().out
    for line in ("rounding     stochastic\n", "random bits  8 (by frequencies)\n"):
        assert line in out
    for label in ("probability  up at ", "ties         up with ", "bias         -0.00"):
        assert label in out
    assert main(["fingerprint", "random_casts:eight", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["random"]["random_bits"] == "8" and printed["differences"] == []
