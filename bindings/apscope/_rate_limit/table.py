"""The limit of a trace's sums as a table, which results keep beside their rows.

It is a fact of the trace, not of a scheme. The rows of kind ``up`` and ``down`` are the two bounds
of `OfSum`, a row per width of the blur; those of kind ``grid`` are a reduction in two phases whose
messages have the best grid of 2^bits levels (docs/limit.md). `known.py` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._progress import Bar
from .._traces.trace import Trace
from .grids import best_grid
from .measure import Group, Part, measure

#: Elements that share a power of two: those of a noise block.
BLOCK = 32
#: Bits of the grids.
GRIDS = (2, 4, 6, 8)
_INTEGERS, _NUMBERS = ("elements", "values"), ("unit", "width", "entropy", "bits", "error")


def limit_columns(
    trace: Trace,
    steps: Sequence[int],
    tensors: Sequence[int],
    workers: int,
    threads: int = 0,
    progress: bool = False,
) -> dict[str, np.ndarray]:
    """The table of the ranks below `workers` of one trace; `steps` and `tensors` are places in it.

    The number of threads changes no bit.

    Columns of one length: ``kind``, ``elements`` and ``values`` (of the sample: finite, and not
    zero), ``unit`` (of the errors, over the noise), ``width`` and ``entropy`` (bits; NaN in rows of
    a grid), ``bits`` and ``error`` (over the noise; NaN in the other rows). Without rows if the
    noise is unknown: one worker, gradients that are not local, or that do not differ.
    """
    rows: list[tuple[Any, ...]] = []
    if workers > 1 and trace.manifest.stage == "local":
        at, names = list(trace.steps), list(trace.tensors)  # each access makes the whole list
        part = Part(trace, [at[i] for i in steps], [names[i] for i in tensors], workers, BLOCK)
        with Bar(f"{trace.name}, limit", progress) as update:
            m = measure(part, [], True, 0, update)
        trace.check_unchanged()
        of_sum = m.of_sum(threads)
        for kind, bound in (("up", of_sum.up), ("down", of_sum.down)):
            rows += [
                (kind, bound.elements, bound.values, bound.unit, width, entropy, math.nan, math.nan)
                for width, entropy in zip(bound.widths, bound.entropies)
            ]
        if rows:
            rows += _grids(m.gradients, m.message_unit, m.means, m.down_unit)
    columns = list(zip(*rows)) or [()] * (1 + len(_INTEGERS) + len(_NUMBERS))
    texts, numbers = columns[0], columns[1:]
    return {"kind": np.array(texts, object)} | {
        name: np.array(column, np.int64 if name in _INTEGERS else np.float64)
        for name, column in zip((*_INTEGERS, *_NUMBERS), numbers)
    }


def _grids(
    gradients: Group, message_unit: float, means: Group, down_unit: float
) -> list[tuple[Any, ...]]:
    """Rows of the best grids: the errors of both phases are independent, so they add up."""
    rows, sent, summed = [], gradients.values, means.values
    for bits in GRIDS:
        up = best_grid(sent, 2**bits).nearest / gradients.elements * message_unit
        down = best_grid(summed, 2**bits).nearest / means.elements * down_unit
        rows.append(("grid", gradients.elements, len(sent), math.nan, math.nan, math.nan,
                     float(bits), up + down))  # fmt: skip
    return rows
