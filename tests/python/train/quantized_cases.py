"""Common parts of the tests of quantized models: a net, its batches, its loop, recipes with random
words and memory."""

import torch
from torch import nn
from torch.nn import functional as F

from apscope.train import (
    Cast,
    LossScale,
    Recipe,
    Sum,
    Weights,
    quantization,
    quantize_model,
    recipes,
)

FP8 = Recipe(input="e4m3fn", weight="e4m3fn", grad_output="e5m2")

EVERYTHING = {
    "drawn": Recipe(
        input=Cast("e4m3fn", rounding="stochastic"),
        grad_output=Cast("e5m2", rounding="stochastic", overflow="ieee"),
        weight_update=Weights("bf16", "stochastic"),
        loss_scale=LossScale(2.0**10, interval=4),
    ),
    "delayed": recipes()["te_delayed"],
    "nvfp4": recipes()["nvfp4"],
    "sums": Recipe(
        input="e4m3fn",
        accumulate=Sum("bf16", rounding="stochastic"),
        weight_update=Weights("bf16", "kahan"),
    ),
    "schedule": {
        0: recipes()["te_delayed"],
        3: Recipe(grad_output=Cast("e5m2", rounding="stochastic")),
    },
}


def net(norm=True):
    torch.manual_seed(1)
    layers = [nn.Conv2d(1, 4, 3, padding=1), *([nn.BatchNorm2d(4)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 64, 10))


def batch(step, size=16):
    g = torch.Generator().manual_seed(step)
    return torch.randn(size, 1, 8, 8, generator=g), torch.randint(0, 10, (size,), generator=g)


def sgd(model, rate=0.05):
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


def quantized_of(model, recipe, **options):
    """The quantization of a model that SGD trains."""
    return quantization(quantize_model(model, recipe, optimizer=sgd(model), say=None, **options))


def train(quantized, first, last):
    for step in range(first, last):
        x, y = batch(step)
        quantized.step(F.cross_entropy(quantized.model(x), y))
