"""Sums, dot products and matrix products with a stated order and one rounding an operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._core import FloatFormat
from .arithmetic import _like_one_of, _operand
from .arrays import _run, as_format
from .checks import settings

__all__ = ["dot", "matmul", "sum"]


def _optional_format(format: FloatFormat | str | None) -> FloatFormat | None:
    return None if format is None else as_format(format)


def _write_result(compute, like: Any, shape: tuple[int, ...], out: Any) -> Any:
    """compute(flat result) through a temporary, since an operand may be `out`."""
    result = np.empty(shape, np.float32)
    compute(result.reshape(-1))

    def write(target: np.ndarray) -> None:
        target[...] = result.reshape(-1)

    return _run(write, like, np.dtype(np.float32), out, shape)


def _terms_first(a: np.ndarray, axis: int, what: str) -> np.ndarray:
    """The array with the summed axis in front, in C order."""
    if not -a.ndim <= axis < a.ndim:
        raise ValueError(f"axis={axis} is none of {what}'s, whose shape is {a.shape}")
    return np.ascontiguousarray(np.moveaxis(a, axis, 0))


def sum(
    x: Any,
    format: FloatFormat | str,
    *,
    axis: int | None = None,
    order: str = "sequential",
    accumulate: FloatFormat | str | None = None,
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    seed: int = 0,
    random_bits: int = 32,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The sum of terms in a stated order, every addition rounded once.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        float32, or narrower floats and integers; float64 only if every value is a float32 value.
        Terms enter as they are: quantize them first for terms of a format. Not changed.
    format : FloatFormat or str
        The result's format.
    axis : int, optional
        The axis summed over; all elements in C order without it.
    order : str
        With round() a rounding into the accumulator: ``sequential``, s = round(t0), then
        s = round(s + t) for every further term; ``pairwise``, neighbours are added, then the sums'
        neighbours, an odd last one passing up; ``chunked:N``, chunks of N consecutive terms
        sequentially, then their sums sequentially; ``kahan``, y = round(t - e),
        u = round(s + y), e = round(round(u - s) - y), s = u from s = round(t0), e = 0;
        ``exact``, the exact sum rounded once, the same for every order of the terms.
    accumulate : FloatFormat or str, optional
        The accumulator's format, if not `format`; the final sum is then rounded to `format`.
    rounding, overflow
        Of every rounding, as for `quantize`.
    seed, random_bits : int
        As for `quantize`; docs/definitions.md section 10 says which rounding draws which word.
    out : array or tensor, optional
        Written instead of a new array: float32, of the result's shape.
    threads : int
        0 takes all of the machine's. Their number never changes a bit.

    Returns
    -------
    float32 array or tensor of x's shape without `axis`; of shape () if all is summed
        Every element is a value of `format`, an infinity or NaN. A sum of no terms is that of +0.

    Raises
    ------
    ValueError
        An unknown order, format or rounding; an axis that x has not; ``order="exact"`` with
        `accumulate`; a float64 value that is no float32 value.
    TypeError
        A dtype that is not a number's.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> x = np.full(100, 1.0, np.float32)
    >>> float(apscope.sum(x, "e4m3")), float(apscope.sum(x, "e4m3", order="pairwise"))
    (16.0, 96.0)
    >>> float(apscope.sum(x, "e4m3", order="exact"))
    96.0
    """
    f, accumulator = as_format(format), _optional_format(accumulate)
    a = _operand(x, "x")
    terms = a.reshape(-1) if axis is None else _terms_first(a, axis, "x")

    def compute(result: np.ndarray) -> None:
        _core.ordered_sum(
            terms.reshape(-1), terms.shape[0], result, f, order, accumulator, *settings(rounding, overflow, seed, random_bits, threads)
        )

    return _write_result(compute, x, terms.shape[1:], out)


def dot(
    a: Any,
    b: Any,
    format: FloatFormat | str,
    *,
    axis: int = -1,
    order: str = "sequential",
    product: FloatFormat | str | None = None,
    accumulate: FloatFormat | str | None = None,
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    seed: int = 0,
    random_bits: int = 32,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The sum of a * b over an axis, every operation rounded once.

    Parameters
    ----------
    a, b : array_like or torch.Tensor of the same shape
        As x for `sum`.
    axis : int
        The axis summed over.
    product : FloatFormat or str, optional
        What every product is rounded to. Without it products are exact, and each step of
        ``sequential`` is a fused multiply-add.
    format, order, accumulate, rounding, overflow, seed, random_bits, out, threads
        As for `sum`.

    Returns
    -------
    float32 array or tensor of the shape without `axis`
        As `sum`.

    Raises
    ------
    ValueError, TypeError
        As `sum`; different shapes.

    Examples
    --------
    >>> import apscope
    >>> float(apscope.dot([1.125, 1.125], [1.125, -1.125], "e4m3", product="e4m3"))
    0.0
    """
    f, accumulator, products = as_format(format), _optional_format(accumulate), _optional_format(product)
    x, y = _operand(a, "a"), _operand(b, "b")
    if x.shape != y.shape:
        raise ValueError(f"a has shape {x.shape}, b {y.shape}; they must agree")
    x, y = _terms_first(x, axis, "a"), _terms_first(y, axis, "b")

    def compute(result: np.ndarray) -> None:
        _core.ordered_dot(
            x.reshape(-1), y.reshape(-1), x.shape[0], result, f, order, accumulator, products, *settings(rounding, overflow, seed, random_bits, threads),
        )

    return _write_result(compute, _like_one_of((a, b)), x.shape[1:], out)


def matmul(
    a: Any,
    b: Any,
    format: FloatFormat | str,
    *,
    order: str = "sequential",
    product: FloatFormat | str | None = None,
    accumulate: FloatFormat | str | None = None,
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    seed: int = 0,
    random_bits: int = 32,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The matrix product, every multiplication and addition rounded once.

    Parameters
    ----------
    a : array_like or torch.Tensor of shape (m, k) or (k,)
    b : array_like or torch.Tensor of shape (k, n) or (k,)
        As x for `sum`; a vector is one row of `a`, one column of `b`.
    format, order, product, accumulate, rounding, overflow, seed, random_bits, out, threads
        As for `dot`.

    Returns
    -------
    float32 array or tensor of shape (m, n), without m or n where an operand is a vector
        As `sum`.

    Raises
    ------
    ValueError, TypeError
        As `dot`; an operand with another number of axes; k that disagree.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> apscope.matmul(np.float32([[1, 0.0625]]), np.float32([[16], [8]]), "e4m3")
    array([[16.]], dtype=float32)
    """
    f, accumulator, products = as_format(format), _optional_format(accumulate), _optional_format(product)
    x, y = _operand(a, "a"), _operand(b, "b")
    for operand, what in ((x, "a"), (y, "b")):
        if operand.ndim not in (1, 2):
            raise ValueError(f"{what} has shape {operand.shape}; matmul takes vectors and matrices")
    shape = x.shape[:-1] + y.shape[1:]
    if x.shape[-1] != y.shape[0]:
        raise ValueError(f"a has shape {x.shape}, b {y.shape}; a's last axis must be as long as b's first")
    rows = x.shape[0] if x.ndim == 2 else 1

    def compute(result: np.ndarray) -> None:
        _core.ordered_matmul(
            x.reshape(-1), y.reshape(-1), rows, result, f, order, accumulator, products, *settings(rounding, overflow, seed, random_bits, threads),
        )

    return _write_result(compute, _like_one_of((a, b)), shape, out)
