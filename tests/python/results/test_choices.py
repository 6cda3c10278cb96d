"""What each choice is worth: one choice of the best scheme changed, everything else equal."""

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._charts.choices import choices_chart
from apscope._report import shown_schemes
from apscope._results.choices import CHOICES, choices_of, worth
from apscope._results.summary import ranked
from apscope._schemes.titles import room
from tests.python.altered import altered
from tests.python.results.test_winners import row

SCHEMES = [
    "none:fp32",
    *(f"aps:{f},rule=tight{unit}" for f in ("e4m3fn", "e3m4") for unit in ("", ",unit=32")),
    "loss_scaling:e3m4,scale=largest,rule=tight",
    "aps:e3m4",
    "mx",
    "mx:block_format=mxint8",
    "aps:e2m1fn,rule=tight,unit=16",
    "aps:e2m1fn,rule=tight,unit=16,headroom=sqrt_workers,overflow=saturate",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(request):
    return apscope.replay(
        request.config.rootpath / "notebooks/data/characters",
        SCHEMES,
        topology=["ring", "two_phase"],
    )


@pytest.fixture(scope="module")
def table(results):
    return worth(ranked(results), shown_schemes.bits_of(results.frame))


def test_a_choice_is_read_from_the_spec():
    one = choices_of("aps:e3m4,rule=tight,unit=32", "two_phase")
    assert one[:4] == ("two_phase", "e3m4", "32", "")
    layer = choices_of("aps:e3m4,rule=tight", "ring")
    steps = choices_of("loss_scaling:e3m4,scale=largest,rule=tight", "ring")
    assert layer.scale == "tensor" and steps.scale == "largest"
    assert one.rest == layer.rest == steps.rest
    # Another rule or rounding, a delay, a constant that clips: more than the scale differs.
    for other in (
        "aps:e3m4",
        "aps:e3m4,rule=tight,rounding=stochastic",
        "aps:e3m4,rule=tight,unit=model,delay=1",
        "loss_scaling:e3m4,scale=best,overflow=saturate",
        "stochastic:e3m4",
    ):
        assert choices_of(other, "ring").rest != one.rest, other
    assert choices_of("mx:block_format=mxint8", "gather")[:3] == ("gather", "mxint8", "")
    assert choices_of("hybrid(last=none:fp16;else=aps:e4m3)", "ring") is None
    assert choices_of("of another process(1)", "ring") is None


def test_the_factors_are_those_of_the_summary(results, table):
    rows = results.summary().set_index(["scheme", "topology"])
    assert set(table["choice"]) == {*CHOICES} - {"room"} and len(table) == 6
    for one in table.to_dict("records"):
        best = rows.loc[(one["scheme"], one["topology"])]
        other = rows.loc[(one["other_scheme"], one["other_topology"])]
        assert (one["error"], one["volume"]) == (best.step_nmse, best.volume)
        assert (one["other_error"], one["other_volume"]) == (other.step_nmse, other.volume)
        assert one["factor"] == other.step_nmse / best.step_nmse
        a, b = (choices_of(one[f"{side}scheme"], one[f"{side}topology"]) for side in ("", "other_"))
        differ = [n for n in a._fields if getattr(a, n) != getattr(b, n)]
        assert differ[0] == one["choice"] and differ[1:] == ["room"] * (a.room != b.room)
        assert a.room == b.room or not (a.room and b.room)


def test_the_best_is_that_with_both_reductions(table):
    """Not MXINT8, which loses less and has no ring: its gather sends four times as much."""
    eight = table[table["bits"] == 8]
    assert set(eight["scheme"]) == {"aps:e3m4,rule=tight,unit=32"}
    assert eight[["choice", "of", "other"]].to_numpy().tolist() == [
        ["reduction", "two_phase", "ring"],
        ["format", "e3m4", "e4m3fn"],
        ["scale", "32", "tensor"],
        ["scale", "32", "largest"],
    ]
    assert (eight["factor"] > 1).all() and eight["factor"].iloc[0] > 2
    names = [bar.name for bar in choices_chart(eight, "step NMSE").groups[0][1]]
    assert names[0] == "ring, room for W, not two phases"
    assert names[-1] == "a scale for all steps, room for W, not 32 elements"
    four = table[table["bits"] == 4]
    assert four[["choice", "other", "room", "other_room"]].to_numpy().tolist() == [
        ["reduction", "ring", "", "headroom=sqrt_workers,overflow=saturate"],
        ["reduction", "ring", "", "headroom=workers,overflow=ieee"],
    ]
    assert (np.diff(four["factor"]) > 0).all()  # the best ring first
    assert "headroom" not in four["scheme"].iloc[0]  # of equal schemes that which was asked first


def test_the_room_of_a_ring_is_a_choice_within_it(results):
    frame = results.frame
    alone = altered(results, frame[frame["topology"].isin(["", "exact", "ring"])])
    found = worth(ranked(alone), shown_schemes.bits_of(alone.frame))
    (four,) = found[found["bits"] == 4].to_dict("records")
    assert (four["choice"], four["of"], four["other"]) == (
        "room",
        "headroom=sqrt_workers,overflow=saturate",
        "headroom=workers,overflow=ieee",
    )
    (bar,) = [
        b
        for heading, group in choices_chart(found, "step NMSE").groups
        for b in group
        if heading == "4 bits: ring, room for √W"
    ]
    assert bar.name == "room for W, not room for √W" and bar.factor == four["factor"] > 1


def test_a_room_that_changes_nothing_is_left_out(request):
    one = apscope.replay(
        request.config.rootpath / "notebooks/data/digits",
        SCHEMES,
        workers=1,
        steps="0:3",
        topology=["ring", "two_phase"],
    )
    assert "room" not in set(worth(ranked(one), shown_schemes.bits_of(one.frame))["choice"])


def test_rooms_that_overflow_are_two_choices():
    rooms = {
        choices_of(f"aps:e2m1fn,rule=tight,headroom=one{keys}", "ring").room
        for keys in ("", ",overflow=saturate")
    }
    assert {room(keys) for keys in rooms} == {"room for one", "room for one, overflow=ieee"}
    # One scale for a step leaves room in two phases, too.
    assert choices_of("aps:e2m1fn,rule=tight,unit=model", "two_phase").room
    assert not choices_of("stochastic:e3m4", "gather").room


def test_without_two_reductions_the_best_with_another_row_stands(results):
    frame = results.frame
    alone = altered(results, frame[frame["topology"].isin(["", "exact", "ring"])])
    found = worth(ranked(alone), shown_schemes.bits_of(alone.frame))
    assert set(found["choice"]) == {"format", "scale", "room"}
    assert set(found["topology"]) == {"ring"}
    only = ranked(alone)[lambda t: t["scheme"].isin(["none:fp32", "aps:e3m4"])]
    assert not len(worth(only, shown_schemes.bits_of(alone.frame)))


def test_an_overflow_is_an_infinite_factor_and_never_the_best():
    rows = pd.DataFrame([
        row("aps:e3m4", "ring", 0.25, 1e-5, overflowed=2), row("aps:e3m4", "two_phase", 0.25, 0.01),
        row("aps:e5m2", "two_phase", 0.25, np.nan),
    ]).assign(family="APS")  # fmt: skip
    (one,) = worth(rows, dict.fromkeys(rows["scheme"], 8)).to_dict("records")
    assert (one["topology"], one["other_topology"], one["factor"]) == (
        "two_phase",
        "ring",
        np.inf,
    )
