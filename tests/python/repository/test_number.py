"""docs/insight.md has the tables that docs/number.py computes from docs/number.csv, whose trained
excesses are those of the other committed tables."""

import shutil

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def number(monkeypatch, request):
    monkeypatch.syspath_prepend(request.config.rootpath / "docs")
    import number

    return number


def test_the_page_is_what_the_script_writes(number, request, tmp_path):
    docs = request.config.rootpath / "docs"
    shutil.copy(docs / "insight.md", tmp_path)
    number.main([str(docs / "number.csv"), str(tmp_path / "insight.md")])
    assert (tmp_path / "insight.md").read_text() == (docs / "insight.md").read_text()


def test_its_table_has_every_trained_combination_of_the_other_pages(number):
    table = pd.read_csv(number.CSV)
    trained = number.excesses()
    both = trained.merge(table, on=number.KEY, suffixes=("", "_kept"))
    assert len(trained) == len(both) and not table.duplicated(number.KEY).any()
    for name in number.EXCESS:
        assert np.allclose(both[name], both[f"{name}_kept"], rtol=1e-4, equal_nan=True)


def test_every_exchange_of_the_held_out_tasks_is_in_it_and_has_a_kind(number, request):
    from apscope._training.experiment import Experiment

    docs, found = request.config.rootpath / "docs", set()
    for name in ("relation", "reductions", "held_out", "held_out_gpt"):
        experiment = Experiment.open(docs / f"{name}.toml")
        found |= {number.kind(*one) for one in experiment.exchanges}
    assert found == set(number.KINDS)
    nets = Experiment.open(docs / "held_out.toml")
    assert {task.title for task in nets.tasks} == {*number.PLAIN, *number.RESNET}
    table = pd.read_csv(number.CSV)
    for task in nets.tasks:
        own = table[table["task"] == task.title]
        assert list(zip(own["scheme"], own["topology"], strict=True)) == list(nets.exchanges)


def test_a_candidate_is_the_geometric_mean_of_its_parts(number):
    table = pd.read_csv(number.CSV)
    held = number.with_candidates(table)
    parts = number.CANDIDATES["signed_x_cosine"]
    expected = np.sqrt(table.loc[held.index, parts[0]] * table.loc[held.index, parts[1]])
    assert np.allclose(held["signed_x_cosine"], expected, equal_nan=True)
    assert len(number.CANDIDATES) == 16
