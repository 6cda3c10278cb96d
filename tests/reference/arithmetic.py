"""Arithmetic of fp32 numbers in exact integers: the result of one operation in a format, quickly.

Exact results are Python integers of units of 2^-1074 (see casts.py). Sums and products of fp32
numbers are such integers; quotients and roots are cut to one and, if anything was cut off, made
odd, which no format's rounding can tell from the exact number: its values, their middles and the
probabilities of 64 random bits all lie on much coarser grids.
"""

import math
from collections.abc import Callable

import numpy as np

from .casts import UNIT, Rounding, flushed, project
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


def numbers_of(x: np.ndarray) -> np.ndarray:
    exact = np.empty(x.shape, object)
    exact[...] = [units(v) for v in x.tolist()]
    return exact
