"""Common parts of the tests of plans: a trace, candidates, and every mixture by brute force."""

import itertools

import numpy as np

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
