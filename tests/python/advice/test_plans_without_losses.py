"""Plans of traces whose steps, or whose noise, say nothing about an error."""

import numpy as np
import pytest

import apscope
from apscope._advice.show import notes
from apscope.cli import main
from tests.python.advice.cases import normal, recorded
from tests.python.recorded import record


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_trace_without_any_loss_is_refused(tmp_path, capsys, value):
    trace = recorded(tmp_path / "t", lambda layer, step: np.full(64, value))
    words = ["recommend", str(tmp_path / "t"), "--candidates", "mx", "-o", str(tmp_path / "p.json")]
    assert main(words) == 2 and not (tmp_path / "p.json").exists()
    assert capsys.readouterr().err == (
        "apscope: the gradients of the steps for the choice, added over the workers, are zero "
        "wherever they are finite, so no error can be compared with them; give other steps\n"
    )
    results = apscope.replay(trace, "mx", topology="ring")
    with pytest.raises(ValueError, match="are zero wherever they are finite"):
        apscope.recommend(results, max_volume=1)


def test_held_out_steps_without_a_loss_have_no_step_nmse(tmp_path):
    draw = np.random.default_rng(0)
    trace = recorded(tmp_path / "t", lambda layer, step: normal(draw) * (step % 2 == 0))
    plan = apscope.recommend(trace, ["none:fp16", "aps:e4m3", "mx"], max_volume=0.3)
    rows = plan.figures.set_index(["what", "steps"])["step_nmse"]
    assert rows["plan", "chosen"] > 0 and np.isnan(rows["plan", "held out"])
    assert "step_nmse unknown at volume" in plan.verdict() and "within a" not in plan.verdict()


def test_the_layer_that_arrives_worst_is_named_where_the_noise_is_unknown(tmp_path, results):
    draw = np.random.default_rng(0)
    quiet = {"a.weight": 1.0, "b.weight": 1e-4, "b.bias": 1.0}
    trace = recorded(tmp_path / "t", lambda layer, step: normal(draw) * quiet[layer], workers=1)
    plan = apscope.recommend(trace, ["aps:e2m1fn", "none:fp16"], max_volume=0.4, holdout=False)
    assert set(plan.layers["scheme"]) == {"aps:e2m1fn", "none:fp16"}
    alone = apscope.replay(trace, plan, topology="ring")
    cosines = alone.by("layer").set_index(["topology", "layer"])["layer_cosine"]["ring"]
    least = cosines.idxmin()
    told = f"the noise is unknown or 0; the least layer_cosine of a layer is {cosines[least]:.3g}"
    assert f"{told} ({least})" in notes(plan)
    several = apscope.recommend(results, max_volume=0.2)
    assert not any("the noise is unknown or 0" in note for note in notes(several))


def test_the_interval_is_that_of_the_factor_that_is_told(digits):
    candidates = ["aps:e3m4,rule=tight,unit=32", "aps:e2m1fn"]
    plan = apscope.recommend(digits, candidates, max_volume=0.27, fixed={"conv": "aps:e2m1fn"},
                             topology="two_phase")  # fmt: skip
    middle, low, high = plan.against_single()
    assert 0 < low < middle < high < 1
    assert (
        f"{1 / middle:.3g} times MORE (geometric mean over 8 runs of steps, 95 %: "
        f"{1 / high:.3g} to {1 / low:.3g}) than {plan.single}"
    ) in plan.verdict()


def test_gradients_that_cancel_are_refused(tmp_path):
    rows = np.random.default_rng(0).normal(0, 1e-3, (4, 32)).astype(np.float32)
    steps = [{"a": np.stack([row, -row])} for row in rows]
    trace = record(tmp_path / "t", steps)
    for call in (
        lambda: apscope.recommend(trace, "mx", max_volume=1),
        lambda: apscope.search(trace, 4),
    ):
        with pytest.raises(ValueError, match="added over the workers, are zero wherever they are"):
            call()
