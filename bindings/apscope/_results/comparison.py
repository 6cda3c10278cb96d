"""Compares two schemes layer by layer: which has less error, in how many steps, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._arrays.float_environment import guarded
from .._schemes.scheme import as_scheme
from .._text import clip, hint
from .pooling import (
    PARTS,
    frame_of,
    groups,
    infinite_with,
    is_own,
    losses,
    numbers,
    over_noise,
    quotient,
    total,
    total_of_present,
    whole_sums,
)
from .summary import cosines, step_losses

__all__ = ["COLUMNS", "compare", "compare_steps", "hint", "met", "ratios", "scheme_in"]

#: Columns of `compare`, in order.
COLUMNS = (
    "trace", "layer", "whole", "steps", "wins", "losses", "ties", "median_ratio", "worst_ratio", "geometric_ratio",
    "error_over_noise_a", "error_over_noise_b", "step_nmse_a", "step_nmse_b", "nmse_a", "nmse_b", "underflow_wire_a", "underflow_wire_b", "underflow_reduced_a", "underflow_reduced_b",
    "cosine_a", "cosine_b", "overflowed_a", "overflowed_b", "accumulation_a", "accumulation_b", "share_underflow_a", "share_underflow_b", "share_rounding_a", "share_rounding_b",
    "share_saturation_a", "share_saturation_b", "share_accumulation_a", "share_accumulation_b", "share_interaction_a", "share_interaction_b",
    "topology_a", "topology_b", "scheme_a", "scheme_b",
)  # fmt: skip

_CELL = ["trace", "tensor", "step"]


class _Pair(NamedTuple):
    """Two schemes in one trace."""

    trace: str
    cells: pd.DataFrame  # a row per layer and step with the sums of both; by layer
    topologies: tuple[str, str]
    schemes: tuple[str, str]


@guarded
def compare(
    results: Any,
    a: Any,
    b: Any,
    topology: str | None = None,
    layers: bool = True,
    against: Any = None,
) -> pd.DataFrame:
    """Scheme `a` against scheme `b`, or several; a ratio below 1, and a win, mean less error of `a`.

    Parameters
    ----------
    results : Results or DataFrame
        A RESULTS table.
    a : Scheme or str
        A spec in any spelling.
    b : Scheme, str or a sequence of them
    topology : str, optional
        Of both; by default the first that both have and that is not ``exact``. A scheme with its
        own reduction always uses that, except for ``exact`` and ``wire``: the messages before any
        sum. Traces without reduced rows compare the wire.
    layers : bool
        Whether to add a row per layer.
    against : Results or DataFrame, optional
        Other results, with `b`: of another seed, recording or version. Traces are matched by name,
        or as the only one of each; layers and steps that only one has are omitted.

    Returns
    -------
    DataFrame
        `COLUMNS`: for every trace with both schemes a row for all layers (``layer`` is ``all``,
        ``whole`` True: a layer may have that name) and one per layer, in the trace's order. Let L
        be the NMSE at one step of the layer, or of all layers together; 1 if the scheme skipped the
        step, at least 1 with overflow. Steps with a reference of zero are omitted, and so are
        layers and steps for which one of the schemes has no numbers because the trace lacks its
        inputs.

        - ``steps``, of which ``wins`` (L of a below that of b), ``losses`` and ``ties``;
        - ``median_ratio``, ``worst_ratio``: of L of a divided by L of b, over the steps; 1 if both
          are 0;
        - ``geometric_ratio``: the geometric mean of that ratio over layers and steps. 0 if L of a
          is 0 somewhere and L of b is not, ``inf`` the other way round, NaN if both occur;
        - ``error_over_noise``: the typical block's squared error divided by the noise of the batch
          (docs/definitions.md, section 16);
        - ``step_nmse``: mean of L over the steps; ``nmse``: pooled, the sum of squared errors over that of squared
          references, ``inf`` with overflow; ``overflowed``: steps with overflow;
        - ``underflow_wire``, ``underflow_reduced``: shares of nonzero values that became 0, without
          skipped rows;
        - ``cosine``: mean over layers and steps, 0 if skipped or overflowed;
        - ``accumulation``: share of the reduced squared error that is not in ``exact``, so is due
          to rounding sums; below 0 if it happens to cancel errors of the wire. Skipped rows are
          omitted; NaN with overflow;
        - ``share_underflow``, ``share_rounding``, ``share_saturation``, ``share_accumulation``: the
          shares in the same squared error of the squares of its parts, the workers' errors by class
          of element and those of the additions; ``share_interaction`` is that of the cross terms,
          below 0 if the parts cancel. They add up to 1; NaN if a row has no split, or overflow;
        - ``topology_a``, ``topology_b``, ``scheme_a``, ``scheme_b``: the compared ones.

        The rows of several `b` are in the order given.

    Raises
    ------
    ValueError
        A scheme or topology that the results do not have, schemes without a common topology; no
        `b`; with `against` no common trace, or no common layer and step.
    """
    others = list(b) if isinstance(b, Iterable) and not isinstance(b, str) else [b]
    if not others:
        raise ValueError(f"b is empty; give a scheme to compare '{a}' with")
    return pd.concat(
        [_by_layer(_pairs(results, a, other, topology, against), layers) for other in others],
        ignore_index=True,
    )


def _by_layer(pairs: list[_Pair], layers: bool) -> pd.DataFrame:
    """`compare` of the result of `_pairs`."""
    tables = []
    for trace, cells, topologies, schemes in pairs:
        table = pd.concat([_rows(cells, whole) for whole in ((True, False) if layers else (True,))])
        table.insert(0, "trace", trace)
        names = (*topologies, *schemes)
        tables.append(
            table.assign(**dict(zip(("topology_a", "topology_b", "scheme_a", "scheme_b"), names)))
        )
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


@guarded
def ratios(results: Any, a: Any, b: Any, topology: str | None = None) -> pd.DataFrame:
    """The ratio of two schemes' NMSE at every layer and step; arguments and errors as for `compare`.

    Returns
    -------
    DataFrame
        trace, layer, step, ``nmse_a``, ``nmse_b`` (L of `compare`), ``ratio`` (a divided by b; 1 if
        both are 0), ``overflow_a``, ``overflow_b`` (elements), ``topology_a``, ``topology_b``; NaN
        if the reference is zero.
    """
    tables = []
    for trace, cells, names, _ in _pairs(results, a, b, topology):
        one, other = _layer_nmse(cells)
        table = (
            cells[["tensor", "step", "overflow_a", "overflow_b"]]
            .rename(columns={"tensor": "layer"})
            .reset_index(drop=True)
        )
        table.insert(0, "trace", trace)
        tables.append(
            table.assign(
                nmse_a=one,
                nmse_b=other,
                ratio=_ratio(one, other),
                topology_a=names[0],
                topology_b=names[1],
            )
        )
    return pd.concat(tables, ignore_index=True)


@guarded
def compare_steps(results: Any, a: Any, b: Any, topology: str | None = None) -> pd.DataFrame:
    """Scheme `a` against scheme `b`, step by step.

    Parameters
    ----------
    results, a, b, topology
        As for `compare`. Returns
    -------
    DataFrame
        One row per trace and step that `compare` counts: ``trace``, ``step``, ``nmse_a``,
        ``nmse_b`` (all layers of the step together, L of `compare`), and the numbers of layers in
        which `a` has less, more or equal error: ``layers_won``, ``layers_lost``, ``layers_level``.

    Raises
    ------
    ValueError
        As `compare`.
    """
    return _by_step(_pairs(results, a, b, topology))


def _by_step(pairs: list[_Pair]) -> pd.DataFrame:
    """`compare_steps` of the result of `_pairs`."""
    tables = []
    for trace, cells, _, _ in pairs:
        step, first = groups(cells, ["step"])
        whole = [_step_nmse(cells, s, step, len(first)) for s in "ab"]
        one, other = _layer_nmse(cells)
        table = pd.DataFrame(
            {
                "trace": trace,
                "step": cells["step"].to_numpy()[first],
                "nmse_a": whole[0],
                "nmse_b": whole[1],
            }
        )
        for name, which in (("won", one < other), ("lost", one > other), ("level", one == other)):
            table[f"layers_{name}"] = np.bincount(step[which], minlength=len(first))
        tables.append(table[table["nmse_a"].notna() & table["nmse_b"].notna()].sort_values("step"))
    return pd.concat(tables, ignore_index=True)


def _pairs(results: Any, a: Any, b: Any, topology: str | None, against: Any = None) -> list[_Pair]:
    """The two schemes in every trace with both; with `against`, `b` is of those results."""
    first = frame_of(results)
    second = first if against is None else frame_of(against)
    a, b = scheme_in(first, a), scheme_in(second, b)
    ones, others, pairs = first[first["scheme"] == a], second[second["scheme"] == b], []
    for trace, other_trace in met(
        *(list(table["trace"].unique()) for table in (first, second))
    ).items():
        one, other = ones[ones["trace"] == trace], others[others["trace"] == other_trace]
        if len(one) and len(other):
            names = _topologies(one, other, a, b, topology)
            cells = _cells(one, names[0]).merge(
                _cells(other.assign(trace=trace), names[1]), on=_CELL, suffixes=("_a", "_b")
            )
            if against is not None and not len(cells):
                continue
            cells = cells[cells["error_a"].notna() & cells["error_b"].notna()]
            places = {layer: place for place, layer in enumerate(one["tensor"].unique())}
            pairs.append(
                _Pair(
                    trace,
                    cells.sort_values("tensor", key=lambda names: names.map(places), kind="stable"),
                    names,
                    (a, b),
                )
            )
    if not pairs:
        raise ValueError(
            f"no trace of the results has both '{a}' and '{b}'"
            if against is None
            else f"no trace of the first results with '{a}' has a layer and step in common with one of the second with '{b}'"
        )
    return pairs


def met(here: Sequence[str], there: Sequence[str]) -> dict[str, str]:
    """Matches traces of two results: by name, or as the only one of each."""
    return (
        {here[0]: there[0]}
        if len(here) == len(there) == 1
        else {name: name for name in here if name in there}
    )


def scheme_in(frame: pd.DataFrame, scheme: Any) -> str:
    """The spec of the scheme, given in any spelling, in a table.

    Raises
    ------
    TypeError
        Neither a Scheme nor a str.
    ValueError
        The table has no rows of it; the message lists the schemes that it has.
    """
    held = list(frame["scheme"].unique())
    if isinstance(scheme, str) and scheme in held:  # perhaps of another process with more schemes
        return scheme
    try:
        spec = as_scheme(scheme).spec
    except ValueError:
        name, _, settings = str(scheme).partition(":")
        if "," in settings and any(one.startswith(f"{name}:") for one in held):
            raise  # a key or value that this scheme does not have
        spec = str(
            scheme
        )  # not a spec, such as the bare name of a scheme that needs a format: the message below says more
    if spec in held:
        return spec
    raise ValueError(
        f"the results have no scheme '{clip(str(scheme), 200)}'; {hint(str(scheme), held)}"
    )


def _topologies(
    one: pd.DataFrame, other: pd.DataFrame, a: str, b: str, wanted: str | None
) -> tuple[str, str]:
    """The compared rows of each of the two schemes in one trace."""
    held = {}
    for spec, rows in ((a, one), (b, other)):
        held[spec] = list(whole_sums(rows[rows["stage"] == "reduced"])["topology"].unique())
    if wanted == "wire" or not (held[a] and held[b]):
        return "wire", "wire"
    crossing = [[t for t in held[spec] if t != "exact" and not is_own(t)] for spec in (a, b)]
    if wanted is None:
        choices = [t for t in crossing[0] or crossing[1] if not crossing[1] or t in crossing[1]]
        if not choices and (crossing[0] or crossing[1]):
            raise ValueError(
                f"'{a}' and '{b}' have no topology in common; say which, such as exact or wire"
            )
        wanted = choices[0] if choices else ""
    found = []
    for spec, own in zip((a, b), crossing):
        alone = [t for t in held[spec] if is_own(t)]
        topology = alone[0] if alone and not own and wanted != "exact" else wanted
        if topology not in held[spec]:
            raise ValueError(
                f"'{spec}' has no topology '{topology}' in the results; use one of {', '.join([*held[spec], 'wire'])}"
            )
        found.append(topology)
    return found[0], found[1]


def _cells(rows: pd.DataFrame, topology: str) -> pd.DataFrame:
    """A row per layer and step of one scheme: the additive columns."""
    wire = rows[rows["stage"] == "wire"]
    reduced = whole_sums(rows[rows["stage"] == "reduced"])
    chosen = wire if topology == "wire" else reduced[reduced["topology"] == topology]
    lost = losses(chosen)
    cosine, present = cosines(chosen, lost)
    sent = np.where(lost["skipped"], 0.0, 1.0)
    cells = chosen[_CELL].assign(
        error=lost["error"], reference=lost["reference"], overflow=lost["overflow"],
        log2_over_noise=lost["log2_over_noise"], noise_blocks=lost["noise_blocks"],
        cosine=np.where(present, cosine, 0.0), layers=present * 1.0, sent_error=lost["error"] * sent,
        **{part: np.where(sent > 0, numbers(chosen, part), 0.0) for part in PARTS},
    )  # fmt: skip
    cells = cells.merge(_underflow(wire, "wire"), on=_CELL, how="left")
    if topology == "wire":
        return cells.assign(underflow_reduced=np.nan, nonzero_reduced=np.nan, exact_error=np.nan)
    exact = reduced[reduced["topology"] == "exact"]
    cells = cells.merge(_underflow(chosen, "reduced"), on=_CELL, how="left")
    cells = cells.merge(
        exact[_CELL].assign(exact_error=numbers(exact, "sum_squared_error")), on=_CELL, how="left"
    )
    return cells.assign(exact_error=np.where(sent > 0, cells["exact_error"], 0.0))


def _underflow(rows: pd.DataFrame, stage: str) -> pd.DataFrame:
    sent = ~rows["skipped"].to_numpy(bool)
    counts = {name: np.where(sent, numbers(rows, name), 0.0) for name in ("underflow", "nonzero")}
    return rows[_CELL].assign(**{f"{name}_{stage}": values for name, values in counts.items()})


def _rows(cells: pd.DataFrame, whole: bool) -> pd.DataFrame:
    """One row per layer, or one for all of them."""
    by = [] if whole else ["tensor"]
    group, first = groups(cells, by)
    out: dict[str, Any] = {"layer": ["all"] if whole else cells["tensor"].to_numpy(object)[first]}
    count = len(out["layer"])
    out["whole"] = np.full(count, whole)
    step, step_first = groups(cells, [*by, "step"])
    owner = group[step_first]

    of_step = [_step_nmse(cells, s, step, len(owner)) for s in "ab"]
    there = ~np.isnan(of_step[0]) & ~np.isnan(of_step[1])
    one, other, owner = of_step[0][there], of_step[1][there], owner[there]
    ratio = pd.Series(_ratio(one, other)).groupby(owner)
    places = np.arange(count)
    out["steps"] = np.bincount(owner, minlength=count)
    for name, which in (("wins", one < other), ("losses", one > other), ("ties", one == other)):
        out[name] = np.bincount(owner[which], minlength=count)
    out["median_ratio"] = ratio.median().reindex(places).to_numpy()
    out["worst_ratio"] = ratio.max().reindex(places).to_numpy()
    out["geometric_ratio"] = _geometric(cells, group, count)
    for s, values in (("a", one), ("b", other)):
        out[f"step_nmse_{s}"] = quotient(total(values, owner, count), out["steps"])
    for s in "ab":
        sums = {
            name: total(cells[f"{name}_{s}"].to_numpy(), group, count)
            for name in (
                "error",
                "reference",
                "overflow",
                "cosine",
                "layers",
                "exact_error",
                "sent_error",
                "underflow_reduced",
                "nonzero_reduced",
                *PARTS,
            )
        }
        sums |= {
            name: total_of_present(cells[f"{name}_{s}"].to_numpy(), group, count)
            for name in ("underflow_wire", "nonzero_wire")
        }
        over = total(cells[f"overflow_{s}"].to_numpy(), step, len(step_first)) > 0
        out[f"overflowed_{s}"] = np.bincount(group[step_first][over], minlength=count)
        noise = {
            name: cells[f"{name}_{s}"].to_numpy() for name in ("log2_over_noise", "noise_blocks")
        }
        out[f"error_over_noise_{s}"] = over_noise(noise, group, count)
        out[f"nmse_{s}"] = infinite_with(
            sums["overflow"], quotient(sums["error"], sums["reference"])
        )
        sums["sent_error"] = np.where(
            sums["overflow"] > 0, np.nan, sums["sent_error"]
        )  # an error without its infinite part has no shares
        out[f"cosine_{s}"] = quotient(sums["cosine"], sums["layers"])
        out[f"accumulation_{s}"] = quotient(
            sums["sent_error"] - sums["exact_error"], sums["sent_error"]
        )
        for part in PARTS:
            out[f"{part.replace('split', 'share')}_{s}"] = quotient(sums[part], sums["sent_error"])
        for stage in ("wire", "reduced"):
            out[f"underflow_{stage}_{s}"] = quotient(
                sums[f"underflow_{stage}"], sums[f"nonzero_{stage}"]
            )
    return pd.DataFrame(out)


def _step_nmse(cells: pd.DataFrame, scheme: str, step: np.ndarray, count: int) -> np.ndarray:
    """NaN if there is none."""
    sums = {
        name: total(cells[f"{name}_{scheme}"].to_numpy(), step, count)
        for name in ("error", "reference", "overflow")
    }
    value, present = step_losses(sums)
    return np.where(present, value, np.nan)


def _layer_nmse(cells: pd.DataFrame) -> list[np.ndarray]:
    """Of both schemes, at every layer and step."""
    return [_step_nmse(cells, s, np.arange(len(cells)), len(cells)) for s in "ab"]


def _ratio(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(one == other, 1.0, one / other)


def _geometric(cells: pd.DataFrame, group: np.ndarray, count: int) -> np.ndarray:
    """The geometric mean over layers and steps of the ratio."""
    one, other = _layer_nmse(cells)
    there = ~np.isnan(one) & ~np.isnan(other)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(_ratio(one[there], other[there]))
        return np.exp(
            quotient(total(logs, group[there], count), np.bincount(group[there], minlength=count))
        )
