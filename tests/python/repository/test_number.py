"""docs/insight.md has the sentences, tables and picture that docs/tools/number.py computes from
docs/number.csv, whose trained excesses are those of the other committed tables."""

import shutil

import numpy as np
import pandas as pd
import pytest

from docs.tools import candidates, number, number_page
from docs.tools.page import DOCS
from tests.python.drawn_labels import faults


def page(table):
    """What the page is written from, with the laws of the committed table."""
    held = candidates.with_candidates(table)
    return number_page.Page(held, candidates.laws_of(held), pd.read_csv(number.PLANS))


def test_the_page_is_what_the_script_writes(tmp_path):
    shutil.copy(DOCS / "insight.md", tmp_path)
    law = tmp_path / "law.json"
    number.main([str(DOCS / "number.csv"), str(tmp_path / "insight.md"), "--law", str(law)])
    assert law.read_text() == number.UPDATE_LAW.read_text()
    assert (tmp_path / "insight.md").read_text() == (DOCS / "insight.md").read_text()
    assert (tmp_path / "insight.png").stat().st_size > 20_000
    judged = [pd.read_csv(folder / number.JUDGED) for folder in (tmp_path, DOCS)]
    pd.testing.assert_frame_equal(*judged, rtol=0.01)  # three digits
    assert judged[0]["candidate"].nunique() == 26


def test_the_picture_has_a_mark_for_every_kind():
    marks = number.predicted_picture.MARKS
    assert set(marks) == set(candidates.KINDS)
    shapes, colours = zip(*marks.values(), strict=True)
    assert len(set(shapes)) == len(set(colours)) == len(marks) and "*" not in shapes


def test_every_label_of_the_picture_can_be_read_and_what_lies_beyond_its_axes_has_an_arrow(
    tmp_path,
):
    of = page(pd.read_csv(DOCS / "number.csv"))
    figure = number.picture(of, tmp_path / "insight.png")
    assert faults(figure) == []
    low, high = number.predicted_picture.ENDS
    for ax, name in zip(figure.axes, (number.LAST, number.NOISE), strict=True):
        held = number.above_noise(of.table, name)
        values = np.stack([of.laws[name].predict(held[name].to_numpy()), held["excess"]])
        beyond = int(((values < low) | (values > high)).any(axis=0).sum())
        assert len(ax.texts) == beyond > 2  # annotations without a text: arrows


def test_its_table_has_every_trained_combination_of_the_other_pages():
    table = pd.read_csv(number.CSV)
    trained = number.excesses()
    both = trained.merge(table, on=number.KEY, suffixes=("", "_kept"))
    assert len(trained) == len(both) and not table.duplicated(number.KEY).any()
    for name in number.EXCESS:
        assert np.allclose(both[name], both[f"{name}_kept"], rtol=1e-4, equal_nan=True)


def test_every_exchange_of_the_held_out_tasks_is_in_it_and_has_a_kind():
    from apscope._training.experiment import Experiment

    found = set()
    for name in ("relation", "reductions", "held_out", "held_out_gpt"):
        experiment = Experiment.open(DOCS / f"{name}.toml")
        found |= {candidates.kind(*one) for one in experiment.exchanges}
    assert found == set(candidates.KINDS)
    nets = Experiment.open(DOCS / "held_out.toml")
    assert {task.title for task in nets.tasks} == {*candidates.PLAIN, *candidates.RESNET}
    table = pd.read_csv(number.CSV)
    for task in nets.tasks:
        own = table[table["task"] == task.title]
        assert list(zip(own["scheme"], own["topology"], strict=True)) == list(nets.exchanges)


def test_a_candidate_is_the_geometric_mean_of_its_parts():
    table = pd.read_csv(number.CSV)
    held = candidates.with_candidates(table)
    parts = candidates.CANDIDATES["signed_x_cosine"]
    expected = np.sqrt(table.loc[held.index, parts[0]] * table.loc[held.index, parts[1]])
    assert np.allclose(held["signed_x_cosine"], expected, equal_nan=True)
    assert len(candidates.CANDIDATES) == 16


def test_what_the_page_says_of_the_large_gpt_follows_its_rows():
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


def test_the_wrong_pairs_of_two_kinds_are_the_others_of_all():
    of = page(pd.read_csv(number.CSV))
    wrong, pairs = number_page.of_two_kinds(of, of.held, candidates.NOISE)
    each = [
        candidates.wrong_pairs(own, candidates.NOISE)
        for own in number_page.by_kind(of.held).values()
    ]
    every = candidates.wrong_pairs(of.held, candidates.NOISE)
    assert wrong + sum(len(one[0]) for one in each) == len(every[0])
    assert pairs + sum(one[1] for one in each) == every[1] and 0 < wrong < pairs
    kinds = dict(zip(of.held["scheme"] + ", " + of.held["topology"], of.held["kind"], strict=False))
    mixed = every[0]["better"].map(kinds) != every[0]["worse"].map(kinds)
    assert mixed.sum() == wrong


@pytest.mark.parametrize("update", ["update_loss_10", "update_loss_3"])
def test_expected_excess_is_the_line_and_its_coverage_that_of_the_docstring(update):
    """Of every combination that was not fitted; what the docstring and the page say of it."""
    import apscope

    of = page(pd.read_csv(number.CSV))
    (name,) = (name for name, one in number.PROGRESS.items() if one == update)
    law = of.laws[name]
    own = number.above_noise(of.held, name)
    told = [
        apscope.expected_excess(
            row["scheme"], gained=row["gained"], lost_gain=row["lost_gain"], **{update: row[update]}
        )
        for row in own.to_dict("records")
    ]
    kept = own["lost_gain"] < 1 / 3
    assert [one.refused == "" for one in told] == kept.tolist() and 0 < kept.sum() < len(kept)
    assert all("1/3 or more" in one.refused for one, held in zip(told, kept) if not held)
    losses = np.array([one.loss for one in told])[kept]
    assert np.allclose(losses, law.predict(own[name][kept]), rtol=5e-3)  # four digits
    inside = [one.low <= excess <= one.high for one, excess in zip(told, own["excess"])]
    share, held = np.sum(inside) / kept.sum(), number.update_law(of)[update]
    assert (np.sum(inside), kept.sum()) == (held["inside"], held["held_out"])
    text = " ".join(apscope.expected_excess.__doc__.split())
    said = {
        "update_loss_10": f"a factor of {law.half:.1f} either way, has about 90 % of",
        "update_loss_3": f"a factor of {law.half:.1f}, about 93 %",
    }
    assert said[update] in text
    assert abs(share - {"update_loss_10": 0.90, "update_loss_3": 0.93}[update]) < 0.015
    pages = " ".join((DOCS / "insight.md").read_text().split())
    assert f"{np.sum(inside)} of {kept.sum()} ({100 * share:.0f} %)" in pages
    if update == "update_loss_10":
        assert f"excess = {law.factor:.1f} (update_loss_10 gained)^{law.slope:.2f} nats" in text
        low, high = number.update_law(of)["gained"]
        assert f"outside of {low:.2g} to {high:.2g}" in text


def test_nothing_that_was_trained_lies_below_the_range_and_costs_more_than_is_told():
    import apscope

    of = page(pd.read_csv(number.CSV))
    held = of.table[(of.table["lost_gain"] < 1 / 3) & (of.table["lost"] == 0)]
    below = 0
    for row in held[held["seeds"] > 2].to_dict("records"):
        told = apscope.expected_excess(
            row["scheme"], gained=row["gained"], lost_gain=row["lost_gain"],
            update_loss_10=row["update_loss_10"],
        )  # fmt: skip
        if np.isnan(told.loss) and not told.refused:
            below += 1
            assert row["excess_low"] <= told.high and str(told).startswith("0 to ")
    assert below
