"""Draws docs/picture.png, the picture of README.md: python docs/picture.py docs/picture.png

Replays APS and one loss scale, the largest that fits in hindsight, on the bundled traces in the four 8-bit formats with
2 to 5 exponent bits, and e4m3 in several orders of the additions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import apscope
from apscope.plots._style import COLOURS, MARKERS, STYLE

TRACES = ("digits", "digits_w64", "characters")
FORMATS = ("e5m2", "e4m3", "e3m4", "e2m5")
ORDERS = {
    "ring": "ring", "sequential": "one after another", "hierarchical:8": "groups of 8", "tree": "tree",
    "sequential+kahan": "one after another,\nKahan's sum", "exact": "not rounded:\nthe wire alone",
}  # fmt: skip
APS, LOSS_SCALING = "aps:{}", "loss_scaling:{},scale=best,rule=tight"
TYPICAL, POOLED = COLOURS[0], COLOURS[1]


def replay() -> apscope.Results:
    data = Path(__file__).parents[1] / "notebooks" / "data"
    specs = [scheme.format(name) for name in FORMATS for scheme in (APS, LOSS_SCALING)]
    return apscope.replay([data / name for name in TRACES], specs, topology=[t for t in ORDERS if t != "exact"])


def ratios(results: apscope.Results) -> pd.DataFrame:
    """NMSE of APS over that of the loss scale after a ring, by trace and format.

    `typical` is the geometric mean over layers and steps, `pooled` compares the NMSEs of all of them together.
    """
    found = []
    for name in FORMATS:
        table = results.compare(APS.format(name), LOSS_SCALING.format(name), topology="ring", layers=False)
        pooled = table["nmse_a"] / table["nmse_b"]
        found.append(pd.DataFrame({"trace": table["trace"], "format": name, "typical": table["geometric_ratio"], "pooled": pooled}))
    return pd.concat(found, ignore_index=True)


def draw_ratios(ax: Axes, table: pd.DataFrame) -> None:
    places = range(len(FORMATS))
    ax.axhline(1, color="#888888", linewidth=1)
    for trace, marker in zip(TRACES, MARKERS):
        rows = table[table["trace"] == trace]
        ax.plot(places, rows["typical"], color=TYPICAL, marker=marker, markersize=6)
        ax.plot(places, rows["pooled"], color=POOLED, marker=marker, markersize=6, linestyle="--", markerfacecolor="white")
        ax.plot([], [], color="#555555", marker=marker, markersize=6, linestyle="", label=trace)
    ax.set_yscale("log")
    ax.set_ylim(0.09, 4)
    ax.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    ax.minorticks_off()
    ax.set_xticks(places, [f"{name}\n{name[1]}" for name in FORMATS])
    ax.set_xlabel("8-bit format, its exponent bits")
    ax.set_ylabel("NMSE of APS / NMSE of one loss scale")
    ax.text(0, 3, "all layers and steps pooled", color=POOLED, fontweight="bold")
    ax.text(0, 0.37, "each layer\nand step alike\n(geometric mean)", color=TYPICAL, fontweight="bold", va="center")
    ax.text(-0.1, 1.15, "one loss scale\nloses less ↑", color="#666666")
    ax.text(-0.1, 0.87, "APS\nloses less ↓", color="#666666", va="top")
    ax.legend(loc="lower left", handletextpad=0.1)
    ax.set_title("APS against the best single loss scale")


def draw_orders(ax: Axes, summary: pd.DataFrame) -> None:
    rows = summary[(summary["trace"] == "digits_w64")].set_index(["scheme", "topology"])["step_nmse"]
    for place, order in enumerate(reversed(ORDERS)):
        aps, scaled = (rows[scheme.format("e4m3"), order] for scheme in (APS, LOSS_SCALING))
        ax.plot([rows[APS.format("e4m3"), "exact"], aps], [place, place], color="#cccccc", linewidth=4, zorder=1, solid_capstyle="butt")
        ax.plot(aps, place, color=TYPICAL, marker="o", markersize=7)
        ax.plot(scaled, place, color=POOLED, marker="o", markersize=11, markerfacecolor="none")
    ax.set_xscale("log")
    ax.set_xticks([0.001, 0.01], ["0.001", "0.01"])
    ax.set_yticks(range(len(ORDERS)), reversed(ORDERS.values()))
    ax.plot([], [], color=TYPICAL, marker="o", markersize=7, linestyle="", label="APS, e4m3")
    ax.plot([], [], color=POOLED, marker="o", markersize=11, markerfacecolor="none", linestyle="", label="one loss scale, e4m3")
    ax.legend(loc="lower right")
    ax.set_xlabel("mean over steps of the step's NMSE")
    ax.set_title("Adding 64 workers, by the order")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, help="docs/picture.png")
    args = parser.parse_args(arguments)
    results = replay()
    with matplotlib.rc_context(STYLE | {"font.size": 10, "axes.titlesize": 11, "legend.fontsize": 9.5}):
        figure = Figure(figsize=(9, 4), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=[1.1, 1])
        draw_ratios(left, ratios(results))
        draw_orders(right, results.summary())
        figure.savefig(args.picture, dpi=140)


if __name__ == "__main__":
    main()
