"""An all-reduce in a format: one rounding per addition, and the moments of the random ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .casts import Rounding, cast, exact, flushed, moments, project
from .random_words import REDUCE, WIRE, random_integers, words_of
from .rounding import Format
from .topologies import rank_order_sum, reduce


class Adder:
    """Rounds exact sums of two values to a format, and keeps the moments of what it drew."""

    def __init__(self, f: Format, r: Rounding, key: tuple[int, int], n: int):
        self.f, self.r, self.key = f, r, key
        self.bias, self.variance, self.risky = [Fraction(0)] * n, [Fraction(0)] * n, False

    def of(self, f: Format, r: Rounding) -> Adder:
        """To another format; draws and moments go to the same place."""
        other = Adder(f, r, self.key, 0)
        other.bias, other.variance = self.bias, self.variance
        return other

    def alone(self, a: np.ndarray, hop: int, elements: np.ndarray) -> np.ndarray:
        """A value rounded by itself: it, and a zero of its sign."""
        return self(a, np.copysign(0.0, a), hop, elements)

    def all(self, values: np.ndarray) -> np.ndarray:
        """The exact sum of all values, rounded once."""
        whole = np.array([exact(v) for v in values]).sum(axis=0)
        signs = np.where(np.isfinite(values), np.sign(values), values).sum(axis=0)
        negative = np.signbit(values).all(axis=0) | (whole < 0).astype(bool)
        zero = np.where(negative, -0.0, 0.0)
        rough = np.where(np.isfinite(values).all(axis=0), zero, signs)
        return project(whole, rough, self.f, self.r)

    def __call__(self, a: np.ndarray, b: np.ndarray, hop: int, elements: np.ndarray) -> np.ndarray:
        (exact_a, a), (exact_b, b) = (flushed(exact(x), x, self.f, self.r) for x in (a, b))
        rough = a + b
        if self.r.mode == "toward_negative":  # IEEE 754-2019, 6.3: x - x is -0 in this direction
            rough = np.where((rough == 0) & (np.signbit(a) | np.signbit(b)), -0.0, rough)
        whole = np.where(np.isfinite(rough), exact_a + exact_b, 0)
        random = None
        if self.r.is_stochastic:
            random = random_integers(self.key, elements, self.r.drawn_bits, REDUCE, hop=hop)
        result = project(whole, rough, self.f, self.r, random)
        if self.r.is_stochastic:
            bias, variance, risky = moments(whole, result, self.f, self.r)
            self.risky |= risky
            for i, b_i, v_i in zip(elements.tolist(), bias, variance):
                self.bias[i] += b_i
                self.variance[i] += v_i
        return result


@np.errstate(all="ignore")
def allreduce(
    x: np.ndarray,
    f: Format,
    topology: str = "sequential",
    rounding: Rounding = Rounding(),
    accumulate: Format | None = None,
    hop_mode: str | None = None,
    input_cast: bool = True,
    seed: int = 0,
) -> np.ndarray:
    """x: (W, n) fp32. What `apscope.allreduce` must give, in fp64."""
    workers, n = x.shape
    values, key = x.astype(np.float64), words_of(seed)
    if input_cast:
        for worker in range(workers):
            random = random_integers(key, np.arange(n), rounding.drawn_bits, WIRE, worker)
            values[worker] = cast(values[worker], f, rounding, random)
    if topology == "exact":
        return rank_order_sum(values)
    hops = rounding.with_mode(hop_mode or rounding.mode)
    return reduce(values, topology, Adder(accumulate or f, hops, key, n))
