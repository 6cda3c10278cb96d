"""The statistic that a plan minimizes, and its limits, by default."""

import pandas as pd
import pytest

import apscope
from tests.python.advice.cases import CANDIDATES


def test_without_limits_8_bits_and_their_scales_or_an_nmse_of_a_hundredth(results):
    assert apscope.recommend(results).wish.limits == {"max_volume": 0.28}
    assert apscope.recommend(results, minimize="volume").wish.limits == {"max_nmse": 0.01}


def test_the_default_figure_is_the_one_whose_trained_plans_were_never_worse(results, request):
    trained = pd.read_csv(request.config.rootpath / "docs/plans.csv")
    worse = trained[trained["difference_low"] > 0]["figure"].value_counts()
    assert apscope.recommend(results).wish.minimize == "step_nmse"
    assert "step_nmse" not in worse and worse["error_over_noise"] == 3


@pytest.mark.parametrize(
    ("limits", "figure"),
    [
        ({"max_nmse": 0.01}, "volume"),
        ({"min_cosine": 0.9}, "volume"),
        ({"max_nmse": 0.01, "max_volume": 0.3}, "step_nmse"),
        ({"max_volume": 0.3}, "step_nmse"),
    ],
)
def test_limits_of_errors_alone_ask_for_the_least_volume(results, limits, figure):
    """The least error of a limited error was always fp32's."""
    assert apscope.recommend(results, **limits).wish.minimize == figure
    asked = apscope.recommend(results, minimize="step_nmse", **limits)
    assert asked.wish.minimize == "step_nmse"


def test_one_worker_is_judged_by_nmse_and_bits(digits):
    results = apscope.replay(digits, CANDIDATES, workers=1, topology="ring")
    plan = apscope.recommend(results, max_volume=0.2)
    assert (
        plan.wish.minimize == "step_nmse"
        and plan.figures["volume"].max() <= 0.201
        and "bits per value" in str(plan)
    )
    assert plan.choices()[0] == "reduction: none is needed, as one worker adds nothing"
    with pytest.raises(ValueError, match="max_error_over_noise needs the noise of the batch"):
        apscope.recommend(results, max_error_over_noise=0.1)
    with pytest.raises(
        ValueError, match="minimize='error_over_noise' needs the noise .* step_nmse"
    ):
        apscope.recommend(results, minimize="error_over_noise")
