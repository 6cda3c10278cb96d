"""The page as one text: answers computed here, and rows and scripts for the interactive parts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._charts.choices import instead, named
from .._charts.front import front_chart, kind_of, legend_of
from .._charts.kinds import as_json
from .._charts.layers import worst_of
from .._charts.reference import LEGEND, SAYS
from .._charts.svg import chart_svg, symbol_path
from .._core import FloatFormat
from .._excess_loss.expected import COLUMNS as EXPECTED
from .._excess_loss.expected import ExpectedExcess, expected_excess
from .._page import numbers
from .._page.templates import render
from .._rate_limit.known import Known
from .._replay.ladder import better_reduction
from .._results.choices import worth
from .._results.factors import factor as factor_of
from .._results.factors import step_errors
from .._results.families import FAMILIES
from .._results.figures import FIGURES, columns_of
from .._results.limits import limits_of
from .._results.noise import zero_layers
from .._results.overflow import tight_overflows
from .._results.pooling import coded, compared_rows, topologies_of
from .._results.ranking import RANKS
from .._results.results import Results
from .._results.summary import family_of, without_repeats
from .._results.summary import summary as summary_of
from .._schemes.titles import reduction, titles
from .._text import clip, count_of, visible
from . import cautions, first, glossary, shown_schemes
from .against import changes
from .library import plot_script
from .page_size import fitted
from .payload import base64_of, pack
from .plans import use_of
from .script import script
from .tables import histograms_of, tables_of

_HERE = Path(__file__).parent


def page(results: Any, against: Any = None, *, gained: float | None = None) -> str:
    """The report as self-contained HTML text, which also works in a frame of another page.

    Parameters
    ----------
    results : Results
    against : Results, optional
        Earlier or other results; a section says what changed.
    gained : float, optional
        Of the expected excess loss, as in `report`.

    Raises
    ------
    ValueError
        The results have no rows; `gained` is below 0 or NaN.
    ImportError
        The package with the plotting library is missing.
    """
    from markupsafe import Markup

    frame = coded(results.frame.reset_index(drop=True))
    if not len(frame):
        raise ValueError("the results have no rows, so there is nothing to report")
    topology, bits = shown_schemes.topology_of(frame), shown_schemes.bits_of(frame)
    coded_results = Results(
        frame, results.histograms, results.provenance, results.noise, results.limit,
        results.persistence,
    )  # fmt: skip
    summary = summary_of(coded_results, gained=gained)
    rows = without_repeats(shown_schemes.front(summary, topology))
    worths = {trace: worth(rows[rows["trace"] == trace], bits) for trace in frame["trace"].unique()}
    best = [spec for table in worths.values() if len(table) for spec in table["scheme"]]
    pairs = shown_schemes.pairs(list(frame["scheme"].unique()), rows, bits)
    duels = shown_schemes.duels(frame, shown_schemes.sided(pairs, rows, topology, best), rows)
    ladders = shown_schemes.ladder_of(results) if topology else {}
    zeros, limits = zero_layers(results), limits_of(results)
    sections = [
        _section(place, trace, rows, bits, duels, results.provenance)
        for place, trace in enumerate(frame["trace"].unique())
    ]
    for section in sections:
        trace, front_rows = section["trace"], rows[rows["trace"] == section["trace"]]
        section["zero"] = zeros.get(trace, [])  # numerically: no comparison has them
        selected = (frame["trace"] == trace) & ~frame["tensor"].isin(section["zero"])
        compared = compared_rows(frame[selected].reset_index(drop=True))
        worst = worst_of(compared)
        for row in section["families"]:
            row["worst"] = worst.get((row["scheme"], row["topology"]))
        section["choices"] = _choices(choices := worths[trace])
        section["first"] = first.row_of(
            trace, front_rows, compared, choices, bits, results.provenance,
            {(row["scheme"], row["topology"]): row["id"] for row in section["families"]},
            alone=section["alone"],
        )  # fmt: skip
        answer = section["first"]["verdict"].get("topology", "")
        section["ladder"] = _ladder(ladders.get(trace), frame, answer)
        section["limit"] = _limit(front_rows, limits.get(trace))
        section["use"] = use_of(results, trace, front_rows, gained)
    overview = _overview([s["trace"] for s in sections], duels)
    tables = tables_of(frame, summary) | {"histograms": histograms_of(results.histograms)}
    tables, left_out = fitted(tables, topology)
    kinds = {t: kind_of(t) for t in summary["topology"].unique()}
    payload = pack(tables, reductionKinds=kinds, **_facts(frame, bits, topology, sections))
    filters: dict[str, Callable[..., Any]] = {
        "code": _code,
        "breakable": _breakable,
        "spec": _spec,
        "excess": _excess,
        "reduction": reduction,
        "clip": clip,
        "count_of": count_of,
        **{name: getattr(numbers, name) for name in ("figure", "nmse", "over_noise", "percent")},
    }
    warnings = cautions.warnings(coded_results, left_out)
    if against is not None and against.incomplete:
        warnings = [f"Of the other results: {against.incomplete}.", *warnings]
    text = render(
        _HERE / "template.html",
        filters,
        sections=sections,
        overview=overview,
        overflow=tight_overflows(rows),
        reductions=_listed([reduction(t) for t in topologies_of(rows)]) if topology else "",
        provenance=results.provenance,
        words=glossary.WORDS,
        schemes=len(bits),
        rows=len(frame),
        warnings=warnings,
        against=None if against is None else changes(results, against),
        gained=gained,
        noisy=bool(rows["error_over_noise"].notna().any()),
        families=_looks(legend_of(rows)),
        limit_marks=_looks(LEGEND),
        looks=FAMILIES,
        limit=SAYS if limits else "",
        style=Markup((_HERE / "page/style.css").read_text(encoding="utf-8")),
        licences=(_HERE / "licences.txt").read_text(encoding="utf-8"),
        script=Markup(script()),
        payload=base64_of(payload),
        library=base64_of(plot_script()),
    )
    return visible(text)


def _listed(names: list[str]) -> str:
    """Names as a sentence lists alternatives."""
    known = list(dict.fromkeys(names))
    return (
        known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}" if known else ""
    )


def _excess(row: dict[str, Any]) -> str:
    """The expected excess loss of a scheme, or nothing; schemes made by a caller are "other"."""
    if EXPECTED[0] in row:  # the report's gained
        loss, low, high = (math.nan if row[c] is None else row[c] for c in EXPECTED[:3])
        return str(ExpectedExcess(loss, low, high)) or "none"
    if row["error_over_noise"] is None or row["family"] == "other":
        return ""
    return str(expected_excess(row["scheme"], row["error_over_noise"]))


def _looks(legend: Iterable[tuple[str, str, str]]) -> list[tuple[str, dict[str, str]]]:
    """The names of a legend with colours and marks."""
    return [
        (name, {"colour": colour, "path": symbol_path(symbol)}) for name, colour, symbol in legend
    ]


def _limit(rows: pd.DataFrame, limit: Known | None) -> str:
    """The picture of one trace's schemes beside the least possible error, in units of the noise."""
    from markupsafe import Markup

    if limit is None or not (rows["volume"] > 0).any():
        return ""
    chart = front_chart(rows, titles(rows["scheme"]), error="error_over_noise", limit=limit)
    return Markup(chart_svg(chart, 520.0, 300.0))


def _choices(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of `choices.worth` with the names of what is chosen."""
    return [
        row
        | {"of": named(row["choice"], row["of"]), "other": instead(row)}
        | {f"{side}reduction": reduction(row[f"{side}topology"]) for side in ("", "other_")}
        for row in table.to_dict("records")
    ]


def _section(
    place: int,
    trace: str,
    rows: pd.DataFrame,
    bits: dict[str, int],
    duels: pd.DataFrame,
    provenance: dict[str, Any],
) -> dict[str, Any]:
    """One trace's tables."""
    front_rows = rows[rows["trace"] == trace]
    table = shown_schemes.best_of_families(front_rows, bits)
    compared = duels[duels["trace"] == trace] if len(duels) else duels
    return {
        "trace": trace,
        "place": place + 1,
        "alone": rows["trace"].nunique() == 1,
        "whole": shown_schemes.shows_all(front_rows),
        "about": next((t for t in provenance.get("traces", ()) if t["name"] == trace), {}),
        "families": [
            r | {"id": f"row-{place}-{i}"}
            for i, r in enumerate(
                table.astype(object).where(table.notna(), None).to_dict("records")
            )
        ],
        "duels": compared.to_dict("records"),
    }


#: Of a ladder's table: a rung and its head.
_COLUMNS = {
    "best constant": "all steps, the best",
    "largest constant": "all steps, never saturating",
    "step": "a step",
    "layer": "a layer (APS)",
    "1024": "1,024 elements",
    "32": "32 elements",
}


def _ladder(table: pd.DataFrame | None, frame: pd.DataFrame, answer: str) -> dict[str, Any] | None:
    """A trace's ladder of scales: one row per format, one cell per rung.

    In the reduction of the answer; where no rung has that, in the one with the least error.
    """
    if table is None:
        return None
    topology = answer if (table["topology"] == answer).any() else better_reduction(table)
    table = table[table["topology"] == topology]
    of_trace = frame["trace"] == table["trace"].iloc[0]
    errors = step_errors(frame[of_trace & (frame["topology"] == topology)])
    cells = {(r.format, r.rung): r for r in table.itertuples()}
    rungs = [rung for rung in _COLUMNS if (table["rung"] == rung).any()]
    rows = []
    for name in dict.fromkeys(table["format"]):
        own = [cells.get((name, rung)) for rung in rungs]
        left = [None, *(None if row is None or row.rung == "best constant" else row for row in own)]
        rows.append({
            "format": name, "exponent_bits": FloatFormat(name).exponent_bits,
            "cells": [row and _rung(row, coarse, errors) for coarse, row in zip(left, own)],
        })  # fmt: skip
    return {
        "topology": reduction(topology),
        "shared": kind_of(topology) == "two phases",
        "rungs": [_COLUMNS[r] for r in rungs],
        "rows": rows,
    }


def _rung(row: Any, coarse: Any, errors: dict[tuple[str, str], pd.Series]) -> dict[str, Any]:
    """A cell, with its factor from the rung to its left, if there is one."""
    factor = ""
    if coarse is not None:
        middle, low, high = (
            numbers.figure(value, 2)
            for value in factor_of(*(errors[r.trace, r.scheme] for r in (coarse, row)))
        )
        factor = "" if middle == "–" else f"÷ {middle}" + f" [{low}, {high}]" * (low != "–")
    return {
        "error": getattr(row, RANKS),
        "noise": None if np.isnan(row.error_over_noise) else row.error_over_noise,
        "factor": factor,
        "scheme": row.scheme,
        "overflowed": row.overflowed,
    }


def _overview(traces: list[str], duels: pd.DataFrame) -> dict[str, Any]:
    """Two phases against rounded sums, and APS against one loss scale, or else all comparisons.

    One row each, one cell per trace.
    """
    records = duels.to_dict("records")
    chosen = [d for d in records if d["cause"] == "reduction" or shown_schemes.one_scale(d["b"])]
    chosen = chosen if any(shown_schemes.one_scale(d["b"]) for d in chosen) else records
    key = ("a", "topology_a", "b", "topology_b")
    by_place = {(*(d[k] for k in key), d["trace"]): d for d in chosen}
    rows = [
        dict(zip(key, sides)) | {"cells": [by_place.get((*sides, t)) for t in traces]}
        for sides in dict.fromkeys(tuple(d[k] for k in key) for d in chosen)
    ]
    phased = any(kind_of(row[side]) == "two phases" for row in rows for side in key[1::2])
    return {
        "traces": traces,
        "rows": rows,
        "phased": phased,
        "caption": "One reduction against another, then APS against one loss scale"
        if chosen is not records
        else "One reduction against another, then the best against the best of other families",
    }


def _facts(
    frame: pd.DataFrame,
    bits: dict[str, int],
    topology: str,
    sections: list[dict[str, Any]],
) -> dict[str, Any]:
    """What the page needs besides the rows."""
    named = frame.groupby("scheme", sort=False, observed=True)["format"].last()
    formats, called = dict(zip(named.index, named)), titles(bits)
    schemes = [
        {"spec": s, "name": called(s), "family": family_of(s), "format": formats[s], "bits": b}
        for s, b in bits.items()
    ]
    start_of = {s["trace"]: _start(s, schemes) for s in sections}
    says, text = {}, ""
    for figure in reversed(FIGURES):  # an empty text: the next entry's is for both
        says[figure.name] = text = figure.says.replace("`", "") or text
    first = sections[0]["trace"]
    return {
        "schemes": schemes, "charts": as_json(), "wholeFigures": columns_of(page="whole"),
        "figureSays": {f.name: says[f.name] for f in FIGURES if f.page != "none"},
        "formats": _ranges(dict.fromkeys(formats.values())), "startOf": start_of,
        "start": {"trace": first, "topology": topology, **start_of[first]},
        "reductionNames": {t: reduction(t) for t in frame["topology"].unique() if t},
    }  # fmt: skip


def _start(section: dict[str, Any], schemes: list[dict[str, Any]]) -> dict[str, str]:
    """The sides that the page opens with.

    The best of at most 8 bits in two reductions, else those with the widest gap.
    """
    best = [c["scheme"] for c in section["choices"] if c["bits"] <= 8][:1]
    duels = section["duels"]
    reduced = [d for d in duels if d["cause"] == "reduction" and d["a"] in best]
    scales = [d for d in duels if shown_schemes.one_scale(d["b"]) and "headroom" not in d["b"]]
    if not (some := reduced[:1] or scales or duels):
        sides = {"a": schemes[0]["spec"], "b": schemes[-1]["spec"]}
        return sides | {"aReduction": "", "bReduction": ""}
    widest = max(some, key=lambda d: numbers.gap(d["ratio"]))
    return {s: widest[s] for s in "ab"} | {f"{s}Reduction": widest[f"topology_{s}"] for s in "ab"}


def _ranges(names: Any) -> dict[str, dict[str, int]]:
    """Exponents of the smallest, smallest normal and largest value, of each float format."""
    out = {}
    for name in names:
        try:
            f = FloatFormat(name)
        except ValueError:
            continue  # a grid, such as uniform:7
        smallest, normal, largest = (
            int(np.frexp(v)[1]) - 1 for v in (f.smallest_positive, f.smallest_normal, f.largest)
        )
        out[name] = {"smallest": smallest, "normal": normal, "largest": largest}
    return out


def _breakable(name: str) -> Any:
    """A name with places where a narrow cell may break it; a long one is shortened."""
    return _spec(clip(name))


def _spec(spec: str) -> Any:
    """The same of a spec, whole, so that it can be copied."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([,:/_.;(=])(?=.)", r"\1<wbr>", str(escape(spec))))


def _code(sentence: str) -> Any:
    """Text with `names` in backquotes set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))
