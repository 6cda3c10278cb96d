"""The verdicts of an experiment's folder as a table of a page: python -m docs.tools.training trained docs/training.md

Writes excess loss with its 95 % interval, accuracy and volume of every scheme between the markers
of the page.
"""

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
        base = own.iloc[0]
        found += ["", f"**{task}, {model}.** fp32 ends at {base.loss:.4g} nats, standard deviation "
                      f"{base.noise:.2g} over the seeds, accuracy {100 * base.accuracy:.1f} %.", ""]  # fmt: skip
        found += page.table(
            HEADS, [row_of(row, experiment.topology) for row in own.iloc[1:].itertuples()]
        )
    return found


def row_of(row: object, topology: str) -> list[str]:
    """One scheme's row; it names a topology other than that of the experiment."""
    own = "" if row.topology == topology else f", `{row.topology}`"
    spread = "" if pd.isna(row.excess_low) else f"{row.excess_low:+.2g} to {row.excess_high:+.2g}"
    return [
        f"`{row.scheme}`{own}", "" if pd.isna(row.excess) else f"{row.excess:+.2g}", spread,
        "" if pd.isna(row.accuracy) else f"{100 * row.accuracy:.1f} %", f"{row.volume:.3g}",
        "" if pd.isna(row.error_over_noise) else f"{row.error_over_noise:.2g}",
        row.verdict + (f": {row.note}" if row.note else ""),
    ]  # fmt: skip


if __name__ == "__main__":
    asked = page.options(__doc__, "a folder of apscope train").parse_args()
    page.write(asked.page, {"experiment": lines(*asked.sources)})
