"""Shared by the tests of claims about loss scales: recorded gradients, scales by step, z values."""

import math
from pathlib import Path

import numpy as np

import apscope
from apscope.record import TraceWriter

DATA = Path(__file__).parents[2] / "notebooks" / "data"
TRACES = ["digits", "digits_w64", "characters"]


def all_gradients(trace, step):
    return np.concatenate(
        [
            trace.read(step, name, w).ravel()
            for name in trace.tensors
            for w in range(min(trace.workers, 8))
        ]
    )


def record(folder, steps):
    """A trace of one worker and one tensor; steps are rows."""
    with TraceWriter(folder, workers=1, reduction="sum") as writer:
        for number, g in enumerate(steps):
            writer.add(number, 0, "w", np.atleast_1d(np.float32(g)))
            writer.end_step(number, loss=1.0, learning_rate=0.1)
    return apscope.open_trace(folder)


def scales(folder, spec, steps):
    """The scale in force and whether the step was dropped, step by step."""
    frame = apscope.replay(record(folder, steps), spec).frame
    frame = frame[(frame.stage == "wire") & (frame.topology.isin(["", "ring"]))]
    frame = frame.sort_values("step")
    return [2.0 ** int(e) for e in frame.scale_exponent], frame.skipped.astype(bool).tolist()


def z_of_share(hits, count, p):
    return (hits - count * p) / math.sqrt(count * p * (1 - p))


def grad_scaler(bits, init, interval):
    """torch's state machine on a string of overflows: the scale at each step."""
    s, tracker, out = init, 0, []
    for bit in bits:
        out.append(s)
        if bit:
            s, tracker = s * 0.5, 0
        else:
            tracker += 1
            if tracker == interval:
                s, tracker = s * 2, 0
    return out


def random_bits(n, p=0.2, seed=3):
    return (np.random.default_rng(seed).random(n) < p).tolist()
