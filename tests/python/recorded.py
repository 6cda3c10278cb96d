"""Traces of a few arrays, for tests that replay them."""

import numpy as np

import apscope
from apscope.record import TraceWriter


def record(folder, steps, reduction="mean", *, loss=None, learning_rate=None, **options):
    """steps: one dict of (workers, ...) arrays a step, in a list or by the steps' numbers; options
    are those of the writer."""
    numbered = steps if isinstance(steps, dict) else dict(enumerate(steps))
    (first, *_) = numbered.values()
    workers = len(next(iter(first.values())))
    with TraceWriter(folder, workers=workers, reduction=reduction, **options) as writer:
        for number, tensors in numbered.items():
            for name, g in tensors.items():
                for worker, row in enumerate(map(np.asarray, g)):
                    wide = row.dtype.itemsize == 8  # fp64 and integers, as Python and NumPy compute
                    writer.add(number, worker, name, row.astype(np.float32) if wide else row)
            writer.end_step(number, loss=loss, learning_rate=learning_rate)
    return apscope.open_trace(folder)
