"""Common parts of the methods' runs: tasks, loops, paired differences, tables."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from apscope._training.verdicts import interval
from apscope.train import _tasks

from .. import page

SEEDS = (0, 1, 2, 3, 4)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[np.random.Generator]:
    """PyTorch's generator, one thread, and one of batches: of every case of a seed the same."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield np.random.default_rng(seed)
    finally:
        torch.set_num_threads(threads)


def batches(
    data: _tasks.Data, rng: np.random.Generator, steps: int, batch: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Step, inputs and targets."""
    for step in range(steps):
        yield step, *data.batch(torch.from_numpy(rng.integers(data.examples, size=batch)))


def decayed(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Every rate is this share of the first one."""
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("first_lr", group["lr"]) * share


def train(
    data: _tasks.Data, model: nn.Module, optimizer: torch.optim.Optimizer, rng: np.random.Generator,
    steps: int, batch: int, *, loss: Callable[..., torch.Tensor] = _tasks.loss,
    context: Any = None, skips: Callable[[], bool] = lambda: False,
) -> tuple[list[float], int]:  # fmt: skip
    """The loss of every step, rates decayed linearly; how many steps were left out."""
    losses, left_out = [], 0
    for step, x, y in batches(data, rng, steps, batch):
        decayed(optimizer, 1 - step / steps)
        optimizer.zero_grad()
        with context or contextlib.nullcontext():
            value = loss(model(x), y)
        value.backward()
        losses.append(value.item())
        if skips():
            left_out += 1
        else:
            optimizer.step()
    return losses, left_out


def end(losses: Sequence[float]) -> float:
    """The mean over the last tenth of the steps."""
    return float(np.mean(losses[-max(len(losses) // 10, 1) :]))


def accuracy(data: _tasks.Data, model: nn.Module, context: Any = None) -> float:
    """On the examples that validate."""
    x, y = data.validation
    with torch.no_grad(), context or contextlib.nullcontext():
        return _tasks.accuracy(model(x), y)


def paired(rows: pd.DataFrame, case: str, base: str, column: str) -> tuple[float, float, float]:
    """The mean of case - base over the seeds with its 95 % interval."""
    of = {name: rows[rows.case == name].set_index("seed")[column] for name in (case, base)}
    return interval((of[case] - of[base]).to_numpy(float))


def span(found: tuple[float, float, float]) -> str:
    """A difference with its interval."""
    mean, low, high = (0.0 if abs(v) < 1e-12 else v for v in found)
    return f"{mean:+.2g} ({low:+.2g} to {high:+.2g})"


def table(head: str, rows: Sequence[Sequence[Any]]) -> list[str]:
    """A table of Markdown; `head` is its first line, without the bars at its ends."""
    return page.table(head.split(" | "), rows)
