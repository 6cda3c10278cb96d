"""Data-parallel training in one process: every worker's local gradient, before the average."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from .torch_layers import record_activations, to_numpy


def backward_workers(model, batches, loss_function, writer=None, step=0, activations=False) -> float:
    """Runs one mini-batch a worker, records its gradients, leaves their mean in ``.grad``.

    ``loss_function(model, batches[w])`` is worker w's mean loss; the mean over the workers is
    returned. `writer` None trains without recording; the caller ends the step. `activations`
    records every layer's input and activation gradient too.
    """
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    total = [torch.zeros_like(p) for _, p in parameters]
    losses = []
    for worker, batch in enumerate(batches):
        model.zero_grad(set_to_none=True)
        watched = writer and activations
        with record_activations(model, writer, step, worker) if watched else nullcontext():
            loss = loss_function(model, batch)
            loss.backward()
        losses.append(float(loss.detach()))
        for (name, p), sum_so_far in zip(parameters, total, strict=True):
            gradient = torch.zeros_like(p) if p.grad is None else p.grad
            if writer:
                writer.add(step, worker, name, to_numpy(gradient))
            sum_so_far += gradient
    for (_, p), sum_of_all in zip(parameters, total, strict=True):
        p.grad = sum_of_all / len(batches)
    return sum(losses) / len(losses)
