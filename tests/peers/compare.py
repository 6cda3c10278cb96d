"""Compares a peer's codes with apscope's, and groups differences into intervals of inputs."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

import apscope
from apscope import FloatFormat

from .peer import Peer

MOST = 1000  # intervals that are kept of one peer

# Where the kind of a float32 input changes, both signs: +0, positive, +infinity, +NaN, -0, ...
EDGES = np.array(
    [0, 1, 0x7F800000, 0x7F800001, 0x80000000, 0x80000001, 0xFF800000, 0xFF800001], np.int64
)
KINDS = ("zero", "finite", "infinity", "NaN")


@dataclasses.dataclass
class Interval:
    """Neighbouring inputs of one kind (`KINDS`) and sign that all differ: float32 patterns first to
    last."""

    first: int
    last: int

    @property
    def kind(self) -> str:
        """`zero`, `finite`, `infinity` or `NaN`."""
        return KINDS[(int(np.searchsorted(EDGES, self.first, side="right")) - 1) % 4]

    @property
    def is_negative(self) -> bool:
        return self.first >= 2**31


@dataclasses.dataclass
class NaNs:
    """Counts of the results of NaN inputs; only results that are NaN count.

    `other_code` is the number of results that are another NaN code than apscope's, which is the
    canonical one; `sign`, `quiet` and `payload` of those that keep the input's sign, that are
    quiet, and that keep the leading bits of its fraction behind the quiet bit; `codes` the
    different codes.
    """

    inputs: int = 0
    other_code: int = 0
    sign: int = 0
    quiet: int = 0
    payload: int = 0
    codes: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Found:
    """The result of a comparison; `add` appends that of a later range of inputs."""

    inputs: int = 0
    differing: int = 0
    intervals: list[Interval] = dataclasses.field(default_factory=list)
    dropped: int = 0  # intervals beyond MOST
    nans: NaNs = dataclasses.field(default_factory=NaNs)

    def add(self, later: Found) -> None:
        rest = later.intervals
        if self.intervals and rest and self.dropped == 0:
            end, begin = self.intervals[-1], rest[0]
            if begin.first == end.last + 1 and begin.first not in EDGES:
                self.intervals[-1] = Interval(end.first, begin.last)
                rest = rest[1:]
        free = MOST - len(self.intervals)
        self.intervals += rest[:free]
        self.dropped += later.dropped + len(rest[free:])
        self.inputs += later.inputs
        self.differing += later.differing
        for name in ("inputs", "other_code", "sign", "quiet", "payload"):
            setattr(self.nans, name, getattr(self.nans, name) + getattr(later.nans, name))
        self.nans.codes |= later.nans.codes


@functools.cache
def descriptor(format: str) -> FloatFormat:
    return FloatFormat(format)


@functools.cache
def values_of(format: str) -> np.ndarray:
    """The values of all codes of a format, as float64."""
    f = descriptor(format)
    return apscope.decode(np.arange(2**f.storage_bits, dtype=np.uint16), f).astype(np.float64)


def apscope_codes(peer: Peer, x: np.ndarray) -> np.ndarray:
    """apscope's codes under the peer's rule; a NaN without a code is 0, and differs whatever the
    peer gives."""
    nan = peer.nan
    if nan is None and not descriptor(peer.format).has_nan:
        nan = 0
    return apscope.encode(
        x, descriptor(peer.format), rounding=peer.rounding, overflow=peer.overflow, nan=nan
    )


def differing(peer: Peer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of `x` where the results differ, the peer's codes and apscope's. Any NaN is any
    NaN."""
    with np.errstate(all="ignore"):
        theirs = peer.codes(x)
    ours = apscope_codes(peer, x)
    where = np.flatnonzero(theirs != ours)
    values = values_of(peer.format)
    if where.size:
        # A code with bits beyond the format's is not a NaN: it differs.
        inside = theirs[where] < len(values)
        both_nan = inside & np.isnan(values[theirs[where] * inside]) & np.isnan(values[ours[where]])
        where = where[~both_nan]
    if peer.nan is None and not descriptor(peer.format).has_nan:
        where = np.union1d(where, np.flatnonzero(np.isnan(x)))
    return where, theirs, ours


def intervals_of(bits: np.ndarray) -> list[Interval]:
    """Ascending float32 patterns as intervals without gaps, cut where the kind or the sign
    changes."""
    if bits.size == 0:
        return []
    bits = bits.astype(np.int64)
    starts = np.flatnonzero(np.diff(bits, prepend=bits[0] - 2) != 1)
    edges = np.searchsorted(bits, EDGES)
    starts = np.union1d(starts, edges[edges < bits.size])
    ends = np.append(starts[1:], bits.size) - 1
    return [Interval(int(a), int(b)) for a, b in zip(bits[starts], bits[ends])]


def compare(peer: Peer, bits: np.ndarray) -> Found:
    """Run both on float32 patterns, ascending; an interval of `Found` has no gap in the patterns
    themselves."""
    x = bits.view(np.float32)
    where, theirs, ours = differing(peer, x)
    intervals = intervals_of(bits[where])
    found = Found(len(bits), int(where.size), intervals[:MOST], len(intervals[MOST:]))
    is_nan = np.isnan(x)
    if is_nan.any():
        found.nans = nans_of(peer, bits[is_nan], theirs[is_nan], ours[is_nan])
    return found


def nans_of(peer: Peer, bits: np.ndarray, theirs: np.ndarray, ours: np.ndarray) -> NaNs:
    """The results of NaN inputs, in a format that has NaN."""
    values, f = values_of(peer.format), descriptor(peer.format)
    inside = theirs < len(values)
    kept = inside & np.isnan(values[theirs * inside])
    bits, theirs, ours = bits[kept], theirs[kept].astype(np.int64), ours[kept]
    found = NaNs(
        len(bits), int(np.count_nonzero(theirs != ours)), codes=set(np.unique(theirs).tolist())
    )
    if f.is_signed:
        found.sign = int(np.count_nonzero(theirs >> (f.storage_bits - 1) == bits >> 31))
    if has_payload(peer.format):
        quiet = 1 << (f.mantissa_bits - 1)
        fraction = bits.astype(np.int64) >> (23 - f.mantissa_bits)
        found.quiet = int(np.count_nonzero(theirs & quiet))
        found.payload = int(np.count_nonzero((theirs ^ fraction) & (quiet - 1) == 0))
    return found


def has_payload(format: str) -> bool:
    """Whether every code above infinity is a NaN, as in IEEE 754."""
    f = descriptor(format)
    return bool(f.has_infinity and f.nan_codes == 2**f.mantissa_bits - 1)
