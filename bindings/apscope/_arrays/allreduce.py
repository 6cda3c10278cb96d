"""Workers' arrays summed as a low-precision all-reduce does."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from .. import _core
from .checks import text, workers_first
from .inputs import FormatLike, _input, _like, _narrow, _on_gpu, as_format
from .options import Options, RoundingOptions

ALLREDUCE = Options(RoundingOptions)


@ALLREDUCE
def allreduce(
    x: Any,
    format: FormatLike,
    *,
    topology: str = "ring",
    accumulate: FormatLike | None = None,
    hop_rounding: str | None = None,
    input_cast: bool = True,
    **options: Unpack[RoundingOptions],
) -> Any:
    """Sum workers' arrays as a low-precision all-reduce does, one rounding per addition.

    Parameters
    ----------
    x : array_like or torch.Tensor of float32, shape (workers, ...)
        One array per worker. Not changed.
    format : FloatFormat, str or dtype
        Format of inputs and partial sums.
    topology : str
        The order of the additions: ``sequential``, ``sequential+kahan``, ``ring``, ``tree``,
        ``hierarchical:G`` and all others of docs/definitions.md, section 1; or ``exact``, the fp64
        sum of the rounded inputs, not rounded. ``fp32_accumulate``, ``pat`` and ``nccl:...`` round
        some sums to another format than the accumulator, ``nccl:...`` and ``torch:...`` as those
        libraries do, whatever `hop_rounding` and the overflow are; a GPU's arrays are refused for
        these. With ``,channels=N`` the chunks of ``nccl:ring`` and ``nccl:tree`` are NCCL's.
    accumulate : FloatFormat, str or dtype, optional
        Format of partial sums, if not `format`.
    hop_rounding : str, optional
        Rounding of partial sums, if not that of the inputs.
    input_cast : bool
        Round the inputs to `format` first. If false, they are added unrounded.
    **options
        Random words depend on the worker for inputs, and on the addition for sums.

    Returns
    -------
    array or tensor of shape x.shape[1:]
        The sum (not the mean): float32, float64 for ``exact``.

    Raises
    ------
    ValueError
        No worker; a vector, which has no axis of workers; an unknown topology; +kahan for a
        topology without an accumulator to compensate.
    TypeError
        A dtype other than float32 and narrower floats.
    """
    f, s = as_format(format), ALLREDUCE.settings(options)
    hops = None if hop_rounding is None else _core.rounding_word(text("hop_rounding", hop_rounding))
    if _on_gpu(x):
        from . import gpu

        accumulator = None if accumulate is None else as_format(accumulate)
        return gpu.allreduce(
            x,
            f,
            _core.parse_topology(text("topology", topology)),
            s,
            accumulator,
            hops,
            bool(input_cast),
        )
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
        None if accumulate is None else as_format(accumulate),
        hops,
        bool(input_cast),
        *s,
    )
    exact = _core.parse_topology(topology) == "exact"
    return _like(x, result if exact else _narrow(result))
