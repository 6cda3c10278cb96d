"""The picture of docs/insight.md: trained excess against predicted, the kinds of schemes as marks."""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from apscope._training.relation import Law, above_noise
from apscope.plots._style import ARROWS, STYLE

#: Of a kind of scheme its mark and colour (Paul Tol's, for colour-blind readers).
MARKS = {
    "nearest": ("o", "#4477aa"), "two phases": ("s", "#33bbee"), "blocks": ("D", "#aa8800"),
    "clipping": ("v", "#882255"), "stochastic": ("^", "#ee6677"),
    "error feedback": ("P", "#228833"), "plan": ("X", "#555555"),
}  # fmt: skip
ENDS = np.array([1e-4, 10.0])  # nats; an arrow leads from the end to what is outside
ARROW = 2.0  # its factor
PALE = 0.3


def draw(table: pd.DataFrame, laws: dict[str, tuple[str, Law]], path: Path) -> Figure:
    """One panel per statistic.

    table: combinations with the statistics, `kind`, and as booleans `fitted`, `refused` and `large`.
    laws: by the statistic the panel's title and the line.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 4.9))
        FigureCanvasAgg(figure)
        for ax, (name, (title, law)) in zip(
            figure.subplots(1, len(laws), sharex=True, sharey=True), laws.items(), strict=True
        ):
            _panel(ax, above_noise(table, name), name, law)
            ax.set_title(title)
            ax.set_xlabel("excess predicted from the fp32 run, nats")
        figure.axes[0].set_ylabel("excess trained, nats")
        figure.legend(
            handles=_legend(figure.axes[0]), loc="lower center", ncols=4, handletextpad=0.3
        )
        figure.subplots_adjust(0.075, 0.25, 0.985, 0.94, 0.06)
        figure.savefig(path, dpi=110, metadata={"Software": None})
    return figure


def _panel(ax: Axes, held: pd.DataFrame, name: str, law: Law) -> None:
    ax.fill_between(ENDS, ENDS / law.half, ENDS * law.half, color="#e8e8e8", linewidth=0)
    ax.plot(ENDS, ENDS, color="#777777", linewidth=0.8)
    order = held.assign(last=held["large"]).sort_values(["last", "fitted"], kind="stable")
    for row in order.itertuples():
        mark, colour = MARKS[row.kind]
        true = np.array([law.predict(getattr(row, name)), row.excess])
        place = np.clip(true, *ENDS)
        if (true != place).any():
            ax.annotate(
                "", place * ARROW ** np.sign(true - place), place,
                arrowprops={"arrowstyle": "->", "color": colour, "shrinkA": 3, "shrinkB": 0},
                alpha=PALE if row.refused else None,
            )  # fmt: skip
        ax.plot(
            *place,
            "*" if row.large else mark, markersize=13 if row.large else 5, color=colour,
            markerfacecolor="white" if row.fitted else colour,
            markeredgecolor="black" if row.large else colour, markeredgewidth=0.9,
            alpha=PALE if row.refused else None,
        )  # fmt: skip
    ticks = [1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0]
    room = ENDS * [1 / ARROW, ARROW]
    ax.set(xscale="log", yscale="log", xlim=room, ylim=room)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, ["0.0001", *(f"{t:g}" for t in ticks[1:])])
        axis.set_minor_locator(NullLocator())


def _legend(ax: Axes) -> list[matplotlib.artist.Artist]:
    def entry(label: str, mark: str, colour: str, **own: str | float) -> matplotlib.artist.Artist:
        look = {"marker": mark, "linestyle": "", "color": colour, "markersize": 6} | own
        return ax.plot([], [], label=label, **look)[0]

    grey = "#777777"
    return [
        *(entry(kind, *both) for kind, both in MARKS.items()),
        entry("large GPT, held out", "*", "white", markeredgecolor="black"),
        entry("filled: held-out tasks", "o", grey),
        entry("open: the fitted tasks", "o", grey, markerfacecolor="white"),
        entry("pale: lost gain of 1/3 or more", "o", grey, alpha=PALE),
        entry("arrow: beyond the axis", ARROWS["below"], grey, markersize=12),
        ax.fill_between([], [], color="#e8e8e8", label="95 % interval of the line"),
    ]
