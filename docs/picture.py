"""Draws docs/picture.png, the picture of README.md: python docs/picture.py docs/picture.png

The ladder of scales on three of the bundled traces, in the 8-bit formats with 5 to 2 exponent bits:
the error in units of the noise of the batch with one scale for all steps, for a step, for a layer,
and for blocks of elements.
"""

import argparse
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation

import apscope
from apscope import plots
from apscope.plots._style import STYLE, label_lines

TRACES = {
    "digits": "convolutional network",
    "characters": "transformer, on characters",
    "resnet18": "ResNet-18",
}
FORMATS = ("e5m2", "e4m3fn", "e3m4", "e2m5")
LIMITS = (5e-4, 3)
#: What the diamonds are; it stands once.
DIAMONDS = "best constant"


def ladders() -> pd.DataFrame:
    """The rungs of every trace, in a ring, by the rule `tight`."""
    data = Path(__file__).parents[1] / "notebooks" / "data"
    return pd.concat(
        [
            apscope.ladder(apscope.open_trace(data / name), FORMATS, topology="ring")
            for name in TRACES
        ],
        ignore_index=True,
    )


def draw(ax: Axes, table: pd.DataFrame, trace: str, first: bool) -> None:
    """One trace, with the limits of all three and the labels next to the lines placed again."""
    plots.ladder(table, trace=trace, ax=ax)
    lines = [
        (*text.xy, text.get_text(), text.get_color())
        for text in ax.texts
        if isinstance(text, Annotation) and text.get_text() != DIAMONDS
    ]
    for text in list(ax.texts):
        text.remove()
    ax.set_ylim(*LIMITS)
    ax.set_title(f"{trace}\n{TRACES[trace]}")
    ax.set_xticks(
        ax.get_xticks(),
        [label.get_text().replace("a step", "a\nstep") for label in ax.get_xticklabels()],
    )
    ax.set_yticks([0.001, 0.01, 0.1, 1], ["0.001", "0.01", "0.1", "1"])
    ax.minorticks_off()
    ax.set_xlabel("one scale for ... (numbers: elements)")
    if not first:
        ax.set_ylabel("")
        ax.tick_params(labelleft=False)
    if first:
        ax.text(-0.25, 1.08, "as large as the noise", color="#555555", fontsize=9, va="bottom")
        ax.text(-0.25, 0.09, "9 % fewer\nsamples", color="#555555", fontsize=9, va="top")
        ax.text(-0.25, 6e-4, f"diamonds: {DIAMONDS}", color="#555555", fontsize=9, va="bottom")
    label_lines(ax, lines, size=9.5)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, help="docs/picture.png")
    args = parser.parse_args(arguments)
    table = ladders()
    with matplotlib.rc_context(
        STYLE
        | {"font.size": 10, "axes.titlesize": 10.5, "axes.labelsize": 10, "xtick.labelsize": 9}
    ):
        figure = Figure(figsize=(9.6, 4))
        FigureCanvasAgg(figure)
        figure.subplots_adjust(left=0.08, right=0.9, bottom=0.2, top=0.88, wspace=0.46)
        for i, (ax, trace) in enumerate(zip(figure.subplots(1, len(TRACES)), TRACES)):
            draw(ax, table, trace, first=i == 0)
        figure.savefig(args.picture, dpi=140)


if __name__ == "__main__":
    main()
