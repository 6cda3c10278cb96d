"""Plans across reductions: the choice among them, and what reduction, grid and scale are worth."""

import numpy as np
import pytest

import apscope
from apscope._advice.candidates import candidates_of
from apscope._results.volume import SIDE
from apscope._schemes.scheme import as_scheme
from apscope.cli import main

CANDIDATES = (
    "none:fp16",
    "aps:e4m3fn,rule=tight",
    "aps:e3m4,rule=tight",
    "aps:e3m4,rule=tight,unit=32",
    "aps:e3m0",
    "qsgd",
)
#: One step for the choice and one that is held out.
STEPS = [0, 240]


@pytest.fixture(scope="module")
def results(digits):
    return apscope.replay(digits, CANDIDATES, topology=["ring", "two_phase"])


def held_out(plan, figure, what="plan"):
    rows = plan.figures[plan.figures["steps"] == "held out"].set_index("what")
    return rows.at[what, figure]


@pytest.mark.parametrize("minimize", ["step_nmse", "error_over_noise"])
def test_the_answer_is_the_best_plan_of_all_reductions(results, minimize):
    for volume in (0.14, 0.2, 0.26, 0.5):
        plan = apscope.recommend(results, minimize=minimize, max_volume=volume)
        alone = {
            name: apscope.recommend(results, minimize=minimize, max_volume=volume, topology=name)
            for name in ("ring", "two_phase")
        }
        errors = {name: one.figures[minimize].iloc[0] for name, one in alone.items()}
        best = min(errors, key=errors.get)
        assert plan.about["topology"] == best and plan.spec == alone[best].spec
        assert plan.figures.equals(alone[best].figures)
        told = {row["topology"]: row for row in plan.about["reductions"]}
        for name, one in alone.items():
            assert told[name]["scheme"] == one.spec
            assert told[name]["error"] == held_out(one, minimize)
            assert "reductions" not in one.about
        assert told[best]["same_error"] == told[best]["error"]
        assert plan.solve(minimize, max_volume=volume).about["topology"] == best


def test_two_phases_are_chosen_and_replayed(digits):
    plan = apscope.recommend(digits, CANDIDATES[:-1], max_volume=0.26, steps=STEPS)
    assert plan.about["topology"] == plan.reduction == "two_phase"
    assert f", {plan.reduction}: step_nmse" in plan.verdict()
    own = apscope.replay(digits, plan, topology="two_phase", steps=STEPS[1:]).summary()
    row = own[own["topology"] == "two_phase"].iloc[0]
    for name in ("error_over_noise", "step_nmse", "volume"):
        assert held_out(plan, name, "plan replayed") == pytest.approx(row[name], rel=1e-12)
        assert held_out(plan, name) == pytest.approx(row[name], rel=1e-9)


def test_a_scheme_with_its_own_reduction_is_counted_once(results):
    """QSGD gathers in place of a ring; in two phases it has these too, and not both."""
    table = results.summary().set_index(["scheme", "topology"])
    for topology, own in (("ring", "gather"), ("two_phase", "two_phase")):
        plan = apscope.recommend(results, "qsgd", max_volume=99, topology=topology, holdout=False)
        assert plan.reduction == own and plan.about["topology"] == topology
        figures = plan.figures.iloc[0]
        for name in ("error_over_noise", "step_nmse", "volume"):
            assert figures[name] == pytest.approx(table.at[("qsgd", own), name], rel=1e-12)


@pytest.mark.parametrize("limit", [0.1, 0.005, 0.0005])
def test_the_least_volume_wins_and_the_error_decides_between_equal_ones(results, limit):
    found = {
        name: apscope.recommend(
            results, minimize="volume", max_nmse=limit, topology=name
        ).figures.iloc[0]
        for name in ("ring", "two_phase")
    }
    least = min(row["volume"] for row in found.values())
    near = {name: row for name, row in found.items() if row["volume"] <= least + SIDE}
    plan = apscope.recommend(results, minimize="volume", max_nmse=limit)
    assert plan.about["topology"] == min(near, key=lambda name: near[name]["step_nmse"])


def test_reduction_grid_and_scale_are_named_in_this_order_with_their_factors(results):
    plan = apscope.recommend(results, CANDIDATES[1:4], max_volume=0.27, holdout=False)
    assert plan.spec == "aps:e3m4,rule=tight,unit=32"
    summary = results.summary().set_index(["scheme", "topology"])
    table, volumes = summary["step_nmse"], summary["volume"][plan.spec]
    differ = abs(volumes["ring"] - volumes["two_phase"]) > SIDE
    told = f" at volume {volumes['ring']:.3g}" if differ else ""
    own = table[plan.spec, "two_phase"]
    ring = table[plan.spec, "ring"] / own
    layer = table["aps:e3m4,rule=tight", "two_phase"] / own
    reduction, grid, scale = plan.choices()
    assert reduction == (
        f"reduction: two_phase; the same in ring has {ring:.3g} times the error{told}, and nothing "
        "is better there"
    )
    assert grid == "grid: e3m4; no candidate differs only in this"
    assert scale.startswith(
        f"scale: one for 32 elements; one per layer and step {layer:.3g} times the error"
    )
    layers = apscope.recommend(results, CANDIDATES[1:3], max_volume=0.26, holdout=False)
    own = table["aps:e3m4,rule=tight", "two_phase"]
    worse = table["aps:e4m3fn,rule=tight", "two_phase"] / own
    assert layers.choices()[1] == f"grid: e3m4; e4m3fn {worse:.3g} times the error"
    lines = str(plan).splitlines()
    places = [next(i for i, x in enumerate(lines) if x.startswith(s)) for s in
              ("reduction: ", "grid: ", "scale: ", "asked for: ")]  # fmt: skip
    assert places == [1, 2, 3, 4]


def test_of_a_mixture_the_grid_of_most_elements_is_named_with_their_share(digits):
    fixed = {"conv1.weight": "none:fp16"}
    candidates = ["none:fp16", "aps:e3m4,rule=tight", "aps:e4m3fn,rule=tight"]
    plan = apscope.recommend(digits, candidates, fixed=fixed, topology="ring", holdout=False)
    layers = plan.layers.set_index("layer")
    own = layers["elements"][layers["scheme"] == "aps:e3m4,rule=tight"].sum()
    share = own / layers["elements"].sum()
    assert 0.5 < share < 1
    (grid,) = [line for line in plan.choices() if line.startswith("grid: ")]
    assert grid.startswith(f"grid: e3m4 for {share:.0%} of the elements; ")
    assert grid.endswith(", of aps:e3m4,rule=tight alone")


def test_a_ring_may_leave_less_room_and_what_that_is_worth_is_named(digits):
    room = ",headroom=sqrt_workers,overflow=saturate"
    candidates = [as_scheme(f"aps:e2m1fn,rule=tight,unit=16{key}").spec for key in ("", room)]
    assert set(candidates) <= {scheme.spec for scheme in candidates_of("blocks")}
    results = apscope.replay(digits, candidates, topology=["ring", "two_phase"])
    options = {"max_volume": 0.2, "holdout": False}
    ring = apscope.recommend(results, topology="ring", **options)
    table = results.summary().set_index(["scheme", "topology"])["step_nmse"]
    times = table[candidates[0], "ring"] / table[candidates[1], "ring"]
    assert ring.spec == candidates[1] and times > 2
    assert ring.choices()[-1] == (
        f"room: for √W workers; for the sum of all workers {times:.3g} times the error"
    )
    # Two phases need no room: the schemes are equal there.
    plan = apscope.recommend(results, **options)
    assert plan.about["topology"] == "two_phase" and plan.spec == candidates[0]
    assert [text.partition(":")[0] for text in plan.choices()] == ["reduction", "grid", "scale"]
    best = table[candidates[1], "ring"] / table[candidates[0], "two_phase"]
    assert f"the best there, {candidates[1]}, {best:.3g} times the error" in plan.choices()[0]


def test_the_scale_of_a_block_format_is_its_block(digits):
    plan = apscope.recommend(digits, ["mx", "none:fp16"], max_volume=0.28, steps=STEPS)
    assert plan.choices()[2] == "scale: one for 32 elements; no candidate differs only in this"


def test_the_reductions_that_are_used_are_named_and_other_bytes_beside_a_factor(digits):
    """NVFP4 has no ring: what is the same there gathers a part, and sends more."""
    candidates = ["nvfp4:rounding=ties_to_even,rht=false", "aps:e3m4,rule=tight",
                  "aps:e3m0noinf,rule=tight"]  # fmt: skip
    results = apscope.replay(digits, candidates, topology=["ring", "two_phase"], steps="0:4")
    options = {"max_volume": 0.22, "holdout": False, "simplest": False}
    plan = apscope.recommend(results, candidates, **options)
    ring = apscope.recommend(results, candidates, topology="ring", **options)
    assert plan.reduction == "two_phase" and ring.reduction == "ring"
    assert set(plan.layers["scheme"]) == set(candidates[:2])
    (other,) = (row for row in plan.about["reductions"] if row["topology"] == "ring")
    assert (other["same_reduction"], other["reduction"]) == ("gather+ring", "ring")
    own = plan.figures.iloc[0]
    assert other["same_volume"] > own["volume"] + SIDE
    times = other["same_error"] / own["step_nmse"]
    assert (
        f"the same in gather+ring has {times:.3g} times the error at volume "
        f"{other['same_volume']:.3g}, the best in ring, {ring.spec}, "
    ) in plan.choices()[0]


def test_limits_out_of_reach_in_every_reduction(results):
    with pytest.raises(
        ValueError, match="in ring: max_nmse=1e-12 .*; in two_phase: max_nmse=1e-12"
    ):
        apscope.recommend(results, CANDIDATES[1:4], max_nmse=1e-12)
    with pytest.raises(ValueError, match="there is no topology to choose from"):
        apscope.recommend(results, topology=[])
    # What only one of them reaches is its plan.
    ring = apscope.recommend(results, CANDIDATES[1:3], max_nmse=9, topology="ring")
    least = ring.solve("step_nmse", max_volume=1).figures["step_nmse"].iloc[0]
    plan = apscope.recommend(results, CANDIDATES[1:3], minimize="volume", max_nmse=least / 2)
    assert plan.about["topology"] == "two_phase" and "reductions" not in plan.about


def test_a_plan_file_keeps_the_reductions(results, tmp_path):
    plan = apscope.recommend(results, max_volume=0.26)
    opened = apscope.Plan.open(plan.save(tmp_path / "plan.json"))
    assert opened == plan and opened.reduction == plan.reduction
    assert opened.choices() == plan.choices()


def test_the_command_takes_several_topologies(request, tmp_path, capsys):
    trace = str(request.config.rootpath / "notebooks/data/digits")
    words = ["recommend", trace, "--steps", "0:3", "-o", str(tmp_path / "plan.json")]
    for spec in CANDIDATES[1:4]:
        words += ["--candidates", spec]
    assert main([*words, "--topology", "two_phase,sum=exact", "--topology", "ring"]) == 0
    out = capsys.readouterr().out
    plan = apscope.Plan.open(tmp_path / "plan.json")
    assert {row["topology"] for row in plan.about["reductions"]} == {
        "two_phase,sum=exact",
        "ring",
    }
    assert plan.about["topology"] == "two_phase,sum=exact"
    assert "plan.json --topology two_phase,sum=exact -o RESULTS" in out
    assert main(words) == 0
    assert "\nreduction: two_phase; the same in ring has" in capsys.readouterr().out


def test_the_candidates_offer_blocks_by_default(digits):
    plan = apscope.recommend(digits, steps=STEPS)
    assert plan.wish.limits == {"max_volume": 0.28}
    for spec in (
        "mx",
        "nvfp4",
        "mx:block_format=mxfp4",
        "aps:e2m1fn,rule=tight,unit=16",
        "aps:e3m0noinf,rule=tight,unit=16",
        "aps:e4m3fn,rule=tight,unit=32",
        "aps:e3m4,rule=tight,unit=row",
    ):
        assert apscope.schemes.as_scheme(spec).spec in plan.candidates
    assert plan.about["topology"] == "two_phase"
    errors = np.array([row["error"] for row in plan.about["reductions"]])
    assert errors[0] > 3 * errors[1]
