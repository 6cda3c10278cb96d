"""Shared by the tests of claims about loss scales: recorded gradients, and scales by step."""

import numpy as np

import apscope
from tests.python.recorded import record


def all_gradients(trace, step):
    return np.concatenate(
        [
            trace.read(step, name, w).ravel()
            for name in trace.tensors
            for w in range(min(trace.workers, 8))
        ]
    )


def scales(folder, spec, steps):
    """The scale in force and whether the step was dropped, step by step: one number each."""
    trace = record(folder, [{"w": [[g]]} for g in steps], "sum")
    frame = apscope.replay(trace, spec).frame
    frame = frame[(frame.stage == "wire") & (frame.topology.isin(["", "ring"]))]
    frame = frame.sort_values("step")
    return [2.0 ** int(e) for e in frame.scale_exponent], frame.skipped.astype(bool).tolist()


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


def deepspeed(overflows, steps, init, window, hysteresis, least, since_2025, consecutive=False):
    """DeepSpeed's published state machine: the scale at each step and whether the step is dropped,
    until an overflow at the least scale. `overflows(step, scale)` says which steps overflow."""
    s, left, last = init, hysteresis, -1
    for i in range(steps):
        dropped = overflows(i, s)
        yield s, dropped
        if dropped:
            if left == 1:
                if s == least:
                    return
                s = max(s / 2, least)
            else:
                left -= 1
            last = i
            continue
        stable = i - last - 1
        grows = stable > 0 and stable % window == 0 if since_2025 else (stable + 1) % window == 0
        if consecutive or grows:
            left = hysteresis
        if grows:
            s *= 2
