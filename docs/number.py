"""One number for every kind of error: which statistic of a replay orders schemes as training does.

python docs/number.py first consecutive held_out... docs/insight.md     of the folders of apscope
                train docs/relation.toml, docs/relation_traces.toml, docs/held_out.toml and
                docs/held_out_gpt.toml; also writes docs/number.csv, a row per combination,
                and docs/number_plans.csv, the same of the plans of docs/plans.csv
python docs/number.py docs/number.csv docs/insight.md                   the same without training

The candidates were fixed before the tasks of docs/held_out.toml were trained, with their theory.
Take SGD on a quadratic with the rate eta and the curvature h: the weights average the gradients of
about k = 2 / (eta h) steps. Their noise there is that of the batch times 1 + |sum of e|^2 / (sum of
N), both over k steps, e the error and N the noise's variance (`apscope._training.persistence`).
So an error that averages out counts once, one that stays counts k times, one that is fed back
less than once (`persistence_k`). What is lost of the gradient itself, by a gain below 1 or a
turned direction, slows the descent, whatever the noise (`lost_gain`, `cosine_loss`). Several
names: their geometric mean.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import page
import pandas as pd
from insight import CHOSEN_ON, number, tasks_of

from apscope import open_trace
from apscope._training.constant import of_trace as constant_of
from apscope._training.folder import read
from apscope._training.persistence import PERSISTENT
from apscope._training.relation import Law, above_noise, combinations, fit, wrong_pairs
from apscope._training.statistics import STATISTICS, of_trace
from apscope._training.verdicts import BASELINES, KEY, interval

DOCS = Path(__file__).parent
CSV = DOCS / "number.csv"
PLANS = DOCS / "number_plans.csv"  # the statistics of the plans of docs/plans.csv
EXCESS = ["seeds", "lost", "excess", "excess_low", "excess_high"]
COLUMNS = [*KEY, "optimizer", "gained", *EXCESS, *STATISTICS, *PERSISTENT]
TODAY = "typical_32"  # error_over_noise
LAST = "update_loss_10_times_gained"
SHOWN = (
    TODAY, "step_nmse", "persistence_30", "cosine_loss_10", "update_loss_10",
    LAST,
)  # fmt: skip
MANY = 0.5  # nats
REFUSED = 1 / 3  # lost gain from which on `LAST` says nothing
HALF = 0.005  # nats: of the interval of an excess from fewer than three seeds

CANDIDATES: dict[str, tuple[str, ...]] = {
    # those of docs/insight.md
    "typical_32": ("typical_32",),
    "pooled": ("pooled",),
    "step_nmse": ("step_nmse",),
    "cosine_loss": ("cosine_loss",),
    "signed": ("signed",),
    # what persists over k consecutive steps
    "typical_persistence_10": ("typical_persistence_10",),
    "persistence_10": ("persistence_10",),
    "persistence_30": ("persistence_30",),
    "lost_persistence_10": ("lost_persistence_10",),
    # what persists times what is lost
    "signed_x_cosine": ("signed", "cosine_loss"),
    "signed_10_x_cosine": ("signed_10", "cosine_loss"),
    "typical_persistence_10_x_cosine": ("typical_persistence_10", "cosine_loss"),
    "typical_persistence_30_x_cosine": ("typical_persistence_30", "cosine_loss"),
    "signed_x_gain": ("signed", "lost_gain"),
    "typical_persistence_10_x_gain": ("typical_persistence_10", "lost_gain"),
    "typical_persistence_30_x_gain": ("typical_persistence_30", "lost_gain"),
}
#: Thought of when the runs of plain-sgd and some of plain-adam were there, before resnet-sgd and
#: the GPT: the direction that a layer loses of the gradient that an optimizer averages.
LATER: dict[str, tuple[str, ...]] = {
    "cosine_loss_3": ("cosine_loss_3",),
    "cosine_loss_10": ("cosine_loss_10",),
    "cosine_loss_30": ("cosine_loss_30",),
    "persistence_10_x_cosine_10": ("persistence_10", "cosine_loss_10"),
    "lost_persistence_10_x_cosine_10": ("lost_persistence_10", "cosine_loss_10"),
}
#: Thought of after these, with the small GPT (docs/gpt.toml) and eight exchanges of resnet-sgd seen,
#: before the large GPT: the direction of what the optimizer does in k steps with a whole model. SGD's
#: update is the gradient, Adam's has every element over its root mean square, LARS's every layer over
#: its length.
UPDATES = {f"update_loss_{k}": k for k in (3, 10, 30)}
#: And times the loss that fp32 gains from the middle of the training on: what is lost is progress.
#: Thought of when all tasks but the large GPT were known.
PROGRESS = {LAST: "update_loss_10"}
OF_OPTIMIZER = {
    "sgd": "model_cosine_loss_{}", "lars": "cosine_loss_{}",
    "adam": "adam_cosine_loss_{}", "adamw": "adam_cosine_loss_{}",
}  # fmt: skip


PLAIN, RESNET = ("plain-sgd", "plain-adam"), ("resnet-sgd",)
SMALL, LARGE = "tokens", "gpt-3m"  # the GPTs: a task, and one that has the model's name
KINDS = ("nearest", "two phases", "blocks", "clipping", "stochastic", "error feedback", "plan")


def kind(scheme: str, topology: str) -> str:
    """Of an exchange: what it rounds, and how."""
    if scheme.startswith("hybrid("):
        return "plan"
    if scheme.startswith("error_feedback("):
        return "error feedback"
    if "rounding=stochastic" in scheme or scheme.startswith("qsgd"):
        return "stochastic"
    if re.match(r"loss_scaling:.*scale=\d", scheme):
        return "clipping"
    if re.match(r"mx|nvfp4|.*unit=\d", scheme):
        return "blocks"
    return "two phases" if topology.startswith("two_phase") else "nearest"


def excesses() -> pd.DataFrame:
    """Of docs/relation.csv and docs/trained.csv; with `KEY`."""
    ring = pd.read_csv(DOCS / "relation.csv").assign(topology="ring")
    runs = pd.read_csv(DOCS / "trained.csv")
    base = runs[runs["scheme"] == BASELINES[0]]
    pairs = runs.merge(base, on=["task", "model", "seed"], suffixes=("", "_base"))
    found = []
    for key, own in pairs.groupby(KEY, sort=False):
        if key[2] in BASELINES:
            continue
        sound = own[np.isfinite(own["loss"])]
        ends = interval((sound["loss"] - sound["loss_base"]).to_numpy(float))
        found.append((*key, len(own), len(own) - len(sound), *ends))
    return pd.concat([ring[[*KEY, *EXCESS]], pd.DataFrame(found, columns=[*KEY, *EXCESS])])


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
    table = pd.read_csv(DOCS / "plans.csv")
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


def plans(found: pd.DataFrame) -> Iterator[str]:
    """Plan over single scheme where their trainings differ, by `SHOWN` but `LAST`."""
    table = pd.read_csv(DOCS / "plans.csv")
    table = table[(table["difference_low"] > 0) | (table["difference_high"] < 0)]
    held = with_candidates(found.assign(**dict.fromkeys(EXCESS, np.nan)))
    held = held.set_index(["task", "scheme"])
    heads = [f"{row.task} {row.volume:g} `{row.figure}`" for row in table.itertuples()]
    yield f"| plan over single | right | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 2) + "|"
    trained = [number(row.plan_excess / row.single_excess) for row in table.itertuples()]
    yield f"| excess, trained | | {' | '.join(trained)} |"
    for name in SHOWN[:-1]:
        of = held[name]
        ratios = [of[row.task, row.plan] / of[row.task, row.single] for row in table.itertuples()]
        better = table["difference_excess"] < 0
        right = sum((ratio < 1) == one for ratio, one in zip(ratios, better, strict=True))
        yield f"| {name} | {right} of {len(ratios)} | {' | '.join(map(number, ratios))} |"


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


def with_candidates(table: pd.DataFrame) -> pd.DataFrame:
    """With a column of every candidate, and `kind`; of few seeds an interval of a fixed width."""
    held = table.copy()
    held.loc[held["model"] == LARGE, "task"] = LARGE
    for name, parts in (CANDIDATES | LATER).items():
        held[name] = np.exp(np.log(table[list(parts)]).mean(axis=1, skipna=False))
    for name, k in UPDATES.items():
        columns = table["optimizer"].map(OF_OPTIMIZER)
        held[name] = [row[row["of"].format(k)] for _, row in table.assign(of=columns).iterrows()]
    for name, part in PROGRESS.items():
        held[name] = held[part] * held["gained"]
    few = held["seeds"] < 3
    held.loc[few, "excess_low"], held.loc[few, "excess_high"] = (
        held.loc[few, "excess"] - HALF, held.loc[few, "excess"] + HALF,
    )  # fmt: skip
    held["kind"] = [kind(*both) for both in zip(held["scheme"], held["topology"], strict=True)]
    return held[held["step_nmse"] != 1]  # what sends only zeros has no number


class Judged(NamedTuple):
    """A candidate's line on a set of combinations."""

    wrong: int
    pairs: int
    bias: float  # trained over predicted, geometric mean
    spread: float  # a factor: root mean square of its logarithm
    inside: int  # of the 95 % interval
    count: int  # combinations above the seeds' noise

    def __str__(self) -> str:
        share = f"{100 * self.wrong / self.pairs:.1f} %; " if self.pairs else ""
        spread = f"{number(self.spread)}; {self.inside}" if self.count else ""
        return share + spread


def judged(table: pd.DataFrame, candidate: str, law: Law) -> Judged:
    held = above_noise(table, candidate)
    low, high = law.predict_interval(held[candidate])
    log = np.log10(held["excess"] / law.predict(held[candidate]))
    wrong, pairs = wrong_pairs(table, candidate)
    return Judged(
        len(wrong), pairs, 10.0 ** log.mean(), 10.0 ** np.sqrt((log**2).mean()),
        int(held["excess"].between(low, high).sum()), len(held),
    )  # fmt: skip


def sets_of(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The combinations by what their tasks are for; those without any are left out."""
    task = table["task"]
    known = task.isin((*CHOSEN_ON, *PLAIN, *RESNET, SMALL, LARGE))
    found = {
        "fitted: 3 tasks": table[task.isin(CHOSEN_ON)],
        "5 tasks": table[~known],
        "nets without normalization": table[task.isin(PLAIN)],
        "ResNet": table[task.isin(RESNET)],
        "small GPT": table[task == SMALL],
        "GPT": table[task == LARGE],
        "all not fitted": table[~task.isin(CHOSEN_ON)],
    }
    return {name: own for name, own in found.items() if own["seeds"].any()}


def laws_of(table: pd.DataFrame) -> dict[str, Law]:
    """Of every candidate its line through the tasks that it may be fitted to."""
    own = table[table["task"].isin(CHOSEN_ON)]
    found = {}
    for name in CANDIDATES | LATER | UPDATES | PROGRESS:
        held = above_noise(own, name)
        found[name] = fit(held[name], held["excess"])
    return found


def _when(candidate: str) -> str:
    return "" if candidate in CANDIDATES else ", later" if candidate in LATER else ", last"


def judgement(table: pd.DataFrame, laws: dict[str, Law]) -> Iterator[str]:
    """Every candidate on every set: wrong pairs, spread, and how many are in the interval."""
    sets = sets_of(table)
    yield f"| candidate | slope | at 1, nats | interval | {' | '.join(sets)} |"
    yield "|---" * (4 + len(sets)) + "|"
    counts = [judged(own, TODAY, laws[TODAY]) for own in sets.values()]
    cells = [f"of {one.pairs} pairs; ; of {one.count}" for one in counts]
    yield f"| | | | | {' | '.join(cells)} |"
    for name, law in laws.items():
        cells = [str(judged(own, name, law)) for own in sets.values()]
        wide = law.predict_interval(1.0)[1] / law.factor
        yield (
            f"| {name}{_when(name)} | {law.slope:.2f} | "
            f"{number(law.factor)} | {number(wide)} | {' | '.join(cells)} |"
        )
    kept = {name: own[own["lost_gain"] < REFUSED] for name, own in sets.items()}
    held = [judged(own, LAST, laws[LAST]) for own in kept.values()]
    cells = [f"{one}{f' of {one.count}' if one.count else ''}" for one in held]
    yield f"| {LAST}, lost gain below 1/3 | | | | {' | '.join(cells)} |"


def predictions(own: pd.DataFrame, laws: dict[str, Law]) -> Iterator[str]:
    """Of some combinations what was trained, and what `SHOWN` predict."""
    yield f"| task | scheme | trained, nats | {' | '.join(SHOWN)} |"
    yield "|---" * (3 + len(SHOWN)) + "|"
    for row in own.itertuples():
        cells = []
        for name in SHOWN:
            value = getattr(row, name)
            low, high = laws[name].predict_interval(value)
            said = f"{number(laws[name].predict(value))}"
            refused = name == LAST and row.lost_gain >= REFUSED
            inside = ", inside" if low <= row.excess <= high else ", **outside**"
            inside = inside if row.seeds else ""
            cells.append("refused" if refused else said + inside)
        lost = f", {row.lost} of {row.seeds} runs not finite" if row.lost else ""
        yield (
            f"| {row.task} | `{row.scheme}`, `{row.topology}` | "
            f"{number(row.excess) if row.seeds else 'not yet'}{lost} | "
            f"{' | '.join(cells)} |"
        )


def by_kind(table: pd.DataFrame, laws: dict[str, Law]) -> Iterator[str]:
    """By kind of scheme, on all tasks that were not fitted: trained over predicted, inside."""
    own = table[~table["task"].isin(CHOSEN_ON)]
    kinds = [one for one in KINDS if len(above_noise(own[own["kind"] == one], TODAY))]
    yield f"| candidate | {' | '.join(kinds)} | pairs of one kind | of two kinds |"
    yield "|---" * (len(kinds) + 3) + "|"
    for name, law in laws.items():
        each = [judged(own[own["kind"] == one], name, law) for one in kinds]
        cells = [f"{number(one.bias)}; {one.inside} of {one.count}" for one in each]
        every = judged(own, name, law)
        wrong, pairs = (sum(getattr(one, part) for one in each) for part in ("wrong", "pairs"))
        cells += [f"{wrong} of {pairs}", f"{every.wrong - wrong} of {every.pairs - pairs}"]
        yield f"| {name} | {' | '.join(cells)} |"


def by_task(table: pd.DataFrame, laws: dict[str, Law]) -> Iterator[str]:
    """`SHOWN` on every task: wrong pairs, trained over predicted, and inside."""
    yield f"| task | {' | '.join(SHOWN)} |"
    yield "|---" * (len(SHOWN) + 1) + "|"
    for task in sorted(tasks_of(table[table["seeds"] > 0]), key=lambda task: task not in CHOSEN_ON):
        found = [judged(table[table["task"] == task], name, laws[name]) for name in SHOWN]
        cells = [
            f"{one.wrong} of {one.pairs}; {number(one.bias)}; {one.inside} of {one.count}"
            for one in found
        ]
        yield f"| {task}{', fitted' if task in CHOSEN_ON else ''} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path, nargs="+", help="folders of apscope train; the CSV")
    parser.add_argument("page", type=Path)
    asked = parser.parse_args(arguments)
    if asked.sources[0].is_dir():
        first, consecutive, *held_out = asked.sources
        found = [replayed(first, consecutive), *(trained(one) for one in held_out)]
        pd.concat(found, ignore_index=True).to_csv(CSV, index=False, float_format="%.5g")
        planned(consecutive).to_csv(PLANS, index=False, float_format="%.5g")
    table = with_candidates(pd.read_csv(CSV))
    laws = laws_of(table)
    lost = table[table["task"].isin(PLAIN) & (table["excess"] >= MANY)]
    for name, lines in {
        "number": judgement(table, laws),
        "number by kind": by_kind(table, laws),
        "number by task": by_task(table, laws),
        "collapses": predictions(lost, laws),
        "large model": predictions(table[table["task"] == LARGE], laws),
        "plans by number": plans(pd.read_csv(PLANS)),
    }.items():
        begin, end = f"<!-- {name}: written by docs/number.py -->", f"<!-- end of {name} -->"
        page.replace_between(asked.page, begin, end, list(lines))


if __name__ == "__main__":
    main()
