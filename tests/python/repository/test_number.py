"""docs/insight.md has the sentences, tables and picture that docs/number.py computes from
docs/number.csv, whose trained excesses are those of the other committed tables."""

import shutil

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def docs(monkeypatch, request):
    folder = request.config.rootpath / "docs"
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def number(docs):
    import number

    return number


@pytest.fixture
def candidates(docs):
    import candidates

    return candidates


@pytest.fixture
def number_page(docs):
    import number_page

    return number_page


@pytest.fixture
def page(number, candidates, number_page):
    """What the page is written from, with the laws of the committed table."""

    def made(table):
        held = candidates.with_candidates(table)
        laws = candidates.laws_of(held)
        return number_page.Page(held, laws, pd.read_csv(number.PLANS))

    return made


def test_the_page_is_what_the_script_writes(number, docs, tmp_path):
    shutil.copy(docs / "insight.md", tmp_path)
    number.main([str(docs / "number.csv"), str(tmp_path / "insight.md")])
    assert (tmp_path / "insight.md").read_text() == (docs / "insight.md").read_text()
    assert (tmp_path / "insight.png").stat().st_size > 20_000
    judged = [pd.read_csv(folder / number.JUDGED) for folder in (tmp_path, docs)]
    pd.testing.assert_frame_equal(*judged, rtol=0.01)  # three digits
    assert judged[0]["candidate"].nunique() == 25


def test_the_picture_has_a_mark_for_every_kind(number, candidates):
    marks = number.predicted_picture.MARKS
    assert set(marks) == set(candidates.KINDS)
    shapes, colours = zip(*marks.values(), strict=True)
    assert len(set(shapes)) == len(set(colours)) == len(marks) and "*" not in shapes


def test_its_table_has_every_trained_combination_of_the_other_pages(number):
    table = pd.read_csv(number.CSV)
    trained = number.excesses()
    both = trained.merge(table, on=number.KEY, suffixes=("", "_kept"))
    assert len(trained) == len(both) and not table.duplicated(number.KEY).any()
    for name in number.EXCESS:
        assert np.allclose(both[name], both[f"{name}_kept"], rtol=1e-4, equal_nan=True)


def test_every_exchange_of_the_held_out_tasks_is_in_it_and_has_a_kind(number, candidates, docs):
    from apscope._training.experiment import Experiment

    found = set()
    for name in ("relation", "reductions", "held_out", "held_out_gpt"):
        experiment = Experiment.open(docs / f"{name}.toml")
        found |= {candidates.kind(*one) for one in experiment.exchanges}
    assert found == set(candidates.KINDS)
    nets = Experiment.open(docs / "held_out.toml")
    assert {task.title for task in nets.tasks} == {*candidates.PLAIN, *candidates.RESNET}
    table = pd.read_csv(number.CSV)
    for task in nets.tasks:
        own = table[table["task"] == task.title]
        assert list(zip(own["scheme"], own["topology"], strict=True)) == list(nets.exchanges)


def test_a_candidate_is_the_geometric_mean_of_its_parts(number, candidates):
    table = pd.read_csv(number.CSV)
    held = candidates.with_candidates(table)
    parts = candidates.CANDIDATES["signed_x_cosine"]
    expected = np.sqrt(table.loc[held.index, parts[0]] * table.loc[held.index, parts[1]])
    assert np.allclose(held["signed_x_cosine"], expected, equal_nan=True)
    assert len(candidates.CANDIDATES) == 16


def test_what_the_page_says_of_the_large_gpt_follows_its_rows(
    number, candidates, number_page, page
):
    """A scheme that is trained later changes the sentence and its row of the table."""
    table = pd.read_csv(number.CSV)
    large = table["model"] == candidates.LARGE
    scheme = "error_feedback(aps:e3m0,rule=tight)"
    last = table.index[large & (table["scheme"] == scheme)]
    assert len(last) == 1

    def told(seeds, excess, low, high):
        own = table.copy()
        own.loc[last, ["seeds", "lost", "excess", "excess_low", "excess_high"]] = (
            seeds, 0, excess, low, high,
        )  # fmt: skip
        of = page(own)
        sentence = number_page.large_model(of)
        return sentence, [row for row in number_page.predictions(of, of.large) if scheme in row][0]

    before = told(0, *3 * [np.nan])
    after = told(3, 1.4, 1.3, 1.5)
    assert "| not yet |" in before[1] and "| 1.4 | 1.4, inside |" in after[1]
    done = int((table[large & (table["scheme"] != scheme)]["seeds"] > 0).sum())
    assert f"Schemes trained: {done} of 6" in before[0]
    assert f"Schemes trained: {done + 1} of 6" in after[0] and " 3 (of" in after[0]
    assert "**outside**" in told(3, 0.1, 0.05, 0.15)[1].split("|")[4]
    assert "in the noise" in told(3, 0.01, -0.5, 0.52)[1].split("|")[4]
    assert "**outside**" in told(3, 0.01, -0.03, 0.05)[1].split("|")[4]


def test_the_wrong_pairs_of_two_kinds_are_the_others_of_all(number, candidates, number_page, page):
    of = page(pd.read_csv(number.CSV))
    wrong, pairs = number_page.of_two_kinds(of, of.held, candidates.TODAY)
    each = [
        candidates.wrong_pairs(own, candidates.TODAY)
        for own in number_page.by_kind(of.held).values()
    ]
    every = candidates.wrong_pairs(of.held, candidates.TODAY)
    assert wrong + sum(len(one[0]) for one in each) == len(every[0])
    assert pairs + sum(one[1] for one in each) == every[1] and 0 < wrong < pairs
    kinds = dict(zip(of.held["scheme"] + ", " + of.held["topology"], of.held["kind"], strict=False))
    mixed = every[0]["better"].map(kinds) != every[0]["worse"].map(kinds)
    assert mixed.sum() == wrong
