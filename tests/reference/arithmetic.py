"""Arithmetic in exact integers: the result of one operation, a sum or a dot product in a format.

Exact results are Python integers of units of 2^-1074 (see casts.py). Sums and products of fp32
numbers are such integers; quotients and roots are cut to one and, if anything was cut off, made
odd, which no format's rounding can tell from the exact number: its values, their middles and the
probabilities of 64 random bits all lie on much coarser grids.
"""

import math
from collections.abc import Callable

import numpy as np

from .casts import UNIT, Rounding, flushed, project
from .random_words import QUANTIZE, REDUCE, WIRE, random_integers, words_of
from .rounding import Format

ONE = 1 << UNIT


def units(x: float) -> int:
    """An fp32 number in units; 0 for those that are not finite."""
    if not math.isfinite(x):
        return 0
    numerator, denominator = x.as_integer_ratio()
    return numerator * ONE // denominator


def of_product(a: float, b: float) -> int:
    return units(a) * units(b) >> UNIT  # exact: a multiple of 2^-298


def of_quotient(a: float, b: float) -> int:
    a, b = units(a), units(b)
    if b == 0:
        return 0
    quotient, rest = divmod(abs(a) << UNIT, abs(b))
    return (quotient | (rest != 0)) * (-1 if (a < 0) != (b < 0) else 1)


def of_root(a: float) -> int:
    square = max(units(a), 0) << UNIT
    root = math.isqrt(square)
    return root | (root * root != square)


def special(op: str, a: float, b: float, c: float, mode: str) -> float:
    """Results that are not finite, and the sign of zeros: IEEE 754-2019, 6 and 7."""
    if op == "sqrt":
        return a if math.isnan(a) or a == 0 else math.nan if a < 0 else a
    if op == "subtract":
        return special("add", a, -b, 0.0, mode)
    if op == "divide":
        if b == 0 and a != 0 and not math.isnan(a):
            return math.copysign(math.inf, a) * math.copysign(1.0, b)
        return math.nan if b == 0 else a / b
    first, second = (a, b) if op == "add" else (a * b, c)
    if op == "multiply":
        return first
    if first == -second:  # infinities too
        opposite = math.copysign(1.0, first) != math.copysign(1.0, second)
        if math.isinf(first):
            return math.nan
        return (-0.0 if mode == "toward_negative" else 0.0) if opposite else first
    return first + second


EXACT: dict[str, Callable[[float, float, float], int]] = {
    "add": lambda a, b, c: units(a) + units(b),
    "subtract": lambda a, b, c: units(a) - units(b),
    "multiply": lambda a, b, c: of_product(a, b),
    "divide": lambda a, b, c: of_quotient(a, b),
    "sqrt": lambda a, b, c: of_root(a),
    "fma": lambda a, b, c: of_product(a, b) + units(c),
}


def operate(
    op: str, a, b, c, f: Format, r: Rounding, random: list[int] | None = None
) -> np.ndarray:
    """round(a op b op c), element by element; operands that `op` does not take are ignored."""
    operands = [np.broadcast_to(np.asarray(x, np.float64), np.shape(a)).ravel() for x in (a, b, c)]
    a, b, c = (flushed(numbers_of(x), x, f, r)[1].tolist() for x in operands)
    exact = np.empty(len(a), object)
    exact[:] = [EXACT[op](*abc) for abc in zip(a, b, c)]
    rough = np.array([special(op, *abc, r.mode) for abc in zip(a, b, c)], np.float64)
    return project(exact, rough, f, r, random)


class Sums:
    """Sums of terms, a term being (exact integers, rough numbers) of all outputs: see `project`."""

    def __init__(
        self,
        f: Format,
        r: Rounding,
        seed: int = 0,
        product: Format | None = None,
        result: Format | None = None,
    ):
        self.f, self.r, self.seed, self.product, self.result, self.hop = (
            f,
            r,
            seed,
            product,
            result,
            0,
        )

    def project(self, term, f: Format, stage: int, hop: int):
        exact, rough = term
        random = None
        if self.r.is_stochastic:
            random = random_integers(
                words_of(self.seed), np.arange(len(rough)), self.r.drawn_bits, stage, hop=hop
            )
        rounded = project(exact, rough, f, self.r, random)
        return as_term(rounded)

    def round(self, term):
        self.hop += 1
        return self.project(term, self.f, REDUCE, self.hop - 1)

    def add(self, x, y, op: str = "add"):
        sign = -1 if op == "subtract" else 1
        rough = np.array(
            [special(op, a, b, 0.0, self.r.mode) for a, b in zip(x[1].tolist(), y[1].tolist())],
            np.float64,
        )
        return x[0] + sign * y[0], rough

    def sequential(self, terms):
        total = self.round(terms[0])
        for term in terms[1:]:
            total = self.round(self.add(total, term))
        return total

    def pairwise(self, terms):
        """A pair is added as soon as it is complete: the left half, the right half, then both."""
        if len(terms) == 1:
            return terms[0]
        half = 1 << (len(terms) - 1).bit_length() - 1
        left = self.pairwise(terms[:half])
        return self.round(self.add(left, self.pairwise(terms[half:])))

    def chunked(self, terms, size: int):
        total = self.sequential(terms[:size])
        for begin in range(size, len(terms), size):
            total = self.round(self.add(total, self.sequential(terms[begin : begin + size])))
        return total

    def kahan(self, terms):
        total, error = self.round(terms[0]), as_term(np.zeros(len(terms[0][1])))
        for term in terms[1:]:
            y = self.round(self.add(term, error, "subtract"))
            following = self.round(self.add(total, y))
            error = self.round(self.add(following, total, "subtract"))
            error = self.round(self.add(error, y, "subtract"))
            total = following
        return total

    def exact(self, terms):
        rough = []
        total = terms[0][0] * 0
        for term in terms:
            total = total + term[0]
        for i, exact in enumerate(total):
            numbers = [float(term[1][i]) for term in terms]
            # 0 for what is not zero.
            signs = {math.copysign(1.0, x) if x == 0 else 0.0 for x in numbers}
            minus = signs == {-1.0} or (self.r.mode == "toward_negative" and signs != {1.0})
            zero = -0.0 if minus else 0.0
            special = [x for x in numbers if not math.isfinite(x)]
            rough.append(sum(special) if special else 1.0 if exact else zero)
        return self.round((total, np.array(rough)))

    def run(self, terms, order: str) -> np.ndarray:
        if self.product is not None:
            terms = [self.project(t, self.product, WIRE, k) for k, t in enumerate(terms)]
        name, _, size = order.partition(":")
        total = getattr(self, name)(terms, *([int(size)] if size else []))
        if name == "pairwise" and len(terms) == 1:
            total = self.round(total)
        return total[1] if self.result is None else self.project(total, self.result, QUANTIZE, 0)[1]


def numbers_of(x: np.ndarray) -> np.ndarray:
    exact = np.empty(x.shape, object)
    exact[...] = [units(v) for v in x.tolist()]
    return exact


def as_term(x) -> tuple[np.ndarray, np.ndarray]:
    x = np.asarray(x, np.float64)
    return numbers_of(x), x


def product_term(a, b) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.asarray(x, np.float64) for x in (a, b))
    exact = np.empty(a.shape, object)
    exact[...] = [of_product(x, y) for x, y in zip(a.tolist(), b.tolist())]
    with np.errstate(invalid="ignore"):
        return exact, a * b  # fp64 holds it
