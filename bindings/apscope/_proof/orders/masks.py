"""Terms that a large one swallows: which additions happen before M and -M cancel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ..._core import FloatFormat
from .calls import Called

#: Terms whose survival one call shows, as bits of its result: at most, and enough.
MOST_BITS, ENOUGH_BITS = 22, 4


@dataclasses.dataclass(frozen=True)
class Scale:
    """The sizes of probing terms.

    Attributes
    ----------
    large, top, unit : int
        Exponents: of M, which cancels -M; of the largest power of two that is a result; of the
        smallest that is one.
    loses : bool
        Whether some sum of M, -M and a unit loses the unit.
    bits : int
        Units of 1, 2, 4, ... that one call can tell apart.
    limited : bool
        Whether the inputs have no larger power of two than `top`.
    """

    large: int
    top: int
    unit: int
    loses: bool
    bits: int
    limited: bool = False

    def reaches(self, f: FloatFormat, exactly: bool) -> bool:
        """Whether the largest power of two in a format is the largest result (or no smaller)."""
        exponent = int(np.floor(np.log2(f.largest)))
        return exponent == self.top or (exponent > self.top and (self.limited or not exactly))

    @property
    def ratio(self) -> int:
        """The exponent of M over the unit."""
        return self.large - self.unit


class ResidueError(Exception):
    """M and -M left more than the units: additions do not round to nearest."""


def scale_of(called: Called) -> Scale:
    """Finds M and the unit: normal numbers that pass unchanged, else what is available.

    Raises
    ------
    ValueError
        No power of two is its own sum, or the callable fails.
    """
    ends = sorted({0, called.terms - 1})
    pairs = sorted({(0, min(1, called.terms - 1)), (0, called.terms - 1)} - {(0, 0)})

    def passes(exponent: int) -> bool:
        def sums(end: int, value: float) -> np.ndarray:
            return called.run(called.operands(value * (np.arange(called.terms) == end)))

        values = [sign * 2.0**exponent for sign in (1, -1)]
        return all((sums(end, value) == value).all() for end in ends for value in values)

    def cancels(exponent: int) -> bool:
        value = 2.0**exponent
        return all(not called.run(_pair(called, i, j, value)).any() for i, j in pairs)

    def scale_with(beyond: bool, subnormal: bool) -> Scale | None:
        """With a result as M, or beyond the largest result a term that only cancels its negative."""
        low, high = called.exponents(subnormal)
        top = next((e for e in range(high, low - 1, -1) if passes(e)), None)
        if top is None:
            return None
        unit = next(e for e in range(low, top + 1) if passes(e))
        large = next((e for e in range(high, top, -1) if cancels(e)), top) if beyond else top
        loses = bool(_loses(called, large, unit).any())
        scale = Scale(large, top, unit, loses, 0, limited=top == high)
        return dataclasses.replace(scale, bits=_bits(called, scale)) if loses else scale

    scale: Scale | None = None
    for beyond, subnormal in ((False, False), (False, True), (True, False), (True, True)):
        if scale is not None and (scale.bits >= ENOUGH_BITS or (beyond and scale.loses)):
            break
        found = scale_with(beyond, subnormal)
        if found is not None and (
            scale is None or (found.bits, found.ratio) > (scale.bits, scale.ratio)
        ):
            scale = found
    if scale is None:
        raise ValueError(
            "the callable returned no power of two unchanged, with zeros as all other terms; it "
            f"is not a {called.kind} of the terms"
        )
    return scale


def _pair(called: Called, i: int, j: int, value: float) -> tuple[np.ndarray, ...]:
    terms = np.zeros(called.terms)
    terms[i], terms[j] = value, -value
    return called.operands(terms)


def triples(called: Called) -> list[tuple[int, int, int]]:
    """Some places of M, -M and a unit."""
    last = called.terms - 1
    sets = {(0, 1, 2), (0, 1, last), (0, last // 2, last), (last - 2, last - 1, last)}
    places = [s for s in sets if 0 <= s[0] < s[1] < s[2] <= last]
    return [
        (s[a], s[b], s[c]) for s in sorted(places) for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 2, 0))
    ]


def _loses(called: Called, large: int, small: int) -> np.ndarray:
    """Whether 2^small is lost between 2^large and its negative, per triple and element."""
    m, u = 2.0**large, 2.0**small
    return np.array([called.of({i: m, j: -m, k: u}) != u for i, j, k in triples(called)])


def largest_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number in [low, high] for which a falling predicate holds; low - 1 if none."""
    low -= 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _bits(called: Called, scale: Scale) -> int:
    lost = _loses(called, scale.large, scale.unit)
    # The smallest ratio whose unit is lost wherever the smallest unit is.
    kept = largest_true(
        lambda d: bool((_loses(called, scale.large, scale.large - d) != lost).any()),
        1,
        scale.ratio,
    )
    u = 2.0**scale.unit

    def exact(bits: int) -> bool:
        whole = u * (2.0**bits - 1)
        runs = (range(bits), range(called.terms - bits, called.terms))
        return all(
            (called.of({place: u * 2.0**b for b, place in enumerate(run)}) == whole).all()
            for run in runs
        )

    most = min(MOST_BITS, called.terms, scale.ratio - kept - 3)
    return max(1, largest_true(exact, 1, most)) if most > 1 else 1


class Masks:
    """Which terms are lost between M at one place and -M at another; found once per pair."""

    def __init__(self, called: Called, scale: Scale) -> None:
        self.called, self.scale, self.bits = called, scale, scale.bits
        self.found: dict[tuple[int, int], list[int]] = {}

    def ball(self, i: int, j: int) -> list[int]:
        """Per element a set of terms, as bits: i, j, and what is added before they cancel."""
        pair = (min(i, j), max(i, j))
        if pair not in self.found:
            self.found[pair] = self._measured(*pair)
        return self.found[pair]

    def _measured(self, i: int, j: int) -> list[int]:
        terms = np.zeros(self.called.terms)
        terms[i], terms[j] = 2.0**self.scale.large, -(2.0**self.scale.large)
        lost = np.ones((self.called.elements, self.called.terms), bool)
        others = np.delete(np.arange(self.called.terms), [i, j])
        for start in range(0, len(others), self.bits):
            places = others[start : start + self.bits]
            terms[places] = 2.0 ** (self.scale.unit + np.arange(len(places)))
            got = self.called.sums(terms) * 2.0**-self.scale.unit
            terms[places] = 0
            if self.bits == 1:
                lost[:, places[0]] = got != 1
                continue
            if ((got < 0) | (got >= 2.0 ** len(places)) | (got != np.rint(got))).any():
                raise ResidueError
            lost[:, places] = got.astype(np.int64)[:, None] >> np.arange(len(places)) & 1 == 0
        packed = np.packbits(lost, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]
