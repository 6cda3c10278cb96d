"""Draws docs/fractrain_gates.png: python -m docs.tools.fractrain_gates docs/fractrain_gates.png

The picture of docs/methods.md: the widths that FracTrain's gates choose for 60 digits, in every
block, while the net trains. It trains for half a minute on one processor.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from torch import nn

from apscope._charts.kinds import KINDS
from apscope.plots._numbers import plain_numbers
from apscope.plots._style import STYLE
from apscope.train import FracTrain, _tasks

from .method_claims import fractrain_gates as claim

CASE = "gates and schedule, beta 0.01"
SAMPLES, EVERY = 60, 4


def recorded(
    epochs: int = claim.EPOCHS, case: str = CASE
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """The chosen pair of (recorded step, block, sample), classes of samples, targets by step."""
    x, y = _tasks.load("digits", "resnet").validation
    order = y[:SAMPLES].argsort(stable=True)
    found: list[np.ndarray] = []
    targets: list[float] = []

    def watch(model: nn.Module, schedule: FracTrain) -> None:
        if len(targets) % EVERY == 0:
            model.eval()
            with torch.no_grad(), schedule:
                model(x[order])
            model.train()
            found.append(schedule.choices.float().argmax(2).numpy())
        assert schedule.gates is not None
        targets.append(schedule.gates.targets[schedule.stage])

    claim.one(case, 0, epochs, watch)
    return np.array(found), y[order].numpy(), targets


def draw(picture: Path, run: tuple[np.ndarray, np.ndarray, list[float]] | None = None) -> Figure:
    """Samples down, steps across, one panel per block."""
    chosen, classes, targets = run or recorded()
    gates: Any = claim.GATES
    pairs = [f"{a} and {g}" for a, g in zip(gates.activations, gates.gradients)]
    bands = KINDS["underflow"].bands
    assert bands is not None
    colours = ListedColormap([bands.light[i] for i in (0, 2, 3, 4, 6)])
    norm = BoundaryNorm(np.arange(len(pairs) + 1) - 0.5, len(pairs))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 5.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(gates.blocks), 1, sharex=True)
        steps = EVERY * np.arange(len(chosen) + 1)
        image = None
        for t, (ax, block) in enumerate(zip(panels, gates.blocks)):
            plain_numbers(ax)
            image = ax.pcolormesh(
                steps, np.arange(chosen.shape[2] + 1), chosen[:, t].T,
                cmap=colours, norm=norm, rasterized=True,
            )  # fmt: skip
            ax.invert_yaxis()
            digits, first = np.unique(classes, return_index=True)
            ends = [*first[1:], len(classes)]
            ax.set_yticks((first + ends) / 2, [str(digit) for digit in digits])
            ax.set_ylabel("digit")
            ax.set_title(block)
            for step in np.flatnonzero(np.diff(targets)) + 1:
                ax.axvline(step, color="#c1272d", linewidth=1.0, linestyle="--")
        panels[-1].set_xlabel("training step (dashed: the target of the cost grows)")
        bar = figure.colorbar(image, ax=panels, aspect=30, fraction=0.05, pad=0.01)
        bar.set_ticks(range(len(pairs)), labels=pairs)
        bar.ax.minorticks_off()
        bar.set_label("bits of activations and of gradients")
        bar.outline.set_visible(False)
        figure.savefig(picture, dpi=140)
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Trains and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, help="docs/fractrain_gates.png")
    draw(parser.parse_args(arguments).picture)


if __name__ == "__main__":
    main()
