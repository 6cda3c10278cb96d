"""A loss scale's state: constant, or ``torch.amp.GradScaler``'s above a scheduled minimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..._arrays.checks import number
from ...torch._states import check_state
from .specs import LossScale


class Scaler:
    """Scales a loss, and divides gradients by the scale before the optimizer's step.

    After an overflow at the minimum, the step is left out too.
    """

    def __init__(self, rule: LossScale | None) -> None:
        self.rule = rule
        self.scale = 1.0 if rule is None else rule.initial  #: Of the next step.
        self._dynamic: torch.amp.GradScaler | None = None
        if rule is not None and rule.dynamic:
            self.scale = max(rule.initial, rule.least(0))
            self._begin(rule, torch.device("cpu"))

    def _begin(self, rule: LossScale, device: torch.device) -> None:
        """Makes the state, or moves it, to the device of the gradients.

        PyTorch would copy from a GPU to a scale on the CPU without waiting.
        """
        before, self._device = self._dynamic, device
        self._dynamic = torch.amp.GradScaler(  # "cpu": this asks for no GPU
            "cpu", init_scale=self.scale, growth_interval=rule.interval
        )
        if before is not None:
            self._dynamic.load_state_dict(before.state_dict())
        self._dynamic.scale(torch.zeros((), device=device))  # makes its state
        self.scale = float(self._dynamic.get_scale())

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the scale."""
        if self.rule is None:
            return loss
        if self._dynamic is None:
            return loss * self.scale
        if loss.device != self._device:
            self._begin(self.rule, loss.device)
        result: torch.Tensor = self._dynamic.scale(loss)
        return result

    def step(self, optimizer: Any, number: int) -> bool:
        """Divides by the scale and steps, unless a gradient is not finite and the scale is dynamic.

        `number` is that of the next step, whose minimum applies. Returns whether the optimizer
        stepped.
        """
        if self._dynamic is None:
            if self.rule is not None:
                for p in (p for group in optimizer.param_groups for p in group["params"]):
                    if p.grad is not None:
                        p.grad.mul_(1.0 / self.scale)
            optimizer.step()
            return True
        before = self.scale
        self._dynamic.step(optimizer)
        self._dynamic.update()
        self.scale = float(self._dynamic.get_scale())
        stepped = self.scale >= before
        assert self.rule is not None
        if self.scale < self.rule.least(number):
            self._dynamic.update(self.rule.least(number))
            self.scale = float(self._dynamic.get_scale())
        return stepped

    def state_dict(self) -> dict[str, Any]:
        """Numbers."""
        return {} if self._dynamic is None else dict(self._dynamic.state_dict())

    def check_state(self, state: Any) -> None:
        """Raises TypeError or ValueError for a state that `load_state_dict` cannot take."""
        check_state(state, self.state_dict())
        for name, value in state.items():
            number(name, value)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from another's state."""
        if self._dynamic is not None:
            self._dynamic.load_state_dict(dict(state))
            self.scale = float(self._dynamic.get_scale())

    def __str__(self) -> str:
        return "none" if self.rule is None else str(self.rule)
