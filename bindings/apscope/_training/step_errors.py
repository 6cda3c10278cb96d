"""What a step's exchange did to every element: the mean, the result, and the noise of the mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._arrays.float_environment import guarded


class TensorErrors(NamedTuple):
    """Of a tensor, in fp64; all 0 at an element that is not finite in a gradient or the result."""

    mean: np.ndarray  # m
    result: np.ndarray
    error: np.ndarray  # e, with its sign
    noise: np.ndarray  # N


@guarded
def errors_of(
    gradients: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]
) -> dict[str, TensorErrors]:
    """By tensor.

    Parameters
    ----------
    gradients : mapping of str to array, shape (W, n), W > 1
    results : mapping of str to array, shape (n,)
        The exchanged mean.
    """
    found = {}
    for name, rows in gradients.items():
        g, result = rows.astype(float), results[name].astype(float)
        finite = np.isfinite(g).all(0) & np.isfinite(result)
        g, result = np.where(finite, g, 0.0), np.where(finite, result, 0.0)
        mean = g.mean(0)
        noise = ((g - mean) ** 2).sum(0) / (len(g) * (len(g) - 1))
        found[name] = TensorErrors(mean, result, result - mean, noise)
    return found
