"""Logarithms of the errors of steps, and factors between them: docs/definitions.md, section 17."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._core import LEAST_OBSERVATIONS, student_t
from .pooling import coded, compared_rows
from .summary import by_scheme

__all__ = ["factor", "step_logs"]


def step_logs(frame: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    """By (trace, scheme): log2 of every step's error, in units of the noise if it is known."""
    rows, found = by_scheme(compared_rows(coded(frame.reset_index(drop=True))), "step")
    figures, first = found["figures"], found["first"]
    noise = figures["error_over_noise"]
    with np.errstate(divide="ignore"):
        logs = np.log2(np.where(np.isnan(noise), figures["step_nmse"], noise))
    of = pd.DataFrame(
        {name: rows.cells(name, first) for name in ("trace", "scheme", "step")} | {"log2": logs}
    ).astype({"step": np.int64})
    return {
        pair: part.set_index("step")["log2"].dropna()
        for pair, part in of.groupby(["trace", "scheme"], sort=False)
    }


def factor(coarse: pd.Series, fine: pd.Series) -> tuple[float, float, float]:
    """The error of the coarser rung divided by the finer one's, and its interval over the steps.

    NaN for the interval of fewer than four steps.
    """
    with np.errstate(invalid="ignore"):
        logs = (coarse - fine).dropna().to_numpy()
    if not len(logs):
        return np.nan, np.nan, np.nan
    middle = logs.mean()
    half = (
        student_t(len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        if len(logs) >= LEAST_OBSERVATIONS and np.isfinite(logs).all()
        else np.nan
    )
    return float(np.exp2(middle)), float(np.exp2(middle - half)), float(np.exp2(middle + half))
