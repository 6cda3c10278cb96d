"""The noise of the batch and its uncertainty: docs/definitions.md, section 16."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._arrays.float_environment import guarded
from .intervals import bias_of_log_variance, student_t
from .pooling import groups, quotient

__all__ = ["BySteps", "by_steps", "facts", "noise_of", "pooled_interval", "typical_interval"]


def noise_of(results: Any) -> pd.DataFrame | None:
    """The table of noise of a Results; None for a bare table of rows."""
    return None if isinstance(results, pd.DataFrame) else results.noise


class BySteps(NamedTuple):
    """A column of one trace's table of noise, summed over the layers."""

    steps: np.ndarray  # ascending
    whole: np.ndarray  # a value per step, with all workers
    left: np.ndarray  # (steps, workers): without each


def by_steps(noise: pd.DataFrame, column: str = "sum_noise") -> BySteps:
    """The sums of a column over the layers."""
    whole = noise[noise["without"].isna()]
    of_step = whole.groupby("step", sort=True)[column].sum()
    left = noise[noise["without"].notna()].pivot_table(
        index="step", columns="without", values=column, aggfunc="sum"
    )
    return BySteps(
        of_step.index.to_numpy(),
        of_step.to_numpy(),
        left.reindex(of_step.index).to_numpy() if len(left) else np.empty((len(of_step), 0)),
    )


def _jackknife(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Means, the standard error of their sum and its degrees of freedom, from independent steps."""
    workers = values.shape[1]
    means = values.mean(axis=1)
    variances = (workers - 1) / workers * ((values - means[:, None]) ** 2).sum(axis=1)
    total = variances.sum()
    freedom = (
        total**2 / ((variances**2).sum() / (workers - 1)) if total > 0 else 1.0
    )  # Satterthwaite's
    return means, math.sqrt(total), max(freedom, 1.0)


def typical_interval(noise: pd.DataFrame | None) -> tuple[float, float]:
    """Factors of an ``error_over_noise`` of these rows at both ends of its 95 % interval.

    The error is taken as exact; only the noise, estimated from few workers, is uncertain. The
    jackknife over the workers, per step, gives the spread; the mean log of estimates is below the
    log of the true value, which `bias_of_log_variance` corrects.

    Parameters
    ----------
    noise : DataFrame or None
        Rows of `Results.noise` of one trace.

    Returns
    -------
    tuple of two floats
        NaN for fewer than three workers, or without noise.
    """
    if noise is None or not len(noise):
        return math.nan, math.nan
    whole = noise[noise["without"].isna()]
    blocks, known = (
        whole["noise_blocks"].sum(),
        (whole["noise_blocks"] - whole["lone_blocks"]).sum(),
    )
    logs = by_steps(noise, "sum_log2_ratio").left
    if known == 0 or logs.shape[1] < 3 or np.isnan(logs).any():
        return math.nan, math.nan
    means, error, freedom = _jackknife(logs / blocks)
    share = known / blocks  # share of blocks with an estimated spread
    bias = (
        share * bias_of_log_variance(means.sum() / share * math.log(2), logs.shape[1]) / math.log(2)
    )
    half = student_t(freedom) * error
    return 2.0 ** (bias - half), 2.0 ** (bias + half)


def pooled_interval(noise: BySteps | None, ratios: pd.Series) -> tuple[float, float]:
    """The 95 % interval of a ``pooled_error_over_noise``, by the jackknife over the workers.

    Parameters
    ----------
    noise : BySteps or None
        `by_steps` of one trace.
    ratios : Series
        Squared error divided by noise, by step.

    Returns
    -------
    tuple of two floats
        NaN for fewer than three workers, or without noise.
    """
    if noise is None or not len(noise.steps) or not np.isfinite(ratios).all():
        return math.nan, math.nan
    these = np.isin(noise.steps, ratios.index)
    whole, left = noise.whole[these], noise.left[these]
    workers = left.shape[1]
    if workers < 3 or len(whole) != len(ratios) or not (left > 0).all():
        return math.nan, math.nan
    values = ratios.sort_index().to_numpy()[:, None] * whole[:, None] / left / len(ratios)
    means, error, freedom = _jackknife(values)
    middle, half = workers * ratios.mean() - (workers - 1) * means.sum(), student_t(freedom) * error
    return max(middle - half, 0.0), middle + half


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
    if wrong := [name for name in by if name not in ("trace", "step", "tensor", "role")]:
        raise ValueError(
            f"noise has no column '{wrong[0]}' to group by; use trace, step, tensor or role"
        )
    if not 0 < batch_factor < math.inf:
        raise ValueError(f"batch_factor={batch_factor} is not a positive number, such as 4")
    noise = results.noise.reset_index(drop=True)
    codes, first = groups(noise, by)
    rows = []
    for group, place in enumerate(first):
        part = noise[codes == group]
        whole = part[part["without"].isna()]
        sums = whole.groupby(["trace", "step"], sort=False)[
            ["sum_noise", "sum_squared_reference"]
        ].sum()
        n, squares = (sums[c].to_numpy() for c in ("sum_noise", "sum_squared_reference"))
        signal = squares.sum() - n.sum()
        low, high = (
            typical_interval(part) if whole["trace"].nunique() == 1 else (math.nan, math.nan)
        )
        rows.append(
            {name: noise[name].iloc[place] for name in by}
            | {
                "workers": int(whole["workers"].max()),
                "steps": len(sums),
                "blocks": int(whole["blocks"].sum()),
                "blocks_without_noise": int((whole["blocks"] - whole["noise_blocks"]).sum()),
                "lone_blocks": int(whole["lone_blocks"].sum()),
                "noise_ratio": float(np.nanmean(quotient(n, squares))) / batch_factor
                if (squares > 0).any()
                else math.nan,
                "noise_scale": float(n.sum() / signal) / batch_factor if signal > 0 else math.inf,
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            *by,
            "workers",
            "steps",
            "blocks",
            "blocks_without_noise",
            "lone_blocks",
            "noise_ratio",
            "noise_scale",
            "low",
            "high",
        ],
    )
