"""Common parts of the tests of plans: a trace, candidates, and every mixture by brute force."""

import itertools

import numpy as np

from tests.python.recorded import record

CANDIDATES = (
    "none:bf16",
    "aps:e4m3fn,rule=tight",
    "aps:e3m4,rule=tight",
    "aps:e3m2fn,rule=tight",
    "aps:e3m0",
    "none:e5m2",
)


def every_mixture(units: int, options: int) -> np.ndarray:
    """(options ** units, units): all of them."""
    return np.array(list(itertools.product(range(options), repeat=units)))


def recorded(folder, fill, workers=4, steps=3, **options):
    """A trace of three layers with the numbers that `fill(layer, step)` draws."""
    layers = ("a.weight", "b.weight", "b.bias")
    made = [
        {layer: [fill(layer, step) for _ in range(workers)] for layer in layers}
        for step in range(steps)
    ]
    return record(folder, made, **options)


def normal(draw, layer="", step=0):
    return draw.normal(size=64)
