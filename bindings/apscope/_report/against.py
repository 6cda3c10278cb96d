"""What changed between two RESULTS: settings that differ, and their summaries side by side."""

from __future__ import annotations

from typing import Any

from .._results.against import meeting, settings
from .._results.differences import Sent, cause, sides_differ
from .._results.ranking import RANKS
from .._schemes.scheme import known_scheme
from .._schemes.titles import reduction
from . import shown_schemes

_SHOWN = (
    "error_over_noise", "step_nmse", "layer_cosine", "underflow_wire", "underflow_reduced",
    "relative_bias", "volume",
)  # fmt: skip


def changes(here: Any, there: Any) -> dict[str, Any]:
    """The two results compared.

    Parameters
    ----------
    here, there : Results

    Returns
    -------
    dict
        ``settings``: name, value here, value there, of those that differ. ``rows``, one per row of
        the front of both sides: trace, scheme and topology here and there, pairs of values of
        `_SHOWN`, ``differ`` and ``cause`` (of `sides_differ`, here and there), ``ratio`` (of the
        figure that ranks, here over there).
        Traces meet as `meeting` says; schemes meet by spec, or by all but their format where one
        side has just one such scheme; their reductions by name, or as the only ones that are left
        of a scheme. ``alone``: what only one side has.

    Raises
    ------
    ValueError
        No trace meets another.
    """
    traces = meeting(here.provenance.get("traces", []), there.provenance.get("traces", []))
    tables = [
        shown_schemes.front(r.summary(), shown_schemes.topology_of(r.frame)).to_dict("records")
        for r in (here, there)
    ]
    schemes = _partners(*(list(dict.fromkeys(r["scheme"] for r in t)) for t in tables))
    compared = _met(tables, traces, schemes)
    return {
        "settings": settings(here, there),
        "rows": [_row(one, other) for one, other in compared],
        "alone": _alone(tables, traces, schemes, compared),
    }


Row = dict[str, Any]


def _met(
    tables: list[list[Row]], traces: dict[str, str], schemes: dict[str, str]
) -> list[tuple[Row, Row]]:
    """The rows of both sides that are compared, in the order of the first."""
    by_scheme: dict[tuple[str, str], dict[str, Row]] = {}
    for row in tables[1]:
        by_scheme.setdefault((row["trace"], row["scheme"]), {})[row["topology"]] = row
    here: dict[tuple[str, str], dict[str, Row]] = {}
    for row in tables[0]:
        here.setdefault((row["trace"], row["scheme"]), {})[row["topology"]] = row
    pairs = []
    for row in tables[0]:
        trace, scheme, topology = row["trace"], row["scheme"], row["topology"]
        there = by_scheme.get((traces.get(trace, ""), schemes.get(scheme, "")), {})
        unmatched = [t for t in there if t not in here[trace, scheme]]
        if topology in there:
            pairs.append((row, there[topology]))
        elif len(unmatched) == 1 and sum(t not in there for t in here[trace, scheme]) == 1:
            pairs.append((row, there[unmatched[0]]))
    return pairs


def _row(one: Row, other: Row) -> Row:
    """What the table tells of a row here and the one there."""
    differ = sides_differ(*(Sent(r["scheme"], r["topology"], r["volume"]) for r in (one, other)))
    return {
        "trace": one["trace"],
        "other_trace": other["trace"],
        "scheme": one["scheme"],
        "other": other["scheme"],
        "topology": one["topology"],
        "other_topology": other["topology"],
        "differ": differ,
        "cause": cause(differ),
        **{c: (one[c], other[c]) for c in ("skipped", "overflowed", *_SHOWN)},
        "ratio": shown_schemes.ratio_of(one[RANKS], other[RANKS]),
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
    scheme = known_scheme(spec)
    return (
        (spec,)
        if scheme is None
        else (scheme.name, scheme.body, tuple(sorted(scheme.keys.items())))
    )


def _alone(
    tables: list[list[Row]],
    traces: dict[str, str],
    schemes: dict[str, str],
    compared_rows: list[tuple[Row, Row]],
) -> list[tuple[str, list[str]]]:
    """By side, its traces, schemes and reductions that the other lacks."""
    known = (set(traces), set(schemes)), (set(traces.values()), set(schemes.values()))
    out = []
    for side, (name, table, (known_traces, known_schemes)) in enumerate(
        zip(("here", "there"), tables, known, strict=True)
    ):
        compared = {
            tuple(pair[side][c] for c in ("trace", "scheme", "topology")) for pair in compared_rows
        }
        alone = [
            *(f"trace {r['trace']}" for r in table if r["trace"] not in known_traces),
            *(r["scheme"] for r in table if r["scheme"] not in known_schemes),
            *(
                f"{r['scheme']}, {reduction(r['topology'])}"
                for r in table
                if r["trace"] in known_traces
                and r["scheme"] in known_schemes
                and (r["trace"], r["scheme"], r["topology"]) not in compared
            ),
        ]
        if alone:
            out.append((name, list(dict.fromkeys(alone))))
    return out
