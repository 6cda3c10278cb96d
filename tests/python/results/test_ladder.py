"""The ladder of scales: rungs against replays of single steps, factors, and differences of
schemes."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import apscope
from apscope._replay.ladder import RUNGS, ladder_schemes
from apscope._results.differences import Sent, cause, chain, decompose, differences, sides_differ
from apscope._results.ranking import RANKS
from apscope.cli import main
from apscope.schemes import Scheme


@pytest.fixture(scope="module")
def digits(request):
    return apscope.open_trace(request.config.rootpath / "notebooks/data/digits")


@pytest.fixture(scope="module")
def table(digits):
    return apscope.ladder(digits, ["e4m3", "e3m4", "e2m5"], topology="ring").set_index(
        ["format", "rung"]
    )


A_LAYER, A_CONSTANT = "aps:e3m4,rule=tight", "loss_scaling:e3m4,scale=largest,rule=tight"
#: Error over noise of `digits` as another programme measured it, to two digits.
MEASURED = {
    "e4m3": {
        "largest constant": 0.0055,
        "step": 0.0051,
        "layer": 0.0051,
        "1024": 0.0051,
        "32": 0.0051,
    },
    "e3m4": {
        "largest constant": 0.0187,
        "step": 0.0057,
        "layer": 0.0036,
        "1024": 0.0034,
        "32": 0.0016,
    },
    "e2m5": {"largest constant": 0.35, "step": 0.158, "layer": 0.077, "1024": 0.069, "32": 0.014},
}


def test_the_ladder_is_what_was_measured_elsewhere(table):
    for name, rungs in MEASURED.items():
        for rung, value in rungs.items():
            assert table.at[(name, rung), "error_over_noise"] == pytest.approx(value, rel=0.03)


def test_a_scale_a_step_is_each_step_replayed_alone(digits, table):
    """`scale=largest` of a single step is that step's largest scale that fits."""
    logs = []
    for step in digits.steps:
        rows = apscope.replay(
            digits, ["loss_scaling:e3m4,scale=largest,rule=tight"], topology=["ring"], steps=[step]
        ).frame
        rows = rows[rows["topology"] == "ring"]
        logs.append((rows["sum_log2_error_over_noise"].sum(), rows["noise_blocks"].sum()))
    total, blocks = np.sum(logs, axis=0)
    assert table.at[("e3m4", "step"), "error_over_noise"] == pytest.approx(
        2 ** (total / blocks), rel=1e-12
    )


def test_factors_are_quotients_and_intervals_hold_them(table):
    row, coarse = table.loc[("e3m4", "layer")], table.loc[("e3m4", "step")]
    assert row["finer_than"] == "step"
    assert row["factor"] == pytest.approx(coarse["step_nmse"] / row["step_nmse"], rel=1e-9)
    assert row["factor_low"] < row["factor"] < row["factor_high"]
    assert table.at[("e4m3", "layer"), "factor"] == pytest.approx(1, abs=0.01)
    assert math.isnan(table.at[("e3m4", "largest constant"), "factor"])


def test_every_rung_pays_for_its_scales(table):
    """Side information of 8 bits per scale, agreed in a separate ring."""
    n, layers = 1906, 6
    e3m4 = table.loc["e3m4"]["volume"]
    for rung, scales in (("step", 1), ("layer", layers), ("32", 62)):
        assert e3m4[rung] - 0.25 == pytest.approx(scales / (4 * n), abs=2e-4)
    assert e3m4["largest constant"] == 0.25 and e3m4["32"] > e3m4["1024"] > e3m4["layer"]


#: The same of `digits_w64`, both reductions, from a script that casts, adds and casts in NumPy.
IN_BOTH = {
    ("e4m3fn", "layer"): (0.0141, 0.00185),
    ("e3m4", "layer"): (0.142, 0.000504),
    ("e3m4", "32"): (None, 0.00047),
    ("e2m5", "layer"): (1.27, 0.000973),
    ("e2m5", "32"): (None, 0.000236),
    ("e3m0", "layer"): (1.54, None),
    ("e2m1fn", "16"): (None, 0.035),
}


@pytest.fixture(scope="module")
def both(request):
    """The ladder of 64 workers in a ring and in two phases, by default."""
    trace = apscope.open_trace(request.config.rootpath / "notebooks/data/digits_w64")
    return apscope.ladder(trace, ["e4m3fn", "e3m4", "e2m5", "e2m1fn", "e3m0"])


def test_the_reduction_is_the_first_dimension(both):
    assert list(dict.fromkeys(both["topology"])) == ["ring", "two_phase"]
    rows = both.set_index(["topology", "format", "rung"])
    for (name, rung), pair in IN_BOTH.items():
        for reduction, value in zip(("ring", "two_phase"), pair):
            if value is not None:
                found = rows.at[(reduction, name, rung), "error_over_noise"]
                assert found == pytest.approx(value, rel=0.05), (reduction, name, rung)


def test_factors_of_a_reduction_and_a_format_change_nothing_else(both):
    rows = both.set_index(["topology", "format", "rung"]).sort_index()
    error = rows["step_nmse"]
    phased = rows.loc["two_phase"]
    assert (phased["other_reduction"] == "ring").all() and len(phased) >= 25
    assert phased.loc[phased["gaps"] > 0, "reduction_factor"].isna().all()
    phased = phased[phased["gaps"] == 0]
    for (name, rung), row in phased.iterrows():
        assert row["reduction_factor"] == pytest.approx(
            error["ring", name, rung] / error["two_phase", name, rung], rel=1e-9
        )
        first = {"e4m3fn": "", "e3m4": "e4m3fn", "e2m5": "e4m3fn", "e2m1fn": "", "e3m0": "e2m1fn"}
        assert row["other_format"] == first[name]
        assert math.isnan(row["format_factor"]) == (first[name] == "")
        if first[name]:
            assert row["format_factor"] == pytest.approx(
                error["two_phase", first[name], rung] / error["two_phase", name, rung], rel=1e-9
            )
    assert rows.loc["ring", "reduction_factor"].isna().all()
    # More than the format and the scale buy, with 64 workers.
    layer = phased.loc[("e3m4", "layer")]
    assert layer["reduction_factor"] > 100 > layer["format_factor"] > 1
    assert (phased.loc[(slice(None), "32"), "factor"] < 10).all()


def test_reductions_that_are_asked_for(both, request, capsys):
    path = str(request.config.rootpath / "notebooks/data/digits_w64")
    one = apscope.ladder(apscope.open_trace(path), ["e3m4"], topology=["two_phase"])
    held = both[(both["topology"] == "two_phase") & (both["format"] == "e3m4")]
    for name in ("error_over_noise", "volume", "factor", "factor_low"):
        np.testing.assert_array_equal(one[name], held[name])
    assert one["reduction_factor"].isna().all()
    with pytest.raises(ValueError, match="there is no topology to make a ladder of"):
        apscope.ladder(apscope.open_trace(path), ["e3m4"], topology=[])
    words = ["ladder", path, "--formats", "e3m4", "--topology", "two_phase", "--topology", "tree"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "digits_w64: step NMSE / typical error over the noise of the batch, tree" in out
    assert "the reduction, two_phase -> tree; scales of a layer and finer then leave room" in out
    assert "the scale, two_phase; step -> layer also drops the room for the sum" in out


def test_the_table_says_the_reduction_first_then_the_format_then_the_scale(request, capsys):
    path = str(request.config.rootpath / "notebooks/data/digits_w64")
    assert main(["ladder", path, "--formats", "e4m3fn,e3m4"]) == 0
    out = capsys.readouterr().out
    places = [
        out.index(text)
        for text in (
            "noise of the batch, ring, 6 steps",
            "noise of the batch, two_phase, 6 steps",
            "the reduction, ring -> two_phase; scales of a layer and finer then leave no room",
            "the format, two_phase, from the first of as many bits",
            "e4m3fn -> e3m4",
            "the scale, two_phase",
            "1024 -> 32",
        )
    ]
    assert places == sorted(places)


def test_a_format_and_a_rule_are_checked():
    with pytest.raises(ValueError, match="unknown rule 'loose'; use one of tight, ceil"):
        ladder_schemes(["e3m4"], "loose")
    with pytest.raises(ValueError, match="e9m9"):
        ladder_schemes(["e9m9"])
    with pytest.raises(ValueError, match="no format"):
        ladder_schemes([])
    rungs = [rung.name for rung in RUNGS]
    four, eight = ([rung for _, rung in ladder_schemes(f)] for f in ("e2m1fn", "e3m4"))
    assert four == [r for r in rungs if r != "32, √W"] and four[-2:] == ["16", "16, √W"]
    assert eight == [r for r in rungs if not r.startswith("16")] and eight[-1] == "32, √W"


def test_the_room_of_a_ring_is_a_rung_that_two_phases_do_not_read(digits):
    """With two exponent bits room for √W gains; the reduction's factor is then the best ring's."""
    found = apscope.ladder(digits, ["e2m1fn"]).set_index(["topology", "rung"])
    finest, less = (found.xs(rung, level="rung") for rung in ("16", "16, √W"))
    assert less["finer_than"].eq("16").all()
    gain = finest.at["ring", RANKS] / less.at["ring", RANKS]
    assert less.at["ring", "factor"] == pytest.approx(gain) and gain > 2
    assert less.at["two_phase", "factor"] == 1.0
    assert less.at["two_phase", "reduction_factor"] < finest.at["two_phase", "reduction_factor"] / 2
    assert ladder_schemes(["e3m4"], "ceil")["e3m4", "layer"] == "aps:e3m4"


def test_results_give_the_rungs_that_they_hold(digits):
    results = apscope.replay(
        digits,
        ["aps:e3m4,rule=tight", "aps:e3m4,rule=tight,unit=model", "aps:e4m3,rule=tight"],
        topology=["tree", "ring"],
    )
    found = apscope.ladder(results)
    assert found["rung"].tolist() == ["step", "layer"] and set(found["topology"]) == {"tree"}
    assert set(apscope.ladder(results, topology="ring")["topology"]) == {"ring"}
    with pytest.raises(ValueError, match="the results have no topology 'butterfly'"):
        apscope.ladder(results, topology=["ring", "butterfly"])
    with pytest.raises(ValueError, match="the results have no"):
        apscope.ladder(results, ["e5m2"])
    with pytest.raises(
        ValueError, match="the results do not have two rungs of the ladder with rule=ceil"
    ):
        apscope.ladder(results, rule="ceil")


def test_the_command_prints_errors_and_factors(request, capsys, tmp_path):
    trace = str(request.config.rootpath / "notebooks/data/digits")
    assert main(["ladder", trace, "--formats", "e4m3,e3m4", "--steps", "0:12"]) == 0
    out = capsys.readouterr().out
    assert (
        "digits: step NMSE / typical error over the noise of the batch, ring, 12 steps" in out
        and "1024 -> 32" in out
    )
    assert main(["ladder", trace, "--formats", "e3m4", "--steps", "0:12", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    ring = [r for r in rows if r["topology"] == "ring"]
    assert [r["rung"] for r in ring] == [rung for _, rung in ladder_schemes("e3m4")]
    assert rows[0]["factor"] is None
    assert {r["topology"] for r in rows} == {"ring", "two_phase"}
    held = apscope.replay(
        trace, ["aps:e3m4,rule=tight", "aps:e3m4,rule=tight,unit=model"], steps="0:4"
    )
    held.save(tmp_path / "r")
    assert main(["ladder", str(tmp_path / "r"), "--csv"]) == 0
    assert capsys.readouterr().out.startswith("trace,format,rung,finer_than,factor")
    assert main(["ladder", str(tmp_path / "r"), "--steps", "0:2"]) == 2
    assert "--steps and --workers select from a trace" in capsys.readouterr().err
    assert main(["ladder", trace, "--formats", ""]) == 2
    assert "there is no format to make a ladder of" in capsys.readouterr().err
    assert main(["ladder", str(tmp_path / "nothing")]) == 2


def test_repeated_formats_add_up(request, capsys):
    trace = str(request.config.rootpath / "notebooks/data/digits")
    outs = []
    for words in ("--formats e4m3,e3m4", "--formats e4m3 --formats e3m4"):
        assert main(["ladder", trace, *words.split(), "--steps", "0:3"]) == 0
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] and "e4m3" in outs[0]


def test_what_schemes_differ_in():
    assert differences("aps:e3m4", "aps:e3m4") == []
    assert differences("aps:e3m4,rule=tight", "loss_scaling:e3m4,scale=largest,rule=tight") == [
        ("scale", "one per layer and step", "one for all steps, the largest that never saturates")
    ]
    assert [
        d[0] for d in differences("aps:e3m4", "loss_scaling:e3m4,scale=largest,rule=tight")
    ] == [
        "rule",
        "scale",
    ]
    assert differences("aps:e3m4", "aps:e4m3") == [("format", "e3m4", "e4m3")]
    assert [d[0] for d in differences("aps:e3m4", "stochastic:e3m4")] == [
        "headroom",
        "rounding",
        "sums",
    ]
    assert differences("aps:e4m3,accumulate=fp32", "aps:e4m3") == [
        ("sums", "in fp32", "rounded to the format")
    ]
    assert differences("aps:e4m3", "qsgd")[0] == ("scheme", "aps:e4m3", "qsgd")
    assert ("scale", "one per step, of the step before", "one per step") in differences(
        "aps:e4m3,unit=model,delay=1", "aps:e4m3,unit=model"
    )


def test_in_two_phases_the_headroom_is_that_of_the_reduction():
    def differ(a, b):
        found = sides_differ(*(Sent(*side, 0.25) for side in (a, b)))
        return found, cause(found)

    aps, constant = "aps:e4m3", "loss_scaling:e4m3,scale=largest"
    scale = (
        "scale",
        "one per layer and step",
        "one for all steps, the largest that never saturates",
    )
    # One scale for all steps leaves room for the sum, that of a message does not.
    assert differ((aps, "two_phase"), (constant, "two_phase")) == (
        [("headroom", "one", "workers"), scale], "",
    )  # fmt: skip
    assert differ((aps, "ring"), (constant, "ring")) == ([scale], "scale")
    assert differ((aps, "two_phase"), (aps, "ring")) == (
        [("reduction", "two phases (headroom one)", "ring (headroom workers)")], "reduction",
    )  # fmt: skip
    one = f"{aps},headroom=one"
    assert differ((one, "two_phase"), (one, "ring"))[0] == [("reduction", "two phases", "ring")]
    assert differ((one, "two_phase"), (aps, "two_phase")) == ([], "")
    # At the wire nothing is added.
    wide = f"{aps},accumulate=fp32"
    assert differ((wide, "ring"), (aps, "ring"))[1] == "sums"
    assert differ((wide, ""), (aps, "")) == ([], "")
    of_one = f"{constant},headroom=one"
    assert differ((of_one, "two_phase"), (constant, "two_phase"))[1] == "headroom"


def test_a_chain_changes_one_thing_at_a_time():
    for a, b in (
        ("aps:e3m4", "loss_scaling:e3m4,scale=largest,rule=tight"),
        ("aps:e3m4,rule=tight,unit=32,rounding=stochastic", "loss_scaling:e4m3,scale=largest"),
        ("loss_scaling:e4m3,scale=largest", "aps:e5m2,accumulate=fp32"),
        ("aps:e4m3,unit=row", "aps:e4m3,unit=model,delay=1"),
        ("aps:e4m3,unit=bucket:1MB", "loss_scaling:e4m3,scale=largest"),
    ):
        links = chain(a, b)
        assert links[0] == ("", Scheme(b).spec) and links[-1][1] == Scheme(a).spec
        for (_, before), (what, after) in zip(links, links[1:]):
            assert [d[0] for d in differences(after, before)] == [what]
    assert (
        chain("aps:e3m4", "stochastic:e3m4") == []
        and chain("aps:e3m4", "loss_scaling:e3m4,scale=1024") == []
    )


def test_the_factors_of_single_changes_multiply_to_the_whole(digits):
    a, b = "aps:e3m4", "loss_scaling:e3m4,scale=largest,rule=tight"
    results = apscope.replay(digits, [spec for _, spec in chain(a, b)], topology=["ring"])
    found = decompose(results, a, b).set_index("change")
    assert found.index.tolist() == ["rule", "scale", "scale", "all"]
    assert found["factor"].iloc[:-1].prod() == pytest.approx(found.at["all", "factor"], rel=1e-9)
    # The spare binade costs, following the step buys.
    assert found["factor"].iloc[0] < 1 < found["factor"].iloc[1]
    pd.testing.assert_frame_equal(results.decompose(a, b), decompose(results, a, b))
    few = apscope.replay(digits, [a, b], topology=["ring"], steps="0:5")
    assert few.decompose(a, b)["factor"].isna().tolist() == [True, True, True, False]


def test_a_change_that_drops_the_room_in_two_phases_says_so(digits):
    chained = [spec for _, spec in chain(A_LAYER, A_CONSTANT)]
    results = apscope.replay(digits, chained, topology=["ring", "two_phase"], steps="0:200")
    for topology, change in (("ring", "scale"), ("two_phase", "headroom and scale")):
        table = decompose(results, A_LAYER, A_CONSTANT, topology)
        assert list(table["change"]) == ["scale", change, "all"]
    both = decompose(results, f"{A_LAYER}@ring", f"{A_LAYER}@two_phase")
    assert list(both["before"]) == [A_LAYER] and list(both["change"]) == ["all"]
    two = decompose(results, f"{A_LAYER.replace(',', ',unit=model,')}@ring", f"{A_LAYER}@two_phase")
    assert list(two["before"])[0] == "two phases (headroom one)"
    assert list(table["before"])[1] == "one per step (headroom workers)"
    assert list(table["after"])[1] == "one per layer and step (headroom one)"


def test_compare_says_what_differs_and_what_to_replay(digits, capsys, tmp_path):
    schemes = ["aps:e3m4", "loss_scaling:e3m4,scale=largest,rule=tight"]
    apscope.replay(digits, schemes, steps="0:6").save(tmp_path / "r")
    assert main(["compare", str(tmp_path / "r"), *schemes]) == 0
    out = capsys.readouterr().out
    assert "how they differ" in out and "one for all steps, the largest that never saturates" in out
    assert "--scheme loss_scaling:e3m4,scale=largest --scheme aps:e3m4,unit=model, and merge" in out
