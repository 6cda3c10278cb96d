"""Arithmetic in a format: every operation computed exactly and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from .. import _core
from .._core import FloatFormat
from .._docstrings import with_sections
from .inputs import FormatLike, _input, _is_torch, _narrow, _pandas_kind, _run, _widened, as_format
from .options import Options, UnderflowOptions

ARITHMETIC = Options(UnderflowOptions)


def _operand(x: Any, what: str) -> np.ndarray:
    """A contiguous array of the operand's values: float32 if it can hold them, else float64."""
    a = _input(x, what)
    if a.dtype == np.float32:
        return a
    narrow = _narrow(a)
    # By their bits: a comparison of numbers would treat subnormals as zeros if the caller flushes
    # them.
    same = _widened(narrow).view(np.uint64) == a.view(np.uint64)
    return narrow if (same | np.isnan(a)).all() else a


def _same_storage(arrays: list[np.ndarray], *formats: FloatFormat | None) -> list[np.ndarray]:
    """float32 arrays if operands and formats fit; else float64, with the exact path."""
    if all(a.dtype == np.float32 for a in arrays) and all(
        f is None or f.fits_fp32 for f in formats
    ):
        return arrays
    return [_widened(np.ascontiguousarray(a)) if a.dtype == np.float32 else a for a in arrays]


def _stored(f: FloatFormat) -> np.dtype:
    return np.dtype(np.float32 if f.fits_fp32 else np.float64)


def _write_result(
    compute: Callable[[np.ndarray], None],
    dtype: np.dtype,
    f: FloatFormat,
    like: Any,
    shape: tuple[int, ...],
    out: Any,
) -> Any:
    """compute(flat result) in the operands' dtype, then the format's; an operand may be `out`."""
    computed = np.empty(shape, dtype)
    compute(computed.reshape(-1))
    result = _narrow(computed) if dtype == np.float64 and f.fits_fp32 else computed

    def write(target: np.ndarray) -> None:
        target[...] = result.reshape(-1)

    return _run(write, like, _stored(f), out, shape)


def _like_one_of(operands: tuple[Any, ...]) -> Any:
    """The operand that decides the kind of the result: tensor, DataFrame, Series, array or number.

    Raises
    ------
    ValueError
        Two Series, or two DataFrames, with different labels: operations go by position, never by
        label.
    """
    labelled = [x for x in operands if _pandas_kind(x)]
    for x in labelled[1:]:
        if _pandas_kind(x) == _pandas_kind(labelled[0]) and not all(
            a.equals(b) for a, b in zip(x.axes, labelled[0].axes)
        ):
            raise ValueError(
                f"the operands are {_pandas_kind(x)}s with different labels; align them first: a, "
                "b = a.align(b)"
            )
    kinds = (
        _is_torch,
        lambda x: _pandas_kind(x) == "DataFrame",
        lambda x: _pandas_kind(x) == "Series",
        lambda x: isinstance(x, (np.ndarray, np.generic)),
        lambda x: not isinstance(x, (int, float)),
    )
    for is_kind in kinds:
        for x in operands:
            if is_kind(x):
                return x
    return operands[0]


def _shape_of_all(arrays: dict[str, np.ndarray]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{what} has shape {a.shape}" for what, a in arrays.items())
        raise ValueError(f"{shapes}: they do not broadcast together") from None


def _elementwise(
    operation: str,
    operands: dict[str, Any],
    format: FormatLike,
    out: Any,
    options: UnderflowOptions,
) -> Any:
    f, s = as_format(format), ARITHMETIC.settings(options)
    arrays = {what: _operand(x, what) for what, x in operands.items()}
    shape = _shape_of_all(arrays)
    # A single number is kept as it is, everything else is broadcast in full.
    flat = [
        a.reshape(1) if a.size == 1 else np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1)
        for a in arrays.values()
    ]
    flat = _same_storage(flat, f)
    flat += [np.empty(0, flat[0].dtype)] * (3 - len(flat))
    first, second, third = flat

    def compute(result: np.ndarray) -> None:
        _core.arithmetic(operation, first, second, third, result, f, *s)

    like = _like_one_of(tuple(operands.values()))
    return _write_result(compute, first.dtype, f, like, shape, out)


@ARITHMETIC
def add(
    a: Any, b: Any, format: FormatLike, *, out: Any = None, **options: Unpack[UnderflowOptions]
) -> Any:
    """a + b, computed exactly and rounded once to a format.

    Parameters
    ----------
    a, b : array_like or torch.Tensor of shapes that broadcast as in NumPy
        Floats of any width, and integers. They need not be values of `format`. Float64 operands
        that are not float32 values, and formats beyond float32, use a slower exact path (see
        `plan`). Not changed.
    format : FloatFormat, str or dtype
        The result's format.
    out : array or tensor, optional
        Written instead of a new array: the result's shape and dtype; an operand is allowed.
    **options
        Not ``stochastic_exact``, which is for casts only. The overflow rule concerns exact
        infinities too: in a format without infinity ``1 / 0`` is NaN, or the largest value if the
        format has no NaN or the rule is ``saturate`` or ``propagate``. With ``flush_input``
        operands below the smallest normal number of `format` count as zeros. Element ``i`` of the
        result (in C order) uses random word ``i``.

    Returns
    -------
    array or tensor of the broadcast shape
        float32 if the format's values are float32 numbers (``format.fits_fp32``), else float64. A
        tensor if an operand is one; a number if all are. Every element is a value of `format`, an
        infinity or NaN.

    Notes
    -----
    NaN, infinities and signs of zero follow IEEE 754: inf - inf is NaN; an exact zero sum of
    numbers of different sign is +0, or -0 with ``toward_negative``; a zero has no sign in a format
    with only one zero.

    Raises
    ------
    ValueError
        Shapes that do not broadcast; an unknown format, rounding, overflow or underflow; a wrong
        `out` shape; a read-only `out`.
    TypeError
        A dtype that is not a number's; a wrong `out` dtype.

    Examples
    --------
    >>> import apscope
    >>> apscope.add(1.0, 2.0**-60, "bf16", rounding="toward_positive")
    1.0078125
    """
    return _elementwise("add", {"a": a, "b": b}, format, out, options)


#: Docstring sections of every operation except `add`.
_as_add = with_sections("""
Parameters
----------
{operands}
    As for `add`, and `format` and `out` too.
**options

Returns
-------
array or tensor of the broadcast shape
    As `add`.

Raises
------
ValueError, TypeError
    As `add`.
""")


@ARITHMETIC
@_as_add
def subtract(
    a: Any, b: Any, format: FormatLike, *, out: Any = None, **options: Unpack[UnderflowOptions]
) -> Any:
    """a - b, computed exactly and rounded once to a format.

    Signs of zero, infinities and NaN are those of `add`.

    Examples
    --------
    >>> import apscope
    >>> apscope.subtract(1.0, 0.015625, "e4m3")
    1.0
    """
    return _elementwise("subtract", {"a": a, "b": b}, format, out, options)


@ARITHMETIC
@_as_add
def multiply(
    a: Any, b: Any, format: FormatLike, *, out: Any = None, **options: Unpack[UnderflowOptions]
) -> Any:
    """a * b, computed exactly and rounded once to a format.

    0 * inf is NaN.

    Examples
    --------
    >>> import apscope
    >>> apscope.multiply(1.125, 1.125, "e4m3")
    1.25
    """
    return _elementwise("multiply", {"a": a, "b": b}, format, out, options)


@ARITHMETIC
@_as_add
def divide(
    a: Any, b: Any, format: FormatLike, *, out: Any = None, **options: Unpack[UnderflowOptions]
) -> Any:
    """a / b, computed exactly and rounded once to a format.

    As in IEEE 754, 0 / 0 and inf / inf are NaN
    and x / 0 is an infinity with the sign of the quotient, to which `overflow` applies as to any
    infinity. (In P3109 x / 0 is NaN.)

    Examples
    --------
    >>> import apscope
    >>> apscope.divide(1.0, 3.0, "e4m3")
    0.34375
    """
    return _elementwise("divide", {"a": a, "b": b}, format, out, options)


@ARITHMETIC
@_as_add
def sqrt(
    a: Any, format: FormatLike, *, out: Any = None, **options: Unpack[UnderflowOptions]
) -> Any:
    """The square root, computed exactly and rounded once to a format.

    The root of -0 is -0, of other negative numbers NaN.

    Examples
    --------
    >>> import apscope
    >>> apscope.sqrt(2.0, "e4m3")
    1.375
    """
    return _elementwise("sqrt", {"a": a}, format, out, options)


@ARITHMETIC
@_as_add
def fma(
    a: Any,
    b: Any,
    c: Any,
    format: FormatLike,
    *,
    out: Any = None,
    **options: Unpack[UnderflowOptions],
) -> Any:
    """a * b + c, computed exactly and rounded once to a format.

    Signs of zero, infinities and NaN are those of `add`.

    Examples
    --------
    >>> import apscope
    >>> apscope.fma(1.125, 1.125, -1.25, "e4m3")
    0.015625
    """
    return _elementwise("fma", {"a": a, "b": b, "c": c}, format, out, options)
