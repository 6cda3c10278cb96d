"""The searched splits: omitted ones have no values of their own, or cannot win."""

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope import FloatFormat
from apscope._search.splits import (
    SPECIALS,
    Reach,
    nearest_named,
    reach_of,
    schemes_for,
    splits_of,
)

SCHEMES = schemes_for(8)
REACH = Reach(above=4, amax=0, middle=-8, smallest=-40)


def values(f: FloatFormat) -> np.ndarray:
    """The finite magnitudes, ascending."""
    codes = apscope.decode(np.arange(2**f.storage_bits, dtype=np.uint16), f).astype(np.float64)
    return np.unique(np.abs(codes[np.isfinite(codes)]))


def biased(bits: int, kind: str, reach: Reach = REACH) -> dict[int, list[FloatFormat]]:
    """The formats of `none:{biased}`, by exponent bits."""
    found: dict[int, list[FloatFormat]] = {}
    for split in splits_of(bits, ["none:{biased}"], [kind], reach):
        found.setdefault(split.format.exponent_bits, []).append(split.format)
    return found


@pytest.mark.parametrize("bits", range(3, 17))
def test_every_number_of_exponent_bits_and_kind_is_there_once(bits):
    splits = splits_of(bits, ["aps:{format},rule=tight"], None, REACH)
    assert len({s.scheme.spec for s in splits}) == len(splits)
    assert {s.format.storage_bits for s in splits} == {bits} and all(
        s.format.fits_fp32 and s.format.is_signed for s in splits
    )
    for width in range(1, min(8, bits - 1) + 1):
        lost = {
            s.format.nan_codes + s.format.has_infinity
            for s in splits
            if s.format.exponent_bits == width and s.format.subnormals
        }
        assert lost >= {0, 1, min(2 ** (bits - 1 - width), 2 ** (bits - 1) - 2)}, width
    named = {
        f.name for f in apscope.named_formats().values() if f.is_signed and f.storage_bits == bits
    }
    assert [s.format.name for s in splits[: len(named)]] == [
        n for n in apscope.named_formats() if n in named
    ]


def test_formats_left_out_have_the_values_of_formats_that_are_there():
    for bits in (4, 8):
        assert same_up_to_a_scale(f"e0m{bits - 1}finite", f"e1m{bits - 2}finite")
    for width in range(1, 7):
        assert same_up_to_a_scale(f"e{width}m{7 - width}fnuz", f"e{width}m{7 - width}finite")
    assert same_up_to_a_scale("binary8p4se", "e4m3fn") and same_up_to_a_scale(
        "binary8p3se", "e5m2fn"
    )


def same_up_to_a_scale(one: str, other: str) -> bool:
    a, b = values(FloatFormat(one)), values(FloatFormat(other))
    return len(a) == len(b) and (a * (b[1] / a[1]) == b).all()


@pytest.mark.parametrize("kind", SPECIALS)
def test_a_smaller_bias_has_no_value_in_reach_that_the_first_has_not(kind):
    for formats in biased(8, kind).values():
        first = formats[0]
        reached = values(moved(first, -1))
        assert np.isin(reached[reached < 2.0**REACH.above], values(first)).all()
        assert first.largest >= 2.0**REACH.above or (
            first.mantissa_bits == 0 and first.largest == 2.0**REACH.above
        )
        assert [f.bias for f in formats] == list(range(first.bias, first.bias + len(formats)))


def moved(f: FloatFormat, by: int) -> FloatFormat:
    return FloatFormat(
        **(f.to_dict() | {"bias": f.bias + by, "subnormal_exponent": 1 - f.bias - by})
    )


@pytest.fixture(scope="module")
def digits(request):
    return apscope.open_trace(request.config.rootpath / "notebooks/data/digits")


@pytest.mark.parametrize("kind", SPECIALS)
def test_a_larger_bias_overflows_saturates_most_or_changes_nothing(digits, kind):
    reach = reach_of(
        apscope.replay(digits, "none:fp32", topology=[]).histograms, digits.workers, by_layer=False
    )
    lists = biased(6, kind, reach)
    pairs = [(formats[-1], moved(formats[-1], 1)) for formats in lists.values()]
    frame = apscope.replay(
        digits, [f"none:{f}" for pair in pairs for f in pair], topology="ring"
    ).frame
    for pair in pairs:
        last, beyond = (frame[frame["scheme"] == f"none:{f}"] for f in pair)
        wire = beyond[beyond["stage"] == "wire"]
        if pair[0].emin <= reach.smallest:
            same = ["sum_squared_error", "sum_error", "underflow"]
            pd.testing.assert_frame_equal(
                last[same].reset_index(drop=True),
                beyond[same].reset_index(drop=True),
                check_exact=True,
            )
        elif kind == "finite":
            assert 2 * (wire["saturated"].sum()) >= wire["nonzero"].sum()
        else:
            assert wire["overflow"].sum() > 0


def test_wide_formats_have_one_bias():
    assert [f.name for f in biased(16, "ieee")[8]] == ["bf16"]
    # That fp32 has their values.
    assert [f.bias for kind in ("fn", "finite") for f in biased(16, kind)[8]] == [128, 128]


def test_layers_told_apart_reach_further_down(digits):
    histograms = pd.DataFrame(
        {
            "tensor": ["a", "a", "a", "b", "b", "c"],
            "kind": ["finite"] * 5 + ["zero"],
            "exponent": [0, -3, -9, -20, -22, None],
            "count": [1, 5, 6, 7, 6, 9],
        }
    )
    assert reach_of(histograms, 8, by_layer=False) == Reach(
        above=4, amax=0, middle=-20, smallest=-22
    )
    assert reach_of(histograms, 5, by_layer=True) == Reach(
        above=4, amax=-20, middle=-20, smallest=-22
    )
    with pytest.raises(ValueError, match="zero wherever"):
        reach_of(histograms[5:], 8, by_layer=False)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("e4m3fn", "e4m3fn"),
        ("e3m4finite", "e3m4fn"),
        ("e3m4finiteb9", "e3m4fn"),
        ("e4m3finiteb11", "e4m3b11fnuz"),
        ("e4m3b9", "e4m3"),
        ("e2m5", "e3m4"),
        ("e5m2finite", "e5m2fnuz"),
        ("e2m1finiteb3", "binary4p2sf"),
        ("e8m7finiteb128", "bf16"),
        ("e3m3", "e3m4"),
        ("e4m3nosub", "hfp8_forward"),
    ],
)
def test_the_nearest_named_format(name, nearest):
    assert nearest_named(FloatFormat(name)).name == nearest


@pytest.mark.parametrize(
    ("bits", "schemes", "specials", "sentence"),
    [
        (2, SCHEMES, None, "bits=2 is not between 3 and 16"),
        (17, SCHEMES, None, "bits=17 is not between 3 and 16"),
        (
            8,
            ["aps:e4m3"],
            None,
            "the scheme 'aps:e4m3' must have {format} in place of "
            "its format, or {biased} for every bias",
        ),
        (
            8,
            ["aps:{format}{biased}"],
            None,
            "the scheme 'aps:{format}{biased}' must have {format} in place of its format, or "
            "{biased} for every bias",
        ),
        (8, [], None, "there is no scheme to search; give at least one, such as 'aps:{format}'"),
        (8, SCHEMES, ["fnuz"], "unknown special values 'fnuz'; use ieee, fn, finite"),
        (
            8,
            SCHEMES,
            [],
            "there are no special values to search; give at least one of ieee, fn, finite",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused(bits, schemes, specials, sentence):
    with pytest.raises(ValueError) as error:
        splits_of(bits, schemes, specials, REACH)
    assert str(error.value) == sentence
