"""ZipML's double sampling in linear regression: does training converge to the least squares
solution?"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch

from apscope.studies.double_sampling import gradients
from apscope.train import DoubleSampledLinear, _tasks

from . import common

LAMBDA, RATE, BATCH, STEPS = 0.1, 0.1, 250, 1200
CASES: dict[str, dict[str, Any]] = {
    "two draws": {},
    "one draw": {"double": False},
    "to nearest": {"stochastic": False},
}


@cache
def problem() -> tuple[torch.Tensor, torch.Tensor]:
    """Digits' pixels, 0 to 1, and the digit less 4.5."""
    data = _tasks.load("digits", "convolutional")
    x, y = data.batch(torch.arange(data.examples))
    return x.reshape(len(x), -1).double(), y.double() - 4.5


def solution(inputs: torch.Tensor, more: torch.Tensor | float = 0.0) -> torch.Tensor:
    """The minimum of mean (a.w - b)^2 / 2 + lambda / 2 |w|^2, with `more` on the diagonal of the
    Hessian."""
    _, b = problem()
    extra = torch.diag(torch.full((64,), LAMBDA, dtype=torch.float64) + more)
    return torch.linalg.solve(inputs.T @ inputs / len(b) + extra, inputs.T @ b / len(b))


@cache
def points(bits: int) -> dict[str, torch.Tensor]:
    """Where each case should converge: with one draw the bias D w of the closed form is a part of
    the Hessian."""
    a, b = problem()
    ones = np.ones(64)
    levels = np.arange(2**bits) / (2**bits - 1)
    d = gradients(a.numpy(), ones, b.numpy(), levels).naive_bias
    nearest = torch.round(a * (2**bits - 1)) / (2**bits - 1)
    return {
        "two draws": solution(a),
        "one draw": solution(a, torch.from_numpy(d)),
        "to nearest": solution(nearest),
    }


def one(options: dict[str, Any], bits: int, seed: int, steps: int) -> torch.Tensor:
    """The mean of the weights over the second half of the steps."""
    a, b = problem()
    with common.seeded(seed) as rng:
        layer = DoubleSampledLinear(
            64, 1, False, bits=bits, low=0.0, high=1.0, seed=seed, dtype=torch.float64, **options
        )
        torch.nn.init.zeros_(layer.weight)
        optimizer = torch.optim.SGD(layer.parameters(), lr=RATE)
        mean = torch.zeros(64, dtype=torch.float64)
        for step in range(steps):
            rows = torch.from_numpy(rng.integers(len(b), size=BATCH))
            optimizer.zero_grad()
            error = layer(a[rows])[:, 0] - b[rows]
            (error.square().mean() / 2 + LAMBDA / 2 * layer.weight.square().sum()).backward()
            optimizer.step()
            if step >= steps // 2:
                mean += layer.weight.detach()[0] / (steps - steps // 2)
        return mean


def run(
    seeds: Sequence[int], widths: Sequence[int] = (1, 2, 3), steps: int = STEPS
) -> pd.DataFrame:
    """A row per width, case and seed: distances over |w*|, and the loss of unrounded data above the
    least one."""
    a, b = problem()
    best = solution(a)

    def loss(w: torch.Tensor) -> float:
        return float(((a @ w - b).square().mean() + LAMBDA * w.square().sum()) / 2)

    rows = []
    for bits in widths:
        for case, options in CASES.items():
            for seed in seeds:
                w, own = one(options, bits, seed, steps), points(bits)[case]
                rows.append((
                    bits, case, seed, float((w - best).norm() / best.norm()),
                    float((w - own).norm() / best.norm()), float((own - best).norm() / best.norm()),
                    loss(w) - loss(best),
                ))  # fmt: skip
    return pd.DataFrame(
        rows, columns=["bits", "case", "seed", "to_best", "to_own", "own_to_best", "excess"]
    )


def lines() -> list[str]:
    """The table of the page."""
    rows = run(common.SEEDS)
    found = [f"{STEPS} steps of {BATCH} examples, rate {RATE:g}, the mean of the second half; "
                 "distances relative to |w*|:", ""]  # fmt: skip
    mean = rows.groupby(["bits", "case"], sort=False)
    found += common.table(
        "bits | inputs | its own point to w* | to its own point | to w* (95 %) | excess loss "
        "(95 %)",
        [
            [
                bits,
                case,
                f"{own.own_to_best.mean():.3f}",
                f"{own.to_own.mean():.3f}",
                plain(own.to_best),
                plain(own.excess),
            ]
            for (bits, case), own in mean
        ],
    )
    return found


def plain(values: pd.Series) -> str:
    """A mean with its interval over the seeds."""
    mean, low, high = common.interval(values.to_numpy(float))
    return f"{mean:.2g} ({low:.2g} to {high:.2g})"
