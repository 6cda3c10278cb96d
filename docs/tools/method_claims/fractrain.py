"""FracTrain's progressive widths: as good as constant ones at a smaller cost?"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from apscope.train import FracTrain, _tasks

from . import common

#: An epoch here is 12 batches of 64, half of the 1,500 images.
EPOCHS, STEPS, BATCH, RATE = 40, 12, 64, 0.05
CASES: dict[str, dict[str, Any] | None] = {
    "fp32": None,
    "8 and 8 bits": {"bits": (8,), "gradient_bits": (8,)},
    "7 and 8 bits": {"bits": (7,), "gradient_bits": (8,)},
    "6 and 8 bits": {"bits": (6,), "gradient_bits": (8,)},
    "5 and 8 bits": {"bits": (5,), "gradient_bits": (8,)},
    "5 and 6 bits": {"bits": (5,), "gradient_bits": (6,)},
    "4 and 6 bits": {"bits": (4,), "gradient_bits": (6,)},
    "3 and 6 bits": {"bits": (3,), "gradient_bits": (6,)},
    "progressive, epsilon 0.05": {},
    "progressive, epsilon 0.15": {"epsilon": 0.15, "alpha": 0.4},
}


def trained(
    data: _tasks.Data, model: torch.nn.Module, schedule: FracTrain | None,
    rng: np.random.Generator, epochs: int, watch: Callable[[], None] = lambda: None,
) -> float:  # fmt: skip
    """Trains a model, and its gates; the mean loss of the last epoch, without the gates' term."""
    gates = [] if schedule is None else schedule.network.parameters()
    optimizer = torch.optim.SGD([*model.parameters(), *gates], lr=RATE, momentum=0.9)
    for epoch in range(epochs):
        losses, totals = [], []
        for step, x, y in common.batches(data, rng, STEPS, BATCH):
            common.decayed(optimizer, 1 - (epoch * STEPS + step) / (epochs * STEPS))
            optimizer.zero_grad()
            with schedule or contextlib.nullcontext():
                loss = _tasks.loss(model(x), y)
            total = loss if schedule is None else loss + schedule.regularizer()
            total.backward()
            optimizer.step()
            losses.append(loss.item())
            totals.append(total.item())
            watch()
        if schedule is not None:
            schedule.observe(float(np.mean(totals)))
    return float(np.mean(losses))


def figures(
    data: _tasks.Data, model: torch.nn.Module, schedule: FracTrain | None
) -> tuple[float, float, int]:
    """Accuracy, cost over that with 32 bits, and turning points of a trained model."""
    cost = 1.0 if schedule is None else schedule.cost / schedule.full_cost
    stage = 0 if schedule is None else schedule.stage
    model.eval()
    return common.accuracy(data, model, schedule), cost, stage


def one(options: dict[str, Any] | None, seed: int, epochs: int) -> tuple[float, float, float, int]:
    """Loss of the last epoch, accuracy, cost over that with 32 bits, turning points."""
    data = _tasks.load("digits", "convolutional")
    with common.seeded(seed) as rng:
        model = data.model()
        schedule = None if options is None else FracTrain(model, seed=seed, **options)
        loss = trained(data, model, schedule, rng, epochs)
        return loss, *figures(data, model, schedule)


def run(
    seeds: Sequence[int], cases: Sequence[str] = tuple(CASES), epochs: int = EPOCHS
) -> pd.DataFrame:
    """A row per case and seed."""
    rows = [(case, seed, *one(CASES[case], seed, epochs)) for case in cases for seed in seeds]
    return pd.DataFrame(rows, columns=["case", "seed", "loss", "accuracy", "cost", "stage"])


def lines() -> list[str]:
    """The table of the page."""
    rows = run(common.SEEDS)
    found = [f"{EPOCHS} epochs of {STEPS} batches of {BATCH}; bits of activations and weights, "
                 "and of gradients:", ""]  # fmt: skip
    return [*found, *table(rows)]


def table(rows: pd.DataFrame) -> list[str]:
    """A row per case, compared with 8 bits everywhere."""
    mean = rows.groupby("case", sort=False)[["cost", "loss", "accuracy", "stage"]].mean()
    return common.table(
        "case | cost, % of 32 bits | loss, nats | excess over 8 and 8 bits (95 %) | accuracy "
        "| accuracy less that of 8 and 8 bits (95 %) | turning points",
        [
            [
                case,
                f"{100 * r.cost:.2f}",
                f"{r.loss:.4g}",
                less(rows, case, "loss"),
                f"{100 * r.accuracy:.1f} %",
                less(rows, case, "accuracy"),
                f"{r.stage:.1f}",
            ]
            for case, r in mean.iterrows()
        ],
    )


def less(rows: pd.DataFrame, case: str, column: str) -> str:
    """The difference to 8 bits everywhere."""
    base = "8 and 8 bits"
    return "" if case == base else common.span(common.paired(rows, case, base, column))
