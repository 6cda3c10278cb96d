"""One number for every kind of error: which statistic of a replay orders schemes as training does.

python -m docs.tools.number first consecutive held_out... docs/insight.md     of the folders of apscope
                train docs/relation.toml, docs/relation_traces.toml, docs/held_out.toml and
                docs/held_out_gpt.toml; also writes docs/number.csv, a row per combination,
                and docs/number_plans.csv, the same of the plans of docs/plans.csv
python -m docs.tools.number docs/number.csv docs/insight.md                   the same without training

Both write the page's sentences and tables, beside the page insight.png and number_judged.csv: how
every candidate does on every set of combinations; and the lines of apscope.expected_excess:
bindings/apscope/_excess_loss/update_law.json.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from apscope import open_trace
from apscope._excess_loss.expected import names_of
from apscope._training import relation
from apscope._training.constant import of_trace as constant_of
from apscope._training.folder import read
from apscope._training.persistence import PERSISTENT
from apscope._training.relation import above_noise, combinations
from apscope._training.statistics import STATISTICS, of_trace
from apscope._training.verdicts import BASELINES, KEY

from . import number_page, page, plans, predicted_picture
from .candidates import LARGE, LAST, NOISE, PROGRESS, REFUSED, laws_of, with_candidates
from .insight import CHOSEN_ON, LAW, line
from .page import DOCS

CSV = DOCS / "number.csv"
JUDGED = "number_judged.csv"
PLANS = DOCS / "number_plans.csv"  # the statistics of the plans of docs/plans.csv
UPDATE_LAW = LAW.with_name("update_law.json")
EXCESS = ["seeds", "lost", "excess", "excess_low", "excess_high"]
COLUMNS = [*KEY, "optimizer", "gained", *EXCESS, *STATISTICS, *PERSISTENT]


def excesses() -> pd.DataFrame:
    """Of docs/relation.csv and docs/trained.csv; with `KEY`.

    Without rings with less room, which were trained when the candidates had been judged.
    """
    ring = pd.read_csv(DOCS / "relation.csv").assign(topology="ring")
    runs = pd.read_csv(DOCS / "trained.csv")
    runs = runs[~runs["scheme"].str.contains("headroom=")]
    found = relation.excesses(runs, [(spec, "ring") for spec in BASELINES])
    return pd.concat([ring[[*KEY, *EXCESS]], found[[*KEY, *EXCESS]]])


def replayed(first: Path, consecutive: Path) -> pd.DataFrame:
    """Those of `excesses` with their statistics of the consecutive steps; constants as trained."""
    table = excesses().merge(_tasks(consecutive), on=["task", "model"])
    traces = {label: open_trace(consecutive / "traces" / label) for label in set(table["label"])}
    rows = []
    for row in table.to_dict("records"):
        label, topology = row.pop("label"), row["topology"]
        spec = constant_of(row["scheme"], first / "traces" / label, topology)
        rows.append(row | of_trace(traces[label], spec, topology))
    return pd.DataFrame(rows)[COLUMNS]


def planned(consecutive: Path) -> pd.DataFrame:
    """The plans and single schemes of docs/plans.csv with their statistics."""
    table = pd.read_csv(plans.CSV)
    tasks = _tasks(consecutive).set_index("task")
    rows = []
    for task, own in table.groupby("task", sort=False):
        about = tasks.loc[task]
        trace = open_trace(consecutive / "traces" / about["label"])
        for scheme in dict.fromkeys([*own["plan"], *own["single"]]):
            row = {"task": task, "model": about["model"], "scheme": scheme, "topology": "ring"}
            row |= {name: about[name] for name in ("optimizer", "gained")}
            rows.append(row | of_trace(trace, scheme, "ring"))
    return pd.DataFrame(rows)


def _tasks(folder: Path) -> pd.DataFrame:
    tasks = read(folder)[0].tasks
    rows = []
    for task in tasks:
        label = task.label.replace(" ", "-")
        gained = gained_of(open_trace(folder / "traces" / label))
        rows.append((task.title, task.model, label, task.optimizer, gained))
    return pd.DataFrame(rows, columns=["task", "model", "label", "optimizer", "gained"])


def gained_of(trace: Any) -> float:
    """What fp32's loss falls by from the middle to the last run of recorded consecutive steps."""
    losses: list[list[float]] = []
    last = None
    for step in trace.manifest.steps:
        if last is None or step.number != last + 1:
            losses.append([])
        losses[-1].append(step.loss)
        last = step.number
    return float(np.mean(losses[len(losses) // 2]) - np.mean(losses[-1]))


def trained(folder: Path) -> pd.DataFrame:
    """The combinations of a folder of held-out tasks, with their statistics."""
    return combinations(folder).merge(_tasks(folder), on=["task", "model"])[COLUMNS]


def update_law(of: number_page.Page) -> dict[str, Any]:
    """The lines of `PROGRESS`, what was trained, how many held-out combinations they have."""
    kept = number_page.kept(of.table)
    found: dict[str, Any] = {}
    for name, update in PROGRESS.items():
        law, used = of.laws[name], above_noise(kept, name)
        held = of.judged(number_page.kept(of.held), name)
        found[update] = line(law, used[name]) | {
            "largest": float(used[update].max()),
            "held_out": held.count,
            "inside": held.inside,
        }
    trained = of.table[of.table["seeds"] > 0]
    found["gained"] = [float(trained["gained"].min()), float(trained["gained"].max())]
    found["lost_gain"] = REFUSED
    found["schemes"] = sorted(set().union(*map(names_of, trained["scheme"])))
    return found


def sections(of: number_page.Page) -> dict[str, list[str]]:
    """Every part of the page by its marker."""
    shown = number_page.shown_sets(of)
    return {
        "rule": [page.wrapped(text) for text in number_page.rule(of)],
        "compared": number_page.compared(of, shown, number_page.HELD),
        "read": [page.wrapped(text) for text in number_page.read(of)],
        "compared further": number_page.compared(of, number_page.folded_sets(of)),
        "collapses": number_page.predictions(of, of.lost),
        "large model": number_page.predictions(of, of.large),
        "plans by number": number_page.plan_table(of),
    }


def picture(of: number_page.Page, path: Path) -> Figure:
    table = of.table.assign(
        fitted=of.table["task"].isin(CHOSEN_ON), refused=of.table["lost_gain"] >= REFUSED,
        large=of.table["task"] == LARGE,
    )  # fmt: skip
    panels = {
        LAST: ("by update_loss_10 × the loss gained", of.laws[LAST]),
        NOISE: ("by error_over_noise", of.laws[NOISE]),
    }
    return predicted_picture.draw(table, panels, path)


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__, "folders of apscope train; or the CSV")
    parser.add_argument("--law", type=Path, default=UPDATE_LAW, help="where its lines go")
    asked = parser.parse_args(arguments)
    if asked.sources[0].is_dir():
        first, consecutive, *held_out = asked.sources
        found = [replayed(first, consecutive), *(trained(one) for one in held_out)]
        pd.concat(found, ignore_index=True).to_csv(CSV, index=False, float_format="%.5g")
        planned(consecutive).to_csv(PLANS, index=False, float_format="%.5g")
    table = with_candidates(pd.read_csv(CSV))
    of = number_page.Page(table, laws_of(table), pd.read_csv(PLANS))
    page.write(asked.page, sections(of))
    each = number_page.all_judged(of)
    each.to_csv(asked.page.with_name(JUDGED), index=False, float_format="%.3g")
    asked.law.write_text(json.dumps(update_law(of), indent=1) + "\n", encoding="utf-8")
    picture(of, asked.page.with_name("insight.png"))


if __name__ == "__main__":
    main()
