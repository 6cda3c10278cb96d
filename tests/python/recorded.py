"""Traces of a few arrays, for tests that replay them."""

import numpy as np

import apscope
from apscope.record import TraceWriter


def record(folder, steps, reduction="mean", *, loss=None, learning_rate=None, **options):
    """steps: one dict of (workers, ...) arrays a step; options are those of the writer."""
    workers = len(next(iter(steps[0].values())))
    with TraceWriter(folder, workers=workers, reduction=reduction, **options) as writer:
        for number, tensors in enumerate(steps):
            for name, g in tensors.items():
                for worker, row in enumerate(g):
                    writer.add(number, worker, name, np.asarray(row, np.float32))
            writer.end_step(number, loss=loss, learning_rate=learning_rate)
    return apscope.open_trace(folder)
