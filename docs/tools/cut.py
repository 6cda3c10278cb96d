"""Writes the tables of docs/cut.md, figures of whole traces beside those of their cuts:

    python -m docs.tools.cut docs/cut.md /tmp/gpt notebooks/data/gpt /tmp/resnet18 notebooks/data/resnet18

Each pair is a trace that notebooks/record recorded and its cut: the replay of the whole ones takes
some minutes.
"""

import math
from pathlib import Path

import pandas as pd

import apscope
from apscope._page.numbers import figure

from . import page

#: What shares a scale, in 8 bits and in 4.
SCHEMES = (
    "aps:e4m3fn,rule=tight", "aps:e3m4,rule=tight", "aps:e2m5,rule=tight",
    "loss_scaling:e3m4,scale=best",
    "aps:e4m3fn,rule=tight,unit=row", "aps:e3m4,rule=tight,unit=row",
    "aps:e3m4,rule=tight,unit=32", "mx",
    "aps:e3m0,rule=tight", "aps:e2m1fn,rule=tight,unit=16", "mx:block_format=mxfp4",
)  # fmt: skip
REDUCTIONS = ("ring", "two_phase")
#: Column of the summary -> its head, and whether the distance from 1 is shown.
FIGURES = {
    "error_over_noise": ("error over noise", False),
    "step_nmse": ("step NMSE", False),
    "layer_cosine": ("1 - cosine of a layer", True),
}
FACTOR = 1.25  # a quarter


def figures(trace: str) -> pd.DataFrame:
    """The figures by scheme and reduction."""
    rows = apscope.replay(trace, list(SCHEMES), topology=list(REDUCTIONS)).summary().reset_index()
    rows = rows[rows["topology"] != "exact"].set_index(["scheme", "topology"])
    return pd.DataFrame(
        {name: 1 - rows[name] if distance else rows[name]
         for name, (_, distance) in FIGURES.items()}
    )  # fmt: skip


def is_near(whole: float, cut: float) -> bool:
    return whole == cut or (min(whole, cut) > 0 and abs(math.log(cut / whole)) <= math.log(FACTOR))


def lines(whole: pd.DataFrame, cut: pd.DataFrame) -> list[str]:
    heads = ["scheme", "reduction", *(f"{head}, whole / cut" for head, _ in FIGURES.values())]

    def cell(place: tuple[str, str], name: str) -> str:
        a, b = (float(table.loc[place, name]) for table in (whole, cut))
        far = "" if is_near(a, b) else f" (x {b / a:.2g})"
        return f"{figure(a, 2)} / {figure(b, 2)}{far}"

    return page.table(
        heads,
        [
            (*(f"`{name}`" for name in place), *(cell(place, name) for name in FIGURES))
            for place in whole.index
        ],
    )


def said(name: str, trace: apscope.Trace, whole: pd.DataFrame, cut: pd.DataFrame) -> str:
    near = {
        head: sum(is_near(a, b) for a, b in zip(whole[column], cut[column]))
        for column, (head, _) in FIGURES.items()
    }
    size = sum(file.stat().st_size for file in trace.path.rglob("*") if file.is_file())
    return (
        f"**`{name}`** ({trace.manifest.model}, {trace.workers} workers, {len(trace.steps)} "
        f"steps): {trace.manifest.metadata['cut']}; {size / 1e6:.1f} MB. Within a quarter: "
        f"{', '.join(f'{head} in {n} of {len(whole)} rows' for head, n in near.items())}."
    )


def main() -> None:
    parser = page.options(__doc__)
    parser.add_argument("traces", nargs="+", metavar="WHOLE CUT")
    args = parser.parse_args()
    found: list[str] = []
    for a, b in zip(args.traces[::2], args.traces[1::2], strict=True):
        trace, small = apscope.open_trace(a), apscope.open_trace(b)
        if small.manifest.metadata.get("cut_from") != trace.hash:
            raise SystemExit(f"{b} is not a cut of {a}")
        whole = figures(a)
        cut = figures(b).loc[whole.index]
        found += [said(Path(b).name, small, whole, cut), "", *lines(whole, cut), ""]
    page.write(args.page, {"cuts": found[:-1]})


if __name__ == "__main__":
    main()
