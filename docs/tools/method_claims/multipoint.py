"""Multipoint quantization of a trained net: error and accuracy against bits, beside one point per
channel."""

import copy
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import nn

from apscope.train import _tasks, multipoint

from . import common

CALIBRATION, STEPS = 300, 400
#: One point per channel is plain quantization with a fitted scale.
CASES: dict[str, dict[str, Any]] = {
    "2 bits, 1 point": {"bits": 2, "error": 0, "points": 1},
    "2 bits, 2 points": {"bits": 2, "error": 0, "points": 2},
    "2 bits, 3 points": {"bits": 2, "error": 0, "points": 3},
    "2 bits, 4 points": {"bits": 2, "error": 0, "points": 4},
    "2 bits, error 0.05": {"bits": 2, "error": 0.05},
    "2 bits, error 0.02": {"bits": 2, "error": 0.02},
    "3 bits, 1 point": {"bits": 3, "error": 0, "points": 1},
    "3 bits, error 0.02": {"bits": 3, "error": 0.02},
    "4 bits, 1 point": {"bits": 4, "error": 0, "points": 1},
    "5 bits, 1 point": {"bits": 5, "error": 0, "points": 1},
    "6 bits, 1 point": {"bits": 6, "error": 0, "points": 1},
}


def trained(seed: int, steps: int = STEPS) -> nn.Module:
    """The net of the task digits, in fp32."""
    data = _tasks.load("digits", "convolutional")
    with common.seeded(seed) as rng:
        model = data.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        common.train(data, model, optimizer, rng, steps, 64)
    return model


def run(
    seeds: Sequence[int], cases: Sequence[str] = tuple(CASES), steps: int = STEPS
) -> pd.DataFrame:
    """A row per case and seed: bits per weight, the mean error of a channel's output, loss and
    accuracy."""
    data = _tasks.load("digits", "convolutional")
    inputs, _ = data.batch(torch.arange(CALIBRATION))
    x, y = data.validation
    rows = []
    for seed in seeds:
        model = trained(seed, steps)
        with torch.no_grad():
            start = float(_tasks.loss(model(x), y)), _tasks.accuracy(model(x), y)
            rows.append(("fp32", seed, 32.0, 0.0, 0.0, *start))
            for case in cases:
                small = copy.deepcopy(model)
                found = multipoint(small, inputs, **CASES[case])
                sizes = found.layer.map(
                    {n.removesuffix(".weight"): p[0].numel() for n, p in small.named_parameters()}
                )
                bits = float((found.bits * sizes).sum() / sizes.sum())
                rows.append((
                    case, seed, bits, found.error.mean(), found.points.mean(),
                    float(_tasks.loss(small(x), y)), _tasks.accuracy(small(x), y),
                ))  # fmt: skip
    return pd.DataFrame(
        rows, columns=["case", "seed", "bits", "error", "points", "loss", "accuracy"]
    )


def lines() -> list[str]:
    """The table of the page."""
    rows = run(common.SEEDS)
    mean = rows.groupby("case", sort=False).mean()
    found = [f"{CALIBRATION} images for calibration, 297 others for validation:", ""]
    found += common.table(
        "case | bits per weight | points per channel | error of outputs | accuracy | accuracy "
        "less fp32's (95 %) | loss above fp32's (95 %)",
        [
            [
                case,
                f"{r.bits:.2f}",
                f"{r.points:.2f}",
                f"{r.error:.2g}",
                f"{100 * r.accuracy:.1f} %",
                *(
                    ["", ""]
                    if case == "fp32"
                    else [
                        common.span(common.paired(rows, case, "fp32", column))
                        for column in ("accuracy", "loss")
                    ]
                ),
            ]
            for case, r in mean.iterrows()
        ],
    )
    return found
