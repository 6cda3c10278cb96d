"""Schemes ranked by their error on recorded gradients: one row per scheme and topology.

The ranking is by the mean of the steps' NMSE: docs/definitions.md, sections 14 and 16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import number, of_type, text
from .._arrays.float_environment import guarded
from .._excess_loss.expected import with_expected
from .._schemes.scheme import known_scheme
from . import persistence
from .choices import choices_of
from .codes import coded_of
from .cost import Network, modelled_times, options_of
from .figures import columns_of, with_figures
from .limits import column_of
from .noise import check_batch_factor, noise_of
from .pooling import headline_topology, is_on_front, is_own
from .row_table import Rows, frame_of, objects, rows_of

#: Columns of `summary`, in order.
COLUMNS = ("trace", "scheme", "family", "format", "topology", *columns_of())


#: The columns of a table of results that a summary is computed from.
USED = (
    "trace", "tensor", "scheme", "format", "topology", "stage", "note", "step", "workers", "count",
    "counted", "nonzero", "underflow", "overflow", "nan", "infinite", "expected_variance",
    "cosine", "sum_squared_error", "sum_squared_reference", "sum_signed_error",
    "sum_absolute_reference", "sum_product", "noise_blocks", "sum_noise",
    "sum_log2_error_over_noise", "wire_bits", "side_bits", "volume", "skipped",
)  # fmt: skip

#: The columns that identify a row of a summary.
_KEY = ["trace", "scheme", "topology"]


@with_figures
@guarded
def summary(
    results: Any,
    *,
    network: Network | None = None,
    elements: float | None = 25.6e6,
    batch_factor: float = 1.0,
    optimizer: str | None = None,
    gained: float | None = None,
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
    optimizer : str, optional
        Of ``update_loss_k``: ``sgd``, ``adam`` (also AdamW) or ``lars``. By default that of the
        replay, else what each trace's metadata call ``optimizer``, if it is one of these.
    gained : float, optional
        The loss in nats by which an fp32 training of this model falls from its middle to its end:
        the table has the ``expected_excess`` of it.

    Returns
    -------
    DataFrame
        `COLUMNS`; sorted by trace, then real topologies before ``exact``, then schemes without
        ``gaps`` first, then those without overflow, then those without ``lost_layers``, then by
        ``step_nmse``, then by ``error_over_noise``. Topologies as replayed,
        the scheme's own reduction, or "" (the wire) for traces without reduced rows; last
        ``exact``, an ideal that no system runs: no sum is rounded, so it has only the wire's error.
        Sections are those of docs/definitions.md.

        {figures}

        Only with `gained`: ``expected_excess``, the excess training loss in nats by
        ``update_loss_10``, else ``update_loss_3``, as `expected_excess` has it; ``..._low``,
        ``..._high``, its 95 % interval; ``..._refused``, why there is none, a sentence.

        ``layer_cosine``, ``lost_gain``, ``lost_layers`` and the worst layer omit layers whose
        gradients are numerically zero.

        NaN if a scheme needs inputs that the trace lacks, or a column of one of the rows is empty.

    Raises
    ------
    ValueError
        No parameters; no such optimizer; `batch_factor` is not a positive number; `gained` is below
        0 or NaN.
    """
    if network is not None:
        of_type("network", network, Network, "a cost.Network")
    if elements is not None:
        number("elements", elements)
    check_batch_factor(batch_factor)
    if optimizer is not None:
        text("optimizer", optimizer)
    rows = rows_of(results, USED)
    core_summary = rows.core.summary(
        rows.core.compared_rows(), batch_factor, noise_of(results), persistence.windows_of(results),
        optimizer=optimizer,
    )  # fmt: skip
    out = frame_of_summary(rows, core_summary)
    times = modelled_times(rows, options_of(network or Network(), elements=elements))
    model = times.set_index(_KEY)[["seconds", "speedup"]]
    out[["time", "speedup"]] = model.reindex(pd.MultiIndex.from_frame(out[_KEY])).to_numpy()
    out["bits_above_limit"] = column_of(out, results, batch_factor)
    families = {spec: family_of(spec) for spec in out["scheme"].unique()}
    out["family"] = [families[spec] for spec in out["scheme"]]
    out = out.iloc[core_summary["order"]].reset_index(drop=True)[list(COLUMNS)]
    return out if gained is None else with_expected(out, gained)


def frame_of_summary(rows: Rows, found: dict[str, Any], by: Sequence[str] = ()) -> pd.DataFrame:
    """The columns of `summary` that depend only on rows, and those of `by`, from the core's."""
    first, worst = found["first"], found["worst"]
    out = pd.DataFrame(
        {
            "trace": rows.cells("trace", first),
            "scheme": rows.cells("scheme", first),
            "topology": objects(found["topology"]),
            **{name: rows.cells(name, first) for name in by},
            **found["figures"],
        }
    )
    out["worst_layer"] = np.where(worst < 0, None, rows.cells("tensor", worst))
    steps = rows.cells("step", worst)
    out["worst_step"] = pd.array([pd.NA if at < 0 else n for at, n in zip(worst, steps)], "Int64")
    out["format"] = np.array(found["format"], object)
    return out


def by_scheme(chosen: pd.DataFrame, by: str) -> tuple[Rows, dict[str, Any]]:
    """The core's summary of these rows by ``layer`` or ``step``, whatever topology each has."""
    rows = Rows(coded_of(chosen.assign(topology=""), USED))
    return rows, rows.core.summary(
        rows.core.all_rows(), 1.0, noise_of(chosen), persistence.windows_of(chosen), by
    )


def headline(table: pd.DataFrame, topology: str) -> pd.DataFrame:
    """One row of a summary per trace and scheme, in the order of rank.

    That of `topology`, unless it is ``exact``, else of the scheme's own reduction, else of its
    first other one, else ``exact`` or the wire.
    """

    def preference(name: str) -> int:
        return (
            0
            if name == topology != "exact"
            else 1
            if name and is_own(name)
            else 3
            if name in ("exact", "")
            else 2
        )

    order = table.assign(preference=table["topology"].map(preference)).sort_values(
        "preference", kind="stable"
    )
    return table.loc[order.drop_duplicates(["trace", "scheme"]).index.sort_values()]


def front(table: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Rows of the reductions that rank side by side, in the order of the table.

    Of every trace and scheme: those of `topology`, of its own reduction and of two phases; if it
    has none of these, those of `headline`.
    """
    beside = table["topology"].map(lambda name: is_on_front(name, topology)).astype(bool)
    kept = pd.MultiIndex.from_frame(headline(table[_KEY].drop_duplicates(), topology))
    return table[beside | pd.MultiIndex.from_frame(table[_KEY]).isin(kept)]


def without_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """A summary with one row for what is one scheme: the first.

    Schemes are one in a reduction if they differ only in keys that it does not read (the room for
    the sum, in two phases with a layer's scale or a finer one), and in no error. So are the
    reductions of one worker, which have no volume and the same error.
    """
    same = [
        (row.trace, str(row.step_nmse), row.overflowed, row.nonfinite)
        + (
            (row.scheme, row.topology == "exact")
            if math.isnan(row.volume)
            else (choices_of(row.scheme, row.topology) or row.scheme, row.topology)
        )
        for row in table.itertuples()
    ]
    return table[~pd.Series(same, index=table.index, dtype=object).duplicated()]


def of_topology(rows: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Rows of one topology per trace and scheme: that of `headline`, or ``exact`` for all."""
    if topology == "exact":
        return rows[rows["topology"] == topology]
    kept = headline(rows[_KEY].drop_duplicates(), topology)
    return rows[pd.MultiIndex.from_frame(rows[_KEY]).isin(pd.MultiIndex.from_frame(kept))]


def ranked(results: Any) -> pd.DataFrame:
    """The `front` of `summary`, `without_repeats`."""
    frame = frame_of(results)
    table = front(summary(frame), headline_topology(frame))
    return without_repeats(table).reset_index(drop=True)


def family_of(spec: str) -> str:
    """The family of a scheme of the results; unknown for one made in another process."""
    scheme = known_scheme(spec)
    return scheme.family if scheme else "other"
