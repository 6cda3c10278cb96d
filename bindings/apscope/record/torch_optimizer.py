"""Recording any PyTorch training through its optimizer: gradients as used by the update."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import torch

from .._traces.writer import TraceWriter


def record_optimizer(
    optimizer: torch.optim.Optimizer,
    model: torch.nn.Module,
    writer: TraceWriter,
    *,
    steps: Container[int] | None = None,
    loss: Callable[[], float | None] = lambda: None,
    frozen: bool = False,
) -> Any:
    """Records ``.grad`` just before every ``optimizer.step()``.

    These gradients are already reduced (and unscaled and clipped if training does that before the
    step): give the writer ``workers=1`` and ``stage="reduced"`` or ``"clipped"``. For such a trace
    only the wire is replayed.

    Parameters
    ----------
    steps : container of int, optional
        The steps to record, counting this optimizer's steps from 0; by default all.
    loss : callable
        Returns the current step's loss, or None.
    frozen : bool
        Record every parameter, so that one may be unfrozen later; by default those that require a
        gradient at the first recorded step. One without a gradient is recorded as zeros.

    Returns
    -------
    handle
        ``handle.remove()`` ends the recording.
    """
    count = -1
    recorded: dict[str, torch.nn.Parameter] = {}

    def before_step(*_: Any) -> None:
        nonlocal count
        count += 1
        if steps is not None and count not in steps:
            return
        if not recorded:
            recorded.update(
                (name, p) for name, p in model.named_parameters() if frozen or p.requires_grad
            )
        for name, p in recorded.items():
            writer.add(count, 0, name, torch.zeros_like(p) if p.grad is None else p.grad)
        writer.end_step(count, loss=loss(), learning_rate=float(optimizer.param_groups[0]["lr"]))

    return optimizer.register_step_pre_hook(before_step)
