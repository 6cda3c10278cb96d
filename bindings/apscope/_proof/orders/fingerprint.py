"""The result of `fingerprint` for a sum, a product or an all-reduce."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._arrays.checks import integer, text
from ..._arrays.inputs import FormatLike, as_format
from ..._core import FloatFormat
from .calls import KINDS, Called
from .masks import Masks, ResidueError, Scale, scale_of
from .names import TREE, Match, addend_of, matches_of
from .probes import Probes
from .rules import Rules, rules_of
from .tree import NotATreeError, Run, Tree, drawn, trees_of

#: Runs of elements that a text shows.
SHOWN = 16


@dataclasses.dataclass(frozen=True)
class SumFingerprint:
    """The result of `fingerprint` for a callable that adds.

    Attributes
    ----------
    kind : str
        ``sum``, ``dot``, ``matmul`` or ``allreduce``.
    name : str or None
        The order or topology of apscope that gives the callable's bits on every probe; None if
        there is none.
    arguments : dict
        The arguments of `apscope.sum`, `dot`, `matmul` or `allreduce` that give them, with formats
        by name: ``apscope.sum(x, **found.arguments)``. Empty without a name.
    also : tuple of dict
        The arguments of other orders that give the same bits on every probe.
    closest : str
        Without a name: the order of this tree with the fewest differing probes, if fewer than half
        differ.
    trees : tuple of (int, int, tree)
        Elements ``begin`` to ``end - 1`` of the result and the order of their additions: an index
        of a term, or a tuple of what one addition adds. Index n is C. Empty if no order was found.
    order : str
        The first tree in words, or why there is none.
    block : int or None
        K, the terms that one addition of several adds, besides C and the sum that it continues.
        None if every addition adds two.
    fraction_bits : int or None
        F, the bits below the largest exponent that such an addition keeps of every term; None if
        every addition adds two, or if no term is lost.
    fraction_rounding : str
        How it rounds a term to F bits.
    accumulator, rounding : str
        Significant bits of partial sums, and how these are rounded.
    result, result_rounding : str
        The same of the result.
    addend : str
        Where C is added; empty without C.
    ratio : int
        The largest term is 2^ratio times the smallest: no more than that is seen.
    calls : int
        How often the callable was called.
    probes, differing : int
        Random probes, and those where the callable differs from the named order; without a name,
        from its tree with these roundings. `differing` is None if apscope has no such additions.
    first : str
        The first differing probe, with both results.
    """

    kind: str
    name: str | None
    arguments: dict[str, Any]
    also: tuple[dict[str, Any], ...]
    closest: str
    trees: tuple[Run, ...]
    order: str
    block: int | None
    fraction_bits: int | None
    fraction_rounding: str
    accumulator: str
    rounding: str
    result: str
    result_rounding: str
    addend: str
    ratio: int
    calls: int
    probes: int
    differing: int | None
    first: str

    @property
    def tree(self) -> Tree | None:
        """The tree of the first element."""
        return self.trees[0][2] if self.trees else None

    def __str__(self) -> str:
        rows = [("kind", self.kind), ("name", self.name or "none")]
        rows.append(("arguments", ", ".join(f"{k}={v}" for k, v in self.arguments.items())))
        rows += [("also", self._also()), ("closest", self.closest)]
        if len(self.trees) < 2:
            rows.append(("order", self.order))
        for begin, end, tree in self.trees[:SHOWN] if len(self.trees) > 1 else ():
            rows.append((f"at {begin}..{end - 1}", drawn(tree)))
        if len(self.trees) > SHOWN:
            rows.append(("", f"and {len(self.trees) - SHOWN} other ranges of elements"))
        rows += [
            ("K", "" if self.block is None else str(self.block)),
            ("F", "" if self.fraction_bits is None else str(self.fraction_bits)),
            ("of a term", self.fraction_rounding),
            ("partial sums", _joined(self.accumulator, self.rounding)),
            ("result", _joined(self.result, self.result_rounding)),
            ("C", self.addend),
            ("ratio", f"2^{self.ratio}"),
            ("calls", str(self.calls)),
            ("probes", str(self.probes)),
            ("differing", "not compared" if self.differing is None else str(self.differing)),
            ("first", self.first),
        ]
        return "\n".join(f"{name:<12} {value}" for name, value in rows if value)

    def _also(self) -> str:
        """The other orders, with the arguments that are not those of the name."""
        words = []
        for order, *other in (list(one.items()) for one in self.also):
            more = [f"{k}={v}" for k, v in other if self.arguments.get(k) != v]
            words.append(f"{order[1]}{' with ' * bool(more)}{' and '.join(more)}")
        return ", ".join(words)


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def sum_fingerprint(
    function: Any,
    kind: str,
    *,
    n: int,
    inputs: FormatLike,
    workers: int,
    shape: tuple[int, int],
    addend: bool,
) -> SumFingerprint:
    """`fingerprint` of a callable that adds: apscope.fingerprint has the parameters."""
    called = Called(
        _callable(function),
        text("kind", kind),
        _inputs(inputs),
        integer("n", n, 1, 256),
        integer("workers", workers, 1, 256),
        _shape(shape),
        bool(addend),
    )
    if addend and kind not in ("dot", "matmul"):
        raise ValueError(f"addend=True is for dot and matmul; kind='{kind}' has no C")
    scale = scale_of(called)
    runs, why = _runs(called, scale)
    tree, element = (runs[0][2], runs[0][0]) if runs else (None, 0)
    rules = rules_of(called, scale, tree, element)
    probes = Probes(
        called, scale, rules.fraction_bits or rules.partial_bits[1] or rules.result_bits
    )
    _same_again(called, probes)
    matches = matches_of(called, scale, runs, rules, probes)
    return _found(called, scale, runs, why, rules, matches, probes)


def _callable(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(
            f"{type(function).__name__} is not a callable; give a function that adds, multiplies "
            "or reduces arrays"
        )
    return function


def _inputs(inputs: FormatLike) -> FloatFormat:
    f = as_format(inputs)
    if not f.is_signed or not f.fits_fp32 or f.zero == "none":
        raise ValueError(
            f"inputs={f.name} cannot be probed; give a signed format with a zero whose values are "
            "fp32 numbers"
        )
    return f


def _shape(shape: tuple[int, int]) -> tuple[int, int]:
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        raise ValueError(f"shape={shape!r} is not (rows, columns), such as (8, 8)") from None
    return integer("rows", rows, 1, 1024), integer("columns", columns, 1, 1024)


def _same_again(called: Called, probes: Probes) -> None:
    """Raises ValueError if equal operands give other bits."""
    for index in range(len(probes.kinds)):
        again = called.run(tuple(part[index] for part in probes.operands))
        if not np.array_equal(again, probes.got[index], equal_nan=True):
            raise ValueError(
                "the callable is not deterministic: equal operands gave different results; its "
                "order cannot be found"
            )


def _runs(called: Called, scale: Scale) -> tuple[tuple[Run, ...], str]:
    """The trees, or the reason why there are none."""
    if called.terms == 1:
        return ((0, called.elements, 0),), ""
    if called.terms > 2 and not scale.loses:
        return (), f"not seen: no term is lost beside one 2^{scale.ratio} times as large"
    if called.terms == 2:
        return ((0, called.elements, (0, 1)),), ""
    try:
        return trees_of(Masks(called, scale)), ""
    except (NotATreeError, ResidueError):
        return (), "not a tree: the lost terms contradict every order of additions"


def _found(
    called: Called,
    scale: Scale,
    runs: tuple[Run, ...],
    why: str,
    rules: Rules,
    matches: list[Match],
    probes: Probes,
) -> SumFingerprint:
    named = [m for m in matches if m.order != TREE]
    right = [m for m in named if m.differing == 0]
    near = [m for m in named if 2 * m.differing < len(probes.kinds)]
    described = next((m for m in matches if m.order == TREE), None)
    shown = right[0] if right else described
    arguments = dict(shown.arguments) if shown else {}
    addend = called.n if called.addend else None
    mode = arguments.get("hop_rounding") or arguments.get("rounding")
    if shown is not None and shown.differing:
        mode = None
    f, accumulator = arguments.get("format"), arguments.get("accumulate")
    sums = accumulator or f if shown is not None and shown.differing == 0 else None
    partial, result = rules.partial_bits, (rules.result_bits, rules.result_bits)
    cut = "nothing below its last bit" if 0 < rules.fraction_bits < rules.partial_bits[1] else ""
    if right and right[0].order.endswith("kahan") and sums is not None:
        partial = (_bits(sums), _bits(sums))  # measured, a compensated sum has one bit more
    return SumFingerprint(
        kind=called.kind,
        name=right[0].order if right else None,
        arguments=_spelled(called.kind, right[0]) if right else {},
        also=tuple(_spelled(called.kind, m) for m in right[1:]),
        closest=near[0].order if near and not right else "",
        trees=runs,
        order=why or drawn(runs[0][2], addend),
        block=rules.block or None,
        fraction_bits=rules.fraction_bits or None,
        fraction_rounding=_modes(rules.fraction_modes, "" if not rules.fraction_bits else "?"),
        accumulator=_words(partial, sums, False),
        rounding=_modes(rules.partial_modes, mode or cut or "mixed") if partial[1] else "",
        result=_words(result, sums if called.kind == "allreduce" else f, rules.at_least),
        result_rounding=_modes(rules.result_modes, mode or cut or "not seen") if result[1] else "",
        addend=addend_of(runs, called.n) if called.addend else "",
        ratio=scale.ratio,
        calls=called.calls,
        probes=len(probes.kinds),
        differing=None if shown is None else shown.differing,
        first=_first(probes, shown) if shown else "",
    )


def _bits(f: FloatFormat) -> int:
    return f.mantissa_bits + 1


def _words(bits: tuple[int, int], f: FloatFormat | None, at_least: bool) -> str:
    if not bits[1]:
        return ""
    count = f"{bits[0]} bits" if bits[0] == bits[1] else f"{bits[0]} to {bits[1]} bits"
    fits = f is not None and bits[0] <= _bits(f) <= bits[1]
    return f"{'at least ' * at_least}{count}" + (f" ({f.name})" if f is not None and fits else "")


def _modes(modes: tuple[str, ...], otherwise: str) -> str:
    return " or ".join(modes) or otherwise


def _spelled(kind: str, match: Match) -> dict[str, Any]:
    """The arguments of apscope's function, with names in place of formats."""
    order = "topology" if kind == "allreduce" else "order"
    return {order: match.order} | {
        key: value.name if isinstance(value, FloatFormat) else value
        for key, value in match.arguments.items()
    }


def _first(probes: Probes, match: Match) -> str:
    wrong = np.argwhere(match.wrong)
    if not wrong.size or match.sums is None:
        return ""
    index, element = wrong[0]
    at = f", element {element}" if probes.got.shape[1] > 1 else ""
    return (
        f"probe {index} ({probes.kinds[index]} terms{at}) gives {probes.got[index, element]:.9g}, "
        f"the described order {match.sums[index, element]:.9g}"
    )


__all__ = ["KINDS", "SumFingerprint", "sum_fingerprint"]
