"""Data-parallel training in one process: every worker's local gradient, before the average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from .._traces.writer import TraceWriter
from .torch_layers import record_activations, to_numpy


def backward_workers(
    model: torch.nn.Module,
    batches: Sequence[Any],
    loss_function: Callable[[torch.nn.Module, Any], torch.Tensor],
    writer: TraceWriter | None = None,
    step: int = 0,
    activations: bool = False,
) -> float:
    """Runs one mini-batch per worker, records its gradients, leaves their mean in ``.grad``.

    ``loss_function(model, batches[w])`` is worker w's mean loss; the mean over the workers is
    returned. `writer` None trains without recording; the caller ends the step. `activations`
    also records every layer's input and activation gradient.
    """
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    total = [torch.zeros_like(p) for _, p in parameters]
    losses = []
    for worker, batch in enumerate(batches):
        model.zero_grad(set_to_none=True)
        with (
            record_activations(model, writer, step, worker)
            if writer and activations
            else nullcontext()
        ):
            loss = loss_function(model, batch)
            loss.backward()
        losses.append(float(loss.detach()))
        for (name, p), sum_so_far in zip(parameters, total, strict=True):
            gradient = torch.zeros_like(p) if p.grad is None else p.grad
            if writer:
                writer.add(step, worker, name, to_numpy(gradient))
            sum_so_far.add_(gradient)
    for (_, p), sum_of_all in zip(parameters, total, strict=True):
        p.grad = sum_of_all / len(batches)
    return sum(losses) / len(losses)
