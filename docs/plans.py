"""Plans of `recommend`, trained beside the best single scheme: a table of docs/insight.md.

python docs/plans.py trained plans docs/insight.md    of the folder of apscope train docs/relation.toml: recommends from
                                                      its traces, trains into plans/, and writes docs/plans.csv
python docs/plans.py docs/plans.csv docs/insight.md   the same table without training
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import page
import pandas as pd

import apscope
from apscope._training.folder import read
from apscope._training.verdicts import interval, run_ends

TASKS = ("digits-sgd", "lstm-adam", "transformer-adam")
VOLUMES = (0.13, 0.16, 0.2)
SEEDS = (0, 1, 2, 3, 4)
FIGURES = ("error_over_noise", "step_nmse")
CANDIDATES = "widths"  # aps from 4 to 8 bits, and 16
MARKERS = ("<!-- plans: written by docs/plans.py -->", "<!-- end of plans -->")


def trained(source: Path, out: Path) -> pd.DataFrame:
    """A row a task, volume and figure."""
    from apscope.train._experiment import run_experiment

    experiment = read(source)[0]
    rows = []
    for task in (task for task in experiment.tasks if task.title in TASKS):
        trace = source / "traces" / task.label.replace(" ", "-")
        plans = {
            (volume, figure): apscope.recommend(
                trace, CANDIDATES, minimize=figure, max_volume=volume, topology=experiment.topology
            )
            for volume in VOLUMES
            for figure in FIGURES
        }
        specs = dict.fromkeys(s for p in plans.values() for s in (p.spec, p.single))
        own = replace(experiment, tasks=(task,), specs=tuple(specs), seeds=SEEDS)
        run_experiment(own, out / task.title)
        ends = run_ends(read(out / task.title)[1]).pivot(
            index="seed", columns="scheme", values="loss"
        )
        for (volume, figure), plan in plans.items():
            spec, single = plan.spec, plan.single
            told = {
                "task": task.title,
                "volume": volume,
                "figure": figure,
                "seeds": len(ends),
                "plan": spec,
                "single": single,
            }
            for what, a, b in (
                ("plan", spec, "none:fp32"),
                ("single", single, "none:fp32"),
                ("difference", spec, single),
            ):
                values = interval((ends[a] - ends[b]).to_numpy(float))
                told |= dict(
                    zip((f"{what}_excess", f"{what}_low", f"{what}_high"), values, strict=True)
                )
            figures = plan.figures[plan.figures["steps"] == "chosen"].set_index("what")
            for name in FIGURES:
                told |= {
                    f"plan_{name}": figures.at["plan", name],
                    f"single_{name}": figures.at["single", name],
                }
            rows.append(told)
    return pd.DataFrame(rows)


def said(row: object) -> str:
    """Whether the plan trained better."""
    if row.difference_high < 0:
        return "better"
    return "**worse**" if row.difference_low > 0 else "no difference seen"


def lines(table: pd.DataFrame) -> Iterator[str]:
    """The table of the page."""
    yield "| task | volume | minimized | plan: error over noise, NMSE, excess | best single: the same | plan minus single, nats | 95 % | the plan is |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in table.itertuples():
        plan = f"{row.plan_error_over_noise:.2g}, {row.plan_step_nmse:.2g}, {row.plan_excess:+.2g}"
        single = f"`{row.single}` {row.single_error_over_noise:.2g}, {row.single_step_nmse:.2g}, {row.single_excess:+.2g}"
        yield (
            f"| {row.task} | {row.volume:g} | `{row.figure}` | {plan} | {single} | {row.difference_excess:+.2g} "
            f"| {row.difference_low:+.2g} to {row.difference_high:+.2g} | {said(row)} |"
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", type=Path, nargs="+", help="TRAINED OUT PAGE, or CSV PAGE")
    places = parser.parse_args(arguments).places
    csv = places[-1].with_name("plans.csv")
    if len(places) == 3:
        trained(places[0], places[1]).to_csv(csv, index=False, float_format="%.5g")
    else:
        csv = places[0]
    page.replace_between(places[-1], *MARKERS, list(lines(pd.read_csv(csv))))


if __name__ == "__main__":
    main()
