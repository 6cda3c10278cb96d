"""What predicts the cost of an error in training: the tables and the picture of docs/insight.md.

python docs/insight.py trained docs/insight.md       of the folder of apscope train docs/relation.toml;
                                                     also writes docs/relation.csv, a row a combination
python docs/insight.py docs/relation.csv docs/insight.md     the same without training

Both write the line of `USUAL` for apscope.expected_excess, too: bindings/apscope/_training/law.json.

The statistic, its block and its law are chosen on `CHOSEN_ON` alone; the other tasks test them.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import page
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from apscope._schemes.scheme import as_scheme
from apscope._text import count_of
from apscope._training.relation import (
    Law,
    above_noise,
    combinations,
    fit,
    fit_intervals,
    ranking,
    ratios,
    relations,
    wrong_pairs,
)
from apscope._training.statistics import STATISTICS
from apscope.plots._style import STYLE

#: Stated in docs/relation.toml before the runs.
CHOSEN_ON = ("digits-sgd", "lstm-adam", "transformer-adam")
GATE = 0.01
FORMATS = ("e5m2", "e4m3", "e3m4", "e2m5", "e3m0", "e2m1")
RUNGS = ("constant", "step", "layer", "stochastic", "error feedback", "MX")
COLOURS = dict(
    zip(RUNGS, ("#882255", "#cc6677", "#4477aa", "#66ccee", "#228833", "#aa8800"), strict=True)
)
LATER = ("lost_32", "signed")  # not chosen: thought of when the first results were there
UNBIASED = "stochastic"
USUAL = "typical_32"  # error_over_noise of every table of apscope
LAW = Path(__file__).resolve().parents[1] / "bindings/apscope/_training/law.json"
OPEN_LOOP = "error feedback"  # a trace's steps are too far apart for it
NAMES = {
    "typical_1": "typical, single elements", "typical_8": "typical, blocks of 8",
    "typical_32": "typical, blocks of 32",
    "typical_256": "typical, blocks of 256", "lost_32": "lost share of the batch, blocks of 32",
    "signed": "signed, single elements", "elements": "elements, summed over the steps",
    "pooled": "pooled",
    "step_nmse": "NMSE of a step", "cosine_loss": "1 - cosine of a layer",
}  # fmt: skip
SHOWN = 12  # wrong pairs


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
    return "" if pd.isna(value) else f"{value:.{digits}g}"


def with_ends(law: pd.Series, name: str) -> str:
    """A correlation or slope with its interval."""
    if pd.isna(law[name]):
        return ""
    return f"{law[name]:.2f} ({law[f'{name}_low']:.2f} to {law[f'{name}_high']:.2f})"


def tasks_of(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["task"]))


def costs(table: pd.DataFrame) -> Iterator[str]:
    """Excess of every combination, a table a task."""
    for task in tasks_of(table):
        own = table[table["task"] == task].set_index(["format", "rung"])
        seeds = sorted(set(own["seeds"]))
        yield f"**{task}**, {' or '.join(map(str, seeds))} seeds."
        yield ""
        yield f"| format | {' | '.join(RUNGS)} |"
        yield "|---" * (len(RUNGS) + 1) + "|"
        for name in FORMATS:
            cells = [_cost(own, (name, one)) for one in RUNGS]
            if any(cells):
                yield f"| `{name}` | {' | '.join(cells)} |"
        yield ""


def _cost(own: pd.DataFrame, key: tuple[str, str]) -> str:
    if key not in own.index:
        return ""
    row = own.loc[key]
    if row["lost"] == row["seeds"]:
        return "not finite"
    half = (row["excess_high"] - row["excess_low"]) / 2
    spread = "" if pd.isna(half) else f" ± {half:.1g}"
    lost = f", {count_of(int(row['lost']), 'run')} not finite" if row["lost"] else ""
    return f"{row['excess']:+.2g}{spread}; {100 * row['excess_accuracy']:+.1f} %{lost}"


def bytes_sent(table: pd.DataFrame) -> Iterator[str]:
    """Volume and modelled speed-up, which hardly depend on the task."""
    yield f"| format | {' | '.join(RUNGS)} |"
    yield "|---" * (len(RUNGS) + 1) + "|"
    means = table.groupby(["format", "rung"])[["volume", "speedup"]].median()
    for name in FORMATS:
        cells = [
            f"{means.at[(name, one), 'volume']:.3g}; {means.at[(name, one), 'speedup']:.2g}"
            if (name, one) in means.index
            else ""
            for one in RUNGS
        ]
        yield f"| `{name}` | {' | '.join(cells)} |"


def constants(table: pd.DataFrame) -> Iterator[str]:
    """One constant scale against APS, by both figures and by the loss, over the tasks."""
    yield (
        "| format | error over noise, constant / APS | step NMSE, constant / APS | excess with the "
        "constant, nats | excess with APS, nats |"
    )
    yield "|---|---|---|---|---|"
    by_rung = table.set_index(["format", "rung", "task"]).sort_index()
    for name in FORMATS:
        if (name, "constant") not in by_rung.index:
            continue
        constant, layer = by_rung.loc[(name, "constant")], by_rung.loc[(name, "layer")]
        cells = [constant[figure] / layer[figure] for figure in (USUAL, "step_nmse")]
        cells += [constant["excess"], layer["excess"]]
        said = (f"{number(cell.min(), 3)} to {number(cell.max(), 3)}" for cell in cells)
        yield f"| `{name}` | {' | '.join(said)} |"


def claim(table: pd.DataFrame) -> Iterator[str]:
    """APS at eight bits: accuracy against fp32."""
    yield "| task | format | excess, nats | 95 % | accuracy, points | 95 % | verdict at the gate |"
    yield "|---|---|---|---|---|---|---|"
    own = table[(table["rung"] == "layer") & table["format"].isin(("e5m2", "e4m3", "e3m4"))]
    for row in own.itertuples():
        yield (
            f"| {row.task} | `aps:{row.format}` | {row.excess:+.2g} | {row.excess_low:+.2g} to "
            f"{row.excess_high:+.2g} "
            f"| {100 * row.excess_accuracy:+.2f} | {100 * row.excess_accuracy_low:+.2f} to "
            f"{100 * row.excess_accuracy_high:+.2f} | {row.verdict} |"
        )


def ranked(table: pd.DataFrame, prefix: str = "") -> Iterator[str]:
    """The statistics, the best first."""
    found = ranking(
        table,
        [prefix + name for name in STATISTICS if not (prefix and name in ("elements", *LATER))],
    )
    yield "| statistic | wrong pairs | Pearson, mean | rank, mean | slope | at 1, nats | spread |"
    yield "|---|---|---|---|---|---|---|"
    for row in found.itertuples():
        yield (
            f"| {NAMES[row.statistic.removeprefix('own_')]} | {row.wrong} of {row.pairs} | "
            f"{row.pearson:.3f} | {row.spearman:.3f} "
            f"| {row.slope:.2f} | {row.factor:.2g} | {row.spread:.2g} |"
        )


def by_task(table: pd.DataFrame) -> Iterator[str]:
    """Correlations of every statistic on every task, with intervals."""
    each = relations(table)
    tasks = tasks_of(table)
    yield f"| statistic | {' | '.join(tasks)} |"
    yield "|---" * (len(tasks) + 1) + "|"
    counts = each.groupby("task")["combinations"].max()
    yield f"| combinations above the noise | {' | '.join(str(counts[task]) for task in tasks)} |"
    for statistic in STATISTICS:
        own = each[each["statistic"] == statistic].set_index("task")
        cells = [
            f"{own.at[t, 'pearson']:.2f} ({own.at[t, 'pearson_low']:.2f} to "
            f"{own.at[t, 'pearson_high']:.2f}); "
            f"{own.at[t, 'wrong']}/{own.at[t, 'pairs']}" if own.at[t, "combinations"] >= 4 else f"{own.at[t, 'wrong']}/{own.at[t, 'pairs']}"
            for t in tasks
        ]  # fmt: skip
        yield f"| {NAMES[statistic]} | {' | '.join(cells)} |"


def tested(table: pd.DataFrame, statistic: str, law: Law) -> Iterator[str]:
    """The chosen law on every task."""
    missed = ratios(table, statistic, law).set_index("task")
    yield "| task | combinations | its own slope | rank | trained over predicted | spread of that | in the interval | agree, of all |"
    yield "|---|---|---|---|---|---|---|---|"
    for task in sorted(tasks_of(table), key=lambda t: t not in CHOSEN_ON):
        held = above_noise(table[table["task"] == task], statistic)
        own, wide = (f(held[statistic], held["excess"]) for f in (fit, fit_intervals))
        slope, rank = (
            f"{getattr(own, n):.2f} ({wide[n][0]:.2f} to {wide[n][1]:.2f})"
            if len(held) >= 4
            else ""
            for n in ("slope", "spearman")
        )
        row = missed.loc[task]
        every = table[(table["task"] == task) & table["excess_low"].notna() & (table["lost"] == 0)]
        low, high = law.predict_interval(every[statistic])
        agree = ((every["excess_low"] <= high) & (every["excess_high"] >= low)).sum()
        yield (
            f"| {task}{'' if task in CHOSEN_ON else ', held out'} | {row['count']} | {slope} | "
            f"{rank} | {number(row['ratio'])} "
            f"| {number(row['spread'])} | {row['within']} of {row['count']} | {agree} of "
            f"{len(every)} |"
        )


def wrong(table: pd.DataFrame, statistic: str) -> Iterator[str]:
    """The worst wrong pairs."""
    pairs, count = wrong_pairs(table, statistic)
    yield f"{len(pairs)} of {count} pairs are wrong" + (
        f"; the {SHOWN} with the largest difference:" if len(pairs) > SHOWN else ":"
    )
    yield ""
    yield "| task | trained better | trained worse | excess | statistic |"
    yield "|---|---|---|---|---|"
    for row in pairs.head(SHOWN).itertuples():
        yield (
            f"| {row.task} | `{row.better}` | `{row.worse}` | {row.excess_better:.2g}, "
            f"{row.excess_worse:.2g} "
            f"| {row.statistic_better:.2g}, {row.statistic_worse:.2g} |"
        )


def thresholds(table: pd.DataFrame) -> Iterator[str]:
    """The two thresholds compared with the gate's verdicts."""
    yield "| threshold | below: pass | fail | undecided | above: pass | fail | undecided |"
    yield "|---|---|---|---|---|---|---|"
    for statistic, limit, said in (
        ("typical_32", 0.1, "typical error over noise 0.1"),
        ("step_nmse", 1 / 3, "NMSE of a step 1/3"),
    ):
        held = table[table[statistic].notna()]
        below = held[statistic] < limit
        cells = [
            str(int(((held["verdict"] == verdict) & side).sum()))
            for side in (below, ~below)
            for verdict in ("pass", "fail", "undecided")
        ]
        yield f"| {said} | {' | '.join(cells)} |"


def picture(table: pd.DataFrame, statistic: str, law: Law, path: Path) -> None:
    """Predicted against trained, every combination."""
    ticks, ends = [1e-4, 1e-3, 0.01, 0.1, 1.0], np.array([1e-4, 10])
    tasks = tasks_of(table)
    with matplotlib.rc_context(STYLE | {"font.size": 9}):
        figure = Figure(figsize=(9.5, 5.4))
        FigureCanvasAgg(figure)
        grid = figure.subplots(2, -(-len(tasks) // 2), sharex=True, sharey=True).ravel()
        for ax, task in zip(grid, tasks, strict=False):
            ax.fill_between(ends, ends / law.half, ends * law.half, color="#e4e4e4", linewidth=0)
            ax.plot(ends, ends, color="#777777", linewidth=0.8)
            own = table[(table["task"] == task) & table[statistic].notna() & (table["lost"] == 0)]
            for row in own.itertuples():
                colour = COLOURS[row.rung]
                ax.plot(
                    *np.clip([law.predict(getattr(row, statistic)), row.excess], *ends),
                    "x" if row.step_nmse == 1 else "o", color=colour, markersize=4.5,
                    markerfacecolor=colour if row.excess_low > 0 else "none",
                )  # fmt: skip
            ax.set(xscale="log", yscale="log", xlim=ends * [0.7, 1.4], ylim=ends * [0.7, 1.4])
            for axis, shown in ((ax.xaxis, ticks[1::2]), (ax.yaxis, ticks)):
                axis.set_ticks(shown, [f"{t:g}" for t in shown])
                axis.set_minor_locator(NullLocator())
            ax.set_title(task + ("" if task in CHOSEN_ON else ", held out"), fontsize=9)
        for one in RUNGS:
            grid[0].plot([], [], "o", color=COLOURS[one], markersize=4.5, label=one)
        figure.legend(loc="lower center", ncols=len(RUNGS), frameon=False, fontsize=8.5)
        predicted = "excess predicted from ten recorded steps of the fp32 run, nats"
        figure.supxlabel(predicted, y=0.055, fontsize=9)
        figure.supylabel("excess trained, nats", x=0.008, fontsize=9)
        figure.subplots_adjust(0.095, 0.16, 0.985, 0.94, 0.08, 0.2)
        figure.savefig(path, dpi=110, metadata={"Software": None})


def feedback(table: pd.DataFrame, statistic: str, law: Law) -> Iterator[str]:
    """Error feedback: what its trace predicts, and what it cost."""
    yield "| task | format | statistic, trace | of the run itself | predicted, nats | trained | 95 % |"
    yield "|---|---|---|---|---|---|---|"
    for row in table[table["rung"] == OPEN_LOOP].itertuples():
        own = getattr(row, f"own_{statistic}", float("nan"))
        yield (
            f"| {row.task} | `{row.format}` | {number(getattr(row, statistic))} | {number(own)} | "
            f"{number(law.predict(getattr(row, statistic)))} "
            f"| {row.excess:+.2g} | {row.excess_low:+.2g} to {row.excess_high:+.2g} |"
        )


def fitted(table: pd.DataFrame) -> pd.DataFrame:
    """Without error feedback, and without schemes that send only zeros."""
    return table[(table["rung"] != OPEN_LOOP) & (table["step_nmse"] != 1)]


def choose(table: pd.DataFrame) -> tuple[str, Law]:
    """The statistic that orders best on `CHOSEN_ON`, and its law there."""
    choosing = fitted(table)[fitted(table)["task"].isin(CHOSEN_ON)]
    best = ranking(choosing, [name for name in STATISTICS if name not in LATER])["statistic"][0]
    return best, law_of(choosing, best)


def stated(statistic: str, law: Law) -> str:
    """A law as a sentence."""
    return (
        f"**{NAMES[statistic]}**: excess = {law.factor:.2g} nats x statistic^{law.slope:.2f}, from "
        f"{law.combinations} "
        f"combinations; the 95 % interval of one prediction is a factor of {law.half:.2g} either way."
    )


def nearest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `fitted` that round to nearest."""
    held = fitted(table)
    return held[held["rung"] != UNBIASED]


def usual_law(table: pd.DataFrame) -> dict[str, float | int | list[str]]:
    """The line of `USUAL` on `CHOSEN_ON`, with the errors and schemes that it was fitted to."""
    held = nearest(table)
    used = above_noise(held[held["task"].isin(CHOSEN_ON)], USUAL)
    law = fit(used[USUAL], used["excess"])
    return {
        "factor": float(f"{law.factor:.4g}"),
        "slope": float(f"{law.slope:.4g}"),
        "interval": float(f"{law.half:.4g}"),
        "combinations": law.combinations,
        "least": float(used[USUAL].min()),
        "most": float(used[USUAL].max()),
        "schemes": sorted({as_scheme(spec).name for spec in used["scheme"]}),
    }


def sections(table: pd.DataFrame) -> dict[str, list[str]]:
    """Every part of the page by its marker."""
    replayed = fitted(table)
    choosing = replayed["task"].isin(CHOSEN_ON)
    best, law = choose(table)
    held = nearest(table)
    chosen = held["task"].isin(CHOSEN_ON)
    usual = law_of(held[chosen], USUAL)
    return {
        "costs": list(costs(table)),
        "volumes": list(bytes_sent(table)),
        "constants": list(constants(table)),
        "claim": list(claim(table)),
        "choice": [*ranked(replayed[choosing]), "", f"Chosen by this table: {stated(best, law)}"],
        "held out": list(ranked(replayed[~choosing])),
        "tasks": list(by_task(replayed)),
        "own": list(ranked(replayed, "own_")),
        "law": [stated(best, law), "", *tested(replayed, best, law)],
        "nearest": list(ranked(held[chosen])),
        "nearest, held out": list(ranked(held[~chosen])),
        "usual": [stated(USUAL, usual), "", *tested(held, USUAL, usual)],
        "everything": list(ranked(table[table["step_nmse"] != 1])),
        "wrong": list(wrong(replayed, best)),
        "feedback": list(feedback(table, best, law)),
        "thresholds": list(thresholds(replayed)),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "sources", type=Path, nargs="+",
        help="folders of apscope train, such as that of docs/relation.toml or of parts of it; or "
            "the CSV",
    )  # fmt: skip
    parser.add_argument("page", type=Path)
    parser.add_argument("--law", type=Path, default=LAW, help="where its line goes")
    asked = parser.parse_args(arguments)
    csv = asked.sources[0]
    if csv.is_dir():
        csv = asked.page.with_name("relation.csv")
        found = pd.concat([combinations(folder) for folder in asked.sources], ignore_index=True)
        found = found.drop_duplicates(["task", "model", "scheme"])
        found.to_csv(csv, index=False, float_format="%.5g")
    table = named(pd.read_csv(csv))
    for name, lines in sections(table).items():
        begin, end = f"<!-- {name}: written by docs/insight.py -->", f"<!-- end of {name} -->"
        page.replace_between(asked.page, begin, end, lines)
    picture(table, *choose(table), asked.page.with_name("insight.png"))
    asked.law.write_text(json.dumps(usual_law(table), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
