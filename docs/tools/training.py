"""The verdicts of an experiment's folder as a table of a page: python -m docs.tools.training trained docs/training.md

Writes excess loss with its 95 % interval, accuracy and volume of every scheme between the markers
of the page.
"""

from typing import Any

import pandas as pd

from apscope._training.folder import read

from . import page

HEADS = ("scheme", "excess, nats", "95 %", "accuracy", "volume", "error over noise", "verdict")


def lines(folder: str) -> list[str]:
    """A table a task, below a sentence about its baseline."""
    experiment, _, about = read(folder)
    found = [
        f"Gate {experiment.gate:g} nats, {len(experiment.seeds)} seeds, {experiment.workers} "
        f"workers, `{experiment.topology}`; PyTorch {about['versions']['torch']}."
    ]
    for (task, model), own in about["verdicts"].groupby(["task", "model"], sort=False):
        found += ["", baseline(f"{task}, {model}", own.iloc[0]), ""]
        found += page.table(
            HEADS, [row_of(row, experiment.topology) for row in own.iloc[1:].itertuples()]
        )
    return found


def baseline(title: str, fp32: Any) -> str:
    """What a task's schemes are compared with."""
    return (
        f"**{title}.** fp32 ends at {fp32.loss:.4g} nats, standard deviation {fp32.noise:.2g} over "
        f"the seeds, accuracy {100 * fp32.accuracy:.1f} %."
    )


def signed(*values: float) -> str:
    """A difference, or the ends of its interval; empty if unknown."""
    return "" if pd.isna(values[0]) else " to ".join(f"{value:+.2g}" for value in values)


def row_of(row: object, topology: str) -> list[str]:
    """One scheme's row; it names a topology other than that of the experiment."""
    own = "" if row.topology == topology else f", `{row.topology}`"
    return [
        f"`{row.scheme}`{own}", signed(row.excess), signed(row.excess_low, row.excess_high),
        "" if pd.isna(row.accuracy) else f"{100 * row.accuracy:.1f} %", f"{row.volume:.3g}",
        "" if pd.isna(row.error_over_noise) else f"{row.error_over_noise:.2g}",
        row.verdict + (f": {row.note}" if row.note else ""),
    ]  # fmt: skip


if __name__ == "__main__":
    asked = page.options(__doc__, "a folder of apscope train").parse_args()
    page.write(asked.page, {"experiment": lines(*asked.sources)})
