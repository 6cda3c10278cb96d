"""The quantile that intervals of 95 % need."""

from __future__ import annotations

import math

__all__ = ["student_t"]

#: The normal distribution's quantile at 0.975.
_NORMAL = 1.959963984540054

#: Student's t at 0.975 for 1 to 4 degrees of freedom, where the expansion below is off by more than 1e-3.
_FEW = (12.706204736174694, 4.302652729749462, 3.182446305283708, 2.776445105197793)


def student_t(freedom: float) -> float:
    """Student's t at 0.975; NaN below one degree of freedom.

    Cornish and Fisher's expansion in 1 / freedom to the fourth order (Abramowitz and Stegun, 26.7.5), within 0.0005 from 5 degrees
    on; a table of whole degrees, linear in 1 / freedom between them, below.
    """
    if not freedom >= 1:
        return math.nan
    if freedom < 5:
        low = min(int(freedom), 4)
        ends = [*_FEW, student_t(5.0)]
        share = (1 / low - 1 / freedom) / (1 / low - 1 / (low + 1))
        return ends[low - 1] + share * (ends[low] - ends[low - 1])
    z = _NORMAL
    g = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (k + 1) for k, term in enumerate(g))
