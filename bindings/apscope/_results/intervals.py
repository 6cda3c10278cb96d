"""Tools for 95 % intervals: a quantile, and the bias of a logarithm."""

from __future__ import annotations

import math

__all__ = ["bias_of_log_variance", "log_bias", "student_t"]

#: The normal distribution's quantile at 0.975.
_NORMAL = 1.959963984540054

#: Student's t at 0.975 for 1 to 4 degrees of freedom, where the error of the expansion below
#: exceeds 1e-3.
_FEW = (12.706204736174694, 4.302652729749462, 3.182446305283708, 2.776445105197793)


def student_t(freedom: float) -> float:
    """Student's t at 0.975; NaN below one degree of freedom.

    Cornish and Fisher's expansion in 1 / freedom to the fourth order (Abramowitz and Stegun,
    26.7.5), within 0.0005 from 5 degrees on; for fewer, a table of whole degrees, linear in 1 /
    freedom between them.
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


def log_bias(freedom: float) -> float:
    """E[log(v / sigma^2)] of a variance from normal draws: digamma(f / 2) - log(f / 2) < 0."""
    x, shifted = freedom / 2, 0.0
    while x < 6:
        shifted -= 1 / x
        x += 1
    f = 1 / (x * x)
    # The asymptotic series of digamma (Abramowitz and Stegun, 6.3.18), minus log x.
    return (
        shifted
        + math.log(x / (freedom / 2))
        - 0.5 / x
        - f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f / 132))))
    )


def bias_of_log_variance(change: float, workers: int) -> float:
    """The bias of the mean log of estimated variances, from its change when a worker is left out.

    Let d be the effective number of independent directions of a variance, estimated from W workers
    with (W - 1) d degrees of freedom. Then `change` = log_bias((W - 2) d) - log_bias((W - 1) d),
    which is solved for d; the bias is log_bias((W - 1) d).

    Parameters
    ----------
    change : float
        Mean over the variances and the workers of the natural log of the variance without a worker
        divided by that with all.
    workers : int
        W, at least 3.

    Returns
    -------
    float
        At most 0; 0 if `change` is not below 0.
    """
    if not change < 0:
        return 0.0
    low, high = 1e-2, 1e9
    for _ in range(80):  # bisection in log d
        middle = math.sqrt(low * high)
        if log_bias((workers - 2) * middle) - log_bias((workers - 1) * middle) < change:
            low = middle
        else:
            high = middle
    return log_bias((workers - 1) * low)
