"""Reads the table of the limit that results keep: `table.py` writes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .bound import Bound, OfSum

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Known", "known_limits"]


class Known(NamedTuple):
    """What a table tells of a trace."""

    of_sum: OfSum
    grids: list[tuple[float, float]]  #: bits per element and error over the noise, ascending


def known_limits(table: pd.DataFrame) -> dict[str, Known]:
    """Trace -> what its rows of the table tell.

    Raises
    ------
    ValueError
        A cell that no trace gives.
    """
    limits = {}
    for trace, rows in table.groupby("trace", sort=False, observed=True):
        of = {str(kind): part for kind, part in rows.groupby("kind", observed=True)}
        curves = [of.pop(kind, rows[:0]) for kind in ("up", "down")]
        grids = of.pop("grid", rows[:0]).sort_values("bits", kind="stable")
        if of:
            raise ValueError(f"the limit of {trace} has rows of an unknown kind '{min(of)}'")
        points = list(zip(grids["bits"].tolist(), grids["error"].tolist()))
        if not all(0 <= bits <= 32 and 0 <= error < math.inf for bits, error in points):
            raise ValueError(f"the limit of {trace} has a grid without its bits and its error")
        limits[str(trace)] = Known(OfSum(*(_bound(str(trace), rows) for rows in curves)), points)
    return limits


def _bound(trace: str, rows: pd.DataFrame) -> Bound:
    """One curve: a row per width."""
    widths, entropies = (rows[name].to_numpy(np.float64) for name in ("width", "entropy"))
    facts = rows[["elements", "values", "unit"]].drop_duplicates()
    right = (
        len(facts) == 1
        and 1 <= facts["values"].iloc[0] <= facts["elements"].iloc[0]
        and 0 < facts["unit"].iloc[0] < math.inf
        and bool(np.isfinite(entropies).all() and ((widths > 0) & np.isfinite(widths)).all())
    )
    if not right:
        raise ValueError(
            f"the limit of {trace} has widths that are not of one set of values with their entropies"
        )
    values, elements, unit = (facts[name].iloc[0] for name in ("values", "elements", "unit"))
    return Bound(int(values), int(elements), widths, entropies, float(unit))
