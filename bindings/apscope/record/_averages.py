"""DistributedDataParallel's averages: a backward pass that adds to one loses this process's own sum.

DDP averages ``.grad`` over the processes after every backward pass whose forward pass was outside
``no_sync()``. Where a later pass of the same step adds to that average, what arrives is neither this
process's gradient nor the average of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ._mistakes import Mistake


class Averages:
    """Watches the passes of a step.

    Parameters
    ----------
    model : DistributedDataParallel
    number : function
        The number of the current step.
    """

    def __init__(self, model: torch.nn.parallel.DistributedDataParallel, number: Callable[[], int]):
        self._model, self._number = model, number
        self._forward = 0  # forward passes until now
        self._synced = False  # whether DDP averages after the backward pass of the last one
        #: Averaged gradients of this step: name -> the number of the forward pass.
        self._averaged: dict[str, int] = {}

    def hooks(
        self, parameters: Mapping[str, torch.Tensor], guarded: Callable[..., Any]
    ) -> list[Any]:
        """Registers the hooks: on the forward pass, and before a gradient is added."""
        begin = guarded(self._begin)
        return [
            self._model.register_forward_pre_hook(lambda *_: begin()),
            *(
                p.register_hook(guarded(self._before, name, p))
                for name, p in parameters.items()
                if p.requires_grad
            ),
        ]

    def _begin(self) -> None:
        if torch.is_grad_enabled():
            self._forward += 1
            self._synced = bool(self._model.require_backward_grad_sync)

    def _before(self, name: str, p: torch.Tensor, _: torch.Tensor) -> None:
        earlier = self._averaged.get(name, self._forward)
        if earlier != self._forward and p.grad is not None and bool(p.grad.any()):
            raise Mistake(
                f"a backward pass of step {self._number()} adds to a gradient of {name!r} that "
                "DistributedDataParallel has averaged, so this process's own sum is lost; run all "
                "passes of a step but the last, with their forward passes, in model.no_sync()"
            )

    def arrived(self, name: str) -> None:
        """A gradient of this step has arrived."""
        if self._synced:
            self._averaged[name] = self._forward

    def forget(self) -> None:
        """The step has ended."""
        self._averaged = {}
