"""Noticing ``torch.amp.GradScaler`` wherever a training loop uses it: its step tells whoever watches."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import torch


class Watcher(Protocol):
    """What is told; must not raise."""

    def enter_scaler(self, scaler: Any) -> None:
        """Its step begins."""

    def leave_scaler(self, optimizer: torch.optim.Optimizer) -> None:
        """Its step ends, whether the optimizer has stepped or not."""


_watchers: list[Watcher] = []
_original: Any = None


def watch(watcher: Watcher) -> None:
    """Tells `watcher` from here on; the first one puts a function around ``GradScaler.step``."""
    global _original
    if not _watchers:
        _original = torch.amp.GradScaler.step

        @functools.wraps(_original)
        def step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
            told = list(_watchers)
            for one in told:
                one.enter_scaler(self)
            try:
                return original(self, optimizer, *args, **kwargs)
            finally:
                for one in told:
                    one.leave_scaler(optimizer)

        original = _original
        torch.amp.GradScaler.step = step  # type: ignore[method-assign]
    _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Tells it no more; the last one puts ``GradScaler.step`` back."""
    if watcher in _watchers:
        _watchers.remove(watcher)
        if not _watchers:
            torch.amp.GradScaler.step = _original  # type: ignore[method-assign]
