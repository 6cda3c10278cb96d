"""Pools rows of a RESULTS table, and chooses rows: analysis/summary, for pandas.

A pooled NMSE is the sum of ``sum_squared_error`` divided by the sum of ``sum_squared_reference``, a
pooled rate is a quotient of sums of counts. So every element counts once, and large gradients weigh
more than small ones. A skipped row is a lost gradient: y = 0. docs/definitions.md, section 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._arrays.float_environment import guarded
from .codes import coded_of
from .columns import columns_that_pool
from .row_table import Rows, objects

#: The parts of a squared error: columns that add up to ``sum_squared_error``.
PARTS = columns_that_pool("part")


#: Reductions that belong to a scheme and replace the topologies.
OWN_REDUCTIONS: tuple[str, ...] = _core.OWN_REDUCTIONS


def after_gap(rows: pd.DataFrame) -> np.ndarray:
    """Whether a scheme's memory, at the row's step, is of an earlier step than the one before."""
    if "note" not in rows:
        return np.zeros(len(rows), bool)
    notes = rows["note"].astype("category")
    such = [note for note in notes.cat.categories if _core.AFTER_GAP in str(note)]
    return notes.isin(such).to_numpy()


#: Columns of a row's errors.
_LOSSES = (
    "step", "stage", "skipped", "cosine",
    *columns_that_pool("lost"), *columns_that_pool("sum_blocks"), "overflow",
)  # fmt: skip

#: Columns that rows are chosen by.
_CHOICE = ("trace", "tensor", "scheme", "topology", "stage", "step", "skipped")


def coded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with texts as categories, in order of appearance, for faster grouping."""
    codes_of = {name: pd.factorize(table[name]) for name in table if table[name].dtype == object}
    return table.assign(
        **{
            name: pd.Categorical.from_codes(codes, levels)
            for name, (codes, levels) in codes_of.items()
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
            f"the results have no column '{column}': an older apscope wrote them; replay the trace "
            "again"
        )
    return table[column].to_numpy(float, na_value=np.nan)


def quotient(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """A quotient; NaN if the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator == 0, np.nan, numerator / denominator)


def infinite_with(overflow: np.ndarray, value: np.ndarray) -> np.ndarray:
    """An error, infinite with overflow, because its sums omit values that are not finite."""
    return np.where(overflow > 0, np.inf, value)


def losses(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """The errors of every row; a skipped row is a lost gradient: y = 0.

    Returns
    -------
    dict of float64 arrays
        ``skipped`` (bool), ``overflow``, ``reference`` and ``absolute`` (sums of x x and abs(x)),
        ``error`` (sum of e e; for a skipped row that of x x) and ``signed_error`` (sum of sign(x)
        e; for a skipped row minus that of abs(x)); ``noise``, ``log2_over_noise`` and
        ``noise_blocks``, the columns ``sum_noise``, ``sum_log2_error_over_noise`` and
        ``noise_blocks``, and ``over_noise``, the error over the noise that follows from the last
        two; ``cosine``, 0 if the row was skipped, overflowed or is all zero. A row without numbers,
        because the trace lacks an input of the scheme, has NaN, and so has one of unknown noise.
    """
    return Rows(coded_of(table, _LOSSES)).core.losses()


def step_losses(lost: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The NMSE of each entry of `losses` or of sums of them, and which have one.

    With overflow it is at least 1 because the sums omit values that are not finite. An entry with a
    reference of zero has none; one that was not measured is NaN and counts.
    """
    return _core.losses_of_sums(*(lost[name] for name in ("error", "reference", "overflow")))


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
        The columns of `by` in order of appearance; ``steps`` and ``skipped_steps``, the numbers of
        distinct steps; ``bits_per_value`` = (wire_bits + side_bits) of one worker per element;
        ``volume``, the mean weighted by the elements, NaN if a row has none; sums (float64, NaN if
        no row has the number) of the counts and ``sum_error`` over the rows that were not skipped;
        of the `PARTS` over the same, NaN if one of them has none; and of ``sum_signed_error``,
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
    return pooled(table, by, lambda core: core.all_rows())


def pooled(
    table: pd.DataFrame, by: Sequence[str], choose: Callable[[Any], _core.ChosenRows]
) -> pd.DataFrame:
    """`pool` of rows that `choose` selects in the core's table."""
    for column in by:
        if column not in table:
            raise ValueError(
                f"the results have no column '{column}' to pool by; they have "
                f"{', '.join(table.columns)}"
            )
    rows = Rows(coded_of(table, list(table.columns)))
    chosen, columns = choose(rows.core), []
    for column in by:
        codes, levels = pd.factorize(table[column])
        columns.append(
            "topology" if column == "topology" else (codes.astype(np.int32), len(levels))
        )
    first, sums = rows.core.pool(chosen, columns)
    out = table[list(by)].iloc[chosen.row[first]].reset_index(drop=True)
    if "topology" in out and rows.core.is_replaced(chosen):
        out["topology"] = objects(np.array(chosen.topologies, object)[chosen.topology[first]])
    return out.assign(**sums)


def _chosen_frame(
    table: pd.DataFrame, choose: Callable[[_core.RowTable], _core.ChosenRows]
) -> pd.DataFrame:
    """The rows of a table that `choose` selects in the core's, each with its topology."""
    core = Rows(coded_of(table, _CHOICE)).core
    chosen = choose(core)
    out = table.iloc[chosen.row]
    if not core.is_replaced(chosen):
        return out
    return out.assign(topology=np.array(chosen.topologies, object)[chosen.topology])


def topologies_of(table: pd.DataFrame) -> list[str]:
    """Topologies in order of appearance, without the wire's empty name."""
    return [t for t in table["topology"].unique() if isinstance(t, str) and t]


def headline_topology(table: pd.DataFrame) -> str:
    """The reduction of summaries: the first that rounds partial sums to a format.

    Without any, a scheme's own, else the first of two phases, else ``exact``.
    """
    return _core.headline_topology(topologies_of(table))


def wire_of(table: pd.DataFrame, topology: str) -> pd.Series:
    """Which rows are the wire's for this topology: those with its name, else those without one.

    What a scheme sends may depend on the reduction: a scale that follows the sums, the scales of
    two phases. Such rows at the wire have the topology's name (docs/definitions.md, section 1).
    """
    wire = table["stage"] == "wire"
    named = wire & (table["topology"] == topology)
    if not named.any():
        return wire & (table["topology"] == "")
    tensors = pd.MultiIndex.from_frame(table[["trace", "scheme", "tensor"]].astype(str))
    return named | (wire & (table["topology"] == "") & ~tensors.isin(tensors[named]))


def held_topology(topologies: Iterable[str], requested: str, *others: str) -> str:
    """The name of a requested topology, in any spelling, among `topologies` and `others`.

    Raises
    ------
    ValueError
        It is none of them; the message lists them.
    """
    known = [*topologies, *others]
    if (name := _core.canonical_topology(requested)) in known:
        return name
    raise ValueError(f"the results have no topology '{requested}'; use one of {', '.join(known)}")


def is_own(topology: str) -> bool:
    """Whether the reduction is a scheme's own; a policy may have several, joined by ``+``."""
    return _core.is_own_reduction(topology)


def is_on_front(topology: str, headline: str) -> bool:
    """Whether rows of this reduction rank beside those of `headline`.

    A scheme's own reduction and every composition of two phases do; other orders of the same
    additions do not, as they differ from the headline only in where partial sums are rounded.
    docs/definitions.md, section 14.
    """
    return bool(topology) and (
        topology == headline or topology.startswith("two_phase") or is_own(topology)
    )


def whole_sums(reduced: pd.DataFrame) -> pd.DataFrame:
    """Reduced rows in which every topology covers all tensors.

    In a policy some tensors may have their own reduction: these are listed under each topology
    instead of their own name. If all have their own, but not the same, the name joins all of them
    (``gather+linear``).
    """
    return _chosen_frame(reduced, _core.RowTable.whole_sums)


def compared_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows for comparing schemes: reduced ones with all tensors, or the wire's if none are."""
    return _chosen_frame(table, _core.RowTable.compared_rows)


def headline_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of summaries, one per trace, scheme, tensor and step.

    The scheme's own reduction if it has one, else the headline topology, else another one, else
    ``exact``; the wire's rows for a trace without reduced ones. A policy's tensors may differ in
    that.
    """
    return _chosen_frame(table, _core.RowTable.headline_rows)
