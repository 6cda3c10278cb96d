"""L(R) of a group of values, with those that are zero free of cost; of a sum of all workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core

#: A limit of R bits needs at least 2^(R + MARGIN) values: with fewer it is much too low.
MARGIN = 4
#: Bits above the limit of uniform steps whose codes are entropy-coded, for small errors:
#: 1/2 log2(2 pi e / 12).
ENTROPY_CODED = 0.5 * math.log2(2 * math.pi * math.e / 12)
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Bound:
    """Of `elements`, of which `values` are not zero and share all bits, and have all errors."""

    values: int
    elements: int
    widths: np.ndarray  #: of the blur
    entropies: np.ndarray  #: of the values, blurred by each width; none if the unit is unknown
    unit: float  #: of the errors; NaN: unknown

    @classmethod
    def of(cls, values: np.ndarray, elements: int, unit: float, threads: int) -> Bound:
        """Of the nonzero values."""
        known, widths = len(values) > 0 and not math.isnan(unit), _core.blur_widths()
        entropies = _core.blurred_entropies(values, widths, threads) if known else np.zeros(0)
        return cls(len(values), elements, widths, entropies, unit)

    def at(self, bits: Any) -> Any:
        """The least mean squared error of `bits` per element, a float or an array.

        NaN if it is unknown, for too many bits for this number of values, or for bits that are NaN.
        """
        r = np.asarray(bits, np.float64)
        if (r < 0).any():
            raise ValueError(f"bits={bits} must be at least 0")
        limits = np.full(r.size, math.nan)
        if len(self.entropies):
            each = r.reshape(-1) * (self.elements / self.values)
            least = _core.rate_limit(self.entropies, self.widths, each)
            known = (each + MARGIN <= math.log2(self.values)) & (least > 0)
            limits[known] = least[known] * (self.values / self.elements * self.unit)
        return float(limits[0]) if r.ndim == 0 else limits.reshape(r.shape)


@dataclass(frozen=True, eq=False)
class OfSum:
    """Of a sum of all workers in two phases, in units of the noise, in the typical block."""

    up: Bound  #: of the workers' distances from their mean: of the messages to the sum
    down: Bound  #: of the means: of the messages with the sum

    def at(self, bits: Any) -> Any:
        """The least error with `bits` per element in either phase, a float or an array."""
        return np.fmax(self.up.at(bits), self.down.at(bits))

    def divided(self, bits: Any) -> np.ndarray:
        """The same if the phases have `bits` on average, divided between them in the best way.

        More bits for the one lower its limit and raise the other's: the least of the larger of both
        is where they cross, which bisection encloses. What is returned is below both ends of the
        last interval, so it is a limit, too.
        """
        r = np.asarray(bits, np.float64).reshape(-1)
        low, high = -r, r.copy()  # bits taken from the first phase for the second
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            first = _known(self.up.at(r - middle)) >= _known(self.down.at(r + middle))
            low, high = np.where(first, low, middle), np.where(first, middle, high)
        least = np.maximum(_known(self.up.at(r - low)), _known(self.down.at(r + high)))
        return np.where(least > 0, least, math.nan)


def bits_above(error: Any, least: Any) -> np.ndarray:
    """1/2 log2(error / least), elementwise; NaN without a limit or an error."""
    error, least = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (error, least)))
    above = np.full(error.shape, math.nan)
    limited = least > 0
    above[limited & (error == 0)], above[limited & (error == math.inf)] = -math.inf, math.inf
    plain = limited & (error > 0) & (error < math.inf)
    above[plain] = 0.5 * _core.fixed_log2(error[plain] / least[plain])
    return above


def _known(limits: np.ndarray) -> np.ndarray:
    """0 where no limit is known: no error is below it."""
    return np.where(np.isnan(limits), 0.0, limits)
