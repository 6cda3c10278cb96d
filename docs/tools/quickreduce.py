"""Draws docs/quickreduce.png: python -m docs.tools.quickreduce docs/quickreduce.png

The picture of docs/quickreduce.md: the error of QuickReduce's messages by the size of the
gradients, for three widths, and with a bound of the scale.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import apscope
from apscope.plots._style import STYLE, label_lines

BOUND = ",epsilon=1.5378e-5,epsilon_as=bound"
#: Codec: the colour of its lines.
CODECS = {"int8": "#c1272d", "int6": "#0000a7", "int4": "#008176"}
SIZES = np.geomspace(1e-6, 1e-1, 51)


def errors(scheme: str, sizes: np.ndarray) -> list[float]:
    """NMSE of the messages, of normal numbers of each root mean square."""
    x = np.random.default_rng(0).standard_normal((1, 2**15))
    found = []
    for size in sizes:
        e = apscope.exchange(scheme, (size * x).astype(np.float32))
        found.append(float(((e.sent - e.intended) ** 2).sum() / (e.intended**2).sum()))
    return found


def draw(picture: Path, sizes: np.ndarray = SIZES) -> Figure:
    with matplotlib.rc_context(STYLE | {"font.size": 10, "axes.labelsize": 10}):
        figure = Figure(figsize=(7.2, 4))
        FigureCanvasAgg(figure)
        ax = figure.subplots()
        figure.subplots_adjust(left=0.11, right=0.88, bottom=0.15, top=0.95)
        labels = []
        for codec, color in CODECS.items():
            as_it_is = errors(f"quickreduce:{codec}", sizes)
            ax.loglog(sizes, as_it_is, color=color)
            labels.append((sizes[-1], as_it_is[-1], codec, color))
            bounded = errors(f"quickreduce:{codec}{BOUND}", sizes)
            ax.loglog(sizes, bounded, color=color, linestyle=":")
        ax.set_xlabel("root mean square of the gradients")
        ax.set_ylabel("squared error / squared values")
        ax.set_ylim(1e-5, 20)
        ax.set_xticks(10.0 ** np.arange(-6, 0), [f"1e{k}" for k in range(-6, 0)])
        ax.set_yticks(10.0 ** np.arange(-5, 2), [*(f"1e{k}" for k in range(-5, 0)), "1", "10"])
        ax.minorticks_off()
        ax.text(1.1e-6, 2e-5, "dotted: the scale\nis at least 1.5378e-5", va="bottom")
        label_lines(ax, labels, size=9.5)
        figure.savefig(picture, dpi=140)
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, help="docs/quickreduce.png")
    draw(parser.parse_args(arguments).picture)


if __name__ == "__main__":
    main()
