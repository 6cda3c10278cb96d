"""A hierarchy of two levels (docs/definitions.md, section 1), each level an exchange of its own,
with the casts of ml_dtypes. Formats have a scale of 1, or a power of two as `aps:F,rule=tight`
chooses it: for all rows of an order, for every row and shard alone in two phases."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from . import production, topologies, two_phase
from .formats import FORMATS
from .schemes import amax, shift

#: (order or phases, format, whether it is scaled)
Level = tuple[str, str, bool]


class Add:
    """One addition in a format: of two of its values the fp64 sum is exact, or so close that the
    cast is the rounding."""

    def __init__(self, name: str, saturates: bool = False):
        self.cast, self.saturates = two_phase.cast(name), saturates
        self.largest = float(ml_dtypes.finfo(two_phase.DTYPES[name]).max)

    def __call__(self, a, b, hop, elements):
        with np.errstate(all="ignore"):
            total = a + b
        if self.saturates:
            total = np.clip(total, -self.largest, self.largest)
        return self.cast(total)

    def alone(self, a, hop, elements):
        return self(a, np.copysign(0.0, a), hop, elements)


def in_order(x: np.ndarray, order: str, name: str, scaled: bool) -> np.ndarray:
    s = shift(amax(x), FORMATS[name], "workers", len(x), "tight") if scaled else 0
    with np.errstate(over="ignore"):
        codes = np.stack([two_phase.cast(name)(np.ldexp(row, s)) for row in x.astype(np.float64)])
    elements = np.arange(x.shape[1])
    narrow = Add(
        name, order.startswith("nccl:") and ml_dtypes.finfo(two_phase.DTYPES[name]).bits <= 8
    )
    if len(x) == 1:
        total = codes[0]
    elif order in production.ORDERS:
        total = production.ORDERS[order](codes, narrow, Add("fp32"), elements)
    else:
        total = topologies.reduce(codes, order, narrow)
    return np.ldexp(total, -s)


def level(x: np.ndarray, how: Level) -> np.ndarray:
    order, name, scaled = how
    if order in ("two_phase", "reduce_scatter"):
        encode = two_phase.scaled(name) if scaled else two_phase.cast(name)
        return two_phase.reduce(x, encode, encode if order == "two_phase" else None)
    return in_order(x, order, name, scaled)


def reduce(x: np.ndarray, group: int, inner: Level, outer: Level) -> np.ndarray:
    """The sum of the rows x (W, n), fp32."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.stack(
            [level(x[at : at + group], inner) for at in range(0, len(x), group)]
        ).astype(np.float32)
    return sums[0].astype(np.float64) if len(sums) == 1 else level(sums, outer)
