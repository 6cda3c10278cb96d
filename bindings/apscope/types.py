"""Results of functions that are neither arrays nor tables: frozen, with named parts."""

from ._arrays.blocks import EncodedBlocks
from ._arrays.cast_statistics import CastStatistics
from ._arrays.plan import Plan
from ._excess_loss.expected import ExpectedExcess
from ._proof.fingerprint import Fingerprint
from ._proof.orders.fingerprint import SumFingerprint
from ._proof.random_rounding import RandomRounding
from ._rate_limit.limit import Limit
from ._report.explore import Explorer
from ._schemes.exchange import Exchange

__all__ = [
    "CastStatistics", "EncodedBlocks", "Exchange", "ExpectedExcess", "Explorer", "Fingerprint",
    "Limit", "Plan", "RandomRounding", "SumFingerprint",
]  # fmt: skip
