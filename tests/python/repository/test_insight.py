"""docs/insight.md has the results that docs/insight.py and docs/plans.py compute from the committed
tables."""

import shutil

import pandas as pd
import pytest


@pytest.fixture
def scripts(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "docs")
    import insight
    import plans

    return insight, plans


def test_the_page_is_what_the_scripts_write(scripts, request, tmp_path):
    insight, plans = scripts
    docs = request.config.rootpath / "docs"
    page = tmp_path / "insight.md"
    shutil.copy(docs / "insight.md", page)
    insight.main([str(docs / "relation.csv"), str(page), "--law", str(tmp_path / "law.json")])
    plans.main([str(docs / "plans.csv"), str(page)])
    assert page.read_text() == (docs / "insight.md").read_text()
    assert (tmp_path / "insight.png").stat().st_size > 20_000
    assert (tmp_path / "law.json").read_text() == insight.LAW.read_text()


def test_every_scheme_of_the_experiment_has_a_place_in_the_tables(scripts, request):
    from apscope._training.experiment import Experiment

    insight, _ = scripts
    experiment = Experiment.open(request.config.rootpath / "docs/relation.toml")
    places = insight.named(pd.DataFrame({"scheme": [one.scheme for one in experiment.exchanges]}))
    assert set(places["rung"]) == set(insight.RUNGS) and set(places["format"]) == set(
        insight.FORMATS
    )
    assert not places.duplicated(["rung", "format"]).any()
    assert set(insight.CHOSEN_ON) < {task.title for task in experiment.tasks}


def test_a_plan_is_worse_only_if_the_whole_interval_is_above_0(scripts):
    _, plans = scripts
    row = lambda low, high: pd.Series({"difference_low": low, "difference_high": high})
    assert plans.said(row(0.1, 0.2)) == "**worse**"
    assert plans.said(row(-0.2, -0.1)) == "better"
    assert plans.said(row(-0.1, 0.1)) == "no difference seen"
