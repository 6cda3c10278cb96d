"""The noise of the batch and its uncertainty, computed by the core: docs/definitions.md, section 16."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.checks import number
from .._arrays.float_environment import guarded
from .codes import coded_of
from .row_table import objects, rows_of

_OF_ZERO_LAYERS = (
    "trace", "tensor", "step", "stage", "skipped", "count", "overflow", "sum_squared_reference",
    "sum_noise",
)  # fmt: skip


def noise_of(results: Any) -> _core.NoiseTable:
    """The table of noise of a Results; without rows for a bare table of rows."""
    if isinstance(results, pd.DataFrame):
        return _core.NoiseTable({}, np.zeros(0, np.int64))
    return noise_table(results.noise)


def noise_table(noise: pd.DataFrame) -> _core.NoiseTable:
    """Rows of `Results.noise` for the core."""
    without = noise["without"].to_numpy(np.int64, na_value=-1)
    return _core.NoiseTable(coded_of(noise, list(noise.columns)), without)


def check_batch_factor(batch_factor: float) -> None:
    """Refuses a factor that is not positive and finite."""
    if not 0 < number("batch_factor", batch_factor) < math.inf:
        raise ValueError(f"batch_factor={batch_factor} is not a positive number, such as 4")


def printed_error(row: Any) -> tuple[float, float, float]:
    """The error over noise of a row of a summary as it is printed, and its 95 % interval.

    The corrected one, which lies in its interval; without an interval the one with the noise as
    estimated, and NaN.
    """
    corrected, low, high = (
        float(getattr(row, f"error_over_noise_{end}")) for end in ("corrected", "low", "high")
    )
    return (float(row.error_over_noise) if math.isnan(low) else corrected), low, high


def zero_layers(results: Any) -> dict[str, list[str]]:
    """Trace -> its layers whose gradients are numerically zero; only traces that have some.

    From the rows of a Results or its table, as a summary omits them; docs/definitions.md, section
    14.
    """
    rows = rows_of(results, _OF_ZERO_LAYERS)
    zero = np.flatnonzero(rows.core.rows_of_zero_layers())
    layers_of: dict[str, list[str]] = {}
    for trace, layer in dict.fromkeys(zip(rows.cells("trace", zero), rows.cells("tensor", zero))):
        layers_of.setdefault(trace, []).append(layer)
    return layers_of


@guarded
def facts(
    results: Any, by: str | Sequence[str] = ("trace",), batch_factor: float = 1.0
) -> pd.DataFrame:
    """The noise of the batch of a trace, its steps or layers, independent of schemes.

    Parameters
    ----------
    results : Results
    by : str or sequence of str
        Of trace, step, tensor, role.
    batch_factor : float
        The noise of a batch larger than the recorded one by this factor.

    Returns
    -------
    DataFrame
        One row per group, in order of appearance: the columns of `by`, then

        - ``workers``, ``steps``;
        - ``blocks``, ``blocks_without_noise``, ``lone_blocks``: of 32 elements, over all layers and
          steps: all, those in which no worker differs, and those in which only one worker adds
          noise, which have no interval;
        - ``noise_ratio``: the mean over the steps of the noise divided by the squared gradient of
          the step;
        - ``noise_scale``: the gradient noise scale in batches (of all workers together): the sum
          over the steps of the noise divided by that of the squared gradient minus the noise
          (McCandlish et al., arXiv:1812.06162). ``inf`` if the noise is larger.
        - ``low``, ``high``: factors of an error over the noise of the group at the ends of its 95 %
          interval.

        Empty if a trace has one worker, or gradients that are not local.

    Raises
    ------
    ValueError
        No such column; `batch_factor` is not a positive number.
    """
    by = [by] if isinstance(by, str) else list(by)
    check_batch_factor(batch_factor)
    noise = results.noise
    first, figures = noise_table(noise).facts(by, batch_factor)
    names = {name: noise[name].to_numpy()[first] for name in by}
    return pd.DataFrame(
        {name: objects(n) if n.dtype == object else n for name, n in names.items()} | figures
    )
