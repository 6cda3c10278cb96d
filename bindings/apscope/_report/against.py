"""What changed between two RESULTS: settings that differ, and their summaries side by side."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .._results.against import settings
from .._results.comparison import met
from .._schemes.scheme import as_scheme
from .._text import clip
from . import answer

_SHOWN = (
    "step_nmse", "layer_cosine", "underflow_wire", "underflow_reduced", "relative_bias", "volume",
)  # fmt: skip


def meeting(here: list[dict[str, Any]], there: list[dict[str, Any]]) -> dict[str, str]:
    """Pairs of traces of both sides: equal names, or the only ones, if they share a tensor.

    Parameters
    ----------
    here, there : list of dict
        As provenances describe traces: ``name``, ``tensors`` with ``name`` and ``shape``.

    Raises
    ------
    ValueError
        There is no pair, so nothing can be compared.
    """
    sides = [
        {t["name"]: {(x["name"], tuple(x["shape"])) for x in t.get("tensors", ())} for t in side}
        for side in (here, there)
    ]
    found = {
        n: m
        for n, m in met(*map(list, sides)).items()
        if sides[0][n] & sides[1][m] or not (sides[0][n] and sides[1][m])
    }
    if not found:
        names = [clip(", ".join(side), 80) or "none" for side in sides]
        raise ValueError(
            f"the other results are of another trace ({names[1]}, here {names[0]}) and have no "
            "tensor in common with these; give results of the same model"
        )
    return found


def changes(here: Any, there: Any) -> dict[str, Any]:
    """The two results compared.

    Parameters
    ----------
    here, there : Results

    Returns
    -------
    dict
        ``settings``: name, value here, value there, of those that differ. ``rows``: trace and
        scheme here and there, and of `_SHOWN` pairs of values; traces meet as `meeting` says;
        schemes meet by spec, or by all but their format where one side has just one such scheme.
        ``alone``: schemes and traces of one side only.

    Raises
    ------
    ValueError
        No trace meets another.
    """
    traces = meeting(here.provenance.get("traces", []), there.provenance.get("traces", []))
    tables = [answer.headline(r.summary(), answer.topology_of(r.frame)) for r in (here, there)]
    schemes = _partners(*(list(dict.fromkeys(t["scheme"])) for t in tables))
    one = tables[0].assign(
        other_trace=tables[0]["trace"].map(traces), other_scheme=tables[0]["scheme"].map(schemes)
    )
    both = one.merge(
        tables[1],
        left_on=["other_trace", "other_scheme"],
        right_on=["trace", "scheme"],
        suffixes=("_here", "_there"),
    )
    rows = [
        {
            "trace": r["trace_here"],
            "other_trace": r["trace_there"],
            "scheme": r["scheme_here"],
            "other": r["scheme_there"],
            "skipped": (r["skipped_here"], r["skipped_there"]),
            "overflowed": (r["overflowed_here"], r["overflowed_there"]),
            **{c: (r[f"{c}_here"], r[f"{c}_there"]) for c in _SHOWN},
            "ratio": answer.ratio_of(r["step_nmse_here"], r["step_nmse_there"]),
        }
        for r in both.to_dict("records")
    ]
    return {
        "settings": settings(here, there),
        "rows": rows,
        "alone": _alone(tables, traces, schemes),
    }


def _partners(here: list[str], there: list[str]) -> dict[str, str]:
    """Scheme of this side -> the scheme of the other side that it is compared with."""
    partners = {s: s for s in here if s in there}
    rest = [[s for s in side if s not in partners] for side in (here, there)]
    for spec in rest[0]:
        alike = [s for s in rest[1] if _shape(s) == _shape(spec)]
        if len(alike) == 1 and sum(_shape(s) == _shape(spec) for s in rest[0]) == 1:
            partners[spec] = alike[0]
    return partners


def _shape(spec: str) -> tuple[Any, ...]:
    """A scheme without its format."""
    try:
        scheme = as_scheme(spec)
    except ValueError:
        return (spec,)
    return (scheme.name, scheme.body, tuple(sorted(scheme.keys.items())))


def _alone(
    tables: list[pd.DataFrame], traces: dict[str, str], schemes: dict[str, str]
) -> list[tuple[str, list[str]]]:
    met = (set(traces), set(schemes)), (set(traces.values()), set(schemes.values()))
    out = []
    for side, table, (known_traces, known_schemes) in zip(
        ("here", "there"), tables, met, strict=True
    ):
        alone = [
            *(f"trace {t}" for t in dict.fromkeys(table["trace"]) if t not in known_traces),
            *(s for s in dict.fromkeys(table["scheme"]) if s not in known_schemes),
        ]
        if alone:
            out.append((side, alone))
    return out
