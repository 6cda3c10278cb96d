"""Joins results: shards of a replay, replays of several traces, or with several schemes."""

from __future__ import annotations

import json
import os
from typing import Any

from .columns import length_of
from .joined import Joined, in_order
from .results import Results
from .stored import OnFile


def _concatenate(
    parts: list[Results], provenance: dict[str, Any], histograms: list[Results] | None = None
) -> Results:
    """Rows of several results in the order of one run; histograms of all, or of the given ones."""
    import pandas as pd

    def joined(name: str, of: list[Results]) -> pd.DataFrame | Joined:
        tables = [part._tables[name] for part in of]
        on_file = [table for table in tables if isinstance(table, OnFile)]
        if len(on_file) == len(tables) and all(t.columns == on_file[0].columns for t in on_file):
            return Joined(on_file, provenance)
        return in_order(pd.concat([getattr(p, name) for p in of], ignore_index=True), provenance)

    counted = histograms or parts
    # Of a trace the limit is whole in one part: it does not depend on schemes or shards.
    limit_of: dict[str, pd.DataFrame] = {}
    for part in parts:
        for trace in part.limit["trace"].unique():
            limit_of.setdefault(trace, part.limit[part.limit["trace"] == trace])
    listed = [limit_of[t["name"]] for t in provenance["traces"] if t["name"] in limit_of]
    limits = pd.concat(listed, ignore_index=True) if listed else None
    with_persistence = [part for part in parts if length_of(part._tables["persistence"])]
    return Results(
        joined("frame", parts), joined("histograms", counted), provenance,
        joined("noise", counted), limits,
        joined("persistence", with_persistence) if with_persistence else None,
    )  # fmt: skip


def merge(results: list[Results | str | os.PathLike[str]]) -> Results:
    """Join shards of one replay, or replays of other schemes or of other traces.

    Parameters
    ----------
    results : list of Results or folders
        All N shards of a replay, in any order; whole replays of the same traces, with the same
        selection, through different schemes; or whole replays of different traces with the same
        schemes. Topologies, seed, draws and version must be the same. Selections of different
        traces may differ: `command` has each.

    Returns
    -------
    Results
        The rows of all, in the order of one run, schemes in the order given; for one trace, exactly
        the rows of one run.

    Raises
    ------
    ValueError
        Overlapping or missing shards, replays that differ in their settings, a trace or its scheme
        given twice.
    """
    if isinstance(results, (str, os.PathLike, Results)):
        results = [results]
    parts = [r if isinstance(r, Results) else Results.open(r) for r in results]
    if not parts:
        raise ValueError("there is nothing to merge; give at least one RESULTS folder")
    groups: dict[str, list[Results]] = {}
    for part in parts:
        p = part.provenance
        settings = {k: p[k] for k in ("topologies", "seed", "draws", "version")}
        first = {k: parts[0].provenance[k] for k in settings}
        if settings != first:
            wrong = next(k for k in settings if settings[k] != first[k])
            raise ValueError(
                f"the results differ in their {wrong} ({settings[wrong]} and {first[wrong]}) and "
                "cannot be merged"
            )
        traces = [{k: t[k] for k in t if k != "optimizer"} for t in p["traces"]]
        groups.setdefault(json.dumps([traces, p["selection"]]), []).append(part)
    for group in groups.values():
        _check_optimizers(group)
    merged = [_join_schemes(group) for group in groups.values()]
    names: list[str] = [t["name"] for part in merged for t in part.provenance["traces"]]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"trace '{name}' is in more than one of the results, with overlapping rows or "
                "another selection"
            )
    for part in merged:
        if (one := part.provenance["schemes"]) != (other := merged[0].provenance["schemes"]):
            raise ValueError(
                f"the results differ in their schemes ({one} and {other}) and cannot be merged: "
                "every trace needs the same ones"
            )
    provenance = _provenance(merged)
    provenance["traces"] = [t for part in merged for t in part.provenance["traces"]]
    return _concatenate(merged, provenance)


def _check_optimizers(group: list[Results]) -> None:
    """Whether results of the same traces have the same optimizer of each."""
    for of_trace in zip(*(part.provenance["traces"] for part in group), strict=True):
        optimizers = [trace.get("optimizer", "none") for trace in of_trace]
        if other := next((one for one in optimizers if one != optimizers[0]), None):
            raise ValueError(
                f"the results differ in the optimizer of trace '{of_trace[0]['name']}' ({other} "
                f"and {optimizers[0]}) and cannot be merged; replay all of them with the same --optimizer"
            )


def _provenance(parts: list[Results]) -> dict[str, Any]:
    """The provenance of the first, with the commands of all."""
    provenance = dict(parts[0].provenance)
    if len(parts) > 1:
        provenance["command"] = " && ".join(
            dict.fromkeys(part.provenance["command"] for part in parts)
        )
        provenance["command_of_whole"] = provenance["command"]
    return provenance


def _join_schemes(group: list[Results]) -> Results:
    """Results of the same traces: shards first, then schemes beside each other."""
    shards: dict[str, list[Results]] = {}
    for part in group:
        shards.setdefault(json.dumps(part.provenance["schemes"]), []).append(part)
    whole = [_join_shards(parts) for parts in shards.values()]
    provenance = _provenance(whole)
    provenance["schemes"] = [scheme for part in whole for scheme in part.provenance["schemes"]]
    for scheme in provenance["schemes"]:
        if provenance["schemes"].count(scheme) > 1:
            raise ValueError(
                f"scheme '{scheme}' is in more than one of the results of trace "
                f"'{provenance['traces'][0]['name']}': its rows overlap"
            )
    return _concatenate(whole, provenance, histograms=whole[:1])  # they belong to the traces


def _join_shards(group: list[Results]) -> Results:
    of = {part.provenance["shard"][1] for part in group}
    if len(of) > 1:
        raise ValueError(
            f"the results are shards of different splits ({sorted(of)}); "
            "merge the shards of one split"
        )
    (count,) = of
    seen = sorted(part.provenance["shard"][0] for part in group)
    for shard in range(count):
        if seen.count(shard) > 1:
            raise ValueError(
                f"shard {shard}/{count} is given {seen.count(shard)} times, so its rows overlap"
            )
        if shard not in seen:
            raise ValueError(
                f"shard {shard}/{count} is missing; the results have shards "
                f"{', '.join(map(str, seen))}"
            )
    if len({part.provenance.get("persistence", False) for part in group}) > 1:
        raise ValueError(
            "some of the shards were replayed with persistence, which divides the work otherwise; "
            "replay all of them with it, or all without"
        )
    provenance = dict(group[0].provenance)
    provenance["shard"] = [0, 1]
    provenance["command"] = provenance["command_of_whole"]
    return _concatenate(group, provenance)
