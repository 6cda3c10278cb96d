"""FP8-LM: its scaling factor, its all-reduce of gradients in both forms, and the automatic mu.

The scaling factor of a tensor, in fp32, M the largest magnitude of the format (448 or 57344):

    e  = floor(log2(M / amax)) - margin
    sf = round(2^|e|);  sf = the old factor if amax <= 0 or amax is not finite
    sf = 1 / sf if e < 0

The last line comes last: an infinite amax gives 1 / old, a NaN the old factor.

Source: Azure/MS-AMP at 9746ea85 (msamp/common/tensor/meta.py, msamp/nn/distributed.py,
msamp/megatron/optimizer/distrib_optimizer.py). mu is not in that repository. Its rule is from Peng
et al., FP8-LM: Training FP8 Large Language Models, 2023, section 2.1, through two public summaries,
which disagree on the threshold; another form is from CharlesHan24/DynamiQ at 737b1847.
"""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

LARGEST = {"e4m3fn": 448.0, "e5m2": 57344.0}
DTYPES = {"e4m3fn": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
F = np.float32

#: The share of elements at the largest magnitude above which mu is halved: 0.001 % in one summary
#: of the paper, 0.1 % in the other.
MU_THRESHOLDS = (1e-5, 1e-3)


def cast(x: np.ndarray, format: str) -> np.ndarray:
    """To the nearest, ties to even, saturating; NaN stays NaN."""
    x, M = np.asarray(x, F), F(LARGEST[format])
    return np.where(np.isnan(x), x, np.clip(x, -M, M)).astype(DTYPES[format]).astype(F)


@np.errstate(all="ignore")
def scaling_factor(amax: float, old: float, format: str = "e4m3fn", margin: int = 0) -> F:
    """The logarithm is rounded once to fp32, so a quotient just below a power of two counts as that
    power."""
    amax, sf = F(amax), F(old)
    e = F(np.floor(F(np.log2(np.float64(F(LARGEST[format]) / amax))))) - F(margin)
    if amax > 0 and np.isfinite(amax):
        sf = F(np.round(np.exp2(np.float64(np.abs(e)))))
    return F(1) / sf if e < 0 else sf


def with_headroom(sf: float, workers: int) -> F:
    """Divided by sqrt(W): 1 / sqrt(W) in fp64, rounded to fp32 for the product."""
    return F(sf) * F(1 / math.sqrt(workers))


def amax_of_all(rows: np.ndarray) -> F:
    """The largest magnitude over the workers; NaN counts as infinite."""
    found = np.abs(np.asarray(rows, F))
    return F(np.where(np.isnan(found), np.inf, found).max(initial=0))


def in_rank_order(rows: np.ndarray, format: str) -> np.ndarray:
    """The sum in the format, rounded after every addition. The order of a real sum is that of the
    communication library, so it is an argument below."""
    total = rows[0]
    for row in rows[1:]:
        total = cast(total + row, format)
    return total


Sum = Callable[[np.ndarray, str], np.ndarray]


@np.errstate(all="ignore")
def allreduce(
    rows: np.ndarray, old: float, format: str = "e4m3fn", add: Sum = in_rank_order
) -> tuple[np.ndarray, F]:
    """The data-parallel form: the workers' mean of one tensor, rows (W, n), and the factor, which
    is the next step's `old`. The kept factor contains 1 / sqrt(W) already and is divided again, so
    it shrinks at every step with an amax of 0."""
    rows = np.asarray(rows, F)
    workers = len(rows)
    sf = with_headroom(scaling_factor(float(amax_of_all(rows)), old, format), workers)
    total = add(cast(rows * sf, format), format)
    return total * (F(1) / sf * F(1 / workers)), sf


@np.errstate(all="ignore")
def accumulate(
    codes: np.ndarray, sf: float, g: np.ndarray, format: str = "e4m3fn"
) -> tuple[np.ndarray, F]:
    """The sharded optimizer's form adds a micro-batch's gradient into the FP8 buffer: the new
    buffer and its factor, without headroom and without a margin."""
    temp = codes * (F(1) / F(sf)) + np.asarray(g, F)
    new = scaling_factor(float(np.abs(temp).max(initial=0)), sf, format)
    return cast(new * temp, format), new


@np.errstate(all="ignore")
def sharded_sum(
    codes: np.ndarray, sfs: np.ndarray, format: str = "e4m3fn", add: Sum = in_rank_order
) -> tuple[np.ndarray, F]:
    """The sharded optimizer's exchange of buffers (W, n) with a factor per worker: the mean, and
    the common factor, the smallest of all. A buffer with another factor is rounded again."""
    workers, least = len(codes), F(np.min(sfs))
    rows = np.stack(
        [
            row if F(sf) == least else cast(row * (F(1) / F(sf)) * least, format)
            for row, sf in zip(codes, sfs, strict=True)
        ]
    )
    return add(rows, format) * (F(1) / least * F(1 / workers)), least


def share_at_largest(x: np.ndarray, format: str = "e4m3fn") -> float:
    """The share of scaled elements whose magnitudes reach the largest of the format."""
    return float(np.mean(np.abs(x) >= LARGEST[format])) if np.size(x) else 0.0


def next_mu(mu: float, share: float, threshold: float = MU_THRESHOLDS[0]) -> float:
    """Halved after a step with a share above the threshold, else larger by 2^(1 / 1000)."""
    return mu / 2 if share > threshold else mu * 2 ** (1 / 1000)


def with_mu(
    rows: np.ndarray,
    mu: float,
    factors: np.ndarray,
    format: str = "e4m3fn",
    add: Sum = in_rank_order,
) -> tuple[np.ndarray, float]:
    """One step: mu g is rounded with the smallest factor of the workers and added; the sum's factor
    is W times that. Returns the mean of mu g, and the share that decides on mu. The sources do not
    tell the first mu, whether there is one per tensor, or whether the mean is divided by mu."""
    rows, s = F(mu) * np.asarray(rows, F), F(np.min(factors))
    scaled = cast(rows * s, format)
    return add(scaled, format) / (F(len(rows)) * s), share_at_largest(scaled, format)


def adapted_first_mu(largest: float, workers: int, bits: int) -> float:
    """DynamiQ's form for MXFP4 and MXFP6, per tensor."""
    return largest / math.sqrt(2 * workers) if bits == 4 else largest / (1.4 * workers)


def adapted_next_mu(mu: float, total: np.ndarray, largest: float, workers: int, bits: int) -> float:
    """DynamiQ's form: the share of sums at the largest magnitude M (less 5e-8) decides; 2 % for 4
    bits, 1 % for 6. The published code updates mu for 4 bits only."""
    share = float(np.mean(np.abs(total) >= largest - 5e-8))
    if share > (0.02 if bits == 4 else 0.01):
        return max(0.95 * mu, largest / (2 * workers))
    return min(largest, mu * 2**0.02)
