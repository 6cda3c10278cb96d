"""What predicts the cost of an error that is rounded to nearest: tables of docs/insight.md.

python -m docs.tools.insight trained docs/insight.md       of the folder of apscope train
                            docs/relation.toml; also writes docs/relation.csv, a row a combination
python -m docs.tools.insight docs/relation.csv docs/insight.md     the same without training

Both write docs/relation_by_task.csv, a row per task and statistic, and the line of `USUAL` for
apscope.expected_excess: bindings/apscope/_excess_loss/law.json.

Lines are fitted on `CHOSEN_ON` alone; the other tasks test them.
"""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from apscope._schemes.scheme import as_scheme
from apscope._training.relation import (
    Law,
    above_noise,
    combinations,
    fit,
    ranking,
    ratios,
    relations,
)

from . import page

#: Stated in docs/relation.toml before the runs.
CHOSEN_ON = ("digits-sgd", "lstm-adam", "transformer-adam")
FORMATS = ("e5m2", "e4m3", "e3m4", "e2m5", "e3m0", "e2m1")
RUNGS = ("constant", "step", "layer", "stochastic", "error feedback", "MX")
UNBIASED = "stochastic"
USUAL = "typical_32"  # error_over_noise of every table of apscope
BY_TASK = "relation_by_task.csv"
LAW = page.ROOT / "bindings/apscope/_excess_loss/law.json"
OPEN_LOOP = "error feedback"  # a trace's steps are too far apart for it
NAMES = {
    "typical_1": "typical, single elements", "typical_8": "typical, blocks of 8",
    "typical_32": "typical, blocks of 32",
    "typical_256": "typical, blocks of 256", "lost_32": "lost share of the batch, blocks of 32",
    "signed": "signed, single elements", "elements": "elements, summed over the steps",
    "pooled": "pooled",
    "step_nmse": "NMSE of a step", "cosine_loss": "1 - cosine of a layer",
}  # fmt: skip
TRANSFORMERS = ("transformer-adam", "transformer-b64")  # accuracies of which are known best


def rung(scheme: str) -> str:
    """The rung of a scheme of docs/relation.toml."""
    if scheme.startswith("error_feedback("):
        return "error feedback"
    if scheme.startswith("mx:"):
        return "MX"
    if scheme.startswith("loss_scaling:"):
        return "constant"
    if "rounding=stochastic" in scheme:
        return "stochastic"
    return "step" if "unit=model" in scheme else "layer"


def named(table: pd.DataFrame) -> pd.DataFrame:
    """With the columns `rung` and `format`."""
    formats = table["scheme"].map(lambda s: re.search(r"e\dm\d", s).group())
    return table.assign(rung=table["scheme"].map(rung), format=formats)


def law_of(table: pd.DataFrame, statistic: str) -> Law:
    """One line through all tasks."""
    held = above_noise(table, statistic)
    return fit(held[statistic], held["excess"])


def number(value: float, digits: int = 2) -> str:
    """A figure of a table."""
    text = "" if pd.isna(value) else f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text else text


def tasks_of(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["task"]))


def constants(table: pd.DataFrame) -> list[str]:
    """One constant scale against APS, by both figures and by the loss, over the tasks."""
    heads = ["format", "error over noise, constant / APS", "step NMSE, constant / APS"]
    rows = []
    by_rung = table.set_index(["format", "rung", "task"]).sort_index()
    for name in FORMATS:
        if (name, "constant") not in by_rung.index:
            continue
        constant, layer = by_rung.loc[(name, "constant")], by_rung.loc[(name, "layer")]
        cells = [constant[figure] / layer[figure] for figure in (USUAL, "step_nmse")]
        cells += [constant["excess"], layer["excess"]]
        rows.append((f"`{name}`", *(page.span(cell, lambda x: number(x, 3)) for cell in cells)))
    return page.table([*heads, "excess with the constant, nats", "excess with APS, nats"], rows)


def claim(table: pd.DataFrame) -> list[str]:
    """APS at eight bits: loss and accuracy against fp32, over the tasks."""
    heads = [
        "format", "excess, nats", "its 95 % interval ends at most at", "of the text tasks",
        "accuracy, points", "interval on the two transformers", "half of it on the other tasks",
        "pass, undecided, fail",
    ]  # fmt: skip
    rows = []
    for name in ("e5m2", "e4m3", "e3m4"):
        own = table[(table["rung"] == "layer") & (table["format"] == name)].set_index("task")
        text = own.loc[[task for task in own.index if task.startswith(("lstm", "transformer"))]]
        points = 100 * own[["excess_accuracy", "excess_accuracy_low", "excess_accuracy_high"]]
        mean, low, high = (points[column] for column in points)
        half = ((high - low) / 2).drop(list(TRANSFORMERS))
        known = [f"{low[task]:.2f} to {high[task]:.2f}" for task in TRANSFORMERS]
        counts = own["verdict"].value_counts()
        rows.append((
            f"`{name}`", page.span(own["excess"], "{:+.2g}".format),
            f"{own['excess_high'].max():+.2g}", f"{text['excess_high'].max():+.2g}",
            page.span(mean, "{:+.2f}".format), "; ".join(known), page.span(half, "{:.1f}".format),
            ", ".join(str(counts.get(one, 0)) for one in ("pass", "undecided", "fail")),
        ))  # fmt: skip
    return page.table(heads, rows)


def short(table: pd.DataFrame, statistic: str, law: Law) -> str:
    """How a law does on the tasks that were held out, as sentences."""
    held, of_task = table["task"].isin(CHOSEN_ON), ratios(nearest(table), statistic, law)
    of_task = of_task[~of_task["task"].isin(CHOSEN_ON)]
    own, wide, first = (
        ranking(every[held.loc[every.index] == chosen]).set_index("statistic")
        for every, chosen in (
            (nearest(table), False), (fitted(table), False), (fitted(table), True),
        )
    )  # fmt: skip
    best = first.index[0]
    return (
        f"On the {len(of_task)} held-out tasks it orders all but {own.at[statistic, 'wrong']} of "
        f"the {own.at[statistic, 'pairs']} pairs as training does, and {of_task['within'].sum()} "
        f"of the {of_task['count'].sum()} combinations above the noise lie in the interval. The "
        f"{len(own)} statistics of single steps hardly differ: they have {own['wrong'].min()} to "
        f"{own['wrong'].max()} wrong pairs, with stochastic rounding {wide['wrong'].min()} to "
        f"{wide['wrong'].max()} of {wide.at[statistic, 'pairs']}. The rule stated before the runs, "
        "fewest wrong pairs on the fitted tasks and then the correlation, chooses *"
        f"{NAMES[best]}* ({first.at[best, 'wrong']} of {first.at[best, 'pairs']} wrong); "
        f"`error_over_noise`, *{NAMES[statistic]}*, has {first.at[statistic, 'wrong']}."
    )


def tested(table: pd.DataFrame, statistic: str, law: Law) -> list[str]:
    """The law on every task."""
    missed = ratios(table, statistic, law).set_index("task")
    heads = ["task", "combinations", "trained over predicted", "spread of that", "in the interval"]
    rows = []
    for task in sorted(tasks_of(table), key=lambda t: t not in CHOSEN_ON):
        row = missed.loc[task]
        every = table[(table["task"] == task) & table["excess_low"].notna() & (table["lost"] == 0)]
        low, high = law.predict_interval(every[statistic])
        agree = ((every["excess_low"] <= high) & (every["excess_high"] >= low)).sum()
        rows.append((
            f"{task}{'' if task in CHOSEN_ON else ', held out'}", row["count"],
            number(row["ratio"]), number(row["spread"]), f"{row['within']} of {row['count']}",
            f"{agree} of {len(every)}",
        ))  # fmt: skip
    return page.table([*heads, "agree, of all"], rows)


def thresholds(table: pd.DataFrame) -> list[str]:
    """The two thresholds compared with the gate's verdicts."""
    rows = []
    for statistic, limit, said in (
        ("typical_32", 0.1, "typical error over noise 0.1"),
        ("step_nmse", 1 / 3, "NMSE of a step 1/3"),
    ):
        held = table[table[statistic].notna()]
        below = held[statistic] < limit
        counts = (
            ((held["verdict"] == verdict) & side).sum()
            for side in (below, ~below)
            for verdict in ("pass", "fail", "undecided")
        )
        rows.append((said, *counts))
    return page.table(
        ["threshold", "below: pass", "fail", "undecided", "above: pass", "fail", "undecided"], rows
    )


def fitted(table: pd.DataFrame) -> pd.DataFrame:
    """Without error feedback, and without schemes that send only zeros."""
    return table[(table["rung"] != OPEN_LOOP) & (table["step_nmse"] != 1)]


def stated(statistic: str, law: Law) -> str:
    """A law as a sentence."""
    return (
        f"**{NAMES[statistic]}**: excess = {law.factor:.2g} nats x statistic^{law.slope:.2f}, from "
        f"{law.combinations} "
        f"combinations; the 95 % interval of one prediction is a factor of {law.half:.2g} either "
        "way."
    )


def nearest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `fitted` that round to nearest."""
    held = fitted(table)
    return held[held["rung"] != UNBIASED]


def line(law: Law, trained: pd.Series) -> dict[str, Any]:
    """A line for apscope.expected_excess, with the ends of the statistic that was trained."""
    return {
        "factor": float(f"{law.factor:.4g}"),
        "slope": float(f"{law.slope:.4g}"),
        "interval": float(f"{law.half:.4g}"),
        "combinations": law.combinations,
        "least": float(trained.min()),
        "most": float(trained.max()),
    }


def usual_law(table: pd.DataFrame) -> dict[str, Any]:
    """The line of `USUAL` on `CHOSEN_ON`, with the errors and schemes that it was fitted to."""
    held = nearest(table)
    used = above_noise(held[held["task"].isin(CHOSEN_ON)], USUAL)
    schemes = sorted({as_scheme(spec).name for spec in used["scheme"]})
    return line(fit(used[USUAL], used["excess"]), used[USUAL]) | {"schemes": schemes}


def sections(table: pd.DataFrame) -> dict[str, list[str]]:
    """Every part of the page by its marker."""
    held = nearest(table)
    law = law_of(held[held["task"].isin(CHOSEN_ON)], USUAL)
    return {
        "constants": constants(table),
        "claim": claim(table),
        "usual": [page.wrapped(f"{stated(USUAL, law)} {short(table, USUAL, law)}")],
        "usual by task": tested(held, USUAL, law),
        "thresholds": thresholds(fitted(table)),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(
        __doc__,
        "folders of apscope train, such as that of docs/relation.toml or of parts; or the CSV",
    )
    parser.add_argument("--law", type=Path, default=LAW, help="where its line goes")
    asked = parser.parse_args(arguments)
    csv = asked.sources[0]
    if csv.is_dir():
        csv = asked.page.with_name("relation.csv")
        found = pd.concat([combinations(folder) for folder in asked.sources], ignore_index=True)
        found = found.drop_duplicates(["task", "model", "scheme"])
        found.to_csv(csv, index=False, float_format="%.5g")
    table = named(pd.read_csv(csv))
    page.write(asked.page, sections(table))
    each = relations(fitted(table))
    each.to_csv(asked.page.with_name(BY_TASK), index=False, float_format="%.3g")
    asked.law.write_text(json.dumps(usual_law(table), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
