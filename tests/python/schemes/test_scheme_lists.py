"""The lists of schemes ``main`` and ``all``."""

import pytest

import apscope
from apscope import schemes
from apscope._results.ranking import BLOCK_FORMATS
from apscope.schemes import all_schemes

BASELINES = ["none:fp32", "none:bf16", "none:fp16"]


def test_main_has_the_baselines_blocks_and_the_rivals_at_five_exponent_widths():
    specs = [s.spec for s in apscope.schemes.main_schemes()]
    assert specs[:3] == BASELINES and len(specs) == len(set(specs)) == 43
    # Hardware's first: blocks of 8 and of 4 bits, then one scale for more.
    assert specs[3:9] == [
        "mx",
        "mx:block_format=mxint8",
        "mx:block_format=mxfp4",
        "nvfp4",
        "nvfp4:rounding=ties_to_even,rht=false",
        "mx:block_format=bfp:4:32",
    ]
    assert set(BLOCK_FORMATS) < set(specs)
    assert specs.index("aps:e5m2") < specs.index("aps:e4m3fn") < specs.index("aps:e3m4")
    for f in ("e5m2", "e4m3fn", "e3m4"):
        assert {f"none:{f}", f"loss_scaling:{f},scale=largest", f"aps:{f}"} < set(specs)
        assert f == "e5m2" or f"stochastic:{f}" in specs
    # Blocks and layers, at 8 and at 4 bits: formats of both that differ in nothing else.
    for f, unit in (
        ("e4m3fn", 32),
        ("e3m4", 32),
        ("e2m5finite", 32),
        ("e2m1fn", 16),
        ("e3m0noinf", 16),
    ):
        finest = f"aps:{f},rule=tight,unit={unit}"
        assert {f"aps:{f},rule=tight", finest} < set(specs)
        # In a ring, too, with the room that is best for few exponent bits.
        keys = f"rule=tight,unit={unit},overflow=saturate"
        less = f"aps:{f},headroom=sqrt_workers,{keys}"
        assert (less in specs) == (f != "e4m3fn")
    for f in ("e4m3fn", "e3m4"):  # rungs of the ladder that differ in nothing but the scale
        assert {
            f"loss_scaling:{f},scale=largest,rule=tight",
            f"aps:{f},rule=tight,unit=model",
            f"aps:{f},rule=tight",
        } < set(specs)
    assert {
        apscope.FloatFormat(s.format).exponent_bits
        for s in apscope.schemes.main_schemes()
        if s.format
    } == {8, 5, 4, 3, 2}
    assert {s.family for s in apscope.schemes.main_schemes()} == {
        "baseline",
        "unscaled",
        "loss scaling",
        "APS",
        "stochastic",
        "recipe",
    }
    assert {"qsgd", "qsgd:levels=127", "dynamic_loss_scaling:e5m2"} < set(specs)
    best = "loss_scaling:e3m4,scale=best,overflow=saturate"
    assert [s for s in specs if "best" in s] == [best]
    # A block has the elements of the hardware's formats of as many bits, and no list has another.
    units = {
        (apscope.FloatFormat(s.format).storage_bits, int(s.keys["unit"]))
        for s in apscope.schemes.main_schemes()
        if s.keys.get("unit", "").isdigit()
    }
    assert units == {(8, 32), (4, 16)}


def test_all_begins_with_main_and_has_every_scheme_of_the_registry():
    specs = [s.spec for s in all_schemes()]
    assert specs[: len(apscope.schemes.main_schemes())] == [
        s.spec for s in apscope.schemes.main_schemes()
    ] and len(specs) == len(set(specs))
    named = {s.name for s in all_schemes()}
    assert named == {d.name for d in schemes.definitions()}


@pytest.mark.parametrize(
    "given", [None, "main", ["main"], ["main", "aps:e3m4"], ["all"], ["aps:e3m4", "main"]]
)
def test_a_replay_takes_the_lists_by_name(request, given):
    digits = request.config.rootpath / "notebooks/data/digits"
    found = apscope.replay(digits, given, steps="0:1", topology="ring").provenance["schemes"]
    wanted = [
        s.spec for s in (all_schemes() if given == ["all"] else apscope.schemes.main_schemes())
    ]
    assert found == (
        ["aps:e3m4", *(s for s in wanted if s != "aps:e3m4")]
        if given and given[0] == "aps:e3m4"
        else wanted
    )


def test_nothing_is_added_to_schemes_that_were_asked_for(digits):
    results = apscope.replay(digits, ["aps:e4m3"], steps="0:1", topology="ring")
    assert results.provenance["schemes"] == ["aps:e4m3"]
    assert set(results.frame.scheme) == {"aps:e4m3"}


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("mian", "unknown scheme 'mian'; did you mean main?"),
        ("al", "unknown scheme 'al'; did you mean all?"),
    ],
)
def test_a_misspelt_list_gets_a_hint(request, given, hint):
    with pytest.raises(ValueError, match=hint):
        apscope.replay(request.config.rootpath / "notebooks/data/digits", given)
