"""Shared by the tests of the one-bit claims: recorded gradients, payloads, z values."""

import math
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2] / "notebooks" / "data"
TRACES = ["digits", "digits_w64", "characters"]


def gradients(trace, step, name, workers=64):
    return np.stack([trace.read(step, name, w).ravel() for w in range(min(workers, trace.workers))])


def middle(trace, workers=4, least=1):
    """(name, gradients) of every tensor that has some, at the middle step."""
    step = trace.steps[len(trace.steps) // 2]
    for t in trace.manifest.tensors:
        g = gradients(trace, step, t.name, workers)
        if t.size >= least and g.any(axis=1).all():
            yield t.name, g


def largest(trace):
    return max(trace.manifest.tensors, key=lambda t: t.size).name


def bits_of(payload, count):
    return np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")[:count]


def padded(n, workers):
    """Up to a multiple of W lcm(W, 8)."""
    unit = workers * math.lcm(workers, 8)
    return -(-n // unit) * unit


def proportion_z(hits, count, p):
    return (hits - count * p) / math.sqrt(count * p * (1 - p))
