"""How the additions of a known tree round: fraction bits of an alignment, sums, the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ..._arrays.casts import quantize
from ...conformance import ROUNDINGS
from .calls import Called
from .masks import Scale, largest_true
from .tree import Tree, leaves, nodes

#: Nodes at most whose sums are measured.
MOST_NODES = 24


@dataclasses.dataclass(frozen=True)
class Rules:
    """What was measured; 0 bits and no modes where the terms do not show it.

    Attributes
    ----------
    block : int
        Terms of one addition of several, without a sum that it continues and without C.
    fraction_bits : int
        Bits below the largest exponent that such an addition keeps of every term.
    fraction_modes, partial_modes, result_modes, term_modes : tuple of str
        The rounding modes that agree: of a term to these bits, of a partial sum, of the result, of
        a single term as a result.
    partial_bits : tuple of (int, int)
        The fewest and the most significant bits of partial sums.
    result_bits, term_bits : int
        Significant bits of the result, and of a single term as a result.
    at_least : bool
        The bits are what the terms show, the real number may be larger.
    """

    block: int = 0
    fraction_bits: int = 0
    fraction_modes: tuple[str, ...] = ()
    partial_bits: tuple[int, int] = (0, 0)
    partial_modes: tuple[str, ...] = ()
    result_bits: int = 0
    term_bits: int = 0
    term_modes: tuple[str, ...] = ()
    result_modes: tuple[str, ...] = ()
    at_least: bool = False


def rules_of(called: Called, scale: Scale, tree: Tree | None, element: int) -> Rules:
    """The rules of the additions of one element, whose tree this is (None: not known)."""
    return _Rules(called, scale, tree, element).measured()


class _Rules:
    def __init__(self, called: Called, scale: Scale, tree: Tree | None, element: int) -> None:
        self.called, self.scale, self.tree, self.element = called, scale, tree, element
        self.addend = called.n if called.addend else None

    def measured(self) -> Rules:
        result_bits, seen_all = self.result_bits()
        term_bits, term_modes = self.single_term()
        found = Rules(
            result_bits=result_bits,
            term_bits=term_bits,
            term_modes=term_modes,
            at_least=not seen_all,
        )
        fused = [part for part in nodes(self.tree) if len(part) > 2] if self.tree else []
        if fused:
            i, j, k = self.parts(fused[0])[:3]
            kept = self.kept(i, j, k)
            found = dataclasses.replace(
                found,
                block=max(sum(isinstance(p, int) and p != self.addend for p in n) for n in fused),
                fraction_bits=kept,
                fraction_modes=self.fraction_modes(i, j, k, kept),
            )
        bits, modes = self.partial(found.fraction_bits)
        last = self.result_modes(result_bits, found.fraction_bits) if seen_all else ()
        return dataclasses.replace(found, partial_bits=bits, partial_modes=modes, result_modes=last)

    def sum(self, terms: dict[int, float]) -> float:
        return float(self.called.of(terms)[self.element])

    def parts(self, addition: tuple[Tree, ...]) -> list[int]:
        """A term of every part, single terms first, C last."""
        order = sorted(addition, key=lambda p: (p == self.addend, not isinstance(p, int)))
        return [min(leaves(part)) for part in order]

    def kept(self, i: int, j: int, k: int) -> int:
        """The largest d for which M + M 2^-d - M, with M at i and -M at k, keeps the term at j."""
        m = 2.0**self.scale.large

        def keeps(d: int) -> bool:
            return self.sum({i: m, j: m * 2.0**-d, k: -m}) == m * 2.0**-d

        return largest_true(keeps, 1, self.scale.ratio)

    def fraction_modes(self, i: int, j: int, k: int, kept: int) -> tuple[str, ...]:
        """Modes in which a term beside M is rounded to a multiple of M 2^-kept."""
        m, q = 2.0**self.scale.large, 2.0 ** (self.scale.large - kept)
        if kept + 2 > self.scale.ratio or kept < 3:
            return ()
        sizes = [s * f for f in (0.5, 0.75, 1.5) for s in (1, -1)]
        return _modes([(s, self.sum({i: m, j: s * q, k: -m}) / q) for s in sizes])

    def partial(self, fraction_bits: int) -> tuple[tuple[int, int], tuple[str, ...]]:
        """The bits of partial sums, and the modes in which one of them is rounded."""
        inner = list(_inner(self.tree)) if self.tree else []
        if not inner:
            return (0, 0), ()
        chosen = inner[:: -(-len(inner) // MOST_NODES)]
        bits = []
        for addition, sibling in chosen:
            a, j = min(leaves(addition[0])), min(leaves(addition[-1]))
            bits.append(self.kept(a, j, min(leaves(sibling))) + 1)
        modes: tuple[str, ...] = ()
        for addition, sibling in inner:
            three = self.three(addition)
            if three is not None:
                p = self.kept(three[0], three[2], min(leaves(sibling))) + 1
                fractions = _fractions(fraction_bits - p + 1 if fraction_bits else 2)
                if p > 2 and p + 1 <= self.scale.ratio and fractions:
                    modes = self.modes(three, min(leaves(sibling)), self.scale.large, p, fractions)
                    break
        return (min(bits), max(bits)), modes

    def three(self, addition: tuple[Tree, ...]) -> tuple[int, int, int] | None:
        """Three terms, of which no later addition than this one adds the first two."""
        if len(addition) > 2:
            i, j, k = self.parts(addition)[:3]
            return i, j, k
        first, last = sorted(map(leaves, addition), key=len, reverse=True)
        return (first[0], first[1], last[0]) if len(first) > 1 else None

    def result_bits(self) -> tuple[int, bool]:
        """Significant bits of a result, and whether terms were small enough to show them all."""
        m, most = 2.0**self.scale.top, self.scale.top - self.scale.unit
        if self.called.terms < 2:
            return 0, False
        last = self.called.n - 1 if self.called.kind != "allreduce" else self.called.terms - 1

        def exact(d: int) -> bool:
            return self.sum({0: m, last: m * 2.0**-d}) == m * (1 + 2.0**-d)

        most = min(most, 52)  # results are read as fp64
        kept = largest_true(exact, 1, most)
        return kept + 1, kept < most or most == 52

    def single_term(self) -> tuple[int, tuple[str, ...]]:
        """The bits of a term that is alone, and the modes in which it is rounded to them."""
        m, most = 2.0 ** (self.scale.top - 1), self.called.inputs.mantissa_bits
        kept = largest_true(
            lambda d: self.sum({0: m * (1 + 2.0**-d)}) == m * (1 + 2.0**-d), 1, most
        )
        q = m * 2.0**-kept
        seen = [
            (
                sign * (odd + fraction),
                (self.sum({0: sign * (m + q * (odd + fraction))}) - sign * m) / q,
            )
            for sign in (1, -1)
            for odd in (1, 2)
            for fraction in _fractions(most - kept)
        ]
        return kept + 1, _modes(seen) if seen and kept > 1 else ()

    def result_modes(self, bits: int, fraction_bits: int) -> tuple[str, ...]:
        """The modes in which the last addition, or a rounding after it, rounds."""
        three = self.three(self.tree) if isinstance(self.tree, tuple) else None
        large = self.scale.top - 1  # a sum that rounds up does not overflow
        if three is None or bits < 2 or large - bits - 1 < self.scale.unit:
            return ()
        fused = isinstance(self.tree, tuple) and len(self.tree) > 2
        fractions = _fractions(fraction_bits - bits + 1 if fused else 2)
        return self.modes(three, None, large, bits, fractions) if fractions else ()

    def modes(
        self,
        three: tuple[int, int, int],
        sibling: int | None,
        large: int,
        bits: int,
        fractions: list[float],
    ) -> tuple[str, ...]:
        """Modes of a sum that ends in a fraction of its last bit, less M if there is a sibling."""
        a, b, c = three
        q = 2.0 ** (large - bits + 1)
        seen = []
        for sign in (1, -1):
            for odd in (1, 2):
                for fraction in fractions:
                    m = sign * 2.0**large
                    terms = {a: m, b: sign * odd * q, c: sign * fraction * q}
                    if sibling is not None:
                        terms[sibling] = -m
                    got = self.sum(terms) - (m if sibling is None else 0)
                    seen.append((sign * (odd + fraction), got / q))
        return _modes(seen)


def _inner(tree: Tree) -> Iterator[tuple[tuple[Tree, ...], Tree]]:
    """Every addition but the last, with a part that is added to its sum."""
    if isinstance(tree, tuple):
        for place, part in enumerate(tree):
            yield from _inner(part)
            if isinstance(part, tuple):
                yield part, tree[1 if place == 0 else 0]


def _fractions(bits: int) -> list[float]:
    """Fractions of the last bit that have so many bits at most."""
    return [s * f for f in (0.25, 0.5, 0.75) for s in (1, -1) if (f * 2.0**bits).is_integer()]


def _modes(seen: list[tuple[float, float]]) -> tuple[str, ...]:
    """The rounding modes that take every first number to the second, a whole one."""
    numbers, wanted = np.array(seen).T
    step = 2.0**-24  # the distance of fp16's subnormals
    small = (numbers * step).astype(np.float32)
    return tuple(
        mode
        for mode in ROUNDINGS
        if (quantize(small, "fp16", rounding=mode).astype(np.float64) / step == wanted).all()
    )
