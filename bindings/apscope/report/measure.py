"""The numbers of a report: what each scheme lost on a trace, pooled, by layer and by step.

Ranking: schemes that kept every step without overflow come first, then those that skipped steps (a
skipped step loses its whole gradient), then those with overflow, then those without a number; inside
a group by the pooled NMSE of the headline row. A scheme that skipped every step has no number.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ..cost import step_time
from ..labels import short_labels
from ..pooling import OWN_REDUCTIONS, headline_rows, headline_topology, pool, topologies_of, whole_sums
from ..schemes import as_scheme

#: Two NMSEs nearer than this, relative to the larger, are called level.
LEVEL = 0.01

#: Parameters of the larger model that the table's second time is for: that of ResNet-50.
LARGE = 25_557_032

COMPLETE, SKIPPED, OVERFLOWED, UNMEASURED = "complete", "skipped", "overflow", "unmeasured"
_GROUPS = (COMPLETE, SKIPPED, OVERFLOWED, UNMEASURED)

_NUMBERS = ("sqnr_db", "nmse", "bias", "variance", "underflow_rate")
_COUNTS = ("counted", "nonzero", "underflow", "subnormal", "saturated", "overflow", "nan", "infinite")


def measure(frame: pd.DataFrame) -> dict[str, Any]:
    """Numbers of one trace's rows; see the keys below. Missing numbers are None."""
    specs = list(dict.fromkeys(frame["scheme"]))
    labels = short_labels(specs)
    headline = headline_topology(frame)
    wire = pool(frame[frame["stage"] == "wire"], ["scheme"]).set_index("scheme")
    reduced_rows = frame[frame["stage"] == "reduced"]
    reduced = pool(whole_sums(reduced_rows), ["scheme", "topology"]).set_index(["scheme", "topology"])
    # A trace recorded after the reduction has wire rows only; they are then what is compared.
    heads = headline_rows(frame) if len(reduced_rows) else frame[frame["stage"] == "wire"]
    cells = pool(heads, ["scheme", "tensor", "step"])
    whole = pool(heads, ["scheme"]).set_index("scheme")
    seconds = {n: _seconds(heads, n) for n in (None, LARGE)}
    schemes = []
    for spec in specs:
        own_rows = frame[frame["scheme"] == spec]
        head_rows = heads[heads["scheme"] == spec]
        topologies = [t for t in dict.fromkeys(head_rows["topology"]) if t]
        own = [t for t in topologies if t in OWN_REDUCTIONS]
        bits = own_rows.loc[own_rows["stage"] == "wire", ["wire_bits", "side_bits"]].astype(float).sum().sum()
        entry = {
            "scheme": spec, "label": labels[spec], "format": own_rows["format"].iloc[0],
            "steps": int(own_rows["step"].nunique()),
            "skipped": sorted(int(s) for s in own_rows.loc[own_rows["skipped"].astype(bool), "step"].unique()),
            "bits_per_value": _number(wire["bits_per_value"].get(spec)),
            "total_bits": float(bits) / own_rows["step"].nunique(),
            "model_seconds": seconds[None].get(spec), "model_seconds_large": seconds[LARGE].get(spec),
            "wire": _row(wire, spec),
            "reduced": {t: _row(reduced, (spec, t)) for t in topologies_of(reduced_rows) if (spec, t) in reduced.index},
            "topology": " and ".join(topologies), "topologies": topologies,
            "gathered": topologies == ["gather"],
            "own_reduction": bool(own),
            "stateful": _keeps_state(spec),
            "wide_sums": "accumulate=" in spec,
            "least_in": 0, "least_in_among_adding": 0,
            "notes": sorted({str(n) for n in own_rows["note"].dropna() if str(n)}) if "note" in own_rows else [],
        }
        # Every addition is rounded to the format that is sent.
        entry["adds_in_format"] = not entry["own_reduction"] and not entry["wide_sums"]
        entry["headline"] = entry["wire"] if not topologies else entry["reduced"][topologies[0]] if len(topologies) == 1 else _row(whole, spec)
        entry |= _by_cell(cells[cells["scheme"] == spec])
        entry["status"] = _status(entry)
        schemes.append(entry)
    order = sorted(range(len(schemes)), key=lambda i: (schemes[i]["headline"]["nmse"] is None, _GROUPS.index(schemes[i]["status"]), _or_infinity(schemes[i]["headline"]["nmse"]), i))
    for rank, i in enumerate(order, 1):
        schemes[i]["rank"] = rank
    first = [e for e in schemes if e["status"] == schemes[order[0]]["status"]]
    _count_wins(first, cells, "least_in")
    _count_wins([e for e in first if e["adds_in_format"]], cells, "least_in_among_adding")
    return {
        "trace": frame["trace"].iloc[0], "workers": int(frame["workers"].iloc[0]), "steps": int(frame["step"].nunique()),
        "layers": int(frame["tensor"].nunique()), "cells": int(frame.groupby(["tensor", "step"], sort=False).ngroups),
        "headline_topology": headline if len(reduced_rows) else "", "topologies": topologies_of(reduced_rows), "schemes": schemes,
    }


def on_kept_steps(frame: pd.DataFrame, spec: str, other: str) -> float | None:
    """Headline NMSE of `other` over the steps that `spec` kept."""
    rows = frame[frame["scheme"] == spec]
    kept = set(rows.loc[~rows["skipped"].astype(bool), "step"])
    heads = headline_rows(frame) if (frame["stage"] == "reduced").any() else frame[frame["stage"] == "wire"]
    pooled = pool(heads[(heads["scheme"] == other) & heads["step"].isin(kept)], ["scheme"])
    return _number(pooled["nmse"].iloc[0]) if len(pooled) else None


def level(a: float | None, b: float | None) -> bool:
    """Whether two NMSEs are within `LEVEL` of each other."""
    return a is not None and b is not None and abs(a - b) <= LEVEL * max(a, b)


def _status(entry: dict[str, Any]) -> str:
    if entry["headline"]["nmse"] is None:
        return SKIPPED if entry["skipped"] else UNMEASURED
    if (entry["wire"]["overflow"] or 0) + (entry["headline"]["overflow"] or 0) > 0:
        return OVERFLOWED
    return SKIPPED if entry["skipped"] else COMPLETE


def _row(table: pd.DataFrame, key: Any) -> dict[str, float | int | None]:
    if key not in table.index:
        return dict.fromkeys((*_NUMBERS, *_COUNTS))
    row = table.loc[key]
    numbers = {name: _number(row[name]) for name in _NUMBERS}
    return numbers | {name: None if pd.isna(row[name]) else int(row[name]) for name in _COUNTS}


def _count_wins(entries: list[dict[str, Any]], cells: pd.DataFrame, key: str) -> None:
    """In how many (layer, step) pairs an entry's NMSE is the least of these entries; level ones count for each."""
    sound = cells[cells["scheme"].isin([e["scheme"] for e in entries]) & cells["nmse"].notna() & ~(cells["overflow"] > 0)]
    least = sound.groupby(["tensor", "step"], sort=False)["nmse"].transform("min")
    wins = sound[sound["nmse"] * (1 - LEVEL) <= least]["scheme"].value_counts()
    for e in entries:
        e[key] = int(wins.get(e["scheme"], 0))


def _by_cell(cells: pd.DataFrame) -> dict[str, Any]:
    """Median and worst (layer, step), and the layer that holds most of the error."""
    out: dict[str, Any] = {"median_sqnr_db": None, "worst": None, "heaviest": None, "first_overflow": None}
    measured = cells[cells["nmse"].notna()]
    if len(measured):
        out["median_sqnr_db"] = _number(measured["sqnr_db"].median())
        worst = measured.loc[measured["nmse"].idxmax()]
        out["worst"] = {"tensor": worst["tensor"], "step": int(worst["step"]), "nmse": _number(worst["nmse"])}
        errors = measured.groupby("tensor", sort=False)["sum_squared_error"].sum()
        if errors.sum() > 0:
            out["heaviest"] = {"tensor": errors.idxmax(), "share": float(errors.max() / errors.sum())}
    over = cells[cells["overflow"] > 0]
    if len(over):
        first = over.loc[over["step"].astype(int).idxmin()]
        out["first_overflow"] = {"tensor": first["tensor"], "step": int(first["step"])}
    return out


def _seconds(heads: pd.DataFrame, elements: int | None) -> dict[str, float | None]:
    """Modelled seconds a step by scheme; none where there is nothing to reduce or no model."""
    table = step_time(heads, elements=elements)
    return {spec: _number(value) for spec, value in table.groupby("scheme", sort=False)["seconds"].max().items()}


def _keeps_state(spec: str) -> bool:
    try:
        return as_scheme(spec).keeps_state
    except ValueError:
        return False  # made in another process


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)


def _or_infinity(value: float | None) -> float:
    return math.inf if value is None else value
