"""A sum, a product or an all-reduce of another library, called with chosen terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core import FloatFormat

KINDS = ("sum", "dot", "matmul", "allreduce")

#: Powers of two beyond these are not given to a callable: fp32's arithmetic would overflow.
SMALLEST, LARGEST = -126, 126


class Called:
    """The callable as a function of its terms; every element of its result is a sum of them.

    Attributes
    ----------
    terms : int
        Terms of each sum; the addend C, if there is one, is the last.
    elements : int
        Numbers in a result: 1 for a sum or a dot product.
    calls : int
        How often the callable was called.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kind: str,
        inputs: FloatFormat,
        n: int,
        workers: int,
        shape: tuple[int, int],
        addend: bool,
    ) -> None:
        self.function, self.kind, self.inputs, self.addend = function, kind, inputs, addend
        self.n, self.rows, self.columns = n, *shape
        self.terms = workers if kind == "allreduce" else n + addend
        self.shape = {"matmul": shape, "allreduce": (n,)}.get(kind, ())
        self.elements = int(np.prod(self.shape))
        self.products = kind in ("dot", "matmul")
        self.calls = 0

    def run(self, operands: tuple[np.ndarray, ...]) -> np.ndarray:
        """The result for some operands, as `elements` float64 numbers. They may be overwritten."""
        self.calls += 1
        try:
            with np.errstate(all="ignore"):
                result = self.function(*(np.array(x, np.float32) for x in operands))
        except Exception as error:
            raise ValueError(f"the callable raised {type(error).__name__}: {error}") from error
        if type(result).__module__.split(".")[0] == "torch":
            result = result.detach().cpu().double().numpy()
        try:
            result = np.asarray(result)
            if result.dtype.kind in "cO":
                raise TypeError
            with np.errstate(all="ignore"):
                numbers = result.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"the callable returned {type(result).__name__} of {result.dtype}; it must return "
                "real numbers"
            ) from None
        if numbers.shape != self.shape and numbers.size != self.elements:
            shapes = ", ".join(str(np.shape(x)) for x in operands)
            raise ValueError(
                f"the callable returned an array of shape {numbers.shape} for operands of shape "
                f"{shapes}; a {self.kind} has shape {self.shape}"
            )
        return numbers.reshape(-1)

    def of(self, terms: dict[int, float]) -> np.ndarray:
        """The sums of these terms, zeros elsewhere; each term is one of the inputs."""
        values = np.zeros(self.terms)
        for index, value in terms.items():
            values[index] = value
        return self.sums(values)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sums of these terms.

        Raises
        ------
        ValueError
            A sum is NaN.
        """
        got = self.run(self.operands(values))
        if np.isnan(got).any():
            shown = ", ".join(f"{values[i]:g} at {i}" for i in np.flatnonzero(values)[:6])
            raise ValueError(f"the callable returned NaN for finite terms: {shown or 'zeros'}")
        return got

    def operands(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Operands whose terms are these values, in every element of the result."""
        if self.kind == "sum":
            return (values,)
        if self.kind == "allreduce":
            return (np.repeat(values[:, None], self.n, axis=1),)
        terms = values[: self.n]
        with np.errstate(divide="ignore"):
            exponent = np.where(terms == 0, 0, np.log2(np.abs(terms)))
        low, high = self.range
        b = 2.0 ** np.where(exponent > high, high, np.where(exponent < low, low, 0))
        a = terms / b
        if self.kind == "matmul":
            a = np.repeat(a[None, :], self.rows, axis=0)
            b = np.repeat(b[:, None], self.columns, axis=1)
        return (a, b, np.full(self.shape, values[-1])) if self.addend else (a, b)

    @property
    def range(self) -> tuple[int, int]:
        """The exponents of the smallest normal and the largest power of two among the inputs."""
        low, high = np.log2(self.inputs.smallest_normal), np.log2(self.inputs.largest)
        return max(int(low), SMALLEST), min(int(np.floor(high)), LARGEST)

    def exponents(self, subnormal: bool) -> tuple[int, int]:
        """The exponents of the smallest and the largest power of two that a term can be."""
        low, high = self.range
        if subnormal:
            low = max(int(np.log2(self.inputs.smallest_positive)), -149)
        if self.products:
            low, high = 2 * low, 2 * high
        return max(low, -149 if subnormal else SMALLEST), min(high, LARGEST)
