"""Recognises a state of weights, or of an optimizer, that is given as a dump of gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._traces.safetensors import BFLOAT16

if TYPE_CHECKING:
    from .names import Item

#: Optimizers' state of every parameter.
_OPTIMIZER = re.compile(
    r"(?:.*[/.])?(?:exp_avg|exp_avg_sq|max_exp_avg_sq|exp_inf|momentum_buffer|square_avg|grad_avg|acc_delta|state[/.][^/]+[/.](?:step|sum|prev))"
)
#: Buffers of layers, which have no gradient.
_BUFFER = re.compile(r"(?:.*[/.])?running_(?:mean|var)")
#: Dicts of weights in checkpoints.
_STATE = re.compile(
    r"(?:.*/)?(?P<name>(?:\w+_)?state_dict|model_state|(?:model|ema)_(?:params|parameters|weights))/.*"
)
#: A word of the names of gradients.
GRADIENT = re.compile(r"(?i)grad|(?:^|[/_.-])(?:dw|delta)")

_SAVE = "save p.grad of every parameter, or, if"
_SELECT = "select them with --tensors or --pattern"
#: The most that weights change between recorded steps, of their norm.
_CHANGE = 0.1
#: Elements of each tensor that are compared.
_ELEMENTS = 4096


def names_gradients(items: Sequence[Item]) -> bool:
    """Whether a name of a folder, file or key says that arrays are gradients."""
    return any(GRADIENT.search(item.address) for item in items)


def check_state(items: Sequence[Item], chosen: bool) -> None:
    """Refuses names of an optimizer's state, of buffers and of a dict of weights.

    `chosen`: whether the caller selects arrays, so that a name of such a dict is not asked about.
    """
    for item in items:
        if _OPTIMIZER.fullmatch(item.entry.key):
            raise ValueError(
                f"{item.label} is an optimizer's state, as in a checkpoint of weights, and not a "
                f"gradient; {_SAVE} the gradients are among the arrays, {_SELECT}"
            )
        if _BUFFER.fullmatch(item.entry.key):
            raise ValueError(
                f"{item.label} is a buffer of a model, as in a state of weights, and not a "
                f"gradient; {_SAVE} the gradients are among the arrays, {_SELECT}"
            )
    if chosen or names_gradients(items):
        return
    for item in items:
        if match := _STATE.fullmatch(item.entry.key):
            raise ValueError(
                f"{item.label} is in {match['name']!r}, as weights are in a checkpoint, and no "
                f"name says that it is a gradient; {_SAVE} these are gradients, {_SELECT}"
            )


class Changes:
    """How much the first worker's values change from one step to the next."""

    def __init__(self) -> None:
        self._before: dict[str, np.ndarray] = {}
        self._now: dict[str, np.ndarray] = {}
        self._largest: float | None = None

    def see(self, tensor: str, stored: np.ndarray) -> None:
        """The values of a tensor at the current step, in a dtype of a trace."""
        values = stored.reshape(-1)[:_ELEMENTS]
        if values.dtype == BFLOAT16:
            values = (values.view("<u2").astype("<u4") << 16).view("<f4")
        self._now[tensor] = values.astype(np.float64)

    def end_step(self) -> None:
        """The next values are of the next step."""
        change = size = 0.0
        for tensor, values in self._now.items():
            before = self._before.get(tensor)
            if before is not None:
                both = np.isfinite(values) & np.isfinite(before)
                change += float(((values - before)[both] ** 2).sum())
                size += float((before[both] ** 2).sum())
        if size:
            self._largest = max(self._largest or 0.0, (change / size) ** 0.5)
        self._before, self._now = self._now, {}

    @property
    def notes(self) -> list[str]:
        """A remark on values that change as little as weights do."""
        if self._largest is None or self._largest >= _CHANGE:
            return []
        return [
            f"the values change by at most {self._largest:.2g} of their norm from one step to the "
            "next, as weights do and gradients seldom do; if they are weights, save p.grad of "
            "every parameter"
        ]
