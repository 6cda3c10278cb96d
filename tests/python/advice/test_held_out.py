"""On steps that were not used for the choice, a plan is not worse than the best single scheme;
docs/tools/advice.py has the whole table."""

import time
from pathlib import Path

import numpy as np
import pytest

import apscope
from apscope._advice.candidates import DEFAULT, candidates_of
from apscope._advice.significance import by_blocks, ratio
from apscope._replay.ladder import REDUCTIONS
from docs.tools import advice, page
from tests.python.bundled import BUNDLED
from tests.python.recorded import record

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", BUNDLED)
def test_a_plan_is_no_worse_than_the_best_single_scheme_or_says_so(name):
    cases = list(advice.cases(name))
    assert len(cases) == 10
    for case in cases:
        # On steps that it has not seen a plan may be worse; it says so.
        assert case.error <= case.single or "MORE" in case.plan.verdict(), case
        assert case.plan.figures["volume"].max() <= case.budget + 0.001 + 1e-12
        if len(set(case.plan.layers["scheme"])) == 1:  # it says why
            assert any(
                words in case.plan.verdict()
                for words in ("indistinguishable", "less than a hundredth", "no mixture")
            ), case.plan.verdict()
    assert set(advice.lines(cases)) <= set(page.read(page.DOCS / "advice.md", "plans"))


@pytest.fixture(scope="module")
def results(digits):
    return apscope.replay(digits, ["aps:e3m0", "aps:e4m3fn"], topology="ring")


def test_the_interval_of_a_quotient_is_students(results):
    plan = apscope.recommend(results, max_volume=0.2, holdout=False)
    sums, units = plan._table.chosen, len(plan._table.units)
    one, other = np.zeros(units, int), np.ones(units, int)
    logs = by_blocks(sums, "error_over_noise", one) - by_blocks(sums, "error_over_noise", other)
    assert len(logs) == 8
    half = 2.3646 * logs.std(ddof=1) / np.sqrt(8)  # Student's t at 0.975, 7 degrees of freedom
    assert ratio(sums, "error_over_noise", one, other) == pytest.approx(
        [2.0 ** (logs.mean() + e) for e in (0, -half, half)], rel=1e-4
    )


def test_the_factor_of_the_verdict_is_called_a_geometric_mean(results):
    plan = apscope.recommend(results, max_volume=0.2)
    middle, low, high = plan.against_single()
    rows = plan.figures[plan.figures["steps"] == "held out"].set_index("what")["step_nmse"]
    assert f"{middle:.3g}" != f"{rows['single'] / rows['plan']:.3g}"
    assert (
        f"; {middle:.3g} times less (geometric mean over 8 runs of steps, 95 %: {low:.3g} to "
        f"{high:.3g}) than {plan.single}, the best single candidate"
    ) in plan.verdict()


def test_one_step_tells_little(request):
    """With one step a mixture is chosen if it is four times better, otherwise a single scheme."""
    trace = request.config.rootpath / "notebooks/data/digits_w64"
    specs = ["none:bf16", "aps:e4m3fn,rule=tight", "aps:e3m4,rule=tight", "aps:e3m0"]
    results = apscope.replay(trace, specs, topology="ring", steps=[10, 500])
    plan = apscope.recommend(results, max_volume=0.26)
    assert len(plan._table.chosen.steps) == 1
    assert len(set(plan.layers["scheme"])) == 1 and "indistinguishable" in plan.verdict()
    assert len(set(plan.solve(max_volume=0.2).layers["scheme"])) > 1


def test_layers_that_other_steps_would_give_the_same_are_sure(results):
    plan = apscope.recommend(
        results, minimize="error_over_noise", max_volume=0.2, holdout=False, simplest=False
    )
    sure = plan.layers.set_index("layer")["sure"]
    assert sure["norm.bias"] == 1.0 and sure.min() >= 0
    few = apscope.recommend(results, max_volume=0.2, holdout="3:", simplest=False)
    assert few.layers["sure"].isna().all()


def test_a_plan_takes_at_most_two_replays_of_its_candidates_and_another_budget_a_second(tmp_path):
    """In processor time; for small traces, tables add a constant fraction of a second."""
    rng = np.random.default_rng(0)
    steps = [
        {
            f"layer{layer}.weight": rng.standard_normal((8, 40_000)) * 2.0 ** (-3 * layer - 8)
            for layer in range(6)
        }
        for _ in range(4)
    ]
    trace = record(tmp_path / "trace", steps)

    def timed(call):
        start = time.process_time()
        return call(), time.process_time() - start

    def planned():
        return apscope.recommend(trace, max_volume=0.2, threads=1)

    apscope.recommend(ROOT / "notebooks/data/digits_w64", ["aps:e3m0", "none:bf16"], max_volume=0.2)
    candidates = candidates_of(DEFAULT)
    _, once = timed(lambda: apscope.replay(trace, candidates, topology=REDUCTIONS, threads=1))
    plan, seconds = min((timed(planned) for _ in range(2)), key=lambda pair: pair[1])
    assert seconds < 2 * once, (seconds, once)
    other, seconds = timed(lambda: plan.solve(max_volume=0.3))
    assert seconds < 1 and other != plan
