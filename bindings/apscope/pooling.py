"""How rows of several layers and steps become one number: sums are added, then divided.

A pooled NMSE is the sum of ``sum_squared_error`` over the sum of ``sum_squared_reference``, a pooled
rate a sum of counts over a sum of counts. So every element counts once, and large gradients weigh
more than small ones; skipped rows carry no errors and are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .float_environment import guarded

#: Columns that are added up; a table may lack some.
SUMMED = (
    "counted", "nonzero", "underflow", "subnormal", "saturated", "overflow", "nan", "infinite",
    "sum_error", "sum_squared_error", "sum_squared_reference",
)


def frame_of(results: Any) -> pd.DataFrame:
    """The table itself, or the ``frame`` of a Results."""
    return results if isinstance(results, pd.DataFrame) else results.frame


def one_trace(table: pd.DataFrame, trace: str | None) -> pd.DataFrame:
    """The rows of `trace`; without a name those of the only trace there is.

    Raises
    ------
    ValueError
        No such trace, or several and none named.
    """
    names = list(dict.fromkeys(table["trace"]))
    if trace is None:
        if len(names) > 1:
            raise ValueError(f"the results hold {len(names)} traces; say which with trace=: {', '.join(names)}")
        return table
    if trace not in names:
        raise ValueError(f"no trace '{trace}' in the results; they hold {', '.join(names) or 'none'}")
    return table[table["trace"] == trace]


@guarded
def pool(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """One row a group, errors pooled.

    Parameters
    ----------
    table : DataFrame
        Rows of a RESULTS table, docs/definitions.md. Mixing stages in one group adds unlike numbers:
        let `by` hold ``stage`` and ``topology``, or select them first.
    by : sequence of str
        Columns that name a group.

    Returns
    -------
    DataFrame
        The columns of `by` in order of appearance; the sums (float64, NaN where no row has the
        count); ``underflow_rate``, ``bias``, ``mse``, ``variance``, ``nmse``, ``sqnr_db`` (``inf`` for
        no error) from them, NaN where a denominator is 0; ``bits_per_value`` = (wire_bits + side_bits)
        of one worker an element; ``steps`` and ``skipped_steps``, numbers of distinct steps.
    """
    by = list(by)
    present = [c for c in SUMMED if c in table]
    kept = table[~table["skipped"].astype(bool)]
    sums = kept[by].copy()
    for column in present:
        sums[column] = kept[column].astype("Float64").astype(float)
    grouped = sums.groupby(by, sort=False, observed=True)[present].sum(min_count=1)

    elements = table["count"].astype("Float64").astype(float)
    elements = elements.where(table["stage"] != "wire", elements / table["workers"].astype(float))
    sizes = table[by].copy()
    sizes["elements"] = elements
    sizes["bits"] = table["wire_bits"].astype(float) + table["side_bits"].astype(float)
    sizes = sizes.groupby(by, sort=False, observed=True)[["elements", "bits"]].sum(min_count=1)

    steps = table.groupby(by, sort=False, observed=True)["step"].nunique().rename("steps")
    skipped = table[table["skipped"].astype(bool)].groupby(by, sort=False, observed=True)["step"].nunique()
    out = sizes.join(grouped).join(steps)
    out["skipped_steps"] = skipped.reindex(out.index).fillna(0).astype(int)
    out["bits_per_value"] = _quotient(out["bits"], out["elements"])
    for column in SUMMED:
        if column not in out:
            out[column] = np.nan
    out["underflow_rate"] = _quotient(out["underflow"], out["nonzero"])
    out["bias"] = _quotient(out["sum_error"], out["counted"])
    out["mse"] = _quotient(out["sum_squared_error"], out["counted"])
    out["variance"] = (out["mse"] - out["bias"] ** 2).clip(lower=0.0)
    out["nmse"] = _quotient(out["sum_squared_error"], out["sum_squared_reference"])
    out["sqnr_db"] = decibels(out["nmse"])
    return out.drop(columns=["elements", "bits"]).reset_index()


def decibels(nmse: pd.Series) -> pd.Series:
    """SQNR in dB of an NMSE; ``inf`` for 0."""
    with np.errstate(divide="ignore"):
        return -10.0 * np.log10(nmse)


def _quotient(numerator: pd.Series, denominator: pd.Series) -> pd.Series:
    return numerator / denominator.where(denominator != 0)


def topologies_of(table: pd.DataFrame) -> list[str]:
    """Topologies in order of appearance, the wire's empty name left out."""
    return [t for t in dict.fromkeys(table["topology"]) if isinstance(t, str) and t]


def headline_topology(table: pd.DataFrame) -> str:
    """The reduction that summaries speak of: ``ring`` if replayed, else the first that adds in a format, else ``exact``."""
    adding = [t for t in topologies_of(table) if t not in ("exact", *OWN_REDUCTIONS)]
    return "ring" if "ring" in adding else adding[0] if adding else "exact"


#: Reductions that belong to a scheme and cross with no topology.
OWN_REDUCTIONS = ("gather", "vote", "code_sum", "two_phase", "linear")


def whole_sums(reduced: pd.DataFrame) -> pd.DataFrame:
    """Reduced rows in which every topology covers all tensors.

    Of a policy some tensors may have a reduction of their own: these stand beside the others under each
    topology, no longer under their own name.
    """
    own = reduced["topology"].isin(OWN_REDUCTIONS)
    crossing = ~own & (reduced["topology"] != "exact")
    mixed = set(reduced.loc[own, "scheme"]) & set(reduced.loc[crossing, "scheme"])
    if not mixed:
        return reduced
    moved = reduced["scheme"].isin(mixed) & own
    copies = []
    for scheme in dict.fromkeys(reduced.loc[moved, "scheme"]):
        topologies = dict.fromkeys(reduced.loc[crossing & (reduced["scheme"] == scheme), "topology"])
        copies += [reduced[moved & (reduced["scheme"] == scheme)].assign(topology=t) for t in topologies]
    return pd.concat([reduced[~moved], *copies])


def headline_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The reduced rows that summaries speak of, one a scheme, tensor and step.

    Its own reduction where the scheme has one, else the headline topology, else another that it has, else
    ``exact``. A policy's tensors may differ in that.
    """
    reduced = table[table["stage"] == "reduced"]
    others = [t for t in topologies_of(table) if t not in ("exact", *OWN_REDUCTIONS)]
    order = [*OWN_REDUCTIONS, *dict.fromkeys([headline_topology(table), *others, "exact"])]
    rank = reduced["topology"].map({name: place for place, name in enumerate(order)}).dropna().sort_values(kind="stable")
    chosen = reduced.loc[rank.index, ["trace", "scheme", "tensor", "step"]].drop_duplicates()
    return reduced.loc[chosen.index.sort_values()]
