"""Arithmetic of any fp64 numbers in exact fractions: the result of one operation, or of a sum in a
stated order, in a format.

An exact result is a Fraction that is not zero, or else a float: an infinity, NaN, or a zero, which
has a sign. Only roots may be irrational: such a root is replaced by a fraction between the same two
multiples of 2^-800, of which nothing that a rounding compares with lies strictly between.
"""

import functools
import math
from fractions import Fraction

from .casts import Rounding
from .random_words import QUANTIZE, REDUCE, WIRE, random_integers, words_of
from .rounding import Format, Random, project, project_magnitude

Exact = Fraction | float
Term = Exact | tuple[float, float]  #: a number, or two factors whose product enters exactly

ROOT_DIGITS = 800


def exact(x: float) -> Exact:
    return Fraction(x) if math.isfinite(x) and x != 0 else x


def sign_of(x: Exact) -> float:
    return math.copysign(1.0, x) if isinstance(x, float) else 1.0 if x > 0 else -1.0


def total(x: Exact, y: Exact, mode: str) -> Exact:
    cancelled = -0.0 if mode == "toward_negative" else 0.0  # IEEE 754-2019, 6.3
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x + y or cancelled
    if x == 0 and y == 0:
        return x if sign_of(x) == sign_of(y) else cancelled
    if x == 0:
        return y
    if y == 0 or isinstance(y, Fraction):
        return x
    return y if isinstance(x, Fraction) else x + y  # infinities and NaN


def product(x: Exact, y: Exact) -> Exact:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x * y
    if any(isinstance(v, float) and math.isnan(v) for v in (x, y)):
        return math.nan
    infinite = any(isinstance(v, float) and math.isinf(v) for v in (x, y))
    if infinite and (x == 0 or y == 0):
        return math.nan
    return sign_of(x) * sign_of(y) * (math.inf if infinite else 0.0)


def quotient(x: Exact, y: Exact) -> Exact:
    if isinstance(y, Fraction):
        return product(x, 1 / y)
    if math.isnan(y):
        return math.nan
    inverse = math.copysign(math.inf if y == 0 else 0.0, y)
    return product(x, inverse)  # 0 / 0 and inf / inf as 0 * inf


def root(x: Exact) -> Exact:
    if not isinstance(x, Fraction):
        return math.nan if x < 0 else x
    if x < 0:
        return math.nan
    square = x * 4**ROOT_DIGITS
    below = math.isqrt(math.floor(square))
    return Fraction(2 * below + (below * below != square), 2 * 2**ROOT_DIGITS)


def apply(op: str, mode: str, a: Exact, b: Exact, c: Exact) -> Exact:
    match op:
        case "add":
            return total(a, b, mode)
        case "subtract":
            return total(a, -b, mode)
        case "multiply":
            return product(a, b)
        case "divide":
            return quotient(a, b)
        case "sqrt":
            return root(a)
    return total(product(a, b), c, mode)


def flushed(x: float, f: Format, r: Rounding) -> float:
    """An operand below the smallest normal number, where those count as zeros."""
    return math.copysign(0.0, x) if r.flushes_input and abs(x) < f.smallest_normal else x


def rounded(x: Exact, f: Format, r: Rounding, word: int | None) -> float:
    random = None if word is None else Random(word, r.bits)
    if isinstance(x, Fraction):
        return project_magnitude(abs(x), x < 0, f, r.mode, r.overflow, random, r.underflow)
    return project(x, f, r.mode, r.overflow, random, r.underflow)


def operate(
    op: str, operands: list[float], f: Format, r: Rounding, word: int | None = None
) -> float:
    """round(a op b op c)."""
    a, b, c = ([exact(flushed(x, f, r)) for x in operands] + [0.0, 0.0])[:3]
    return rounded(apply(op, r.mode, a, b, c), f, r, word)


@functools.cache
def _word(seed: int, element: int, bits: int, stage: int, hop: int) -> int:
    return random_integers(words_of(seed), [element], bits, stage, hop=hop)[0]


class OrderedSum:
    """One element of a sum's result: terms in, a number out."""

    def __init__(
        self,
        f: Format,
        r: Rounding,
        seed: int,
        element: int,
        products: Format | None = None,
        result: Format | None = None,
    ):
        self.f, self.r, self.seed, self.element, self.products, self.result, self.hop = (
            f,
            r,
            seed,
            element,
            products,
            result,
            0,
        )

    def word(self, stage: int, hop: int) -> int | None:
        r = self.r
        return _word(self.seed, self.element, r.bits, stage, hop) if r.is_stochastic else None

    def number(self, term: Term) -> Exact:
        """A term as an operation of the accumulator takes it."""
        if isinstance(term, tuple):
            return product(*(exact(flushed(x, self.f, self.r)) for x in term))
        return exact(flushed(term, self.f, self.r)) if isinstance(term, float) else term

    def round(self, x: Exact) -> float:
        self.hop += 1
        return rounded(x, self.f, self.r, self.word(REDUCE, self.hop - 1))

    def add(self, x: Term, y: Term, negated: bool = False) -> float:
        y = self.number(y)
        return self.round(total(self.number(x), -y if negated else y, self.r.mode))

    def sequential(self, terms: list[Term]) -> float:
        s = self.round(self.number(terms[0]))
        for t in terms[1:]:
            s = self.add(s, t)
        return s

    def chunked(self, terms: list[Term], size: int) -> float:
        s = self.sequential(terms[:size])
        for i in range(size, len(terms), size):
            s = self.add(s, self.sequential(terms[i : i + size]))
        return s

    def pairwise(self, terms: list[Term]) -> float:
        if len(terms) == 1:
            return self.round(self.number(terms[0]))
        return self.half(terms)

    def half(self, terms: list[Term]) -> Term:
        """As wide a power of two of terms as leaves some for the right, so that pairs are added
        once complete."""
        if len(terms) == 1:
            return terms[0]
        middle = 1 << (len(terms) - 1).bit_length() - 1
        left = self.half(terms[:middle])
        return self.add(left, self.half(terms[middle:]))

    def kahan(self, terms: list[Term]) -> float:
        s, e = self.round(self.number(terms[0])), 0.0
        for t in terms[1:]:
            y = self.add(t, e, negated=True)
            u = self.add(s, y)
            e = self.add(self.add(u, s, negated=True), y, negated=True)
            s = u
        return s

    def exact(self, terms: list[Term]) -> float:
        numbers = [self.number(t) for t in terms]
        special = [x for x in numbers if isinstance(x, float) and not math.isfinite(x)]
        if special:
            return self.round(sum(special))
        whole = sum((x for x in numbers if isinstance(x, Fraction)), Fraction(0))
        zeros = {math.copysign(1.0, x) if isinstance(x, float) else 0.0 for x in numbers}
        minus = zeros == {-1.0} or (self.r.mode == "toward_negative" and not zeros <= {1.0})
        return self.round(whole or (-0.0 if minus else 0.0))

    def run(self, terms: list[Term], order: str) -> float:
        if self.products is not None:
            f, r = self.products, self.r
            terms = [
                operate("multiply", list(t), f, r, self.word(WIRE, k)) for k, t in enumerate(terms)
            ]
        name, _, size = order.partition(":")
        s = getattr(self, name)(terms, *([int(size)] if size else [])) if terms else self.round(0.0)
        if self.result is None:
            return s
        return rounded(
            exact(flushed(s, self.result, self.r)), self.result, self.r, self.word(QUANTIZE, 0)
        )
