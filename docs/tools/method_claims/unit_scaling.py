"""Unit scaling in eight bits and fewer: as good as in fp32 without a loss scale?"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import nn
from torch.nn import functional

import apscope.torch as at
from apscope.train import _tasks, unit_scaling

from . import common

#: Formats of operands, and of the gradients of outputs.
FORMATS = ((None, None), ("e4m3", "e5m2"), ("e4m3", "e4m3"), ("e4m3", "e3m4"), ("e3m4", "e3m2fn"))
STEPS, BATCH, RATE = 150, 128, 3e-3


class UnitReLU(nn.Module):
    """`unit_scaling.relu`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of any shape."""
        return unit_scaling.relu(x)


class Plain(nn.Module):
    """PyTorch's layer, in the formats, without factors; the gradient at a constant loss scale."""

    def __init__(self, layer: nn.Module, format: Any, gradient: Any) -> None:
        super().__init__()
        self.layer, self.format, self.gradient = layer, format, gradient

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the layer."""
        if self.format is None:
            return self.layer(x)
        x, w = (at.quantize(v, self.format, overflow="saturate") for v in (x, self.layer.weight))
        if isinstance(self.layer, nn.Linear):
            y = functional.linear(x, w, self.layer.bias)
        else:
            y = functional.conv2d(x, w, self.layer.bias, self.layer.stride, self.layer.padding)
        return at.quantize(y, "fp32", backward=self.gradient, overflow="saturate")


def network(kind: str, format: Any, gradient: Any) -> nn.Sequential:
    """Two convolutions and two linear layers for digits, 13,706 parameters."""
    if kind == "unit":
        how = {"format": format, "gradient": gradient}
        conv, linear, relu = unit_scaling.Conv2d, unit_scaling.Linear, UnitReLU
        return nn.Sequential(
            conv(1, 16, 3, 2, 1, **how), relu(), conv(16, 32, 3, 2, 1, **how), relu(), nn.Flatten(),
            linear(128, 64, **how), relu(), linear(64, 10, **how),
        )  # fmt: skip
    plain = [
        nn.Conv2d(1, 16, 3, 2, 1),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.Linear(128, 64),
        nn.Linear(64, 10),
    ]
    a, b, c, d = (Plain(layer, format, gradient) for layer in plain)
    return nn.Sequential(a, nn.ReLU(), b, nn.ReLU(), nn.Flatten(), c, nn.ReLU(), d)


def one(
    kind: str, format: Any, gradient: Any, seed: int, steps: int, scale: float = 1.0
) -> tuple[float, float]:
    """Loss at the end and accuracy.

    Adam. A unit-scaled weight is sqrt(fan in) times PyTorch's, and so is its rate. With a loss
    scale the gradients are divided before the step.
    """
    data = digits()
    with common.seeded(seed) as rng:
        model = network(kind, format, gradient)
        unit = kind == "unit"
        groups = [
            {"params": [p], "lr": RATE * (math.sqrt(p[0].numel()) if unit and p.dim() > 1 else 1.0)}
            for p in model.parameters()
        ]
        optimizer = torch.optim.Adam(groups)
        if scale != 1.0:
            for p in model.parameters():
                p.register_hook(lambda g: g / scale)
        losses, _ = common.train(
            data,
            model,
            optimizer,
            rng,
            steps,
            BATCH,
            loss=unit_scaling.cross_entropy
            if unit
            else lambda y, t: Scaled.apply(_tasks.loss(y, t), scale),
        )
        return common.end(losses), common.accuracy(data, model)


class Scaled(torch.autograd.Function):
    """A loss whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, scale: float) -> torch.Tensor:
        """The loss as it is."""
        ctx.scale = scale
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Multiplied."""
        return g * ctx.scale, None


def digits() -> _tasks.Data:
    """The task with pixels of mean 0 and variance 1."""
    data = _tasks.load("digits", "convolutional")
    x, _ = data.batch(torch.arange(data.examples))
    mean, spread = x.mean(), x.std()

    def batch(indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = data.batch(indices)
        return (x - mean) / spread, y

    x, y = data.validation
    return _tasks.Data(batch, data.examples, ((x - mean) / spread, y), data.model, data.about)


def run(
    seeds: Sequence[int], formats: Sequence[tuple[Any, Any]] = FORMATS, steps: int = STEPS,
    scales: Sequence[float] = (256.0,),
) -> pd.DataFrame:  # fmt: skip
    """A row per network, formats and seed."""
    rows = []
    for format, gradient in formats:
        name = "fp32" if format is None else f"{format}, {gradient}"
        cases = [("plain", 1.0), ("unit", 1.0)]
        cases += [(f"plain, loss scale {s:g}", s) for s in scales if format is not None]
        for kind, scale in cases:
            for seed in seeds:
                loss, accuracy = one(kind.split(",")[0], format, gradient, seed, steps, scale)
                rows.append((f"{kind}: {name}", kind, name, seed, loss, accuracy))
    return pd.DataFrame(rows, columns=["case", "network", "formats", "seed", "loss", "accuracy"])


def deviations(kind: str) -> pd.DataFrame:
    """Standard deviations at the start, of every layer's output, its gradient, and the weight's
    gradient."""
    with common.seeded(0) as rng:
        model = network(kind, None, None)
        ((_, x, y),) = common.batches(digits(), rng, 1, BATCH)
        rows, kept = [], []
        for layer in model:
            x = layer(x)
            x.retain_grad()
            if any(p.dim() > 1 for p in layer.parameters()):
                kept.append((layer, x))
        (unit_scaling.cross_entropy if kind == "unit" else _tasks.loss)(x, y).backward()
        for layer, x in kept:
            (weight,) = (p for p in layer.parameters() if p.dim() > 1)
            rows.append((x.std().item(), x.grad.std().item(), weight.grad.std().item()))
    return pd.DataFrame(rows, columns=["output", "output_gradient", "weight_gradient"])


def lines() -> list[str]:
    """The tables of the page."""
    start = {kind: deviations(kind) for kind in ("plain", "unit")}
    found = ["Standard deviations at the start, from the first layer to the last:", ""]
    found += common.table(
        "network | outputs | gradients of outputs | gradients of weights",
        [
            [kind, *(", ".join(f"{v:.2g}" for v in found[c]) for c in found)]
            for kind, found in start.items()
        ],
    )
    rows = run(common.SEEDS)
    mean = rows.groupby(["network", "formats", "case"], sort=False)[["loss", "accuracy"]].mean()
    found += ["", f"Trained for {STEPS} steps; formats of operands, of gradients:", ""]
    found += common.table(
        "network | formats | loss, nats | excess over its fp32 (95 %) | accuracy",
        [
            [network, formats, f"{r.loss:.4g}",
             "" if formats == "fp32" else
             common.span(common.paired(rows, case, f"{network.split(',')[0]}: fp32", "loss")),
             f"{100 * r.accuracy:.1f} %"]
            for (network, formats, case), r in mean.iterrows()
        ],
    )  # fmt: skip
    return found
