"""Traces of a few arrays, for tests that replay them."""

import apscope
from apscope.record import TraceWriter


def record(folder, steps, reduction="mean"):
    """steps: one dict of (workers, ...) arrays a step."""
    with TraceWriter(
        folder, workers=len(next(iter(steps[0].values()))), reduction=reduction
    ) as writer:
        for number, tensors in enumerate(steps):
            for name, g in tensors.items():
                for worker, row in enumerate(g):
                    writer.add(number, worker, name, row)
            writer.end_step(number)
    return apscope.open_trace(folder)
