"""A matrix unit in NumPy, by the rule that the devices' recordings give."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Unit:
    """D = A B + C in blocks of K consecutive k, which are chained through C.

    Every block aligns its products and C at the largest exponent, cuts each at F bits below it,
    adds exactly and cuts the sum at `result` bits below its own exponent. A product's exponent is
    the sum of its factors'.
    """

    k: int
    fraction: int
    result: int
    addend: str = "term"  # or last: added to the chain's sum in fp32, ties to even
    interleave: bool = False  # k mod 4 in {0, 1} first, then the others

    @property
    def zero(self):
        """A zero term's exponent: of F = 13 as of 24."""
        return -126 + 18 - (24 if self.fraction == 13 else self.fraction)

    def __call__(self, a, b, c=0.0):
        a, b = np.float64(a), np.float64(b)
        n = a.shape[-1]
        step = 2 * self.k if self.interleave else self.k
        c = np.float32(c)
        total = np.zeros(np.broadcast_shapes(np.shape(c), (a[..., :1] * b[..., :1]).shape[:-1]))
        total = total + (0 if self.addend == "last" else np.float64(c))
        for start in range(0, n, step):
            places = np.arange(start, min(start + step, n))
            near = places % 4 < 2
            for block in (places[near], places[~near]) if self.interleave else (places,):
                total = self.block(a[..., block], b[..., block], total)
        with np.errstate(all="ignore"):
            total = np.float32(total)
            return total + c if self.addend == "last" else total

    def block(self, a, b, c):
        products = np.where((a == 0) | (b == 0), self.zero, exponent(a) + exponent(b))
        largest = np.maximum(
            products.max(-1), np.where(c == 0, self.zero, np.maximum(exponent(c), -126))
        )
        step = largest - self.fraction
        with np.errstate(all="ignore"):  # infinities, NaN
            total = np.trunc(np.ldexp(c, -step)) + np.trunc(np.ldexp(a * b, -step[..., None])).sum(
                -1
            )
            own = np.maximum(exponent(total) + step, -126) - self.result
            cut = np.float32(np.ldexp(np.trunc(np.ldexp(total, step - own)), own))
            fits = np.isfinite(a * b).all(-1) & np.isfinite(c)
            return np.where(fits, np.where(total == 0, 0.0, cut), (a * b).sum(-1) + c)


def exponent(x):
    """floor(log2 |x|); of 0 and numbers that are not finite any."""
    return np.frexp(np.where(np.isfinite(x), x, 1))[1] - 1


def matmul(unit):
    """The unit as a function of matrices."""

    def product(a, b, c=0.0):
        return unit(a[:, None, :], b.T[None, :, :], np.broadcast_to(c, (len(a), b.shape[1])))

    return product


#: As in the table of devices: the unit, and the format of its inputs.
H100 = Unit(16, 25, 23)
H100_FP8 = Unit(32, 13, 13)
H100_MMA_FP8 = Unit(16, 25, 23, addend="last", interleave=True)
A100 = Unit(8, 24, 23)
V100 = Unit(4, 23, 23)
