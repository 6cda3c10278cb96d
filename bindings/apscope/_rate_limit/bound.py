"""L(R) of a group of values, with those that are zero free of cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core

#: A limit of R bits needs at least 2^(R + MARGIN) values: with fewer it is much too low.
MARGIN = 4


@dataclass(frozen=True, eq=False)
class Bound:
    """Of `elements`, of which `values` are not zero and share all bits, and have all errors."""

    values: int
    elements: int
    entropies: np.ndarray  #: of the values, blurred by each width of `_core.blur_widths`
    unit: float  #: of the errors; NaN: unknown

    @classmethod
    def of(cls, values: np.ndarray, elements: int, unit: float, threads: int) -> Bound:
        """Of the nonzero values."""
        known = len(values) > 0 and not math.isnan(unit)
        return cls(
            len(values),
            elements,
            _core.blurred_entropies(values, _core.blur_widths(), threads) if known else np.zeros(0),
            unit,
        )

    def at(self, bits: Any) -> Any:
        """The least mean squared error of `bits` per element, a float or an array.

        NaN if it is unknown, or for too many bits for this number of values.
        """
        r = np.asarray(bits, np.float64)
        if not (r >= 0).all():
            raise ValueError(f"bits={bits} must be at least 0")
        found = np.full(r.size, math.nan)
        if len(self.entropies):
            each = r.reshape(-1) * (self.elements / self.values)
            least = _core.rate_limit(self.entropies, _core.blur_widths(), each)
            known = (each + MARGIN <= math.log2(self.values)) & (least > 0)
            found[known] = least[known] * (self.values / self.elements * self.unit)
        return float(found[0]) if r.ndim == 0 else found.reshape(r.shape)
