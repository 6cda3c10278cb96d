"""Which part of a trace is selected: analysis/replay/selection.h, for Python's values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from numbers import Integral

from .. import _core
from .._arrays.checks import integer, listed
from .trace import Trace

_MOST = 10_000_000  # steps in a list
_LARGEST = 2**63 - 1


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
    numbers = sorted({integer("step", n, 0, _LARGEST) for n in listed("steps", steps, _MOST)})
    if not numbers:
        raise ValueError("steps is empty; give at least one step number")
    return numbers


def selected_steps(trace: Trace, steps: slice | list[int] | None) -> list[int]:
    """Indices of the selected recorded steps."""
    if isinstance(steps, list):
        return _core.steps_numbered(trace.core, [_int64(n) for n in steps])
    if steps is None:
        return _core.steps_between(trace.core, None, None)
    if steps.step not in (None, 1):
        raise ValueError(
            f"steps {steps} has a stride; stateful schemes need consecutive recorded steps"
        )
    first, end = (None if at is None else _int64(at) for at in (steps.start, steps.stop))
    return _core.steps_between(trace.core, first, end)


def selected_tensors(trace: Trace, pattern: str | None) -> list[int]:
    """Indices of the tensors whose names the regular expression, in RE2's syntax, is found in."""
    if pattern is None:
        return list(range(len(trace.tensors)))
    return _core.tensors_matching(trace.core, pattern)


def check_shard(shard: Sequence[int] | None) -> tuple[int, int]:
    """The number of a shard, and of all shards."""
    if shard is None:
        return 0, 1
    if isinstance(shard, str) or len(shard) != 2:
        raise ValueError(f"shard {shard!r} is not a pair (I, N), such as (0, 4)")
    index, count = (integer("shard", v, 0, 2**31) for v in shard)
    _core.check_shard(index, count)
    return index, count


def _int64(number: int) -> int:
    """The nearest number that a step can have."""
    return max(-_LARGEST, min(int(number), _LARGEST))
