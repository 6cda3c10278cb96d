"""The errors of one cast of an array: counts and moments, in one pass."""

from __future__ import annotations

import dataclasses
from typing import Any, Unpack

import numpy as np

from .. import _core
from .inputs import FormatLike, _input, _on_gpu, _run, as_format
from .options import Options, RoundingOptions

CAST_STATISTICS = Options(RoundingOptions)


@dataclasses.dataclass(frozen=True, repr=False)
class CastStatistics:
    """The statistics columns of one cast, by the formulas of docs/definitions.md, section 3.

    ``print`` shows every column with its share, notebooks a table, ``repr`` a line. A column
    without a value is None: an empty array has no mean, an all-zero one no NMSE.
    """

    count: int  #: elements
    counted: int  #: pairs of finite x and finite result; every sum is over them
    nonzero: int  #: x that is not 0
    underflow: int  #: x that is not 0 and became 0
    underflow_rate: float | None  #: of `nonzero`
    subnormal: int  #: finite x, not 0, below the format's smallest normal number
    saturated: int  #: finite x above the largest value that became it
    overflow: int  #: finite x that became infinite or NaN
    nan: int  #: NaN in x
    infinite: int  #: infinities in x
    bias: float | None  #: mean of result - x
    relative_bias: float | None  #: sum of sign(x) (result - x) over the sum of abs(x)
    variance: float | None  #: mse - bias^2; infinite with overflow, as are mse and nmse
    expected_bias: float | None  #: mean of E[result] - x, over the draws of stochastic rounding
    expected_variance: float | None  #: mean of Var[result]
    mse: float | None  #: mean of (result - x)^2
    nmse: float | None  #: sum of (result - x)^2 over the sum of x^2
    sqnr_db: float | None  #: -10 log10 nmse; -infinity with overflow
    cosine: float | None  #: of the angle between result and x; 0 with overflow
    rescaled_nmse: float | None  #: the minimum over factors on the result; 1 with overflow
    max_ulp: float | None  #: the largest error, in units of the result's last place
    sum_error: float | None  #: of result - x
    sum_squared_error: float | None
    sum_squared_reference: float | None  #: of x^2
    sum_signed_error: float | None  #: of sign(x) (result - x)
    sum_absolute_reference: float | None  #: of abs(x)

    def to_dict(self) -> dict[str, int | float | None]:
        """Column -> value, as in a row of a table."""
        return dataclasses.asdict(self)

    def __repr__(self) -> str:
        from .show import statistics_line

        return statistics_line(self)

    def __str__(self) -> str:
        from .show import statistics_text

        return statistics_text(self)

    def _repr_html_(self) -> str:
        from .show import statistics_html

        return statistics_html(self)


@CAST_STATISTICS
def cast_statistics(
    x: Any, format: FormatLike, *, out: Any = None, **options: Unpack[RoundingOptions]
) -> CastStatistics:
    """Round every element to a value of a format and describe the errors.

    ``underflow_rate`` is the share of nonzero values that became 0: gradients are often smaller
    than a format's smallest number, and `quantize` gives zeros without a warning. Scale x
    beforehand if a scheme would; the counts of ``x * S`` are those of
    ``quantize(x, format, scale=S)``, and `apscope.replay` scales recorded gradients. One pass over
    the numbers; docs/performance.md compares its time with that of a cast. The result here
    equals the wire row of ``none:FORMAT`` for one worker.

    Parameters
    ----------
    x : array_like or torch.Tensor, any shape
        float32 or narrower: float16, bfloat16, float8. Not changed. An array in a GPU's memory is
        rounded and described there: `apscope.cuda`.
    format : FloatFormat, str or dtype
        The target, whose values must be float32 numbers.
    out : ndarray or torch.Tensor of float32, x's shape, on x's device, optional
        Receives the rounded values: those of `quantize` with the same arguments.
    **options
        Not ``stochastic_exact``.

    Returns
    -------
    CastStatistics

    Raises
    ------
    ValueError
        Unknown format, rounding or overflow; a format beyond float32; ``stochastic_exact``; a wrong
        shape of `out`; a read-only `out`.
    TypeError
        A dtype that is not a number's; float64 and integers, which may exceed float32; a wrong
        `out` dtype.

    Examples
    --------
    >>> import numpy as np, apscope
    >>> lost = apscope.cast_statistics(np.float32([1e-4, 0.3, 300.0]), "e4m3")
    >>> lost.underflow, lost.overflow, lost.max_ulp
    (1, 1, 0.39999961853027344)
    >>> small = np.float32([1e-5, -3e-6, 0.0, 0.25])
    >>> apscope.cast_statistics(small, "e4m3").underflow_rate   # 2 of 3 nonzero values
    0.6666666666666666
    >>> apscope.cast_statistics(small * np.float32(2**8), "e4m3").underflow_rate
    0.3333333333333333
    """
    f, s = as_format(format), CAST_STATISTICS.settings(options)
    if type(x) is not np.ndarray and _on_gpu(x):
        from . import gpu

        return _named(gpu.cast_statistics(x, f, s, out))
    a = _input(x)
    if a.dtype != np.float32:
        raise TypeError(
            f"x has dtype {a.dtype}; statistics need float32 numbers; give x.astype(numpy.float32)"
        )
    columns: dict[str, int | float | None] = {}

    def call(target: np.ndarray | None) -> None:
        columns.update(_core.cast_statistics(a.reshape(-1), target, f, *s))

    if out is None:
        call(None)
    else:
        _run(call, x, a.dtype, out, a.shape)
    return _named(columns)


def _named(columns: dict[str, Any]) -> CastStatistics:
    return CastStatistics(**{f.name: columns[f.name] for f in dataclasses.fields(CastStatistics)})
