"""docs/insight.md has the results that docs/tools/insight.py and docs/tools/plans.py compute from
the committed tables."""

import re
import shutil

import pandas as pd

from docs.tools import insight, plans
from docs.tools.page import DOCS


def test_the_page_is_what_the_scripts_write(tmp_path):
    page = tmp_path / "insight.md"
    shutil.copy(DOCS / "insight.md", page)
    insight.main([str(DOCS / "relation.csv"), str(page), "--law", str(tmp_path / "law.json")])
    plans.main([str(DOCS / "plans.csv"), str(page)])
    assert page.read_text() == (DOCS / "insight.md").read_text()
    assert (tmp_path / "law.json").read_text() == insight.LAW.read_text()
    by_task = [pd.read_csv(folder / insight.BY_TASK) for folder in (tmp_path, DOCS)]
    pd.testing.assert_frame_equal(*by_task, rtol=0.01)  # three digits, some of a bootstrap


def test_every_fold_of_the_page_is_closed_and_holds_markdown():
    """Markdown inside of HTML needs an empty line around it."""
    text = (DOCS / "insight.md").read_text()
    folds = re.findall(
        r"(?<=\n\n)<details><summary>[^\n<]+</summary>\n\n(.*?)\n\n</details>(?=\n\n)",
        text,
        re.DOTALL,
    )
    assert len(folds) == text.count("<details") == text.count("</details>") >= 4
    assert all("|---|" in fold and "\n## " not in fold for fold in folds)


def test_the_experiments_are_as_the_page_says():
    from apscope._training.experiment import Experiment

    text = re.sub(r"\s+", " ", (DOCS / "insight.md").read_text())
    opened = lambda name: Experiment.open(DOCS / f"{name}.toml")
    first, held, gpt = opened("relation"), opened("held_out"), opened("held_out_gpt")
    assert len(first.tasks) == 8 and len(first.seeds) == 5 and {first.workers, held.workers} == {8}
    most = max(task.steps for task in first.tasks)
    assert most == max(task.steps for task in held.tasks)
    assert f"at most {most} steps; 8 workers, five seeds" in text
    assert f"each with {len(held.exchanges)} schemes" in text
    assert f"4,096 tokens and {gpt.tasks[0].steps:,} steps" in text
    recorded = {
        (one.record_steps, one.record_consecutive) for one in (held, gpt, opened("relation_traces"))
    }
    assert recorded == {(3, 30)} and "three runs of 30 consecutive steps" in text


def test_every_scheme_of_the_experiment_has_a_place_in_the_tables():
    from apscope._training.experiment import Experiment

    experiment = Experiment.open(DOCS / "relation.toml")
    places = insight.named(pd.DataFrame({"scheme": [one.scheme for one in experiment.exchanges]}))
    assert set(places["rung"]) == set(insight.RUNGS) and set(places["format"]) == set(
        insight.FORMATS
    )
    assert not places.duplicated(["rung", "format"]).any()
    assert set(insight.CHOSEN_ON) < {task.title for task in experiment.tasks}


def test_a_plan_is_worse_only_if_the_whole_interval_is_above_0():
    ends = [(0.1, 0.2), (0.3, 0.4), (-0.2, -0.1), (-0.1, 0.1)]
    rows = [
        {"figure": figure, "difference_low": low, "difference_high": high,
         "difference_excess": (low + high) / 2}
        for figure, kept in zip(plans.FIGURES, (ends, ends[2:]), strict=True) for low, high in kept
    ]  # fmt: skip
    assert plans.counted(pd.DataFrame(rows)) == (
        "Of 4 plans chosen by `error_over_noise`, 1 trained better than the best single scheme and 2 "
        "worse; the largest difference in loss is +0.35 nats. Of 2 plans chosen by `step_nmse`, 1 "
        "trained better than the best single scheme and 0 worse; the largest difference in loss is "
        "+0 nats."
    )
    assert list(plans.decided(pd.DataFrame(rows))["difference_low"]) == [0.1, 0.3, -0.2, -0.2]
