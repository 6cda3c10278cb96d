"""A held-out step with overflow: the figures are those of `summary`, and the verdict says so."""

import warnings

import numpy as np
import pytest

import apscope
from apscope.cli import main
from tests.python.recorded import record

BLOCKS, WIDE = "mx:block_format=mxint8", "none:bf16"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Five layers in six steps, the second with an infinity at step 2 and a NaN at step 3."""
    draw = np.random.default_rng(0)
    scales = {"embedding": 1e-5, "first": 1e-2, "second": 1e-7, "head": 3.0, "bias": 1e-3}
    steps = [
        {name: draw.normal(1.0, 0.5, (4, 64)) * scale for name, scale in scales.items()}
        for _ in range(6)
    ]
    steps[2]["first"][1, 3], steps[3]["first"][0, 0] = np.inf, np.nan
    return record(tmp_path_factory.mktemp("bad") / "t", steps)


def figures(plan):
    return plan.figures.set_index(["what", "steps"])


@pytest.mark.parametrize("replayed", [True, False])
def test_the_figures_are_those_of_summary_with_overflow_too(trace, replayed):
    specs = [BLOCKS, WIDE]
    source = trace if replayed else apscope.replay(trace, specs, topology="two_phase")
    plan = apscope.recommend(source, specs, max_volume=0.32, topology="two_phase", simplest=False)
    assert plan.single == BLOCKS and len(set(plan.layers["scheme"])) == 2
    held_out = apscope.replay(trace, [BLOCKS, plan], topology="two_phase", steps=[1, 3, 5])
    table = held_out.summary()
    table = table[table["topology"] == "two_phase"].set_index("scheme")
    rows = figures(plan)
    names = ["step_nmse", "error_over_noise", "layer_cosine", "volume", "overflowed"]
    assert table.at[BLOCKS, "overflowed"] == 1 and 1 / 3 < table.at[BLOCKS, "step_nmse"] < 0.34
    for what, spec in (("single", BLOCKS), ("plan", plan.spec)):
        for name in names:
            assert rows.at[(what, "held out"), name] == pytest.approx(
                table.at[spec, name], rel=1e-12
            ), (what, name)
    opened = apscope.Plan.open(plan.save(trace.path.parent / "plan.json"))
    assert opened == plan and opened.figures.equals(plan.figures)


def test_rows_that_are_the_same_with_overflow_are_separable(trace):
    """The references of a step with overflow lack what is lost, so they differ by candidates."""
    plan = apscope.recommend(trace, [BLOCKS, WIDE], max_volume=0.32, simplest=False)
    rows = figures(plan).drop(columns="time")
    assert rows.at[("plan", "held out"), "overflowed"] == 1
    for steps in ("chosen", "held out"):
        assert rows.loc[("plan", steps)].to_numpy() == pytest.approx(
            rows.loc[("plan replayed", steps)].to_numpy(), rel=1e-12
        )
    assert plan.about["changed"] == [] and "not separable" not in str(plan)
    told = f"step_nmse {rows.at[('plan', 'held out'), 'step_nmse']:.3g} with overflow at volume"
    assert told in plan.verdict()


def test_a_single_candidate_that_overflowed_is_said_so(trace, tmp_path, capfd):
    out = str(tmp_path / "plan.json")
    fixed = ["--fix", f"^first$={WIDE}", "--candidates", BLOCKS, "--candidates", WIDE]
    assert main(["recommend", str(trace.path), "-o", out, "--max-volume", "0.35", *fixed]) == 0
    plan = apscope.Plan.open(out)
    rows = figures(plan)
    assert not rows.at[("plan", "held out"), "overflowed"]
    lost = rows.at[("single", "held out"), "step_nmse"]
    assert plan.verdict().endswith(
        f"{BLOCKS}, the best single candidate within the limits: step_nmse {lost:.3g} with overflow"
    )
    said = capfd.readouterr()
    assert not said.err and "nan" not in said.out


def test_a_plan_says_what_gradients_were_not_finite(trace, tmp_path):
    sentence = apscope.replay(trace, [WIDE]).not_finite
    assert sentence.startswith("2 of 30 layer-steps have gradients that are NaN or infinite.")
    for source in (trace, apscope.replay(trace, [BLOCKS, WIDE])):
        plan = apscope.recommend(source, [BLOCKS, WIDE])
        assert sentence in str(plan)
        assert sentence in str(apscope.Plan.open(plan.save(tmp_path / "plan.json", force=True)))
    finite = apscope.recommend(trace, [BLOCKS, WIDE], steps=[0, 1, 4, 5])
    assert "not_finite" not in finite.about and "NaN" not in str(finite)


def test_no_warning_of_numpy_is_printed(trace):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "nan" not in apscope.recommend(trace, topology=["ring", "two_phase"]).verdict()
