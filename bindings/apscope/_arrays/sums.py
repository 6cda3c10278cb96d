"""Sums, dot products and matrix products with a stated order and one rounding per operation."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from .. import _core
from .._core import FloatFormat
from .arithmetic import _like_one_of, _operand, _same_storage, _write_result
from .checks import integer, text
from .inputs import FormatLike, _on_gpu, as_format
from .options import Options, UnderflowOptions

SUMS = Options(UnderflowOptions)


def _optional_format(format: FormatLike | None) -> FloatFormat | None:
    return None if format is None else as_format(format)


def _terms_first(a: np.ndarray, axis: int, what: str) -> np.ndarray:
    """The array with the summed axis in front, in C order."""
    axis = integer("axis", axis, -(2**31), 2**31 - 1)
    if not -a.ndim <= axis < a.ndim:
        raise ValueError(f"axis={axis} does not exist in {what}, whose shape is {a.shape}")
    return np.ascontiguousarray(np.moveaxis(a, axis, 0))


def _addend(c: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The flat c of a product of this shape; without c, empty."""
    if c is None:
        return np.empty(0, np.float32)
    a = _operand(c, "c")
    if a.shape != shape:
        raise ValueError(f"c has shape {a.shape}; it must have the result's, {shape}")
    return a.reshape(-1)


def _scaled_terms(order: str) -> int:
    """Consecutive terms of an operand that share a scale, of a matrix unit's order; else 0."""
    return _core.matrix_unit_order(order)[3] if order.startswith("unit:") else 0


def _scales(
    scales: Any, order: str, left: np.ndarray, right: np.ndarray, batch: tuple[int, ...]
) -> list[np.ndarray]:
    """The flat scales of both operands of a product, (..., m, k) and (..., k, n); without, empty."""
    size = _scaled_terms(order)
    if scales is None:
        if size:
            raise ValueError(
                f"order={order} needs scales=(of a, of b), one for {size} terms of either"
            )
        return [np.empty(0, np.float32)] * 2
    if not size:
        orders = [f"unit:{unit['name']}" for unit in _core.matrix_units() if unit["scales"]]
        raise ValueError(
            f"order={order} takes no scales, as {', '.join(orders)} do; multiply the operands by them"
        )
    if not isinstance(scales, (tuple, list)) or len(scales) != 2:
        raise ValueError(f"scales must be two arrays, those of a and those of b, not {scales!r}")
    pieces = -(-left.shape[-1] // size)
    shapes = (*left.shape[:-1], pieces), (*right.shape[:-2], pieces, right.shape[-1])
    flat = []
    for given, shape, what in zip(scales, shapes, "ab", strict=True):
        array = _operand(given, f"the scales of {what}")
        of_vector = shape[1:] if what == "a" else shape[:1]
        if array.shape != shape and not (1 in shape and array.shape == of_vector):
            raise ValueError(
                f"the scales of {what} have shape {array.shape}; they must have {shape}, one for "
                f"{size} terms"
            )
        flat.append(np.broadcast_to(array.reshape(shape), batch + shape[-2:]).reshape(-1))
    return flat


@SUMS
def sum(
    x: Any,
    format: FormatLike,
    *,
    axis: int | None = None,
    order: str = "sequential",
    accumulate: FormatLike | None = None,
    out: Any = None,
    **options: Unpack[UnderflowOptions],
) -> Any:
    """The sum of terms in a stated order, every addition rounded once.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        Floats of any width, and integers. Terms are added unrounded: quantize them first for terms
        of a format. Float64 values that are not float32 values, and formats beyond float32, use a
        slower exact path. Not changed.
    format : FloatFormat, str or dtype
        The result's format.
    axis : int, optional
        The axis to sum over; by default all elements in C order.
    order : str
        With round() a rounding into the accumulator: ``sequential``, s = round(t0), then
        s = round(s + t) for every further term; ``pairwise``, neighbours are added, then
        neighbouring sums, an odd last one passes to the next level; ``chunked:N``, chunks of N
        consecutive terms sequentially, then their sums sequentially; ``kahan``, y = round(t - e), u
        = round(s + y), e = round(round(u - s) - y), s = u from s = round(t0), e = 0; ``exact``, the
        exact sum rounded once, the same for every order of the terms.
    accumulate : FloatFormat, str or dtype, optional
        The accumulator's format, if not `format`; the final sum is then rounded to `format`.
    out : array or tensor, optional
        Written instead of a new array: the result's shape and dtype.
    **options
        For every rounding, as for `add`; docs/definitions.md, section 10, defines the random words.

    Returns
    -------
    array or tensor of x's shape without `axis`; of shape () if all is summed
        float32 if the format's values are float32 numbers (``format.fits_fp32``), else float64.
        Every element is a value of `format`, an infinity or NaN. A sum of no terms is +0, rounded.

    Raises
    ------
    ValueError
        An unknown order, format or rounding; an axis that x does not have; ``order="exact"`` with
        `accumulate`.
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
    f, accumulator, s = as_format(format), _optional_format(accumulate), SUMS.settings(options)
    order = text("order", order)
    a = _operand(x, "x")
    terms = a.reshape(-1) if axis is None else _terms_first(a, axis, "x")
    (terms,) = _same_storage([terms], f, accumulator)

    def compute(result: np.ndarray) -> None:
        _core.ordered_sum(terms.reshape(-1), terms.shape[0], result, f, order, accumulator, *s)

    return _write_result(compute, terms.dtype, f, x, terms.shape[1:], out)


@SUMS
def dot(
    a: Any,
    b: Any,
    format: FormatLike,
    *,
    axis: int = -1,
    order: str = "sequential",
    product: FormatLike | None = None,
    accumulate: FormatLike | None = None,
    c: Any = None,
    out: Any = None,
    **options: Unpack[UnderflowOptions],
) -> Any:
    """The sum of a * b over an axis, every operation rounded once.

    Parameters
    ----------
    a, b : array_like or torch.Tensor of the same shape
        As x for `sum`.
    axis : int
        The axis to sum over.
    product : FloatFormat, str or dtype, optional
        Format of every product. Without it products are exact, and each step of ``sequential`` is a
        fused multiply-add; ``pairwise``, which adds two products, then accepts only float32 values
        and no flushed input.
    order : str
        As for `sum`, or ``unit:NAME``: as the matrix unit of a device adds the products and c
        (`units` lists the names, docs/definitions.md, section 10, has the rule). ``promote=N``
        after a comma adds chains of N terms in fp32, ``split=S`` S chains,
        ``k=16,fraction=25,result=23`` instead of a name is a unit of your own.
        ``inputs=e5m2*e4m3fn`` states the formats of a and b, because a subnormal number has an
        exponent of its format; by default each has the first of the unit's formats of which all
        its numbers are values. It needs the format of its results, operands of its formats, the default projection, and neither `product` nor
        `accumulate`. A NaN has the bits 0x7FFFFFFF.
    c : array_like or torch.Tensor of the result's shape, optional
        Added to the products by an order ``unit:...``, as its rule says; by default +0. Rounded to
        fp16, ties to even, by a unit with fp16 results.
    format, accumulate, out
        As for `sum`.
    **options
        Of every rounding, as for `sum`.

    Returns
    -------
    array or tensor of the shape without `axis`
        As `sum`.

    Raises
    ------
    ValueError, TypeError
        As `sum`; different shapes; with ``unit:...``, another format than its results', an operand
        with a number that is not a value of its formats; c with another order.

    Examples
    --------
    >>> import apscope
    >>> float(apscope.dot([1.125, 1.125], [1.125, -1.125], "e4m3", product="e4m3"))
    0.0
    """
    f, s, order = as_format(format), SUMS.settings(options), text("order", order)
    accumulator, products = map(_optional_format, (accumulate, product))
    x, y = _operand(a, "a"), _operand(b, "b")
    if _scaled_terms(order):
        raise ValueError(f"order={order} takes operands with scales; use matmul")
    if x.shape != y.shape:
        raise ValueError(f"a has shape {x.shape}, b {y.shape}; they must agree")
    first = _terms_first(x, axis, "a")
    x, y, addend = _same_storage(
        [first, _terms_first(y, axis, "b"), _addend(c, first.shape[1:])], f, accumulator, products
    )

    def compute(result: np.ndarray) -> None:
        _core.ordered_dot(
            x.reshape(-1), y.reshape(-1), 1, x.shape[0], result, f, order, accumulator, products,
            *s, addend,
        )  # fmt: skip

    return _write_result(compute, x.dtype, f, _like_one_of((a, b)), x.shape[1:], out)


@SUMS
def matmul(
    a: Any,
    b: Any,
    format: FormatLike,
    *,
    order: str = "sequential",
    product: FormatLike | None = None,
    accumulate: FormatLike | None = None,
    c: Any = None,
    scales: tuple[Any, Any] | None = None,
    out: Any = None,
    **options: Unpack[UnderflowOptions],
) -> Any:
    """The matrix product, every multiplication and addition rounded once.

    Parameters
    ----------
    a : array_like or torch.Tensor of shape (..., m, k) or (k,)
    b : array_like or torch.Tensor of shape (..., k, n) or (k,)
        As x for `sum`; a vector is one row of `a`, one column of `b`. Leading axes broadcast, as in
        ``numpy.matmul``.
    format, order, product, accumulate, c, out
        As for `dot`.
    scales : pair of array_like or torch.Tensor, optional
        The scales of a, (..., m, pieces), and of b, (..., pieces, n), which orders of operands with
        scales need (``scales`` and ``scaled`` of `units`): a piece is ``scaled`` consecutive terms.
        Positive values or zeros of the scales' format, or NaN, which makes results NaN.
    **options
        Of every rounding, as for `sum`.

    Returns
    -------
    array or tensor of shape (..., m, n), without m or n if an operand is a vector
        As `sum`.

    Raises
    ------
    ValueError, TypeError
        As `dot`; a number as an operand; k or leading axes that disagree; scales that are missing,
        of another shape, or not values of their format; scales on a GPU.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> apscope.matmul(np.float32([[1, 0.0625]]), np.float32([[16], [8]]), "e4m3")
    array([[16.]], dtype=float32)
    """
    f, s, order = as_format(format), SUMS.settings(options), text("order", order)
    accumulator, products = map(_optional_format, (accumulate, product))
    if _on_gpu(a) or _on_gpu(b):
        from . import gpu

        if scales is not None:
            raise ValueError("scales are not supported on a GPU; give arrays on the CPU")
        return gpu.matmul(a, b, f, order, products, accumulator, c, s, out)
    x, y = _operand(a, "a"), _operand(b, "b")
    for operand, what in ((x, "a"), (y, "b")):
        if operand.ndim == 0:
            raise ValueError(f"{what} is a number; matmul takes vectors and matrices")
    if x.shape[-1] != y.shape[0 if y.ndim == 1 else -2]:
        raise ValueError(
            f"a has shape {x.shape}, b {y.shape}; a's last axis must be as long as b's first of "
            "its last two"
        )
    rows, columns = x.shape[-2:-1], y.shape[-1:] if y.ndim > 1 else ()
    left, right = (x if x.ndim > 1 else x[None, :]), (y if y.ndim > 1 else y[:, None])
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(
            f"a has shape {x.shape}, b {y.shape}; their leading axes do not broadcast together"
        ) from None
    parts = [
        np.ascontiguousarray(np.broadcast_to(part, batch + part.shape[-2:]))
        for part in (left, right)
    ]
    parts += [_addend(c, batch + rows + columns), *_scales(scales, order, left, right, batch)]
    left, right, addend, *of_both = _same_storage(parts, f, accumulator, products)

    def compute(result: np.ndarray) -> None:
        _core.ordered_matmul(
            left.reshape(-1), right.reshape(-1), int(np.prod(batch)), left.shape[-2], result, f,
            order, accumulator, products, *s, addend, *of_both,
        )  # fmt: skip

    return _write_result(compute, left.dtype, f, _like_one_of((a, b)), batch + rows + columns, out)
