"""Plans of `recommend`, trained beside the best single scheme: a sentence of docs/insight.md.

python -m docs.tools.plans trained plans docs/insight.md    of the folder of apscope train
          docs/relation.toml: recommends from its traces, trains into plans/, writes docs/plans.csv
python -m docs.tools.plans docs/plans.csv docs/insight.md   the same sentence without training
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

import apscope
from apscope._training.experiment import Exchange
from apscope._training.folder import read
from apscope._training.statistics import of_trace
from apscope._training.verdicts import interval, run_ends

from . import page

TASKS = ("digits-sgd", "lstm-adam", "transformer-adam")
VOLUMES = (0.13, 0.16, 0.2)
SEEDS = (0, 1, 2, 3, 4)
FIGURES = ("error_over_noise", "step_nmse")
CANDIDATES = "widths"  # aps from 4 to 8 bits, and 16
CSV = page.DOCS / "plans.csv"


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


def decided(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose plan and single scheme train differently."""
    return table[(table["difference_low"] > 0) | (table["difference_high"] < 0)]


def counted(table: pd.DataFrame) -> str:
    """How many plans were worse and better, by what they minimize."""
    said = []
    for figure in FIGURES:
        own = table[table["figure"] == figure]
        worse, better = (own["difference_low"] > 0).sum(), (own["difference_high"] < 0).sum()
        said.append(
            f"Of {len(own)} plans chosen by `{figure}`, {better} trained better than the best "
            f"single scheme and {worse} worse; the largest difference in loss is "
            f"{own['difference_excess'].max():+.2g} nats."
        )
    return " ".join(said)


def main(arguments: list[str] | None = None) -> None:
    asked = page.options(__doc__, "TRAINED OUT, or the CSV").parse_args(arguments)
    csv = asked.sources[0]
    if len(asked.sources) == 2:
        csv = asked.page.with_name(CSV.name)
        trained(*asked.sources).to_csv(csv, index=False, float_format="%.5g")
    page.write(asked.page, {"plans": [page.wrapped(counted(pd.read_csv(csv)))]})


if __name__ == "__main__":
    main()
