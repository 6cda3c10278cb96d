"""The order of apscope that gives a callable's bits, if one does."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import _core
from ..._arrays import arithmetic, sums
from ..._arrays.allreduce import allreduce
from ..._arrays.casts import quantize
from ..._core import FloatFormat
from ..._formats.blackbox import same
from ..._formats.formats import named_formats
from ...conformance import ROUNDINGS
from .calls import Called
from .masks import Masks, ResidueError, Scale
from .probes import Probes
from .rules import Rules
from .tree import NotATreeError, Run, Tree, chunk_of, leaves, pairwise, sequential, trees_of

Arguments = dict[str, Any]
OVERFLOWS, UNDERFLOWS = tuple(_core.overflow_modes()), tuple(_core.underflow_modes())
#: The name of a described order: its own tree, added as it was found.
TREE = "the described tree"
#: Arguments at most that are tried with every overflow and underflow rule.
MOST_EXPANSIONS = 6


@dataclasses.dataclass(frozen=True)
class Match:
    """An order with its arguments, and the probes on which the callable differs from it.

    Without sums it was compared with a few probes, of which none agreed.
    """

    order: str
    arguments: Arguments
    wrong: np.ndarray
    sums: np.ndarray | None

    @property
    def differing(self) -> int:
        return int(np.count_nonzero(self.wrong.any(axis=1)))


def matches_of(
    called: Called, scale: Scale, runs: tuple[Run, ...], rules: Rules, probes: Probes
) -> list[Match]:
    """The best match of every order that has this tree, else of the described tree.

    Those that agree on every probe are first; the order of the candidates breaks ties. After the
    first of these the others are compared with its arguments alone.
    """
    found: list[Match] = []
    names = [*_orders(called, runs), *unit_orders(called, runs, rules)]
    for name in [*names, TREE]:
        order = _Order(name, called, scale, runs, probes)
        agreed = next((m.arguments for m in found if m.differing == 0), None)
        if agreed is None:
            match = _best(order, rules)
        elif name == TREE:
            break
        else:
            tried = [m for a in order.like(agreed) if (m := order.match(a)) is not None]
            match = min(tried, key=lambda m: m.differing, default=None)
        found += [match] if match is not None else []
    return sorted(found, key=lambda m: m.differing)


def unit_orders(called: Called, runs: tuple[Run, ...], rules: Rules) -> list[str]:
    """Orders of matrix units to compare with: presets, then the unit of these measurements."""
    if not called.products or not runs:
        return []
    # An apscope without matrix units has no presets, and refuses the names below.
    presets: list[dict[str, Any]] = _core.matrix_units()
    chain = promoted_chain(runs[0][2])
    endings = ["", *[f",promote={chain}"] * (chain > 0)]
    names = [unit["name"] + ending for ending in endings for unit in presets if not unit["scales"]]
    if rules.fraction_bits:
        result = rules.partial_bits[0] or rules.result_bits
        sizes = f"k={rules.block},fraction={rules.fraction_bits},result={result - 1}"
        for ending in endings:
            for addend in ["", *[",c=last"] * called.addend]:
                names += [
                    f"{sizes}{places}{addend}{ending}"
                    for places in ("", ",interleave=mod4", ",interleave=even_odd")
                ]
    return [f"unit:{name}" for name in names]


def promoted_chain(tree: Tree) -> int:
    """Terms of a chain of additions of several terms, if additions of two add such chains."""
    while isinstance(tree, tuple) and len(tree) == 2 and isinstance(tree[-1], tuple):
        tree = tree[-1]
        if len(tree) > 2:
            return len(leaves(tree))
    return 0


def _orders(called: Called, runs: tuple[Run, ...]) -> list[str]:
    """The names of apscope's orders that have these trees; all of them if no tree was found."""
    if called.kind == "allreduce":
        groups = range(2, called.terms)
        names = [
            name.replace(":G", f":{g}")
            for name in _core.topologies()
            if _core.is_order(name.replace(":G", ":2"))
            for g in (groups if ":G" in name else [0])
        ]
        return [name for name in names if _has_trees(name, called, runs)]
    terms = list(range(called.n))
    if not runs or called.n < 2:
        return ["exact", "sequential", "pairwise", "kahan"]
    if len(runs) > 1 or called.addend:
        return []
    tree = runs[0][2]
    names = ["sequential", "kahan"] if tree == sequential(terms) else []
    if tree == pairwise(terms):
        names.insert(0, "pairwise") if called.n > 3 else names.append("pairwise")
    chunk = chunk_of(tree, called.n)
    if chunk and tree != sequential(terms):
        names.append(f"chunked:{chunk}")
    return [*names, "exact"] if isinstance(tree, tuple) and len(tree) == called.n else names


def _has_trees(topology: str, called: Called, runs: tuple[Run, ...]) -> bool:
    """Whether a topology, in fp32, has these trees; true if one of both is not a tree."""
    if not runs:
        return True
    shape = (called.rows, called.columns)
    ours = Called(
        lambda x: allreduce(x, "fp32", topology=topology),
        "allreduce", FloatFormat("fp32"), called.n, called.terms, shape, False,
    )  # fmt: skip
    wide = Scale(100, 100, -100, True, min(20, called.terms))
    try:
        return trees_of(Masks(ours, wide)) == runs
    except (NotATreeError, ResidueError):
        return True


def _best(order: _Order, rules: Rules) -> Match | None:
    """The arguments with the fewest differing probes; the first that has none."""
    best: Match | None = None
    expansions = 0
    for arguments in order.variants(rules):
        match = order.match(arguments)
        if match is None:
            continue
        if not match.wrong[order.ordinary].any() and expansions < MOST_EXPANSIONS:
            expansions += 1
            for overflow, underflow in itertools.product(OVERFLOWS, UNDERFLOWS):
                if match.differing == 0:
                    return match
                rule = {"overflow": overflow, "underflow": underflow}
                if order.called.kind == "allreduce" and rule.pop("underflow") != "gradual":
                    continue
                other = order.match({**arguments, **rule})
                if other is not None and other.differing < match.differing:
                    match = other
        if best is None or match.differing < best.differing:
            best = match
        if best.differing == 0:
            return best
    return best


class _Order:
    """One order, computed by apscope on the probes."""

    def __init__(
        self, name: str, called: Called, scale: Scale, runs: tuple[Run, ...], probes: Probes
    ) -> None:
        self.name, self.called, self.scale, self.runs = name, called, scale, runs
        self.probes, self.ordinary = probes, probes.ordinary()
        self.few = probes.firsts("normal", "drift")

    def match(self, arguments: Arguments) -> Match | None:
        """The comparison; of ordinary probes alone if they differ. None: apscope refuses this."""
        all_probes = np.ones(len(self.ordinary), bool)
        try:
            few = self.sums(self.few, arguments)
            if (~same(self.probes.got[self.few], few)).any(axis=1).all():
                return Match(self.name, arguments, np.ones(self.probes.got.shape, bool), None)
            ordinary = self.sums(self.ordinary, arguments)
            sums = np.full(self.probes.got.shape, np.nan)
            sums[self.ordinary] = ordinary
            wrong = ~same(self.probes.got, sums)
            if not wrong[self.ordinary].any():
                sums = self.sums(all_probes, arguments)
                wrong = ~same(self.probes.got, sums)
            else:
                wrong[~self.ordinary] = True
        except (TypeError, ValueError):
            return None
        return Match(self.name, arguments, wrong, sums)

    def sums(self, chosen: np.ndarray, arguments: Arguments) -> np.ndarray:
        called, operands = self.called, [part[chosen] for part in self.probes.operands]
        if self.name == TREE:
            return self.added(chosen, **arguments)
        if called.kind == "allreduce":
            rows = [allreduce(x, topology=self.name, **arguments) for x in operands[0]]
            return np.stack(rows).astype(np.float64)
        function: Any = {"sum": sums.sum, "dot": sums.dot, "matmul": sums.matmul}[called.kind]
        if called.kind != "matmul":
            arguments = {**arguments, "axis": 1}
        if called.addend:
            arguments = {**arguments, "c": operands.pop()}
        got = function(*operands, order=self.name, **arguments)
        return got.reshape(len(got), -1).astype(np.float64)

    def added(
        self,
        chosen: np.ndarray,
        format: FloatFormat,
        accumulate: FloatFormat | None = None,
        rounding: str = "ties_to_even",
        result_rounding: str | None = None,
        first_rounded: bool = False,
        from_zero: bool = False,
        **rules: Any,
    ) -> np.ndarray:
        """The described trees, every addition rounded once to the accumulator."""
        f = accumulate or format

        def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return arithmetic.add(x, y, f, rounding=rounding, **rules).astype(np.float64)

        def total(tree: Tree, terms: list[np.ndarray]) -> np.ndarray:
            if isinstance(tree, int):
                return terms[tree]
            if len(tree) > 2:
                raise ValueError("additions of more than two terms have no format's rule")
            left, right = (total(part, terms) for part in tree)
            if first_rounded and isinstance(tree[0], int) and tree[0] < self.called.n:
                left = add(left, np.zeros_like(left))
            return add(left, right)

        got = np.empty((int(np.count_nonzero(chosen)), self.called.elements))
        for begin, end, tree in self.runs:
            got[:, begin:end] = total(tree, self.probes.terms(chosen, begin, end))
        if from_zero:
            got = add(got, np.zeros_like(got))
        if accumulate is None:
            return got
        mode = result_rounding or rounding
        return quantize(got, format, rounding=mode, **rules).astype(np.float64)

    def variants(self, rules: Rules) -> Iterator[Arguments]:
        """Arguments that the measured rules allow, the plainest first."""
        if self.name.startswith("unit:"):
            yield from ({"format": FloatFormat(name)} for name in ("fp32", "fp16"))
            return
        if not self.runs and self.name == TREE:
            return
        kahan = self.name.endswith("kahan")  # whose compensation is not a rounding of sums
        modes = dict.fromkeys([*rules.partial_modes * (not kahan), *rules.result_modes])
        if not modes or rules.partial_bits[0] != rules.partial_bits[1]:
            modes.update(dict.fromkeys(ROUNDINGS))  # sums of different kinds
        for mode, (f, a) in itertools.product(modes, list(self.formats(rules))):
            plain: Arguments = {"format": f, "rounding": mode}
            if a is not None and a != f:
                plain["accumulate"] = a
            if self.called.kind == "allreduce" and self.name != TREE:
                yield plain
                yield {**plain, "input_cast": False}
                if f.mantissa_bits < self.called.inputs.mantissa_bits:
                    others = (m for m in rules.term_modes if m != mode)
                    yield from ({**plain, "rounding": m, "hop_rounding": mode} for m in others)
            elif self.name == TREE:
                ends = [None, *(m for m in rules.result_modes if m != mode)]
                for first, zero, end in itertools.product((False, True), (False, True), ends):
                    yield {
                        **plain,
                        "first_rounded": first, "from_zero": zero, "result_rounding": end,
                    }  # fmt: skip
            else:
                yield plain
                for product in {a or f: 0, f: 0, self.called.inputs: 0, FloatFormat("fp32"): 0}:
                    if self.called.products:
                        yield {**plain, "product": product}

    def like(self, agreed: Arguments) -> Iterator[Arguments]:
        """Another order's arguments, and those in which this order would give equal sums."""
        plain = {key: value for key, value in agreed.items() if key != "accumulate"}
        yield from [agreed, plain] if "accumulate" in agreed else [agreed]
        if not self.runs:
            for f in _formats((agreed["format"].mantissa_bits + 2,), FloatFormat("fp32"), True):
                yield {**plain, "accumulate": f, **({"product": f} if self.called.products else {})}

    def formats(self, rules: Rules) -> Iterator[tuple[FloatFormat, FloatFormat | None]]:
        """Pairs of a result's format and an accumulator's (None: the same)."""
        inputs = self.called.inputs
        # A compensated sum keeps one bit more than its format has.
        seen = [b - less for b in rules.partial_bits for less in (0, 1) if b]
        results = [
            f
            for f in _formats((rules.result_bits,), inputs, rules.at_least)
            if self.scale.reaches(f, exactly=self.called.kind != "allreduce")
        ]
        partial = _formats(tuple(seen), inputs) if seen else results
        if not self.runs:
            partial = _formats((rules.result_bits,), FloatFormat("fp32"), True)
        if self.called.kind == "allreduce" and self.name != TREE:
            cast = _formats((rules.term_bits,), inputs)
            sent = partial if self.runs else []
            own = list(dict.fromkeys([*results, inputs, *sent, *cast]))
            yield from ((f, None) for f in own)
            yield from ((f, a) for a in results for f in own if f != a)
            return
        yield from ((f, None) for f in results if f in partial)
        yield from ((f, a) for f in results for a in partial if f != a)


def _formats(bits: tuple[int, ...], first: FloatFormat, wider: bool = False) -> list[FloatFormat]:
    """The signed named formats with so many significant bits (or at least the fewest of them)."""
    formats = [f for f in named_formats().values() if f.is_signed and f.zero == "both_signs"]
    formats += [f for f in named_formats().values() if f.is_signed and f.zero != "both_signs"]
    least = min(bits, default=0)
    fitting = [
        f
        for f in formats
        if f.mantissa_bits + 1 in bits or (wider and f.mantissa_bits + 1 >= least)
    ]
    return sorted(fitting, key=lambda f: f != first)


def addend_of(runs: tuple[Run, ...], addend: int) -> str:
    """Where C is added, from the trees."""
    places = set()
    for _, _, tree in runs:
        at, rest = tree, tree
        while isinstance(at, tuple) and addend not in at:
            at = next(part for part in at if addend in leaves(part))
        if not isinstance(at, tuple):
            places.add("not found")
        elif at is rest:
            places.add("last" if len(at) == 2 and isinstance(at[0], tuple) else "one of the terms")
        else:
            first = all(isinstance(part, int) for part in at)
            kind = "a term of the first addition" if first else "a term of an inner addition"
            places.add(kind)
    return " or ".join(sorted(places))
