"""The emulator's path for a request, and why its results are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from .. import _core
from .checks import shown, text
from .inputs import FormatLike, as_format
from .options import CastOptions, Options

PLAN = Options(CastOptions, without=("seed", "threads"))

OPERATIONS = ("add", "subtract", "multiply", "divide", "sqrt", "fma")
SUMS = ("sum", "dot", "matmul")

# Path -> (computation, proof). Casts describe themselves.
_PRODUCT = (
    "a product is exact in fp32, or below half the format's smallest number, which ties to "
    "even make a zero either way"
)
_TWICE = (
    "24 bits are at least 2p + 1, or the sum is exact: rounding to them and then to the format is "
    f"rounding once (Figueroa, 1995; Flocq, round_round_plus_FLT); {_PRODUCT}"
)
_ARITHMETIC = {
    "fp32": (
        "the fp32 sum, rounded to odd, or the fp32 product wherever the factors are numbers of the "
        "format (elsewhere fp64's), then one rounding in registers",
        "a sum rounded to odd with two bits more than the target, then rounded, is rounded once "
        f"(Boldo and Melquiond, IEEE TC 57(4), 2008); {_PRODUCT}",
    ),
    "exact": (
        "the fp64 result, which is exact, then one rounding",
        "a product of two fp32 numbers has at most 48 bits and an exponent far inside fp64's",
    ),
    "odd": (
        "the fp64 result rounded to odd, then one rounding",
        "rounding to odd with two bits more than the target (N + 2 for stochastic rounding with N "
        "bits), then rounding, is rounding once (Boldo and Melquiond, IEEE TC 57(4), 2008)",
    ),
    "wide": (
        "128-bit integers with a sticky bit, then one rounding",
        "the last bit says whether anything was cut off, and it lies more than N + 2 bits below "
        "the target's last one",
    ),
}
_SUMS = {
    "fp32": ("fp32 products and sums, each rounded in registers", _TWICE),
    "fp64": (
        "fp64 products and sums, each rounded in registers",
        "products of fp32 numbers are exact in fp64, and so are these sums, or they round twice "
        "safely (53 bits are at least 2p + 1; Figueroa, 1995)",
    ),
    "fp64_odd": (
        "exact fp64 products and fp64 sums rounded to odd, each then rounded in registers",
        _ARITHMETIC["odd"][1],
    ),
    "general": (
        "rows of fp64 numbers, each product and sum on the path that it has by itself; exact sums "
        "in integers of hundreds of bits",
        "every operation is exact, or rounded to odd, before its one rounding",
    ),
    "unit": (
        "a matrix unit's rule in int64, or, for operands of at most 24 bits in a product and "
        "exponents from -100 to 100, in fp32 and int32",
        "a product and its multiple by a power of two are exact in fp32, and the conversion to "
        "int32 is the rule's truncation",
    ),
}


@dataclass(frozen=True)
class Plan:
    """The result of `plan`: an operation's path. `apscope.Plan`, a scheme per layer, is another.

    Attributes
    ----------
    operation, format : str
        The request; the format's canonical name.
    storage : str
        ``float32`` or ``float64``: the dtype of the results.
    path : str
        ``addition``, ``split``, ``scaled``, ``rule``, ``stochastic`` or ``digits`` for casts;
        ``fp32``, ``exact``, ``odd`` or ``wide`` for arithmetic; ``fp32``, ``fp64``, ``fp64_odd`` or
        ``general`` for sums.
    how : str
        The computation.
    reason : str
        Why its result is the exact result rounded once.
    simd : str
        The vector instructions in use.
    """

    operation: str
    format: str
    storage: str
    path: str
    how: str
    reason: str
    simd: str

    def __str__(self) -> str:
        return (
            f"{self.operation} to {self.format}, in {self.storage}: {self.how} ({self.path}, "
            f"{self.simd}).\nRight because {self.reason}."
        )


@PLAN
def plan(
    operation: str,
    format: FormatLike,
    *,
    dtype: Any = "float32",
    order: str = "sequential",
    product: FormatLike | None = None,
    accumulate: FormatLike | None = None,
    operands: FormatLike | None = None,
    **options: Unpack[CastOptions],
) -> Plan:
    """Describe the path of an operation and why it is exact.

    Has nothing to do with `apscope.Plan`, a scheme for every layer, which `recommend` makes.

    Parameters
    ----------
    operation : str
        ``quantize``, ``encode``, ``add``, ``subtract``, ``multiply``, ``divide``, ``sqrt``,
        ``fma``, ``sum``, ``dot`` or ``matmul``.
    format : FloatFormat, str or dtype
        The format of the result.
    dtype : dtype
        Of the input, or of the operands: float32 or float64.
    order, product, accumulate
        As for `matmul`; for sums, dot and matrix products only.
    operands : FloatFormat, str or dtype, optional
        For these: the format of the operands' values. Without it they are any numbers of `dtype`.
        Sums inspect the actual numbers, and may find even fewer bits.
    **options

    Returns
    -------
    Plan
        Printed, it is two sentences. The code chooses its path with the same function.

    Raises
    ------
    ValueError
        An unknown operation, format, order or rounding; a dtype other than these two.
    TypeError
        An argument of a wrong kind.

    Examples
    --------
    >>> import apscope
    >>> apscope.plan("quantize", "e4m3").path, apscope.plan("quantize", "bf16").path
    ('addition', 'split')
    >>> apscope.plan("fma", "bf16").path, apscope.plan("fma", "fp64", dtype="float64").path
    ('odd', 'wide')
    >>> apscope.plan("matmul", "fp16", product="e4m3", operands="e4m3").path, apscope.plan("matmul", "fp16").path
    ('fp32', 'fp64_odd')
    """
    f, order = as_format(format), text("order", order)
    try:
        dtype = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"dtype={shown(dtype)} is not a dtype; give float32 or float64") from None
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype} is neither float32 nor float64")
    wide_input = dtype == np.float64
    s = PLAN.settings(options)
    if text("operation", operation) in ("quantize", "encode"):
        in_float64 = wide_input or not f.fits_fp32
        path, how, reason = _core.cast_plan(f, s.projection, in_float64)
    elif operation in OPERATIONS:
        in_float64 = not f.fits_fp32
        path = _core.arithmetic_path(operation, f, s.projection, not wide_input)
        how, reason = _ARITHMETIC[path]
    elif operation in SUMS:
        sums, products, values = (
            None if g is None else as_format(g)
            for g in (accumulate, product if operation != "sum" else None, operands)
        )
        in_float64 = not f.fits_fp32
        path = _core.sum_path(operation != "sum", f, order, sums, products, values, s.projection)
        if wide_input or not all(g is None or g.fits_fp32 for g in (f, sums, products, values)):
            path = "general"
        if order.startswith("unit:"):
            path = "unit"
        how, reason = _SUMS[path]
    else:
        raise ValueError(
            f"unknown operation {operation!r}; use quantize, encode, {', '.join(OPERATIONS + SUMS)}"
        )
    return Plan(
        operation,
        f.name,
        "float64" if in_float64 else "float32",
        path,
        how,
        reason,
        _core.simd_level(),
    )
