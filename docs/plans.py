"""Plans of `recommend`, trained beside the best single scheme: a table of docs/insight.md.

python docs/plans.py trained plans docs/insight.md    of the folder of apscope train docs/relation.toml: recommends from
                                                      its traces, trains into plans/, and writes docs/plans.csv
python docs/plans.py docs/plans.csv docs/insight.md   the same table without training
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import page
import pandas as pd
from insight import NAMES

import apscope
from apscope._training.experiment import Exchange
from apscope._training.folder import read
from apscope._training.statistics import STATISTICS, of_trace
from apscope._training.verdicts import interval, run_ends

TASKS = ("digits-sgd", "lstm-adam", "transformer-adam")
VOLUMES = (0.13, 0.16, 0.2)
SEEDS = (0, 1, 2, 3, 4)
FIGURES = ("error_over_noise", "step_nmse")
CANDIDATES = "widths"  # aps from 4 to 8 bits, and 16
OF_RATIOS = ("<!-- ratios: written by docs/plans.py -->", "<!-- end of ratios -->")
MARKERS = ("<!-- plans: written by docs/plans.py -->", "<!-- end of plans -->")


def trained(source: Path, out: Path) -> pd.DataFrame:
    """A row a task, volume and figure."""
    from apscope.train._experiment import run_experiment

    experiment = read(source)[0]
    rows = []
    for task in (task for task in experiment.tasks if task.title in TASKS):
        trace = apscope.open_trace(source / "traces" / task.label.replace(" ", "-"))
        plans = {
            (volume, figure): apscope.recommend(
                trace, CANDIDATES, minimize=figure, max_volume=volume, topology=experiment.topology
            )
            for volume in VOLUMES
            for figure in FIGURES
        }
        specs = dict.fromkeys(s for p in plans.values() for s in (p.spec, p.single))
        own = replace(
            experiment,
            tasks=(task,),
            exchanges=tuple(Exchange(spec, experiment.topology) for spec in specs),
            seeds=SEEDS,
        )
        run_experiment(own, out / task.title)
        ends = run_ends(read(out / task.title)[1])
        losses = ends.pivot(index="seed", columns="scheme", values="loss")
        rows += [
            {"task": task.title, "volume": volume, "figure": figure, "seeds": len(losses)}
            | _costs(plan, losses)
            | _predicted(plan, trace, experiment.topology)
            for (volume, figure), plan in plans.items()
        ]
    return pd.DataFrame(rows)


def _costs(plan: apscope.Plan, losses: pd.DataFrame) -> dict[str, object]:
    """Excess of the plan and of the best single scheme, and their difference, paired by seed."""
    told: dict[str, object] = {"plan": plan.spec, "single": plan.single}
    fp32 = losses["none:fp32"]
    for what, values in (
        ("plan", losses[plan.spec] - fp32),
        ("single", losses[plan.single] - fp32),
        ("difference", losses[plan.spec] - losses[plan.single]),
    ):
        ends = interval(values.to_numpy(float))
        told |= dict(zip((f"{what}_excess", f"{what}_low", f"{what}_high"), ends, strict=True))
    return told


def _predicted(plan: apscope.Plan, trace: apscope.Trace, topology: str) -> dict[str, float]:
    """Statistics of both on all recorded steps."""
    return {
        f"{what}_{name}": value
        for what, spec in (("plan", plan.spec), ("single", plan.single))
        for name, value in of_trace(trace, spec, topology).items()
    }


def said(row: object) -> str:
    """Whether the plan trained better."""
    if row.difference_high < 0:
        return "better"
    return "**worse**" if row.difference_low > 0 else "no difference seen"


def lines(table: pd.DataFrame) -> Iterator[str]:
    """The table of the page."""
    yield "| task | volume | minimized | plan: error over noise, NMSE; excess | best single: the same | plan minus single, nats | 95 % | the plan is |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in table.itertuples():
        plan, single = (
            f"{getattr(row, f'{what}_typical_32'):.2g}, {getattr(row, f'{what}_step_nmse'):.2g}; "
            f"{getattr(row, f'{what}_excess'):+.2g}"
            for what in ("plan", "single")
        )
        yield (
            f"| {row.task} | {row.volume:g} | `{row.figure}` | {plan} | `{row.single}` {single} | "
            f"{row.difference_excess:+.2g} "
            f"| {row.difference_low:+.2g} to {row.difference_high:+.2g} | {said(row)} |"
        )


def decided(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose plan and single scheme train differently."""
    return table[(table["difference_low"] > 0) | (table["difference_high"] < 0)]


def ratios(sure: pd.DataFrame, told: dict[str, pd.Series]) -> Iterator[str]:
    """What figures say of a plan against the single scheme, beside what training says.

    told: by the figure's name its ratio of plan to single scheme, a number per row of `sure`.
    """
    trained = sure["plan_excess"] / sure["single_excess"]
    heads = [f"{row.task} {row.volume:g} `{row.figure}`" for row in sure.itertuples()]
    yield f"| plan over single | right | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 2) + "|"
    yield f"| excess, trained | | {' | '.join(f'{v:.2g}' for v in trained)} |"
    for name, ratio in told.items():
        right = int(((ratio < 1) == (trained < 1)).sum())
        yield f"| {name} | {right} of {len(sure)} | {' | '.join(f'{v:.2g}' for v in ratio)} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", type=Path, nargs="+", help="TRAINED OUT PAGE, or CSV PAGE")
    places = parser.parse_args(arguments).places
    csv = places[-1].with_name("plans.csv")
    if len(places) == 3:
        trained(places[0], places[1]).to_csv(csv, index=False, float_format="%.5g")
    else:
        csv = places[0]
    table = pd.read_csv(csv)
    page.replace_between(places[-1], *MARKERS, list(lines(table)))
    sure = decided(table)
    told = {NAMES[s]: sure[f"plan_{s}"] / sure[f"single_{s}"] for s in STATISTICS}
    page.replace_between(places[-1], *OF_RATIOS, list(ratios(sure, told)))


if __name__ == "__main__":
    main()
