"""The numbers of charts that notebooks and the page have in common.

The page selects rows by its filters and by clicks, so it computes them itself: page/fill.js has the
same functions, and tests/python/report/test_page_charts.py compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from .. import _core

__all__ = ["additions", "bias", "shares", "step_front"]


def shares(exponents: pd.Series, counts: pd.Series) -> pd.Series:
    """Exponents, ascending, and their shares of all counts."""
    sums = counts.groupby(exponents.to_numpy()).sum()
    return sums / sums.sum()


def bias(pooled: pd.DataFrame) -> pd.DataFrame:
    """The relative bias of rows of `pool`, and its band of two standard errors: y, low, high.

    The band takes the elements' errors as independent. With overflow there is none. A skipped step
    is a gap: its -1 would hide the others.
    """
    absolute = pooled["sum_absolute_reference"].where(pooled["sum_absolute_reference"] > 0)
    signed = pooled["sum_signed_error"]
    square = (pooled["sum_squared_error"] - signed**2 / pooled["counted"]).clip(lower=0.0)
    half = (2.0 * np.sqrt(square) / absolute).where(pooled["overflow"] == 0)
    y = (signed / absolute).where(pooled["skipped_steps"] == 0)
    return pd.DataFrame({"y": y, "low": y - half, "high": y + half})


def additions(pooled: pd.DataFrame, by: str) -> pd.DataFrame:
    """The error that the additions of every order add to that of the exact sum.

    Two phases and hierarchies of levels are left out: they send other messages.

    Parameters
    ----------
    pooled : DataFrame
        Of `pool` by the column `by` and ``topology``: `by`, ``topology``, ``nmse``, ``overflow``.
    by : str

    Returns
    -------
    DataFrame
        A row per group and order, of groups with an exact sum: `by`, ``topology``, ``exact``,
        ``added`` (below 0: the errors cancel; infinite or NaN with overflow), ``overflow``; the
        exact sum's own row has no ``added``.
    """
    exact = pooled[pooled["topology"] == "exact"].set_index(by)["nmse"]
    rows = pooled[
        pooled[by].isin(exact.index) & pooled["topology"].map(_core.is_order).astype(bool)
    ]
    base = rows[by].map(exact).astype(float)
    added = (rows["nmse"] - base).where(rows["topology"] != "exact")
    return rows[[by, "topology", "overflow"]].assign(exact=base, added=added)


def step_front(
    points: Iterable[tuple[float, float]], same: float = 0.0
) -> list[tuple[float, float]]:
    """The points that no other beats in both, from the least cost to the least error.

    Costs that differ by at most `same` are one.
    """
    front: list[tuple[float, float]] = []
    anchor = -np.inf
    for x, y in sorted(points):
        if front and y >= front[-1][1]:
            continue
        if front and x <= anchor + same:
            front[-1] = (x, y)
        else:
            front.append((x, y))
            anchor = x
    return front
