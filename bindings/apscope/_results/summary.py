"""Schemes ranked by their error on recorded gradients: one row per scheme and topology.

The ranking is by the mean of the steps' NMSE: docs/definitions.md, sections 14 and 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import number, of_type, text
from .._arrays.float_environment import guarded
from .._excess_loss.expected import with_expected
from .._schemes.scheme import as_scheme
from . import persistence
from .codes import coded_of
from .cost import Network, modelled_times, options_of
from .limits import column_of
from .noise import noise_of
from .pooling import headline_topology, is_on_front, is_own
from .row_table import Rows, frame_of, objects, rows_of

__all__ = [
    "COLUMNS",
    "by_scheme",
    "family_of",
    "frame_of_summary",
    "front",
    "headline",
    "of_topology",
    "ranked",
    "summary",
]

#: Columns of `summary`, in order.
COLUMNS = (
    "trace", "scheme", "family", "format", "topology", "error_over_noise",
    "error_over_noise_corrected", "error_over_noise_low", "error_over_noise_high",
    "pooled_error_over_noise", "pooled_error_over_noise_corrected", "pooled_error_over_noise_low",
    "pooled_error_over_noise_high", "step_nmse",
    "layer_cosine", "gain", "gain_low", "gain_high", "lost_gain", "orthogonal_error_over_noise",
    *persistence.COLUMNS, *persistence.UPDATES,
    "worst_nmse", "worst_layer", "worst_step", "nmse",
    "relative_bias", "expected_variance", "underflow_wire", "underflow_reduced", "volume",
    "bits_above_limit", "time",
    "speedup", "skipped", "overflowed", "nonfinite", "gaps", "lost_layers",
)  # fmt: skip


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

        - ``error_over_noise``: the typical block's squared error divided by the noise of the batch:
          the geometric mean over blocks of 32 elements, layers and steps. ``inf`` with overflow,
          NaN if the noise is unknown.
        - ``pooled_error_over_noise``: mean over the steps of the step's squared error divided by
          its noise.
        - ``..._corrected``: both without the bias of the noise's estimate, which is low in the
          typical block; ``..._low``, ``..._high``: their 95 % intervals, because the noise is
          estimated from the workers; the error is taken as exact. NaN for fewer than three workers,
          and for a bare table of rows.
        - ``step_nmse``: mean over the steps of the step's NMSE, its squared errors divided by its
          squared references, all layers. 1 if a scheme skipped the step, at least 1 with overflow.
          Steps with a reference of zero are omitted.
        - ``layer_cosine``: mean over layers and steps of the cosine; 0 if skipped, overflowed or
          all zero.
        - ``gain``: the share of the gradient that arrives: sum of x y over sum of x x, x the
          reference, y the result, over all layers and steps; y = 0 if skipped, NaN with overflow.
          SGD's learning rate times this factor. ``gain_low``, ``gain_high``: its 95 % interval over
          the steps, as independent draws; NaN for fewer than four steps.
        - ``lost_gain``: the mean over the layers of abs(1 - the layer's ``gain`` over all steps):
          the share of the layers that is lost, where the others keep their gain; 1 for a layer with
          overflow. Layers whose gradients are 0 are omitted.
        - ``orthogonal_error_over_noise``: the squared error without the part along x, in every
          layer and step, over the noise; ``inf`` with overflow, NaN if the noise is unknown.
        - ``persistence_k``, k = 1, 3, 10, 30: how much of the error stays over k steps: the squares
          of its sums over windows of k consecutive steps, over the sums of their noise. The same
          for every k if the error averages out; k times that of one step if it stays.
          ``..._low``, ``..._high``: the 95 % interval over the windows, NaN for fewer than four;
          ``typical_...``: the geometric mean over blocks of 32 elements in the place of the sums.
          NaN without `Results.persistence`, and by step.
        - ``update_loss_k``, k = 3, 10, 30: how far the exchange turns what an optimizer does in k
          steps with the whole model: 1 - the cosine between the sums over k consecutive steps of
          its updates with the exchange and with exact sums, mean over the windows; 1 for a window
          with overflow. SGD's update is the gradient, Adam's has every element over the root of its
          mean square over all steps so far, LARS's every layer over its length. ``..._low``,
          ``..._high``: the 95 % interval over the windows, NaN for fewer than four. NaN where
          ``persistence_k`` is, apart from one worker, and without an optimizer.
        - ``expected_excess``, only with `gained`: the excess training loss in nats by
          ``update_loss_10``, else ``update_loss_3``, as `expected_excess` has it; ``..._low``,
          ``..._high``: its 95 % interval; ``..._refused``: why there is none, a sentence.
        - ``worst_nmse``, ``worst_layer``, ``worst_step``: the largest NMSE of one layer at one
          step, by the same rules but ``inf`` with overflow, and its first occurrence.
        - ``nmse``, ``relative_bias``: pooled over all layers and steps; y = 0 if skipped, ``nmse``
          is ``inf`` with overflow.
        - ``expected_variance``: mean of Var[y] over the random draws, divided by the mean squared
          reference.
        - ``underflow_wire``, ``underflow_reduced``: shares of nonzero values that became 0, without
          skipped rows.
        - ``volume``: bytes of the busiest rank divided by those of an fp32 ring all-reduce.
        - ``bits_above_limit``: by how many bits per value an ideal code could be shorter at the
          same ``error_over_noise``, 1/2 log2 of it over the limit of 32 ``volume`` bits. Only of
          reductions in which each value is sent once to the sum and once back, NaN for others, and
          for results without a `Results.limit`. docs/limit.md.
        - ``time``, ``speedup``: modelled seconds per step, and relative to the fp32 ring;
          `cost.step_time`.
        - ``skipped``, ``overflowed``: numbers of such steps.
        - ``nonfinite``: number of the trace's steps with gradients that are NaN or infinite. The
          numbers above do not include them: in such a step only finite values were compared.
        - ``gaps``: number of steps at which a scheme with memory had that of an earlier step than
          the one before, which was not replayed. Its errors are not those of a run, and it has no
          rank.
        - ``lost_layers``: number of layers of which less than half arrives: their ``gain`` over all
          steps is below 1/2, or a result overflows. Such a scheme is never the best of its bytes.

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
    found = rows.core.summary(
        rows.core.compared_rows(), batch_factor, noise_of(results), persistence.windows_of(results),
        optimizer=optimizer,
    )  # fmt: skip
    out = frame_of_summary(rows, found)
    times = modelled_times(rows, options_of(network or Network(), elements=elements))
    model = times.set_index(_KEY)[["seconds", "speedup"]]
    out[["time", "speedup"]] = model.reindex(pd.MultiIndex.from_frame(out[_KEY])).to_numpy()
    out["bits_above_limit"] = column_of(out, results, batch_factor)
    families = {spec: family_of(spec) for spec in out["scheme"].unique()}
    out["family"] = [families[spec] for spec in out["scheme"]]
    out = out.iloc[found["order"]].reset_index(drop=True)[list(COLUMNS)]
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


def of_topology(rows: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Rows of one topology per trace and scheme: that of `headline`, or ``exact`` for all."""
    if topology == "exact":
        return rows[rows["topology"] == topology]
    kept = headline(rows[_KEY].drop_duplicates(), topology)
    return rows[pd.MultiIndex.from_frame(rows[_KEY]).isin(pd.MultiIndex.from_frame(kept))]


def ranked(results: Any) -> pd.DataFrame:
    """The `front` of `summary`."""
    frame = frame_of(results)
    return front(summary(frame), headline_topology(frame)).reset_index(drop=True)


def family_of(spec: str) -> str:
    """The family of a scheme of the results; unknown for one made in another process."""
    try:
        return as_scheme(spec).family
    except ValueError:
        return "other"


def check_batch_factor(batch_factor: float) -> None:
    """Refuses a factor that is not positive and finite."""
    if not 0 < number("batch_factor", batch_factor) < float("inf"):
        raise ValueError(f"batch_factor={batch_factor} is not a positive number, such as 4")
