"""Errors of steps, and factors between two schemes': docs/definitions.md, section 17."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._core import LEAST_OBSERVATIONS, student_t
from .pooling import coded, compared_rows
from .ranking import RANKS
from .summary import by_scheme


def step_errors(frame: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    """By (trace, scheme): the figure that ranks, of every step; infinite with overflow."""
    rows, summary = by_scheme(compared_rows(coded(frame.reset_index(drop=True))), "step")
    figures, first = summary["figures"], summary["first"]
    error = np.where(figures["overflowed"] > 0, np.inf, figures[RANKS])
    of = pd.DataFrame(
        {name: rows.cells(name, first) for name in ("trace", "scheme", "step")} | {"error": error}
    ).astype({"step": np.int64})
    return {
        pair: part.set_index("step")["error"].dropna()
        for pair, part in of.groupby(["trace", "scheme"], sort=False)
    }


def factor(coarse: pd.Series, fine: pd.Series) -> tuple[float, float, float]:
    """The error of the coarser rung divided by the finer one's, and its interval over the steps.

    The quotient of the means over the steps that both have. The ends are the quotient times and by
    exp(T s), s the relative standard error of a quotient of means, T Student's quantile at 0.975;
    NaN for fewer than four steps.
    """
    both = pd.concat([coarse, fine], axis=1, join="inner").to_numpy(float)
    if not len(both):
        return np.nan, np.nan, np.nan
    a, b = both.T
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = float(a.mean() / b.mean())
    steps = len(both)
    if steps < LEAST_OBSERVATIONS or not (np.isfinite(middle) and middle > 0):
        return middle, np.nan, np.nan
    spread = np.sqrt(steps / (steps - 1) * ((a - middle * b) ** 2).sum()) / a.sum()
    half = np.exp(student_t(steps - 1) * spread)
    return middle, middle / half, middle * half
