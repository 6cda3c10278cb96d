"""Workers' arrays summed as a low-precision all-reduce does."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from .. import _core
from .checks import text, workers_first
from .inputs import FormatLike, _input, _like, _narrow, _on_gpu, as_format
from .options import Options, RoundingOptions

__all__ = ["allreduce"]

ALLREDUCE = Options(RoundingOptions)


@ALLREDUCE
def allreduce(
    x: Any,
    format: FormatLike,
    *,
    topology: str = "sequential",
    accumulate: FormatLike | None = None,
    hop_rounding: str | None = None,
    input_cast: bool = True,
    **options: Unpack[RoundingOptions],
) -> Any:
    """Sum workers' arrays as a low-precision all-reduce does, one rounding an addition.

    Parameters
    ----------
    x : array_like or torch.Tensor of float32, shape (workers, ...)
        One array a worker. Not changed.
    format : FloatFormat, str or dtype
        What inputs and partial sums are rounded to.
    topology : str
        ``exact`` (fp64 sum of the rounded inputs, not rounded), ``sequential``, ``ring``,
        ``tree``, ``hierarchical:G``, ``sequential+kahan``, ``hierarchical:G+kahan``: the order of
        the additions, docs/definitions.md section 1.
    accumulate : FloatFormat, str or dtype, optional
        What partial sums are rounded to, if not `format`.
    hop_rounding : str, optional
        How partial sums are rounded, if not as the inputs.
    input_cast : bool
        Round the inputs to `format` first. Without, they enter as they are.
    **options
        Inputs draw by worker, sums by addition.

    Returns
    -------
    array or tensor of shape x.shape[1:]
        The sum (not the mean): float32, float64 for ``exact``.

    Raises
    ------
    ValueError
        No worker, or a vector, which says of no value whose it is; an unknown topology; +kahan where no accumulator keeps a compensation.
    TypeError
        A dtype other than float32 and narrower floats.
    """
    f, s = as_format(format), ALLREDUCE.settings(options)
    hops = None if hop_rounding is None else _core.rounding_word(text("hop_rounding", hop_rounding))
    if _on_gpu(x):
        from . import gpu

        accumulator = None if accumulate is None else as_format(accumulate)
        return gpu.allreduce(x, f, _core.parse_topology(text("topology", topology)), s, accumulator, hops, bool(input_cast))
    a = _input(x)
    if a.dtype != np.float32:
        raise TypeError(f"x has dtype {a.dtype}; allreduce takes float32")
    shape = workers_first(a.shape)
    result = np.empty(shape, np.float64)
    _core.allreduce(
        a.reshape(a.shape[0], -1),
        result.reshape(-1),
        f,
        text("topology", topology),
        s.rounding,
        s.overflow,
        None if accumulate is None else as_format(accumulate),
        hops,
        bool(input_cast),
        *s[3:6],
    )
    exact = _core.parse_topology(topology) == "exact"
    return _like(x, result if exact else _narrow(result))
