"""FracTrain's gates: as good as the schedule and as constant widths, at a smaller cost?"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from apscope.train import FracTrain, Gates, _tasks
from apscope.train._tasks.digits import Block

from . import common, fractrain

EPOCHS = 20
BLOCKS = ("block1", "block2", "block3")
#: Its pairs of widths are those of all cases.
GATES = Gates(BLOCKS)
#: The code's targets of the combination, and of the gates alone.
GROWING, CONSTANT = (1.5, 2.0, 2.5, 3.0), (3.0,)
CASES: dict[str, dict[str, Any] | None] = {
    "fp32": None,
    "8 and 8 bits": {"bits": (8,), "gradient_bits": (8,)},
    "7 and 8 bits": {"bits": (7,), "gradient_bits": (8,)},
    "6 and 8 bits": {"bits": (6,), "gradient_bits": (8,)},
    "5 and 8 bits": {"bits": (5,), "gradient_bits": (8,)},
    "5 and 6 bits": {"bits": (5,), "gradient_bits": (6,)},
    "4 and 8 bits": {"bits": (4,), "gradient_bits": (8,)},
    "4 and 6 bits": {"bits": (4,), "gradient_bits": (6,)},
    "3 and 6 bits": {"bits": (3,), "gradient_bits": (6,)},
    "schedule": {},
    "gates, beta 0.001": {"gates": {"target": CONSTANT}},
    "gates, beta 0.01": {"gates": {"target": CONSTANT, "beta": 0.01}},
    "gates and schedule, beta 0.01": {"gates": {"target": GROWING, "beta": 0.01}},
}


class Net(nn.Module):
    """Three residual blocks between a convolution and a linear head: 9,794 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.block1 = Block(8, 8, 1)
        self.block2 = Block(8, 16, 2)
        self.block3 = Block(16, 16, 1)
        self.head = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images of shape (n, 1, 8, 8) to logits of shape (n, 10)."""
        x = torch.relu(self.bn1(self.conv1(images)))
        return self.head(self.block3(self.block2(self.block1(x))).mean((2, 3)))


def made(case: str, model: nn.Module, seed: int) -> FracTrain | None:
    """The context of a case. Convolution 1 and the head are in fp32 in all of them."""
    options = CASES[case]
    if options is None:
        return None
    if "gates" in options:
        return FracTrain(model, gates=Gates(BLOCKS, **options["gates"]), seed=seed)
    return FracTrain(model, skip=["conv1", "head"], seed=seed, **options)


def one(
    case: str, seed: int, epochs: int = EPOCHS,
    watch: Callable[[nn.Module, FracTrain], None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Loss, accuracy, cost, turning points; shares of blocks and pairs in the last epoch."""
    data = _tasks.load("digits", "resnet")
    with common.seeded(seed) as rng:
        model = Net()
        schedule = made(case, model, seed)
        shares: list[np.ndarray] = []

        def step() -> None:
            if schedule is not None and schedule.gates is not None:
                shares.append(schedule.choices.double().mean(1).numpy())
            if watch is not None and schedule is not None:
                watch(model, schedule)

        loss = fractrain.trained(data, model, schedule, rng, epochs, step)
        accuracy, cost, stage = fractrain.figures(data, model, schedule)
    last = np.mean(shares[-fractrain.STEPS :], axis=0) if shares else None
    return {"loss": loss, "accuracy": accuracy, "cost": cost, "stage": stage, "shares": last}


def run(
    seeds: Sequence[int], cases: Sequence[str] = tuple(CASES), epochs: int = EPOCHS
) -> pd.DataFrame:
    """A row per case and seed."""
    return pd.DataFrame(
        {"case": case, "seed": seed, **one(case, seed, epochs)} for case in cases for seed in seeds
    )


def own_cost() -> float:
    """Multiplications of the gates for a sample, over those of the blocks."""
    model = Net()
    schedule = made("gates, beta 0.01", model, 0)
    assert schedule is not None
    with torch.no_grad(), schedule:
        model(torch.zeros(1, 1, 8, 8))
    network = schedule.network
    every_block = [*network.cell.parameters(), *network.choice.parameters()]
    weights = sum(p.numel() for p in network.embeddings.parameters() if p.dim() > 1)
    weights += len(BLOCKS) * sum(p.numel() for p in every_block if p.dim() > 1)
    return weights / (schedule.full_cost / 3)


def lines() -> list[str]:
    """The tables of the page."""
    return tables(run(common.SEEDS))


def tables(rows: pd.DataFrame) -> list[str]:
    """Of these runs."""
    pairs = [f"{a} and {g}" for a, g in zip(GATES.activations, GATES.gradients)]
    shares = [
        [case, block, *(f"{100 * share:.0f} %" for share in of_block)]
        for case, group in rows[rows["shares"].notna()].groupby("case", sort=False)
        for block, of_block in zip(BLOCKS, np.mean(list(group["shares"]), axis=0))
    ]
    return [
        f"{EPOCHS} epochs of {fractrain.STEPS} batches of {fractrain.BATCH}; bits of activations "
        "and weights, and of gradients; cost of the blocks:",
        "",
        *fractrain.table(rows),
        "",
        f"The gates' own multiplications, in fp32 and not included, are {100 * own_cost():.2f} % "
        "of the blocks'.",
        "",
        "Share of the samples that choose a pair (bits of activations and gradients) in the last "
        "epoch:",
        "",
        *common.table(" | ".join(["case", "block", *pairs]), shares),
    ]
