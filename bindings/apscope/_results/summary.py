"""Schemes ranked by their error on recorded gradients: one row per scheme and topology.

The ranking is by the typical block's error over the noise of the batch, or, if that is unknown (one
worker), by the mean of the steps' NMSE: pooled over everything, the largest layers and steps would
hide all others. docs/definitions.md, sections 14 and 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import number, of_type
from .._arrays.float_environment import guarded
from .._schemes.scheme import as_scheme
from ..cost import Network, step_time
from .noise import by_steps, noise_of, pooled_interval, typical_interval
from .pooling import (
    coded_rows,
    compared_rows,
    elements_of,
    frame_of,
    groups,
    headline_topology,
    infinite_with,
    is_own,
    losses,
    nonfinite,
    numbers,
    over_noise,
    pooled_over_noise,
    quotient,
    sent_total,
    total,
    total_of_present,
    volumes,
)

__all__ = [
    "COLUMNS",
    "family_of",
    "figures",
    "headline",
    "in_rank",
    "of_topology",
    "ranked",
    "summary",
]

#: Columns of `summary`, in order.
COLUMNS = (
    "trace", "scheme", "family", "format", "topology", "error_over_noise", "error_over_noise_low",
    "error_over_noise_high", "pooled_error_over_noise", "pooled_error_over_noise_low", "pooled_error_over_noise_high", "step_nmse",
    "layer_cosine", "worst_nmse", "worst_layer", "worst_step", "nmse",
    "relative_bias", "expected_variance", "underflow_wire", "underflow_reduced", "volume", "time", "speedup", "skipped", "overflowed", "nonfinite",
)  # fmt: skip


#: The columns of a table of results that a summary is computed from.
USED = (
    "trace", "tensor", "scheme", "format", "topology", "stage", "note", "step", "workers", "count", "counted", "nonzero", "underflow", "overflow", "nan", "infinite", "expected_variance",
    "cosine", "sum_squared_error", "sum_squared_reference", "sum_signed_error", "sum_absolute_reference", "noise_blocks", "sum_noise",
    "sum_log2_error_over_noise", "wire_bits", "side_bits", "volume", "skipped",
)  # fmt: skip

#: Those of them for modelled times and `nonfinite` alone.
NOT_COMPARED = ("note", "nan", "infinite", "wire_bits", "side_bits")

#: The columns that identify a row of a summary.
_KEY = ["trace", "scheme", "topology"]


@guarded
def summary(
    results: Any,
    *,
    network: Network | None = None,
    elements: float | None = 25.6e6,
    batch_factor: float = 1.0,
) -> pd.DataFrame:
    """One row per trace, scheme and topology; real topologies first, then the least error first.

    Parameters
    ----------
    results : Results or DataFrame
        A RESULTS table.
    network : Network, optional
        Of the modelled times; by default `Network()`.
    elements : float, optional
        Parameters of the model for the times, its tensors scaled from the trace's by one factor;
        None: as recorded.
    batch_factor : float
        The noise is that of a batch larger than the recorded one by this factor: it is divided by
        the factor.

    Returns
    -------
    DataFrame
        `COLUMNS`; sorted by trace, then real topologies before ``exact``, then schemes without
        overflow first, then by ``error_over_noise``, then by ``step_nmse``. Topologies as replayed,
        the scheme's own reduction, or "" (the wire) for traces without reduced rows; last
        ``exact``, an ideal that no system runs: no sum is rounded, so it has only the wire's error.

        - ``error_over_noise``: the typical block's squared error divided by the noise of the batch:
          the geometric mean over blocks of 32 elements, layers and steps. ``inf`` with overflow,
          NaN if the noise is unknown.
        - ``pooled_error_over_noise``: mean over the steps of the step's squared error divided by
          its noise.
        - ``..._low``, ``..._high``: 95 % intervals of both, because the noise is estimated from the
          workers; the error is taken as exact. NaN for fewer than three workers, and for a bare
          table of rows.
        - ``step_nmse``: mean over the steps of the step's NMSE, its squared errors divided by its
          squared references, all layers. 1 if a scheme skipped the step, at least 1 with overflow.
          Steps with a reference of zero are omitted.
        - ``layer_cosine``: mean over layers and steps of the cosine; 0 if skipped, overflowed or
          all zero.
        - ``worst_nmse``, ``worst_layer``, ``worst_step``: the largest NMSE of one layer at one
          step, by the same rules but ``inf`` with overflow, and its first occurrence.
        - ``nmse``, ``relative_bias``: pooled over all layers and steps; y = 0 if skipped, ``nmse``
          is ``inf`` with overflow.
        - ``expected_variance``: mean of Var[y] over the random draws, divided by the mean squared
          reference.
        - ``underflow_wire``, ``underflow_reduced``: shares of nonzero values that became 0, without
          skipped rows.
        - ``volume``: bytes of the busiest rank divided by those of an fp32 ring all-reduce.
        - ``time``, ``speedup``: modelled seconds per step, and relative to the fp32 ring;
          `cost.step_time`.
        - ``skipped``, ``overflowed``: numbers of such steps.
        - ``nonfinite``: number of the trace's steps with gradients that are NaN or infinite. The
          numbers above do not include them: in such a step only finite values were compared.

        NaN if a scheme needs inputs that the trace lacks, or a column of one of the rows is empty.

    Raises
    ------
    ValueError
        No parameters; `batch_factor` is not a positive number.
    """
    if network is not None:
        of_type("network", network, Network, "a cost.Network")
    if elements is not None:
        number("elements", elements)
    if not 0 < number("batch_factor", batch_factor) < float("inf"):
        raise ValueError(f"batch_factor={batch_factor} is not a positive number, such as 4")
    frame = coded_rows(results, USED)
    # Rows are copied here: only the columns that are used.
    rows = compared_rows(frame.drop(columns=[c for c in NOT_COMPARED if c in frame]))
    out = figures(frame, rows, noise_of(results), batch_factor=batch_factor)
    model = step_time(frame, network or Network(), elements=elements).set_index(_KEY)[
        ["seconds", "speedup"]
    ]
    out[["time", "speedup"]] = model.reindex(pd.MultiIndex.from_frame(out[_KEY])).to_numpy()
    families = {spec: family_of(spec) for spec in out["scheme"].unique()}
    out["family"] = [families[spec] for spec in out["scheme"]]
    return in_rank(out)[list(COLUMNS)]


def figures(
    frame: pd.DataFrame,
    rows: pd.DataFrame,
    noise: pd.DataFrame | None,
    by: Sequence[str] = (),
    batch_factor: float = 1.0,
) -> pd.DataFrame:
    """The columns of `summary` that depend only on rows, per trace, scheme, topology and `by`.

    Parameters
    ----------
    frame, rows : DataFrame
        A `coded` table, and the rows to summarise, as returned by `compared_rows`.
    noise : DataFrame, optional
        `Results.noise`.
    by : sequence of str
        Of tensor, role, step.
    batch_factor : float
    """
    key, place = [*_KEY, *by], ["trace", *by]
    group, first = groups(rows, key)
    step, step_first = groups(rows, [*key, "step"])
    lost, owner, count = losses(rows), group[step_first], len(first)
    out = rows[key].iloc[first].astype(object).reset_index(drop=True)

    of_step = {
        name: total(lost[name], step, len(owner))
        for name in ("error", "reference", "overflow", "skipped", "noise")
    }
    out["error_over_noise"] = over_noise(lost, group, count) * batch_factor
    pooled_steps, noisy = pooled_over_noise(of_step)
    out["pooled_error_over_noise"] = _mean(pooled_steps, noisy, owner, count) * batch_factor
    of_ratio = pd.Series(pooled_steps[noisy], numbers(rows, "step")[step_first][noisy])
    _add_intervals(out, place, noise, dict(iter(of_ratio.groupby(owner[noisy]))), batch_factor)
    out["step_nmse"] = _mean(*step_losses(of_step), owner, count)
    out["layer_cosine"] = _mean(*cosines(rows, lost), group, count)
    value, there = step_losses(lost)
    worst, at = _largest(infinite_with(lost["overflow"], value), there, group, count)
    out["worst_nmse"] = worst
    out["worst_layer"] = np.where(at < 0, None, rows["tensor"].to_numpy(object)[at])
    out["worst_step"] = pd.array(np.where(at < 0, np.nan, numbers(rows, "step")[at]), dtype="Int64")

    sent = ~lost["skipped"]
    squares = total(lost["reference"], group, count)
    pooled = infinite_with(
        sent_total(rows, "overflow", sent, group, count),
        quotient(
            total_of_present(lost["error"], group, count),
            total_of_present(lost["reference"], group, count),
        ),
    )
    out["nmse"] = np.where(np.isnan(squares), np.nan, pooled)
    out["relative_bias"] = quotient(
        total(lost["signed_error"], group, count), total(lost["absolute"], group, count)
    )
    counted = np.where(lost["skipped"], 0.0, numbers(rows, "counted"))
    variance = np.where(counted == 0, 0.0, numbers(rows, "expected_variance") * counted)
    out["expected_variance"] = quotient(total(variance, group, count), squares)
    out["underflow_wire"] = _on_the_wire(frame, ["trace", "scheme", *by], out)
    rate = _underflow_rate(rows, sent, group, count)
    out["underflow_reduced"] = np.where(out["topology"] == "", np.nan, rate)
    out["volume"] = volumes(rows, elements_of(rows), group, count)
    out["skipped"] = np.bincount(owner[of_step["skipped"] > 0], minlength=count)
    out["overflowed"] = np.bincount(owner[of_step["overflow"] > 0], minlength=count)
    odd = (
        frame.loc[nonfinite(frame), list(dict.fromkeys([*place, "step"]))]
        .drop_duplicates()
        .groupby(place, observed=True)
        .size()
        .to_dict()
    )
    out["nonfinite"] = [
        odd.get(names if by else names[0], 0) for names in zip(*(out[name] for name in place))
    ]
    out["format"] = _formats(rows, group, first)
    return out


def _underflow_rate(
    rows: pd.DataFrame, sent: np.ndarray, group: np.ndarray, count: int
) -> np.ndarray:
    return quotient(
        *(sent_total(rows, name, sent, group, count) for name in ("underflow", "nonzero"))
    )


def _on_the_wire(frame: pd.DataFrame, by: list[str], out: pd.DataFrame) -> np.ndarray:
    """The rate of underflow of wire rows, for the rows of a summary."""
    columns = [*by, "skipped", "underflow", "nonzero"]
    rows = frame.loc[(frame["stage"] == "wire").to_numpy(), columns]
    group, first = groups(rows, by)
    rate = _underflow_rate(rows, ~rows["skipped"].to_numpy(bool), group, len(first))
    wire = pd.Series(rate, pd.MultiIndex.from_frame(rows[by].iloc[first]))
    return wire.reindex(pd.MultiIndex.from_frame(out[by])).to_numpy()


def in_rank(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a summary, ranked: real topologies, then schemes without overflow, then by error."""
    keys = [
        table["step_nmse"],
        table["error_over_noise"],
        table["overflowed"] > 0,
        table["topology"] == "exact",
        pd.factorize(table["trace"])[0],
    ]
    return table.iloc[np.lexsort(keys)].reset_index(drop=True)


def _add_intervals(
    out: pd.DataFrame,
    place: list[str],
    noise: pd.DataFrame | None,
    ratios: dict[int, pd.Series],
    batch_factor: float,
) -> None:
    """The ends of the intervals, from the noise of each `place` and the `ratios` of each row."""
    known = {} if noise is None else dict(iter(noise.groupby(place, sort=False)))
    where = list(zip(*(out[name] for name in place)))
    typical = {names: typical_interval(known.get(names)) for names in dict.fromkeys(where)}
    sums, none = {names: by_steps(rows) for names, rows in known.items()}, pd.Series(dtype=float)
    pooled = [
        pooled_interval(sums.get(names), ratios.get(i, none)) for i, names in enumerate(where)
    ]
    for end, name in enumerate(("low", "high")):
        out[f"error_over_noise_{name}"] = out["error_over_noise"] * [
            typical[names][end] for names in where
        ]
        out[f"pooled_error_over_noise_{name}"] = (
            np.array([ends[end] for ends in pooled]) * batch_factor
        )


def headline(table: pd.DataFrame, topology: str) -> pd.DataFrame:
    """One row of a summary per trace and scheme, in the order of rank.

    The scheme's own reduction, else `topology`, else its first other one, else ``exact`` or the
    wire.
    """

    def preference(name: str) -> int:
        return (
            0
            if name and is_own(name)
            else 1
            if name == topology
            else 3
            if name in ("exact", "")
            else 2
        )

    order = table.assign(preference=table["topology"].map(preference)).sort_values(
        "preference", kind="stable"
    )
    return table.loc[order.drop_duplicates(["trace", "scheme"]).index.sort_values()]


def of_topology(rows: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Rows of one topology per trace and scheme: that of `headline`, or ``exact`` for all."""
    if topology == "exact":
        return rows[rows["topology"] == topology]
    kept = headline(rows[_KEY].drop_duplicates(), topology)
    return rows[pd.MultiIndex.from_frame(rows[_KEY]).isin(pd.MultiIndex.from_frame(kept))]


def ranked(results: Any) -> pd.DataFrame:
    """`summary` with one row per trace and scheme: its own reduction, else the first topology."""
    frame = frame_of(results)
    return headline(summary(frame), headline_topology(frame)).reset_index(drop=True)


def step_losses(lost: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The NMSE of each entry of `losses` or of sums of them, and which have one.

    With overflow it is at least 1 because the sums omit values that are not finite. An entry with a
    reference of zero has none; one that was not measured is NaN and counts.
    """
    overflowed = lost["overflow"] > 0
    value = quotient(lost["error"], lost["reference"])
    return np.where(overflowed, np.fmax(value, 1.0), value), overflowed | (lost["reference"] != 0)


def cosines(rows: pd.DataFrame, lost: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The cosine of each row, 0 if all zero or overflowed, and which rows have one."""
    value = np.where(lost["skipped"] | (lost["overflow"] > 0), 0.0, numbers(rows, "cosine"))
    measured = ~np.isnan(lost["error"])
    return np.where(np.isnan(value) & measured, 0.0, value), (lost["overflow"] > 0) | (
        lost["reference"] != 0
    )


def family_of(spec: str) -> str:
    """The family of a scheme of the results; unknown for one made in another process."""
    try:
        return as_scheme(spec).family
    except ValueError:
        return "other"


def _mean(values: np.ndarray, present: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    return quotient(
        total(values[present], codes[present], count), np.bincount(codes[present], minlength=count)
    )


def _largest(
    values: np.ndarray, present: np.ndarray, codes: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The largest value of every group and its first index; NaN and -1 without one, or with a NaN."""
    shown, largest = np.where(present, values, -np.inf), np.full(count, -np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(largest, codes, shown)  # NaN, if there is one
    place = np.flatnonzero(present & (shown == largest[codes]))
    at = np.full(count, -1)
    at[codes[place[::-1]]] = place[::-1]  # of several the last assignment wins: the first place
    return np.where(at < 0, np.nan, values[at]), at


def _formats(rows: pd.DataFrame, group: np.ndarray, first: np.ndarray) -> list[str]:
    """The formats of every group; a policy may have several, joined by ``+``."""
    named = rows.assign(group=group)[["group", "format"]].drop_duplicates()
    return (
        ["+".join(part) for _, part in named.groupby("group", sort=True)["format"]]
        if len(first)
        else []
    )
