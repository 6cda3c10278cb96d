"""Mistakes in the script, raised at the first step that shows them, not after hours of training."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any


class Mistake(ValueError):  # noqa: N818  # the caller's, who sees a ValueError
    """A mistake in the script and its correction. Raised until a step is recorded."""


class Unattached:
    """Watches PyTorch's optimizers while a recorder has nothing to record.

    A loop may call ``record_pytree`` after its optimizer's step; an optimizer's second step shows
    that it does not.

    Parameters
    ----------
    told : callable
        Called with the mistake; raises.
    """

    def __init__(self, path: os.PathLike[str], raise_: Callable[[str], None]):
        self.steps = 0
        self._seen: Counter[int] = Counter()
        self._raise, self._process = raise_, os.getpid()
        self._sentence = (
            f"nothing is recorded into {os.fspath(path)} because no model is attached: call "
            "rec.attach(model) before the first step, or begin the with-block where the recording "
            "should begin"
        )
        optimizer: Any = sys.modules.get("torch.optim.optimizer")
        self._handle = (
            optimizer.register_optimizer_step_post_hook(self._after_step)
            if optimizer is not None
            else None
        )

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if os.getpid() != self._process:
            return
        self.steps += 1
        self._seen[id(optimizer)] += 1
        if self._seen[id(optimizer)] > 1:
            self.say()

    def say(self) -> None:
        """Reports the mistake."""
        self.end()
        self._raise(self._sentence)

    def end(self) -> None:
        """Stops watching."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


def optimizers() -> list[Any]:
    """All existing PyTorch optimizers."""
    kind = sys.modules["torch"].optim.Optimizer
    return [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
