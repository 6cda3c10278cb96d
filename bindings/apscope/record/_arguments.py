"""Checks a recorder's arguments before anything is recorded."""

from __future__ import annotations

import numbers
import re
import threading
from collections.abc import Callable, Collection
from typing import Any

Chosen = str | Collection[str] | Callable[[str], bool] | None
WHAT = {"weights", "layer_input", "activation_gradient"}


def check_arguments(
    *,
    every: Any,
    steps: Any,
    consecutive: Any,
    what: Any,
    workers: Any,
    process: Any,
    processes: Any,
    first_step: Any,
    places: Any,
    patience: Any,
    name: Any,
    **_: Any,
) -> None:
    """Raises ValueError for wrong arguments of :class:`apscope.record.Recorder`."""
    for key, value, lowest in (
        ("every", every, 1),
        ("consecutive", consecutive, 1),
        ("places", places, 1),
        ("first_step", first_step, 0),
    ):
        if not isinstance(value, int) or value < lowest:
            raise ValueError(f"{key} is {value!r}; it must be an integer, {lowest} or more")
    if steps is None and consecutive > every:
        raise ValueError(f"consecutive is {consecutive}; it must be at most every, {every}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers is {workers!r}; it must be an integer, 1 or more")
    if steps is not None and (isinstance(steps, str) or not isinstance(steps, Collection)):
        raise ValueError(
            f"steps is {steps!r}; it must be a list or a set of step numbers, or a range"
        )
    for step in () if steps is None else steps:
        if not isinstance(step, numbers.Integral):
            raise ValueError(f"steps has {step!r}; it must have integers alone")
    if not isinstance(patience, (int, float)) or not 0 < patience < threading.TIMEOUT_MAX / 2:
        raise ValueError(f"patience is {patience!r}; it must be a number of seconds above 0")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name is {name!r}; it must be a string")
    if (process is None) != (processes is None) or not 0 <= (process or 0) < (processes or 1):
        raise ValueError(
            f"process {process} of {processes}: give both, the first from 0 to the second minus one"
        )
    if isinstance(what, str) or not set(what) <= WHAT:
        raise ValueError(
            f"what is {what!r}; it must be a list of 'weights', 'layer_input' or "
            "'activation_gradient'"
        )


def chooser(tensors: Chosen) -> Callable[[str], bool] | None:
    """Whether a name is selected by `tensors`; None if that is not given."""
    if tensors is None or callable(tensors):
        return tensors
    if isinstance(tensors, str):
        try:
            pattern = re.compile(tensors)
        except re.error as error:
            raise ValueError(f"tensors {tensors!r} is not a regular expression: {error}") from None
        return lambda name: pattern.search(name) is not None
    if not isinstance(tensors, Collection):
        raise ValueError(
            f"tensors is {tensors!r}; it must be a regular expression, a list of names or a "
            "function of a name"
        )
    return frozenset(tensors).__contains__
