"""What one cast of an array loses: counts and moments of its errors, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._core import FloatFormat
from .checks import settings
from .draws import Draws
from .inputs import _input, _on_gpu, _run, as_format

__all__ = ["cast_statistics"]


def cast_statistics(
    x: Any,
    format: FloatFormat | str,
    *,
    rounding: str = "ties_to_even",
    overflow: str = "ieee",
    seed: int | Draws = 0,
    random_bits: int = 32,
    out: Any = None,
    threads: int = 1,
) -> dict[str, int | float | None]:
    """Round every element to a value of a format and describe the errors.

    One pass over the numbers: the cast and its statistics together cost little more than the cast.
    Scale x beforehand where a scheme would; `apscope.replay` does that for recorded gradients, and
    the result here is the wire row that ``none:FORMAT`` has for one worker.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        float32, or what float32 holds: float16, bfloat16, float8. Not changed. An array in a GPU's memory is
        rounded and described there: `apscope.cuda`.
    format : FloatFormat, str or dtype
        The target, whose values must be float32 numbers.
    rounding, overflow, seed, random_bits, threads
        As for `quantize`; not ``stochastic_exact``.
    out : ndarray or torch.Tensor of float32, x's shape, on x's device, optional
        Takes the rounded values: those of `quantize` with the same arguments.

    Returns
    -------
    dict
        The statistics columns of a result table, by the formulas of docs/definitions.md, section 3:
        ``count``, ``counted`` (pairs of finite x and finite result, which every sum runs over),
        ``nonzero``, ``underflow`` (x that is not 0 and became 0), ``underflow_rate``, ``subnormal``,
        ``saturated``, ``overflow``, ``nan``, ``infinite``, ``bias`` (mean of result - x),
        ``relative_bias``, ``variance``, ``expected_bias`` and ``expected_variance`` (over the draws of
        stochastic rounding), ``mse``, ``nmse``, ``sqnr_db``, ``cosine``, ``rescaled_nmse``, ``max_ulp`` and five sums. None
        where a column has no value: an empty array has no mean, an all-zero one no NMSE.

    Raises
    ------
    ValueError
        Unknown format, rounding or overflow; a format beyond float32; ``stochastic_exact``; a wrong
        shape of `out`; a read-only `out`.
    TypeError
        A dtype that is not a number's, float64 and integers, which float32 may not hold; a wrong `out`
        dtype.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> lost = apscope.cast_statistics(np.float32([1e-4, 0.3, 300.0]), "e4m3")
    >>> lost["underflow"], lost["overflow"], lost["max_ulp"]
    (1, 1, 0.39999961853027344)
    """
    f = as_format(format)
    shared = settings(rounding, overflow, "gradual", seed, random_bits, threads)
    if type(x) is not np.ndarray and _on_gpu(x):
        from . import cuda

        return cuda.cast_statistics(x, f, shared, out)
    a = _input(x)
    if a.dtype != np.float32:
        raise TypeError(f"x has dtype {a.dtype}; statistics are those of float32 numbers, so give x.astype(numpy.float32)")
    rounding, overflow, _, seed, bits, threads = shared
    found: dict[str, int | float | None] = {}

    def call(target: np.ndarray | None) -> None:
        found.update(_core.cast_statistics(a.reshape(-1), target, f, rounding, overflow, seed, bits, threads))

    if out is None:
        call(None)
    else:
        _run(call, x, a.dtype, out, a.shape)
    return found
