"""What functions return where it is neither an array nor a table: one answer with named parts, frozen."""

from ._arrays.blocks import EncodedBlocks
from ._arrays.cast_statistics import CastStatistics
from ._arrays.plan import Plan
from ._formats.fingerprint import Fingerprint
from ._report.explore import Explorer
from ._schemes.exchange import Exchange

__all__ = ["CastStatistics", "EncodedBlocks", "Exchange", "Explorer", "Fingerprint", "Plan"]
