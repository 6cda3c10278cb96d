"""One run of an experiment: a task trained through one scheme from one seed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._folders.one_file import new_file
from .._training.experiment import Task
from .._training.statistics import of_step
from .._training.step_errors import errors_of
from ..record import TraceWriter
from ..record.torch_layers import roles
from . import _tasks as tasks
from ._lars import LARS
from ._workers import Workers

EVALUATIONS = 10  #: A run's validations: after every tenth of its steps.


@dataclass(frozen=True)
class Run:
    """Everything that a run's numbers depend on, apart from versions and the data."""

    task: Task
    spec: str
    seed: int
    workers: int
    topology: str


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch's sums depend on the number of its threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def optimizer_of(task: Task, model: torch.nn.Module) -> torch.optim.Optimizer:
    """The task's optimizer, as PyTorch's own."""
    options: dict[str, Any] = {"lr": task.learning_rate, "weight_decay": task.weight_decay}
    if task.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), momentum=task.momentum, **options)
    if task.optimizer == "lars":
        return LARS(model.parameters(), momentum=task.momentum, **options)
    kind = torch.optim.Adam if task.optimizer == "adam" else torch.optim.AdamW
    return kind(model.parameters(), **options)


def indices_of(run: Run, step: int, examples: int) -> torch.Tensor:
    """The examples of a step's batch, which are the same for every scheme."""
    drawn = np.random.default_rng([run.seed, step]).integers(examples, size=run.task.batch)
    return torch.from_numpy(drawn)


def train(
    run: Run,
    checkpoint: Path | None = None,
    every: float = 5.0,
    trace: Path | None = None,
    record: tuple[int, ...] = (),
    key: str = "",
) -> dict[str, Any]:
    """Trains, from the checkpoint if there is one; the bits are those of an uninterrupted run.

    The file `checkpoint` is written every `every` seconds. The errors of the steps `record` are
    measured, and their gradients written into the folder `trace`, if there is one, with `key` as
    the run's name in the metadata; then nothing is resumed.

    Returns
    -------
    dict
        ``loss`` of every step, before it, in nats; by number of steps done ``validation``: loss and
        accuracy; ``skipped`` steps; ``errors`` of the steps `record`: `StepSums`; ``diverged``:
        whether the loss was not finite at a step, which is then the last.
    """
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        data = tasks.load(run.task.name, run.task.model, run.task.text)
        model = data.model()
        workers = Workers(
            model,
            tasks.loss,
            optimizer_of(run.task, model),
            workers=run.workers,
            exchange=run.spec,
            topology=run.topology,
            seed=run.seed,
            threads=1,
        )
        result: dict[str, Any] = {
            "loss": [],
            "validation": {},
            "skipped": [],
            "errors": {},
            "diverged": False,
        }
        if checkpoint is not None and checkpoint.exists():
            state = torch.load(checkpoint, weights_only=True)
            workers.load_state_dict(state["workers"])
            result = state["found"]
        with _writer(run, workers, data, trace, key) as writer:
            saved = time.monotonic()
            for step in range(len(result["loss"]), run.task.steps):
                _step(run, workers, data, step, result, step in record, writer)
                if result["diverged"]:
                    break
                if checkpoint is not None and time.monotonic() - saved >= every:
                    with new_file(checkpoint, durable=False) as stream:
                        torch.save({"workers": workers.state_dict(), "found": result}, stream)
                    saved = time.monotonic()
        return result


def _step(
    run: Run,
    workers: Workers,
    data: tasks.Data,
    step: int,
    result: dict[str, Any],
    recorded: bool,
    writer: TraceWriter | None,
) -> None:
    rate = run.task.rate(step)
    for group in workers.optimizer.param_groups:
        group["lr"] = rate
    loss = float(workers.backward(*data.batch(indices_of(run, step, data.examples))))
    result["loss"].append(loss)
    if not math.isfinite(loss):
        result["diverged"] = True
        return
    if recorded and writer is not None:
        shapes = {name: p.shape for name, p in workers.model.named_parameters()}
        for name, rows in workers.gradients.items():
            for worker, row in enumerate(rows):
                writer.add(step, worker, name, row.reshape(shapes[name]))
        writer.end_step(step, loss=loss, learning_rate=rate)
    workers.exchange()
    if recorded:
        results = {
            name: p.grad.reshape(-1).numpy()
            for name, p in workers.model.named_parameters()
            if p.grad is not None
        }
        gradients = {name: rows.numpy() for name, rows in workers.gradients.items()}
        result["errors"][str(step)] = of_step(errors_of(gradients, results)).as_json()
    workers.update()
    if workers.skipped:
        result["skipped"].append(step)
    done, steps = step + 1, run.task.steps
    if done == steps or done * EVALUATIONS // steps > step * EVALUATIONS // steps:
        inputs, targets = data.validation
        workers.model.eval()  # batch norm's own averages, which no validation changes
        with torch.no_grad():
            output = workers.model(inputs)
            value = float(tasks.loss(output, targets))
        workers.model.train()
        result["validation"][str(done)] = [value, tasks.accuracy(output, targets)]


def _writer(
    run: Run, workers: Workers, data: tasks.Data, trace: Path | None, key: str
) -> contextlib.AbstractContextManager[TraceWriter | None]:
    if trace is None:
        return contextlib.nullcontext()
    task = run.task
    count = sum(p.numel() for p in workers.model.parameters())
    settings = {k: str(v) for k, v in asdict(task).items() if k != "text"}
    return TraceWriter(
        trace,
        workers=run.workers,
        name=trace.name,
        model=f"{task.model}, {count} parameters",
        roles=roles(workers.model),
        metadata={
            **settings,
            "data": data.about,
            "seed": str(run.seed),
            "scheme": run.spec,
            "run": key,
        },
        durable=False,
    )
