"""Modelled seconds, which add up over the units, and latencies of messages, which do not.

docs/definitions.md, section 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from .. import _core
from .._results.pooling import numbers
from ..cost import Network


@dataclass
class Latencies:
    """The latency of a candidate's messages, which tensors of one reduction and grid share.

    Attributes
    ----------
    message : list of dicts
        Of every candidate, by reduction and grid, seconds of its messages.
    side : list of float
        Seconds of the messages that agree on its scales, which all schemes share.
    """

    message: list[dict[str, float]] = field(default_factory=list)
    side: list[float] = field(default_factory=list)

    def messages(self, used: Iterable[int]) -> float:
        """Seconds of a mixture of these candidates, without the messages that agree on scales."""
        kinds = (
            {kind: seconds for k in used for kind, seconds in self.message[k].items()}
            if self.message
            else {"unknown": float("nan")}
        )
        return sum(kinds.values())

    def sides(self, used: Iterable[int]) -> float:
        """Seconds of the messages that agree on scales, for all of them together."""
        return max((self.side[k] for k in used if self.side), default=0.0)

    def least(self) -> float:
        """Seconds that every mixture takes at least."""
        return min(
            (seconds for kinds in self.message for seconds in kinds.values() if seconds == seconds),
            default=0.0,
        )


def linear_seconds(
    rows: pd.DataFrame,
    unit: np.ndarray,
    candidate: np.ndarray,
    shape: tuple[int, int],
    network: Network,
    elements: float,
) -> tuple[np.ndarray, Latencies]:
    """Seconds a step, without latencies, of every unit and candidate; and the latencies.

    Parameters
    ----------
    rows : DataFrame
        Reduced rows.
    unit, candidate : int arrays
        Of every row.
    shape : (units, candidates)
    network : Network
    elements : float
        Elements of the model: the trace's tensors, all scaled by one factor; the number of agreed
        scales, one per tensor, stays the same.
    """
    workers, steps = int(rows["workers"].iloc[0]), rows["step"].nunique()
    free = replace(network, latency=0.0, intra_latency=0.0)
    alone = replace(network, bandwidth=np.inf, intra_bandwidth=np.inf, pass_cost=0.0)
    latencies = Latencies([{} for _ in range(shape[1])], [0.0] * shape[1])
    # The ways of every candidate: most have one, some (factors) have another one for small tensors.
    way = (
        pd.factorize(rows["topology"].astype(str) + " " + rows["format"].astype(str))[0] * shape[1]
        + candidate
    )
    ways, first, of_row = np.unique(way, return_index=True, return_inverse=True)
    rates, agreed_limit = np.full((len(ways), 5), np.nan), np.zeros(len(ways))
    for i, (spec, topology, grid) in enumerate(
        rows[["scheme", "topology", "format"]].iloc[first].itertuples(index=False)
    ):
        k = candidate[first[i]]
        rates[i] = _rates(spec, topology, grid, workers, free)
        agreed_limit[i] = _core.agreed_bits(spec, grid, topology)
        message, agreeing = _latency(spec, topology, grid, workers, alone)
        latencies.message[k][f"{topology} {grid}"] = message
        latencies.side[k] = max(latencies.side[k], agreeing)
    flat = np.ravel_multi_index((unit, candidate), shape)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(flat, values, shape[0] * shape[1]).reshape(shape) / steps

    count, side = numbers(rows, "count"), numbers(rows, "side_bits") / 8
    agreed = np.minimum(side, agreed_limit[of_row] / 8)
    factor = elements / (total(count).max(axis=1).sum() or 1.0)
    travels = side - agreed
    own = rates[of_row].T
    seconds = total(
        own[0] * count * factor
        + own[1] * numbers(rows, "wire_bits") / 8 * factor
        + own[2] * agreed * _growth(agreed, of_row, len(ways), factor)
        + own[3] * travels * _growth(travels, of_row, len(ways), factor)
    )
    # A way with agreed scales scans all values, also of tensors that share another tensor's scale.
    agrees = np.bincount(of_row, agreed, len(ways)) > 0
    seconds += total(np.where(agrees[of_row], own[4] * count * factor, 0.0))
    paid = np.bincount(candidate, agreed, shape[1]) > 0
    latencies.side = [side if one else 0.0 for side, one in zip(latencies.side, paid)]
    return seconds, latencies


def _growth(side: np.ndarray, of_row: np.ndarray, count: int, factor: float) -> np.ndarray:
    """Growth of side information in a larger model: none for one number per tensor or group."""
    fixed = _core.is_one_number(side * 8, of_row, count)
    return np.where(fixed[of_row], 1.0, factor)


def _seconds(
    part: tuple[float, float, float, float, float],
    kind: tuple[str, str, str],
    workers: int,
    network: Network,
    side: str,
) -> float:
    """Seconds of one part's values, bytes and buckets; NaN without an algorithm."""
    spec, topology, grid = kind
    parts = [(*part, topology, grid)]
    found = _core.part_seconds(parts, spec, workers, network._links, side, "ring")
    return np.nan if found is None else found


def _rates(spec: str, topology: str, grid: str, workers: int, free: Network) -> np.ndarray:
    """Seconds per value, per byte of each kind, and per scanned value.

    The kinds of bytes are payload, agreed and other side information. NaN without an algorithm.
    """

    def seconds(values: float, payload: float, agreed: float, travelling: float) -> float:
        part = (values, payload, agreed, travelling, 1.0)
        return _seconds(part, (spec, topology, grid), workers, free, "fused")

    one = 2.0**20  # of each, so that nothing is rounded to whole bytes
    base, scanned = seconds(one, 0, 0, 0), seconds(one, 0, one, 0)
    agreed = seconds(0, 0, one, 0)
    return (
        np.array(
            [base, seconds(0, one, 0, 0), agreed, seconds(0, 0, 0, one), scanned - base - agreed]
        )
        / one
    )


def _latency(
    spec: str, topology: str, grid: str, workers: int, alone: Network
) -> tuple[float, float]:
    """Seconds of one bucket's messages, and of those that agree on its scales."""
    delayed, fused = (
        _seconds((1.0, 1.0, 1.0, 1.0, 1.0), (spec, topology, grid), workers, alone, side)
        for side in ("delayed", "fused")
    )
    return (np.nan, 0.0) if np.isnan(delayed) else (delayed, fused - delayed)
