"""docs/advice.md has the tables that docs/trained.py computes from docs/trained.csv, and they compare
what they say."""

import pandas as pd
import pytest

TASK = "tokens"


@pytest.fixture
def script(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "docs")
    import trained

    return trained


def test_the_page_is_what_the_script_writes(script, request, tmp_path):
    docs = request.config.rootpath / "docs"
    page = tmp_path / "advice.md"
    page.write_text((docs / "advice.md").read_text())
    script.main([str(docs / "trained.csv"), str(page)])
    assert page.read_text() == (docs / "advice.md").read_text()


def runs(scheme, reduction, error, losses, over_noise=1.0, task=TASK):
    return [
        {
            "task": task, "model": "m", "scheme": scheme, "topology": reduction, "seed": seed,
            "loss": loss, "validation_loss": loss, "accuracy": 0.5, "diverged": False,
            "reduction": reduction, "volume": 0.25, "step_nmse": error,
            "error_over_noise": over_noise,
        }
        for seed, loss in enumerate(losses)
    ]  # fmt: skip


def made(*parts):
    rows = [*runs("none:fp32", "ring", 0, (1.0, 2.0, 3.0))]
    rows += runs("none:bf16", "ring", 1e-6, (1.0, 2.0, 3.0))
    return pd.DataFrame([*rows, *(row for part in parts for row in part)])


def test_the_bits_of_a_code(script):
    bits = {"none:bf16": 16, "aps:e4m3fn": 8, "aps:e3m0": 4, "aps:e2m1fn,unit=16": 4, "mx": 8}
    assert {spec: script.bits_of(spec) for spec in bits} == bits


def test_losses_are_compared_with_those_of_the_same_seed(script):
    table = made(runs("aps:e4m3", "ring", 0.1, (1.5, 2.5, 3.5)))
    (one,) = (one for one in script.trained(table, TASK) if one.bits == 8)
    assert list(one.excess) == [0.5, 0.5, 0.5]
    assert script.nats(one.excess) == "+0.500 ± 0"


def test_the_order_counts_pairs_whose_whole_interval_is_on_one_side(script):
    better = runs("aps:e4m3", "two_phase", 0.01, (1.0, 2.01, 3.0), over_noise=2.0)
    worse = runs("aps:e3m4", "ring", 0.3, (1.5, 2.5, 3.51))
    unclear = runs("aps:e5m2", "ring", 0.2, (0.8, 2.3, 3.1))
    lines = script.order(made(better, worse, unclear))
    assert " 1 right, 0 wrong, 2 open " in lines[2]
    assert lines[-1] == "Together 1 right and 0 wrong; by error over noise 0 and 1."
    swapped = runs("aps:e4m3", "two_phase", 0.9, (1.0, 2.01, 3.0), over_noise=0.1)
    lines = script.order(made(swapped, worse, unclear))
    assert " 0 right, 1 wrong, 2 open " in lines[2]
    assert "Together 0 right and 1 wrong; by error over noise 1 and 0." in lines
    assert lines[-1].startswith("- tokens: `e4m3`, a scale a layer, `two_phase` ends -0.500")


def test_every_pair_of_the_factors_is_in_the_experiment_and_differs_in_what_is_said(
    script, request
):
    from apscope._training.experiment import Experiment

    experiment = Experiment.open(request.config.rootpath / "docs/gpt.toml")
    held = {f"{scheme} {topology}" for scheme, topology in experiment.exchanges}
    for what, worse, better in script.FACTORS:
        assert {worse, better} <= held
        (a, one), (b, other) = (name.rsplit(" ", 1) for name in (worse, better))
        assert (a == b) == what.endswith("the reduction") and (one == other) == (a != b)
