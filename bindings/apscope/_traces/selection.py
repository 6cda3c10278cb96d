"""Parses selections of steps: a range A:B, or a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral

from .._arrays.checks import integer, listed

_MOST = 10_000_000  # steps in a list


def parse_steps(steps: slice | str | Iterable[int] | Integral | None) -> slice | list[int] | None:
    """A range A:B (half open) as a slice, else step numbers in ascending order.

    Raises
    ------
    ValueError
        Neither a range nor a list, or no number at all.
    """
    if steps is None or isinstance(steps, slice):
        return steps
    if isinstance(steps, Integral):
        steps = str(steps)
    if isinstance(steps, str):
        if match := re.fullmatch(r"(\d*):(\d*)", steps):
            return slice(*(int(g) if g else None for g in match.groups()))
        if re.fullmatch(r"\d+", steps):
            raise ValueError(
                f"steps '{steps}' could be one step or a number of steps; give "
                f"{steps}:{int(steps) + 1} for step {steps}, or a range A:B"
            )
        if not re.fullmatch(r"\d+(,\d+)+", steps):
            raise ValueError(
                f"steps '{steps}' is not a range A:B of step numbers, "
                "such as 0:40 or 100:, nor a list A,B,C"
            )
        steps = (int(n) for n in steps.split(","))
    numbers = sorted({integer("step", n, 0, 2**63 - 1) for n in listed("steps", steps, _MOST)})
    if not numbers:
        raise ValueError("steps is empty; give at least one step number")
    return numbers
