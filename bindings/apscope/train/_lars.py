"""LARS: a learning rate per tensor from the ratio of the weights' norm to the gradient's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman, Ginsburg, arXiv:1708.03888, algorithm 1).

    ```text
    rate = lr trust ||w|| / (||g|| + weight_decay ||w||)      per tensor
    v = momentum v + rate (g + weight_decay w)
    w = w - v
    ```

    A tensor whose weights or gradient are all 0 has `rate` = lr trust. Every tensor is adapted,
    including biases and norms.

    Parameters
    ----------
    parameters : iterable of tensors or of groups, as PyTorch's optimizers take them
    lr : float
    momentum, weight_decay : float
    trust : float
        The paper's eta.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, group)
        return loss

    def _move(self, p: torch.Tensor, group: dict[str, Any]) -> None:
        assert p.grad is not None
        decay, weight, slope = group["weight_decay"], p.norm(), p.grad.norm()
        rate = group["lr"] * group["trust"]
        if weight > 0 and slope > 0:
            rate = rate * weight / (slope + decay * weight)
        if "velocity" not in self.state[p]:
            self.state[p]["velocity"] = torch.zeros_like(p)
        velocity: torch.Tensor = self.state[p]["velocity"]
        velocity.mul_(group["momentum"]).add_(rate * (p.grad + decay * p))
        p.sub_(velocity)
