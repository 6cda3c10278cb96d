"""An experiment as one self-contained HTML page: curves, excess against volume, verdicts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._charts.colours import COLOURS
from .._charts.describe import Chart, Line, Log, Point, Rule, number, powers
from .._charts.front import shares
from .._charts.svg import chart_svg, symbol_path
from .._folders.writing import write_file
from .._page import numbers
from .._page.templates import render
from .._report import check_destination
from .._results.families import FAMILIES
from .._results.summary import family_of
from .._schemes.titles import format_of, titles
from .._text import clip, count_of
from .experiment import BASELINES, ENOUGH_SEEDS, Experiment
from .folder import read
from .relation import FEWEST, combinations, ranking
from .statistics import STATISTICS
from .verdicts import KEY

_HERE = Path(__file__).parent
#: Number of parts of a run whose means are drawn.
_PARTS = 40
#: An excess below this share of the gate is drawn at the lower edge.
_FLOOR = 0.01
Named = Callable[[str, str], str]  #: The short name of a scheme with a topology.


def _both(scheme: str, topology: str) -> str:
    return f"{scheme}, {topology}"


def write_page(
    folder: str | os.PathLike[str], out_path: str | os.PathLike[str], *, force: bool = False
) -> Path:
    """Writes the page of an experiment's folder.

    Raises
    ------
    ValueError
        The experiment is not finished or damaged, or the file is not one of apscope's.
    OSError
        The file cannot be written.
    """
    from markupsafe import Markup

    out_path = check_destination(out_path, force=force)
    experiment, rows, about = read(folder)
    judged = about["verdicts"]
    related = _judged_relations(combinations(folder), judged)
    named = _names(judged, experiment)
    tasks = []
    for (task, model), of_task in judged.groupby(["task", "model"], sort=False):
        part = rows[(rows["task"] == task) & (rows["model"] == model)]
        relations = related[(related["task"] == task) & (related["model"] == model)]
        charts = [
            excess_chart(of_task, experiment.gate, named),
            relation_chart(relations, experiment.gate, named),
            *curves(part, named),
        ]
        tasks.append(
            {
                "label": f"{task} {model}",
                "said": _said(of_task, experiment),
                "data": about["data"].get(f"{task} {model}", ""),
                "charts": [
                    {"title": c.title, "svg": Markup(chart_svg(c, 520.0, 300.0))} for c in charts
                ],
                "rows": [
                    r
                    | {"name": named(r["scheme"], r["topology"]), "css": r["verdict"]}
                    | {
                        f"points{end}": r[f"excess_accuracy{end}"]
                        and 100 * r[f"excess_accuracy{end}"]
                        for end in ("", "_low", "_high")
                    }
                    for r in of_task.astype(object).where(of_task.notna(), None).to_dict("records")
                ],
                "setting": next(t for t in experiment.tasks if (t.title, t.model) == (task, model)),
            }
        )
    families = {family_of(spec) for spec in judged["scheme"]}
    filters: dict[str, Callable[..., Any]] = {
        "figure": numbers.figure,
        "percent": numbers.percent,
        "clip": clip,
        "count_of": count_of,
    }
    page = render(
        _HERE / "page.html",
        filters,
        tasks=tasks,
        ranking=_ranked(related),
        fewest=FEWEST,
        experiment=experiment,
        enough=ENOUGH_SEEDS,
        command=about.get("command", ""),
        versions=about.get("versions", {}),
        floor=_FLOOR * experiment.gate,
        families=[
            (f, FAMILIES[f].colour, symbol_path(FAMILIES[f].symbol))
            for f in FAMILIES
            if f in families
        ],
        style=Markup((_HERE.parent / "_report/page/style.css").read_text(encoding="utf-8")),
    )
    write_file(out_path, page.encode(errors="backslashreplace").decode(), "apscope report")
    return out_path


def _judged_relations(related: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The combinations with the excess of the verdicts, whose means have no run that diverged.

    What overflowed in the replay of the fp32 run's trace has infinite statistics, which leave
    elements out that are not finite.
    """
    base = judged[judged["scheme"] == BASELINES[0]].set_index(["task", "model"])["diverged"]
    own = judged.assign(lost=judged["diverged"] + base.reindex(
        pd.MultiIndex.from_frame(judged[["task", "model"]])).to_numpy())  # fmt: skip
    figures = ["excess", "excess_low", "excess_high", "lost", "error_over_noise"]
    table = related.drop(columns=figures, errors="ignore").merge(own[[*KEY, *figures]], on=KEY)
    known = [name for name in STATISTICS if name in table]
    table.loc[np.isinf(table["error_over_noise"].astype(float)), known] = math.inf
    return table


def _names(judged: pd.DataFrame, experiment: Experiment) -> Named:
    """Short names of exchanges; the topology is part of the name if it is one of its own."""
    short = titles(judged["scheme"].unique())

    def named(scheme: str, topology: str) -> str:
        is_other = topology != experiment.topology
        return f"{short(scheme)}, {topology}" if is_other else short(scheme)

    return named


def _said(judged: pd.DataFrame, experiment: Experiment) -> str:
    """One sentence per task: the noise, and the scheme that passed with the least volume."""
    base = judged[judged["scheme"] == BASELINES[0]].iloc[0]
    if pd.isna(base["loss"]):
        return "fp32 diverged with every seed, so nothing is compared."
    remarks = [
        *([] if pd.isna(base["noise"])
          else [f"standard deviation {numbers.figure(base['noise'], 2)} over the seeds"]),
        *([f"{base['diverged']} of {base['seeds']} diverged"] if base["diverged"] else []),
    ]  # fmt: skip
    noise = f" ({'; '.join(remarks)})" if remarks else ""
    passed = judged[(judged["verdict"] == "pass") & judged["volume"].notna()].sort_values(
        ["volume", "excess"], kind="stable"
    )
    least = (
        "the least volume that passes: "
        f"{_both(passed['scheme'].iloc[0], passed['topology'].iloc[0])}, "
        f"{numbers.figure(passed['volume'].iloc[0])} of the bytes of fp32 in a ring"
        if len(passed)
        else "nothing passed"
    )
    counts = judged["verdict"].value_counts()
    verdicts = ", ".join(f"{counts.get(v, 0)} {v}" for v in ("pass", "fail", "undecided"))
    return (
        f"fp32 ends at {numbers.figure(base['loss'])} nats{noise}; {verdicts} at the gate of "
        f"{experiment.gate:g} nats; {least}."
    )


def excess_chart(judged: pd.DataFrame, gate: float, named: Named = _both) -> Chart:
    """Excess loss against volume, one point per scheme; diverged ones are hollow, at the top.

    `judged` has the verdicts of one task with their volumes. Values below a hundredth of the gate are
    drawn at a hundredth.
    """
    trained = judged[
        (judged["volume"] > 0) & (judged["scheme"] != BASELINES[0]) & (judged["seeds"] > 0)
    ]
    finite = trained["excess"][np.isfinite(trained["excess"].astype(float))]
    floor, top = gate * _FLOOR, max([gate * 10, *(2 * finite)])
    points = []
    for row in trained.itertuples():
        lost = bool(row.diverged) or not math.isfinite(row.excess)
        spread = (
            ""
            if pd.isna(row.excess_low)
            else f" [{number(row.excess_low)}, {number(row.excess_high)}]"
        )
        look = FAMILIES[family_of(row.scheme)]
        says = (
            f"{_both(row.scheme, row.topology)}\nexcess {number(row.excess)}{spread} nats\nvolume "
            f"{number(row.volume, 3)}\n{row.verdict}{f': {row.note}' if row.note else ''}"
        )
        points.append(
            Point(
                row.volume, top if lost else max(row.excess, floor), look.colour, look.symbol, says,
                hollow=lost, faint=row.verdict == "undecided", label=named(row.scheme, row.topology),
            )
        )  # fmt: skip
    against = f"the bytes sent; gate {gate:g}"
    x = _around(points, "bytes sent, of fp32's", shares)
    return _against("volume", against, x, points, gate, top)


def relation_chart(related: pd.DataFrame, gate: float, named: Named = _both) -> Chart:
    """Excess loss against the error over noise of the fp32 run's trace, one task.

    `related` is of `_judged_relations`; schemes without noise, with overflow, or with a run that
    diverged, are left out.
    """
    error = related["error_over_noise"].astype(float)
    known = related[np.isfinite(error) & (error > 0) & (related["lost"] == 0)]
    points = [
        Point(
            row.error_over_noise, max(row.excess, gate * _FLOOR), FAMILIES[family_of(row.scheme)].colour,
            FAMILIES[family_of(row.scheme)].symbol,
            f"{_both(row.scheme, row.topology)}\nexcess {number(row.excess)} nats\nerror over "
            f"noise {number(row.error_over_noise, 3)}",
            hollow=not row.excess_low > 0, label=named(row.scheme, row.topology),
        )
        for row in known.itertuples()
    ]  # fmt: skip
    top = max([gate * 10, *(2 * known["excess"])])
    x = _around(points, "error over noise, of the fp32 run's recorded steps", powers)
    return _against("error over noise", "the error over noise", x, points, gate, top)


def _against(
    what: str, against: str, x: Log, points: list[Point], gate: float, top: float
) -> Chart:
    """The excess of schemes against something, with the gate as the limit."""
    floor = gate * _FLOOR
    return Chart(
        f"Excess loss against {what}",
        f"Excess training loss in nats of {count_of(len(points), 'scheme')} against {against}.",
        x,
        Log("excess, nats", floor / 1.5, top * 1.5, powers(floor, top)),
        points=points,
        rules=[Rule(gate, "gate", limit=True)],
    )


def _around(points: list[Point], label: str, ticks: Callable[..., Any]) -> Log:
    """A horizontal scale with room beside the points."""
    x = [p.x for p in points] or [0.1, 1.0]
    low, high = min(x) / 1.35, max(x) * 1.35
    return Log(label, low, high, ticks(low, high))


def _ranked(related: pd.DataFrame) -> list[dict[str, Any]]:
    """The statistics, the best first, for the page."""
    ranks = ranking(related)
    rows = ranks.astype(object).where(ranks.notna(), None).to_dict("records")
    return [row | {"name": STATISTICS[row["statistic"]]} for row in rows if row["pairs"]]


def curves(rows: pd.DataFrame, named: Named = _both) -> list[Chart]:
    """Training loss over the steps, one chart per format, with fp32's curve; means over the seeds.

    `rows` are those of `folder.rows`, of one task.
    """
    drawn = {
        (str(scheme), str(topology)): _curve(runs)
        for (scheme, topology), runs in rows.groupby(["scheme", "topology"], sort=False)
    }
    baselines = [(spec, str(rows["topology"].iloc[0])) for spec in BASELINES]  # they are first
    others = [one for one in drawn if one not in baselines]
    formats = list(dict.fromkeys(_group(spec) for spec, _ in others)) or [""]
    heights = [y for line in drawn.values() for _, y in line]
    low, high = min(heights) / 1.3, max(heights) * 1.3
    last = max(x for line in drawn.values() for x, _ in line)
    first = min(x for line in drawn.values() for x, _ in line)
    charts = []
    for name in formats:
        shown = [
            *(one for one in baselines if drawn.get(one)),
            *(one for one in others if _group(one[0]) == name),
        ]
        lines = [
            Line(drawn[one], COLOURS[i % len(COLOURS)], _short(named(*one), name))
            for i, one in enumerate(shown)
            if drawn[one]
        ]
        charts.append(
            Chart(
                f"Training loss, {name or 'other schemes'}",
                "Training loss in nats over the steps, the mean over the seeds, of "
                f"{'; '.join(_both(*one) for one in shown)}.",
                Log(
                    "step", max(first, 1.0), max(last, 2.0), powers(max(first, 1.0), max(last, 2.0))
                ),
                Log("loss, nats", low, high, _ticks(low, high)),
                lines=lines,
            )
        )
    return charts


def _group(spec: str) -> str:
    """The format whose chart shows the scheme; of a combinator, that of its inner scheme."""
    inner = spec[spec.index("(") + 1 : spec.rindex(")")] if "(" in spec else spec
    return format_of(spec) or format_of(inner)


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """1, 2 and 5 times the powers of ten; on a long axis only the powers."""
    if high / low > 100:
        return powers(low, high)
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [k * 10.0**e for e in tens for k in (1, 2, 5)]
    return [(v, f"{v:g}") for v in ticks if low <= v <= high]


def _short(name: str, format_name: str) -> str:
    return name.replace(f" {format_name}", "").replace(f":{format_name}", "") or name


def _curve(runs: pd.DataFrame) -> list[tuple[float, float]]:
    """Means of parts of the steps, over all seeds, up to the first loss that is not finite."""
    steps = int(runs["step"].max()) + 1
    width = max(steps // _PARTS, 1)
    means = runs.groupby(runs["step"] // width)["loss"].agg(lambda v: v.mean(skipna=False))
    line = []
    for part, value in means.items():
        if not (math.isfinite(value) and value > 0):
            break
        line.append((width * (float(part) + 0.5) + 0.5, float(value)))
    return line
