"""Detects uses of ``torch.amp.GradScaler`` in a training loop: its step notifies watchers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch


class Watcher(Protocol):
    """The notifications; must not raise."""

    def enter_scaler(self, scaler: Any) -> None:
        """Its step begins."""

    def leave_scaler(self, optimizer: torch.optim.Optimizer) -> None:
        """Its step ends, whether the optimizer has stepped or not."""


_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """Notifies `watcher` from here on; the first one wraps ``GradScaler.step``."""
    if not _watchers:
        torch.amp.GradScaler.step = _telling(torch.amp.GradScaler.step)
    _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Stops notifying it; the last one restores ``GradScaler.step``."""
    if watcher in _watchers:
        _watchers.remove(watcher)
        if not _watchers:
            torch.amp.GradScaler.step = torch.amp.GradScaler.step.__wrapped__


def _telling(original: Callable[..., float | None]) -> Any:
    @functools.wraps(original)
    def step(
        self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any
    ) -> float | None:
        watchers = list(_watchers)
        for one in watchers:
            one.enter_scaler(self)
        try:
            return original(self, optimizer, *args, **kwargs)
        finally:
            for one in watchers:
                one.leave_scaler(optimizer)

    return step
