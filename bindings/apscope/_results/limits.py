"""How many bits a value a reduction spends beyond what the limit needs for the error it makes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .._rate_limit.bound import OfSum, bits_above
from .._rate_limit.known import Known, known_limits

#: Reductions in two phases with as many bits per value in either: what a rank sends to the sum, and
#: what it receives of it. Each value is sent once in each, so 32 `volume` is the bits per value.
EVEN = (
    "ring", "butterfly", "nccl:ring", "nccl:symmetric", "fp32_accumulate", "two_phase",
    "own:two_phase", "own:ring", "own:butterfly", "torch:two_shot",
)  # fmt: skip
#: The same with other bits in the second phase: 32 `volume` is their mean.
UNEVEN = ("code_sum", "vote")
#: Schemes that choose what they send: a block of zeros takes no bits, so all are counted for the
#: blocks with noise, of which the error is.
CHOOSING = ("top_k", "ok_topk", "sparcml", "random_k", "fft_sparse", "zero_blocks")


def limits_of(results: Any) -> dict[str, Known]:
    """Trace -> its limit; empty for a bare table of rows, and for results without limits."""
    return {} if isinstance(results, pd.DataFrame) else known_limits(results.limit)


def column_of(table: pd.DataFrame, results: Any, batch_factor: float) -> np.ndarray:
    """`bits_above_limit` of a summary of these results."""
    limits = limits_of(results)
    if not limits:
        return np.full(len(table), math.nan)
    all_workers = results.noise[results.noise["without"].isna()]
    blocks = all_workers.groupby("trace", observed=True)[["blocks", "noise_blocks"]].sum()
    shares = (blocks["noise_blocks"] / blocks["blocks"]).to_dict()
    return bits_above_limit(table, limits, batch_factor, shares)


def bits_above_limit(
    table: pd.DataFrame,
    limits: dict[str, Known],
    batch_factor: float,
    shares: Mapping[str, float],
) -> np.ndarray:
    """One number per row of a summary: 1/2 log2(error over noise / limit); NaN where it has none.

    Parameters
    ----------
    table : DataFrame
        ``trace``, ``scheme``, ``topology``, ``error_over_noise``, ``volume``.
    limits : dict
        Of `limits_of`, of the recorded batch.
    batch_factor : float
        By which the noise of ``error_over_noise`` was divided.
    shares : mapping
        Trace -> the share of its blocks that have noise.
    """
    result = np.full(len(table), math.nan)
    error = table["error_over_noise"].to_numpy(float) / batch_factor
    bits = 32.0 * table["volume"].to_numpy(float)
    chosen = table["scheme"].map(lambda spec: any(name in spec for name in CHOOSING))
    bits /= np.where(chosen.to_numpy(bool), table["trace"].map(shares).to_numpy(float), 1.0)
    kinds = np.array(
        [_kind(s, t) for s, t in zip(table["scheme"], table["topology"])], dtype=object
    )
    for trace, known in limits.items():
        of_trace = (table["trace"] == trace).to_numpy() & (bits >= 0) & ~np.isnan(error)
        for kind in ("even", "uneven", "down", "up"):
            rows = of_trace & (kinds == kind)
            if rows.any():
                result[rows] = bits_above(error[rows], _limit(known.of_sum, kind, bits[rows]))
    return result


def _limit(of_sum: OfSum, kind: str, bits: np.ndarray) -> Any:
    """The least error over noise with so many bits on average in either phase."""
    if kind == "uneven":
        return of_sum.divided(bits)
    if kind == "up":  # all bits are in one
        return of_sum.up.at(2 * bits)
    return of_sum.down.at(bits) if kind == "down" else of_sum.at(bits)


def _kind(spec: str, topology: str) -> str:
    """Which limit an error of this reduction has; "" for none.

    ``even`` and ``uneven``: of both messages, as above; ``down``: only of the message with the sum;
    ``up``: only of those to the sum, which are all that is sent.
    """
    if topology.startswith("hierarchical"):
        return ""  # of two levels, each with bits of its own
    first, _, keys = topology.partition(",")
    alone = first in ("two_phase", "reduce_scatter")  # in which `accumulate` has no effect
    if "accumulate=" in spec and not alone:
        return ""  # the codes enter unrounded, and the sum may have another width
    if first == "own:two_phase" and "birder" in spec and "group=" in spec:
        return ""  # its volume is that between nodes
    if first == "own:two_phase" and "ok_topk" in spec:
        return "uneven"
    exact = "own=exact" in keys  # the owner's row is not sent
    if first == "reduce_scatter":
        return "" if exact else "up"
    if "phase2=" in keys:
        return "" if exact else "uneven"
    return "down" if exact else "even" if first in EVEN else "uneven" if first in UNEVEN else ""
