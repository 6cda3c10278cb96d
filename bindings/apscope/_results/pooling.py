"""Pools rows of a RESULTS table: sums are added, then divided.

A pooled NMSE is the sum of ``sum_squared_error`` divided by the sum of ``sum_squared_reference``, a
pooled rate is a quotient of sums of counts. So every element counts once, and large gradients weigh
more than small ones. A skipped row is a lost gradient: y = 0. docs/definitions.md, section 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.checks import of_type
from .._arrays.float_environment import guarded
from .columns import columns_that_pool

#: Columns that are added up over the rows that were not skipped.
SUMMED = columns_that_pool("sum")

#: The parts of a squared error: columns that add up to ``sum_squared_error``.
PARTS = columns_that_pool("part")

#: Reductions that belong to a scheme and replace the topologies.
OWN_REDUCTIONS: tuple[str, ...] = _core.OWN_REDUCTIONS


def frame_of(results: Any) -> pd.DataFrame:
    """The table itself, or the ``frame`` of a Results.

    Raises
    ------
    TypeError
        It is neither.
    """
    frame = getattr(results, "frame", results)
    return of_type("results", frame, pd.DataFrame, "a Results, or its table")


def coded_rows(results: Any, columns: Sequence[str]) -> pd.DataFrame:
    """These columns of the table, those that it has, `coded`; of a file only they are read."""
    if (of_results := getattr(results, "_coded", None)) is not None:
        return of_results(columns)
    frame = frame_of(results)
    return coded(frame[[c for c in columns if c in frame]].reset_index(drop=True))


def coded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with texts as categories, in order of appearance, for faster grouping."""
    found = {name: pd.factorize(table[name]) for name in table if table[name].dtype == object}
    return table.assign(
        **{
            name: pd.Categorical.from_codes(codes, levels)
            for name, (codes, levels) in found.items()
            if (codes >= 0).all()
        }
    )


def one_trace(table: pd.DataFrame, trace: str | None) -> pd.DataFrame:
    """The rows of `trace`; without a name those of the only trace.

    Raises
    ------
    ValueError
        No such trace, or several and none named.
    """
    names = list(dict.fromkeys(table["trace"]))
    if trace is None:
        if len(names) > 1:
            raise ValueError(
                f"the results have {len(names)} traces; select one with trace=: {', '.join(names)}"
            )
        return table
    if trace not in names:
        raise ValueError(
            f"no trace '{trace}' in the results; they have {', '.join(names) or 'none'}"
        )
    return table[table["trace"] == trace]


def numbers(table: pd.DataFrame, column: str) -> np.ndarray:
    """A column as float64, NaN for empty cells.

    Raises
    ------
    ValueError
        There is no such column: an older version wrote the table.
    """
    if column not in table:
        raise ValueError(
            f"the results have no column '{column}': an older apscope wrote them; replay the trace again"
        )
    return table[column].to_numpy(float, na_value=np.nan)


def groups(table: pd.DataFrame, by: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The group of every row, numbered in order of appearance, and the index of its first row."""
    codes, size = np.zeros(len(table), np.int64), 1
    for column in by:
        own, distinct = _codes(table[column])
        if size * distinct > max(2 * len(table), 65536):
            codes = pd.factorize(codes)[0]
            size = codes.max(initial=-1) + 1
        codes, size = codes * distinct + own, size * distinct
    if size > max(8 * len(table), 65536):
        codes = pd.factorize(codes)[0]
        size = codes.max(initial=-1) + 1
    # Of several rows of a code the last assignment wins, which is the first row.
    first_of = np.full(size, -1)
    first_of[codes[::-1]] = np.arange(len(codes))[::-1]
    first = np.sort(first_of[first_of >= 0])
    place = np.empty(size, np.int64)
    place[codes[first]] = np.arange(len(first))
    return place[codes], first


def _codes(column: pd.Series) -> tuple[np.ndarray, int]:
    """A number from 0 for every value of a column, and a bound of them."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy() + 1, len(column.cat.categories) + 1
    own, distinct = pd.factorize(column)
    return own + 1, len(distinct) + 1


def total(values: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """Sums of groups, in row order; NaN if a row of the group has no value."""
    return np.bincount(codes, values, count)


def total_of_present(values: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """Sums of groups over the rows that have a value; NaN if none has."""
    there = ~np.isnan(values)
    return np.where(
        np.bincount(codes[there], minlength=count) > 0,
        np.bincount(codes[there], values[there], count),
        np.nan,
    )


def quotient(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """A quotient; NaN if the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator == 0, np.nan, numerator / denominator)


def infinite_with(overflow: np.ndarray, value: np.ndarray) -> np.ndarray:
    """An error, infinite with overflow, because its sums omit values that are not finite."""
    return np.where(overflow > 0, np.inf, value)


def nonfinite(table: pd.DataFrame) -> np.ndarray:
    """Which rows have gradients that are NaN or infinite; skipped rows are recognised by counts."""
    odd = np.nan_to_num(numbers(table, "nan")) + np.nan_to_num(numbers(table, "infinite"))
    return np.where(
        table["skipped"].to_numpy(bool),
        numbers(table, "count") > numbers(table, "counted"),
        odd > 0,
    )


def losses(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The errors of every row; a skipped row is a lost gradient: y = 0.

    Returns
    -------
    dict of float64 arrays
        ``skipped`` (bool), ``overflow``, ``reference`` and ``absolute`` (sums of x x and abs(x)),
        ``error`` (sum of e e; for a skipped row that of x x) and ``signed_error`` (sum of sign(x)
        e; for a skipped row minus that of abs(x)); ``noise``, ``log2_over_noise`` and
        ``noise_blocks``, the columns ``sum_noise``, ``sum_log2_error_over_noise`` and
        ``noise_blocks``. A row without numbers, because the trace lacks an input of the scheme, has
        NaN, and so has one of unknown noise.
    """
    skipped = table["skipped"].to_numpy(bool)
    reference, absolute = (
        numbers(table, "sum_squared_reference"),
        numbers(table, "sum_absolute_reference"),
    )
    return {
        "skipped": skipped,
        "overflow": np.nan_to_num(numbers(table, "overflow")),
        "reference": reference,
        "absolute": absolute,
        "error": np.where(skipped, reference, numbers(table, "sum_squared_error")),
        "signed_error": np.where(skipped, -absolute, numbers(table, "sum_signed_error")),
        "noise": numbers(table, "sum_noise"),
        "log2_over_noise": numbers(table, "sum_log2_error_over_noise"),
        "noise_blocks": numbers(table, "noise_blocks"),
    }


def elements_of(table: pd.DataFrame) -> np.ndarray:
    """The elements of one worker in every row."""
    count = numbers(table, "count")
    return np.where(table["stage"] == "wire", count / numbers(table, "workers"), count)


def volumes(table: pd.DataFrame, elements: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """The mean volume of groups, weighted by the elements; NaN if a row has none."""
    return quotient(
        total(np.where(elements == 0, 0.0, numbers(table, "volume") * elements), codes, count),
        total(elements, codes, count),
    )


def sent_total(
    table: pd.DataFrame, column: str, sent: np.ndarray, codes: np.ndarray, count: int
) -> np.ndarray:
    """Sums of a column over the rows of groups that were sent; NaN if none has a number."""
    return total_of_present(np.where(sent, numbers(table, column), np.nan), codes, count)


@guarded
def pool(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """One row per group, errors pooled.

    Parameters
    ----------
    table : DataFrame
        Rows of a RESULTS table, docs/definitions.md. Mixing stages in one group adds unlike
        numbers: let `by` contain ``stage`` and ``topology``, or select them first.
    by : sequence of str
        Columns that name a group.

    Returns
    -------
    DataFrame
        The columns of `by` in order of appearance; ``steps`` and ``skipped_steps``, numbers of distinct steps;
        ``bits_per_value`` = (wire_bits + side_bits) of one worker per element; ``volume``, the mean
        weighted by the elements, NaN if a row has none; sums (float64, NaN if no row has the
        number) of the counts and ``sum_error`` over the rows that were not skipped; of the `PARTS`
        over the same, NaN if one of them has none; and of ``sum_signed_error``,
        ``sum_absolute_reference``, ``sum_squared_error``, ``sum_squared_reference`` over all rows,
        y = 0 in skipped ones; from these ``nmse``, ``sqnr_db`` (``inf`` for no error),
        ``relative_bias``; ``sum_noise`` and ``error_over_noise``, the geometric mean over the
        blocks of the group (docs/definitions.md, section 16), NaN if the noise is unknown; and
        ``underflow_rate``, ``bias``, ``mse``, ``variance`` of the rows that were not skipped,
        because a skipped row has no sum of errors. NaN if a denominator is 0. A group with overflow
        has no finite error: ``nmse``, ``mse`` and ``variance`` are ``inf``.

    Raises
    ------
    ValueError
        The table lacks a column of `by`.
    """
    by = list(by)
    for column in by:
        if column not in table:
            raise ValueError(
                f"the results have no column '{column}' to pool by; they have {', '.join(table.columns)}"
            )
    codes, first = groups(table, by)
    count = len(first)
    lost = losses(table)
    sent = ~lost["skipped"]
    out = table[by].iloc[first].reset_index(drop=True)
    step = groups(table.assign(group=codes), ["group", "step"])[0]
    out["steps"] = distinct(codes, step, count)
    out["skipped_steps"] = distinct(codes[~sent], step[~sent], count)

    elements = elements_of(table)
    bits = numbers(table, "wire_bits") + numbers(table, "side_bits")
    out["bits_per_value"] = quotient(
        total_of_present(bits, codes, count), total_of_present(elements, codes, count)
    )
    out["volume"] = volumes(table, elements, codes, count)
    for column in SUMMED:
        out[column] = sent_total(table, column, sent, codes, count)
    for column in PARTS:
        out[column] = total(np.where(sent, numbers(table, column), 0.0), codes, count)
    for column, values in (
        ("sum_signed_error", "signed_error"),
        ("sum_absolute_reference", "absolute"),
        ("sum_squared_error", "error"),
        ("sum_squared_reference", "reference"),
    ):
        out[column] = total_of_present(lost[values], codes, count)
    squared = total_of_present(np.where(sent, lost["error"], np.nan), codes, count)
    out["underflow_rate"] = quotient(out["underflow"], out["nonzero"])
    out["bias"] = quotient(out["sum_error"], out["counted"])
    out["relative_bias"] = quotient(out["sum_signed_error"], out["sum_absolute_reference"])
    out["mse"] = infinite_with(out["overflow"], quotient(squared, out["counted"]))
    out["variance"] = (out["mse"] - out["bias"] ** 2).clip(lower=0.0)
    out["nmse"] = infinite_with(
        out["overflow"], quotient(out["sum_squared_error"], out["sum_squared_reference"])
    )
    out["sqnr_db"] = decibels(out["nmse"])
    out["sum_noise"] = total_of_present(lost["noise"], codes, count)
    out["error_over_noise"] = over_noise(lost, codes, count)
    return out


def over_noise(lost: dict[str, np.ndarray], codes: np.ndarray, count: int) -> np.ndarray:
    """The geometric mean of error over noise in groups of `losses`; NaN if the noise is unknown."""
    with np.errstate(over="ignore"):  # with an overflow, whose rows count as infinite
        return np.exp2(
            quotient(
                total(lost["log2_over_noise"], codes, count),
                total(lost["noise_blocks"], codes, count),
            )
        )


def pooled_over_noise(lost: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Squared error over noise of `losses` or sums of them, inf with overflow; and which have noise."""
    return np.where(lost["overflow"] > 0, np.inf, quotient(lost["error"], lost["noise"])), lost[
        "noise"
    ] != 0


def distinct(codes: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The number of distinct values, integers from 0, in every group; of equal ones the first counts."""
    owner = np.full(values.max(initial=-1) + 1, -1)
    owner[values[::-1]] = codes[::-1]  # of several the last assignment wins
    return np.bincount(owner[owner >= 0], minlength=count)


def decibels(nmse: pd.Series) -> pd.Series:
    """SQNR in dB of an NMSE; ``inf`` for 0."""
    with np.errstate(divide="ignore"):
        return -10.0 * np.log10(nmse)


def topologies_of(table: pd.DataFrame) -> list[str]:
    """Topologies in order of appearance, without the wire's empty name."""
    return [t for t in table["topology"].unique() if isinstance(t, str) and t]


def headline_topology(table: pd.DataFrame) -> str:
    """The reduction of summaries: the first that adds in a format, else a scheme's own, else ``exact``."""
    runnable = [t for t in topologies_of(table) if t != "exact"]
    return next((t for t in runnable if not is_own(t)), runnable[0] if runnable else "exact")


def is_own(topology: str) -> bool:
    """Whether the reduction is a scheme's own; a policy may have several, joined by ``+``."""
    return all(part in OWN_REDUCTIONS for part in topology.split("+"))


def whole_sums(reduced: pd.DataFrame) -> pd.DataFrame:
    """Reduced rows in which every topology covers all tensors.

    In a policy some tensors may have their own reduction: these are listed under each topology
    instead of their own name. If all have their own, but not the same, the name joins all of them
    (``gather+linear``).
    """
    key = ["trace", "scheme", "topology"]
    pairs = reduced[key].iloc[groups(reduced, key)[1]]
    pairs = pairs[pairs["topology"] != "exact"]
    if not pairs["topology"].isin(OWN_REDUCTIONS).any():
        return reduced
    own = reduced["topology"].isin(OWN_REDUCTIONS)
    moved, copies = pd.Series(False, reduced.index), []
    for (trace, scheme), topologies in pairs.groupby(["trace", "scheme"], sort=False)["topology"]:
        alone = [t for t in topologies if t in OWN_REDUCTIONS]
        crossing = [t for t in topologies if t not in OWN_REDUCTIONS] or ["+".join(alone)]
        if alone and [*crossing] != alone:
            mine = own & (reduced["trace"] == trace) & (reduced["scheme"] == scheme)
            moved |= mine
            copies += [reduced[mine].assign(topology=t) for t in crossing]
    return pd.concat([reduced[~moved], *copies]).sort_index(kind="stable") if copies else reduced


def compared_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows for comparing schemes: reduced ones with all tensors, or the wire's if there are none."""
    reduced = (table["stage"] == "reduced").to_numpy()
    having = table["trace"][reduced].unique()
    others = ~reduced & ~table["trace"].isin(having).to_numpy()
    sums = table[reduced]
    whole = whole_sums(sums)
    if whole is sums and not others.any():
        return sums
    return pd.concat([whole, table[others]]).sort_index(kind="stable")


def headline_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of summaries, one per trace, scheme, tensor and step.

    The scheme's own reduction if it has one, else the headline topology, else another one, else
    ``exact``; the wire's rows for a trace without reduced ones. A policy's tensors may differ in
    that.
    """
    reduced = (table["stage"] == "reduced").to_numpy()
    others = [t for t in topologies_of(table) if t not in ("exact", *OWN_REDUCTIONS)]
    order = [*OWN_REDUCTIONS, *dict.fromkeys([headline_topology(table), *others, "exact", ""])]
    rank = table["topology"].map({name: place for place, name in enumerate(order)}).to_numpy()
    kept = np.flatnonzero(
        reduced | ~table["trace"].isin(table.loc[reduced, "trace"].unique()).to_numpy()
    )
    kept = kept[np.argsort(rank[kept], kind="stable")]
    rows = table.iloc[kept]
    return table.iloc[np.sort(kept[groups(rows, ["trace", "scheme", "tensor", "step"])[1]])]
