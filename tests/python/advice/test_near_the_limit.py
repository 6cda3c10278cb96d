"""A limit on volume: tolerated side information is reported, and so is a much better plan just
above the limit."""

import pytest

import apscope
from apscope._advice.show import notes
from apscope._results.volume import SIDE


@pytest.fixture(scope="module")
def results(request):
    trace = request.config.rootpath / "notebooks/data/digits"
    return apscope.replay(
        trace,
        ["none:bf16", "aps:e4m3", "aps:e3m4,rule=tight", "aps:e3m0"],
        steps=[0, 1, 8, 34, 240, 1500],
        topology="ring",
    )


def test_side_information_within_the_tolerance_is_told(results):
    plan = apscope.recommend(results, max_volume=0.25)
    assert 0.25 < plan.figures["volume"].iloc[0] <= 0.25 + SIDE
    assert "volume 0.2508: side information of up to 0.001 counts as within 0.25" in notes(plan)
    assert not any(
        "side information of up to" in note
        for note in notes(apscope.recommend(results, max_volume=0.3))
    )


def test_a_plan_just_above_the_limit_is_named_with_its_volume_and_error(results):
    """Beside the error of the plan: corners of the front below the limit may have far more."""
    plan = apscope.recommend(results, minimize="error_over_noise", max_volume=0.24)
    front, error = plan.front, plan.wish.error
    own = plan.figures[error].iloc[0]
    assert front.loc[front["volume"] <= 0.24 + SIDE, error].min() > 2 * own
    near = front[
        (front["volume"] > 0.24 + SIDE) & (front["volume"] <= 0.264) & (2 * front[error] <= own)
    ]
    named = [note for note in notes(plan) if note.startswith("just above")]
    assert len(near) and len(named) == 1 and f"{near['volume'].min():.4g} a plan" in named[0]
    assert f"has {error} {near[error].iloc[0]:.3g} instead of {own:.3g}, on" in named[0]


def test_a_plan_that_does_not_halve_the_plans_error_is_not_named(results):
    plan = apscope.recommend(results, minimize="error_over_noise", max_volume=0.25)
    assert not [note for note in notes(plan) if note.startswith("just above")]
