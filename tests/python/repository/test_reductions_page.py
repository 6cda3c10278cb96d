"""The sentences of docs/reductions.md are the numbers of its tables."""

import pytest

from docs.tools import page, reductions

PROSE = " ".join((page.DOCS / "reductions.md").read_text().split())


@pytest.fixture(scope="module")
def found():
    """The NMSE of a step by trace, format and elements that share a scale, in two phases."""
    names = ("e5m2", "e4m3fn", "e3m4", "e2m5finite")
    specs = {
        (name, unit): reductions.canonical(f"aps:{name},rule=tight{key}")
        for name in names
        for unit, key in reductions.UNITS.items()
    }
    table = reductions.errors(
        reductions.TRACES, list(specs.values()), topology=["ring", "two_phase"]
    )
    return {
        place: table.xs((spec, "two_phase"), level=("scheme", "topology"))[reductions.RANKS]
        for place, spec in specs.items()
    }, table


def test_what_it_says_of_scales(found):
    errors, _ = found

    def gain(name, unit):
        return errors[name, "layer"] / errors[name, unit]

    for name in ("e5m2", "e4m3fn"):
        assert all(gain(name, unit).max() < 1.005 for unit in ("row", "1,024", "32"))
    three = gain("e3m4", "32")
    assert three.drop("gpt").max() < 1.05
    assert f"where a finer one is worth a factor of {three['gpt']:.1f}." in PROSE
    row, block = gain("e2m5finite", "row"), gain("e2m5finite", "32")
    assert (
        f"With two a row's scale is worth a factor of {row.min():.1f} to {row.max():.0f}, one for "
        f"32 elements of {block.min():.1f} to {block.max():.0f}." in PROSE
    )


def test_what_it_says_of_bytes(found):
    """Two phases send what a ring does, but for the scales of 64 shards of small layers."""
    _, table = found
    volume = table.xs(reductions.canonical("aps:e3m4,rule=tight"), level="scheme")[
        "volume"
    ].unstack()
    more = volume["two_phase"] / volume["ring"]
    assert more.drop("digits_w64").max() < 1.05 and 1.07 < more["digits_w64"] < 1.13
    assert "a tenth more on `digits_w64` with a layer's scale" in PROSE
