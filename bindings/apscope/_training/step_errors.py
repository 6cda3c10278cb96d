"""What a step's exchange did to every element: the mean, the result, and the noise of the mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .._arrays.float_environment import guarded

#: The least ratio of an error to its noise that counts.
LEAST = 2.0**-30


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
    """By tensor, of gradients of shape (W, n), W > 1, and the exchanged means, of shape (n,)."""
    errors = {}
    for name, rows in gradients.items():
        g, result = rows.astype(float), results[name].astype(float)
        finite = np.isfinite(g).all(0) & np.isfinite(result)
        g, result = np.where(finite, g, 0.0), np.where(finite, result, 0.0)
        mean = g.mean(0)
        noise = ((g - mean) ** 2).sum(0) / (len(g) * (len(g) - 1))
        errors[name] = TensorErrors(mean, result, result - mean, noise)
    return errors


def block_sums(values: np.ndarray, size: int) -> np.ndarray:
    """The sums over blocks of `size` consecutive elements, the last one shorter."""
    return np.add.reduceat(values, np.arange(0, len(values), size))


def log2_ratios(error: np.ndarray, noise: np.ndarray) -> tuple[float, int]:
    """The sum of log2 of error over noise, at least `LEAST`, and how many have noise."""
    noisy = noise > 0
    ratios = np.maximum(error[noisy] / noise[noisy], LEAST)
    return float(np.log2(ratios).sum()), int(noisy.sum())


def cosine(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """Of an exact vector and a result, given in parts: 0 for a result of 0, none if exact is 0."""
    exact = length = product = 0.0
    for mean, result in pairs:
        exact += float((mean**2).sum())
        length += float((result**2).sum())
        product += float(mean @ result)
    if exact == 0:
        return None
    return product / math.sqrt(exact * length) if length > 0 else 0.0
