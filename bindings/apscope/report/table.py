"""The one table of the report: a row a trace and scheme, with sort keys."""

from __future__ import annotations

import math
from typing import Any

from ..cost import Network
from .measure import LARGE, OVERFLOWED
from .words import figure, percent, time


def table(measures: list[dict[str, Any]]) -> dict[str, Any]:
    """Heads and rows for the template.

    Returns
    -------
    dict
        ``heads``: dicts of ``text``, ``title``. ``rows``: dicts of ``cells``, a list of dicts of
        ``text``, ``key`` (a number or text to sort by; empty sorts last) and ``mark`` (a CSS class),
        in the order of the heads.
    """
    topologies = list(dict.fromkeys(t for m in measures for t in m["topologies"]))
    heads = [
        ("Scheme", "the keys in which schemes of the same name differ"),
        ("Trace", "the recorded trace"),
        ("Rank", "inside the trace: by NMSE of the ranked reduction; steps skipped and overflow rank last"),
        ("NMSE", "of the ranked reduction"),
        ("NMSE wire", "each worker's values against what it sent"),
        ("Bits a value", "one worker's payload and side information over the elements"),
        ("Total bits", "one worker's payload and side information, a step"),
        ("Time", f"modelled seconds of communication a step, not measured: {Network()}; the ranked reduction, all tensors in one message, as recorded"),
        (f"Time, {LARGE / 1e6:.0f}M", f"the same for a model of {LARGE:,} parameters, the tensors as recorded but all larger by one factor"),
        ("Format", "float format, or grid"),
        ("SQNR wire", "dB, each worker's values against what it sent"),
        *((f"SQNR {t}", "dB, reduced gradient" + (", added without rounding" if t == "exact" else "")) for t in topologies),
        ("Median SQNR", "dB, median over the layers and steps of the ranked reduction"),
        ("Underflow", "share of nonzero values sent as 0, at the wire"),
        ("Overflow wire", "finite values sent as infinity or NaN"),
        ("Overflow sums", "finite sums that became infinite or NaN, in the worst topology"),
        ("Bias wire", "mean error of what is sent"),
        ("Bias", "mean error of the ranked reduction"),
        ("Variance wire", "of the error of what is sent"),
        ("Variance", "of the error of the ranked reduction"),
        ("Skipped", "steps the scheme dropped"),
    ]
    rows = []
    for m in measures:
        for e in sorted(m["schemes"], key=lambda e: e["rank"]):
            head, wire = e["headline"], e["wire"]
            sums = [r["overflow"] for r in e["reduced"].values() if r["overflow"] is not None]
            cells = [
                _text(e["label"]) | {"title": e["scheme"]}, _text(m["trace"]), _cell(e["rank"], str(e["rank"])),
                _cell(head["nmse"], figure(head["nmse"]) + ("†" if head["overflow"] else ""), "over" if head["overflow"] else ""),
                _cell(wire["nmse"], figure(wire["nmse"]) + ("†" if wire["overflow"] else ""), "over" if wire["overflow"] else ""),
                _cell(e["bits_per_value"], figure(e["bits_per_value"])), _cell(e["total_bits"], f"{e['total_bits']:,.0f}"),
                _cell(e["model_seconds"], time(e["model_seconds"])), _cell(e["model_seconds_large"], time(e["model_seconds_large"])),
                _text(e["format"]),
                _decibel(wire), *(_decibel(e["reduced"].get(t), ranked=t in e["topologies"]) for t in topologies),
                _cell(e["median_sqnr_db"], _db(e["median_sqnr_db"])), _cell(wire["underflow_rate"], percent(wire["underflow_rate"])),
                _count(wire["overflow"]), _count(max(sums) if sums else None),
                *(_cell(row[name], figure(row[name], 2)) for name in ("bias", "variance") for row in (wire, head)),
                _cell(len(e["skipped"]), f"{len(e['skipped'])} of {e['steps']}" if e["skipped"] else "0"),
            ]
            rows.append({"cells": cells, "last": e["status"] == OVERFLOWED, "best": e["rank"] == 1 and e["headline"]["nmse"] is not None})
    return {"heads": [{"text": text, "title": title} for text, title in heads], "rows": rows}


def _text(text: str) -> dict[str, Any]:
    return {"text": text, "key": text, "mark": "text"}


def _cell(value: float | int | None, text: str, mark: str = "") -> dict[str, Any]:
    return {"text": text, "key": "" if value is None else repr(value), "mark": mark}


def _db(value: float | None) -> str:
    return "–" if value is None else "∞" if math.isinf(value) else f"{round(value, 1) + 0.0:.1f}".replace("-", "−")


def _decibel(row: dict[str, Any] | None, ranked: bool = False) -> dict[str, Any]:
    if row is None:
        return _cell(None, "")
    marks = ("ranked " if ranked else "") + ("over" if row["overflow"] else "")
    return _cell(row["sqnr_db"], _db(row["sqnr_db"]) + ("†" if row["overflow"] else ""), marks.strip())


def _count(value: int | None) -> dict[str, Any]:
    return _cell(value, "–" if value is None else str(value), "over" if value else "")
