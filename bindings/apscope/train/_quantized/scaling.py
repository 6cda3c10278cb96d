"""A loss scale's state: constant, or following the steps, with a scheduled minimum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .specs import LossScale

__all__ = ["Scaler"]


class Scaler:
    """The rule of ``torch.amp.GradScaler`` (growth 2, backoff 1/2), and a minimum by steps.

    An overflow at the minimum still leaves its step out.
    """

    def __init__(self, rule: LossScale | None) -> None:
        self.rule = rule
        self.scale = 1.0 if rule is None else max(rule.initial, rule.least(0))
        self._quiet = 0

    def unscale(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Divides the scale out of the gradients; whether all were finite. Moves a dynamic scale."""
        if self.rule is None:
            return True
        gradients = [p.grad for p in parameters if p.grad is not None]
        for g in gradients:
            g.mul_(1.0 / self.scale)
        if not self.rule.dynamic:
            return True
        finite = all(bool(torch.isfinite(g).all()) for g in gradients)
        if not finite:
            self.scale, self._quiet = self.scale * 0.5, 0
        else:
            self._quiet += 1
            if self._quiet == self.rule.interval:
                self.scale, self._quiet = self.scale * 2.0, 0
        return finite

    def moved(self, step: int) -> None:
        """A step begins: its minimum counts."""
        if self.rule is not None:
            self.scale = max(self.scale, self.rule.least(step))

    def state_dict(self) -> dict[str, Any]:
        """Two numbers."""
        return {"scale": self.scale, "quiet": self._quiet}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where another stood."""
        self.scale, self._quiet = float(state["scale"]), int(state["quiet"])

    def __str__(self) -> str:
        return "none" if self.rule is None else str(self.rule)
