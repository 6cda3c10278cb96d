"""HALP on regularised logistic regression: linear convergence with 8 bits, where low-precision SVRG
stalls?"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from apscope.train import HALP, _tasks

from . import common

LAMBDA, RATE, BATCH = 0.1, 0.1, 5
EPOCHS, INNER = 14, 200
CASES: dict[str, dict[str, Any]] = {
    "SVRG, fp64": {"bits": None},
    "HALP, 8 bits": {"bits": 8},
    "HALP, 8 bits to nearest": {"bits": 8, "rounding": "nearest"},
    "HALP, 6 bits": {"bits": 6},
    "HALP, 4 bits": {"bits": 4},
    "low-precision SVRG, 8 bits": {"bits": 8, "delta": "fits"},
    "low-precision SVRG, 12 bits": {"bits": 12, "delta": "fits"},
}

Loss = Callable[[torch.Tensor, Any], torch.Tensor]


@cache
def problem() -> tuple[torch.Tensor, torch.Tensor]:
    """Digits' pixels and a one, and whether the digit is below five as -1 or 1: 1,500 of 65
    numbers."""
    data = _tasks.load("digits", "convolutional")
    x, y = data.batch(torch.arange(data.examples))
    pixels = x.reshape(len(x), -1).double()
    return torch.cat([pixels, torch.ones(len(x), 1, dtype=torch.float64)], 1), (
        2 * (y >= 5) - 1
    ).double()


def loss(w: torch.Tensor, rows: Any) -> torch.Tensor:
    """The mean logistic loss of the rows and lambda / 2 |w|^2: strongly convex with mu = lambda."""
    a, t = problem()
    return functional.softplus(-t[rows] * (a[rows] @ w)).mean() + LAMBDA / 2 * w.square().sum()


@cache
def optimum() -> tuple[torch.Tensor, float]:
    """By Newton's method; and the condition number of the Hessian there."""
    a, t = problem()
    w = torch.zeros(65, dtype=torch.float64)
    for _ in range(12):
        wrong = torch.sigmoid(-t * (a @ w))
        g = -(a.T @ (t * wrong)) / len(a) + LAMBDA * w
        h = a.T @ (a * (wrong * (1 - wrong))[:, None]) / len(a) + LAMBDA * torch.eye(65)
        w = w - torch.linalg.solve(h, g)
    eigenvalues = torch.linalg.eigvalsh(h)
    return w, float(eigenvalues[-1] / eigenvalues[0])


def one(options: dict[str, Any], seed: int, epochs: int, inner: int) -> list[float]:
    """The norm of the gradient at every centre, and after the last epoch."""
    options = dict(options)
    if options.get("delta") == "fits":  # the finest grid whose box holds the optimum
        options["delta"] = float(optimum()[0].abs().max()) / (2 ** (options["bits"] - 1) - 1)
    with common.seeded(seed) as rng:
        w = torch.zeros(65, dtype=torch.float64, requires_grad=True)
        halp = HALP([w], RATE, mu=LAMBDA, seed=seed, **options)
        norms = []
        for _ in range(epochs):
            norms.append(halp.centre(lambda: loss(w, slice(None))))
            for _ in range(inner):
                rows = torch.from_numpy(rng.integers(1500, size=BATCH))
                halp.step(lambda rows=rows: loss(w, rows))
        return [*norms, halp.centre(lambda: loss(w, slice(None)))]


def run(
    seeds: Sequence[int], cases: Sequence[str] = tuple(CASES), epochs: int = EPOCHS,
    inner: int = INNER
) -> pd.DataFrame:  # fmt: skip
    """A row per case, seed and epoch."""
    rows = [
        (case, seed, epoch, norm)
        for case in cases
        for seed in seeds
        for epoch, norm in enumerate(one(CASES[case], seed, epochs, inner))
    ]
    return pd.DataFrame(rows, columns=["case", "seed", "epoch", "norm"])


def rates(rows: pd.DataFrame, floor: float = 1e-13) -> pd.DataFrame:
    """Of every case and seed: the gradient's factor per epoch, from epoch 2 to the last above the
    floor, and the last norm.

    A fit of log norm on the epoch; r2 is its determination.
    """
    found = []
    for (case, seed), own in rows.groupby(["case", "seed"], sort=False):
        used = own[(own.epoch >= 2) & (own.norm > floor)]
        logs = np.log(used.norm.to_numpy())
        slope, _ = np.polyfit(used.epoch, logs, 1)
        r = np.corrcoef(used.epoch, logs)[0, 1]
        found.append((case, seed, math.exp(slope), r * r, own.norm.iloc[-1]))
    return pd.DataFrame(found, columns=["case", "seed", "factor", "r2", "last"])


def lines() -> list[str]:
    """The table of the page."""
    rows = run(common.SEEDS)
    fits = rates(rows)
    _, condition = optimum()
    found = [f"Condition number {condition:.0f}, {EPOCHS} epochs of {INNER} steps of {BATCH} "
                 f"examples, rate {RATE:g}, mu = lambda = {LAMBDA:g}; the gradient's norm begins "
                 f"at {rows.norm.iloc[0]:.2g}.", ""]  # fmt: skip
    last = {case: own["last"].to_numpy() for case, own in fits.groupby("case", sort=False)}
    found += common.table(
        "case | gradient's norm after the last epoch (smallest to largest of the seeds) | "
        "factor per epoch (95 %) | share of log norm that a line explains",
        [
            [case, f"{values.min():.1e} to {values.max():.1e}", factor(own),
             f"{own.r2.min():.2f} to {own.r2.max():.2f}"]
            for (case, own), values in zip(fits.groupby("case", sort=False), last.values())
        ],
    )  # fmt: skip
    return found


def factor(own: pd.DataFrame) -> str:
    """The mean over the seeds, in logarithms, with its interval."""
    mean, low, high = (math.exp(v) for v in common.interval(np.log(own.factor.to_numpy())))
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"
