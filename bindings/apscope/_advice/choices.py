"""What a plan's reduction, grid and scale are worth: the error with another one, all else equal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._results.differences import described, differences
from .._results.volume import SIDE
from .._schemes.scheme import as_scheme
from .._text import clip
from .objective import ranked
from .table import Table

if TYPE_CHECKING:
    from .plan import Plan

#: Alternatives that are named, those with the least error first.
_NAMED = 3
#: Aspects in the order in which they are told, and what they are called.
_TOLD = {"format": "grid", "scale": "scale", "headroom": "room"}
#: The room that a scale leaves for the sum.
_ROOMS = {"workers": "for the sum of all workers", "sqrt_workers": "for √W workers",
          "one": "for one worker"}  # fmt: skip


def reduction_rows(plans: dict[str, Plan], chosen: str) -> list[dict[str, Any]]:
    """For every reduction: its best plan, and the chosen plan's schemes in it.

    Parameters
    ----------
    plans : dict
        The best plan within the limits of every reduction that has one.
    chosen : str
        Whose plan is the answer.

    Returns
    -------
    list of dicts
        ``topology``; ``scheme``, ``reduction``, ``error`` and ``volume`` of its best plan;
        ``same_reduction``, ``same_error`` and ``same_volume``, those of the answer's schemes here,
        None if they were not measured or overflowed. On the held-out steps if there are any.
        A ``reduction`` names the schemes' own ones, too, joined by ``+``.
    """
    answer = plans[chosen]
    rows = []
    for topology, plan in plans.items():
        error = plan.wish.error
        own = _figures(plan._table, plan._options)
        same = _figures(plan._table, answer._options)
        rows.append(
            {"topology": topology, "scheme": plan.spec, "reduction": plan.reduction,
             "same_reduction": plan._table.reduction(answer._options)}
            | {name: _number(own[key]) for name, key in (("error", error), ("volume", "volume"))}
            | {"same_error": _number(same[error]), "same_volume": _number(same["volume"])}
        )  # fmt: skip
    return rows


def choices(plan: Plan) -> list[str]:
    """A sentence each for the reduction, the grid and the scale, in this order of importance.

    The last is the room that a scale leaves for the sum, if another room has another error.

    Factors are those of the errors of the plan's scheme with most elements, used alone, and of
    candidates that differ from it in one thing; on the held-out steps if there are any.
    """
    table, own = plan._table, _figures(plan._table, plan._options)
    weight = np.bincount(plan._options, table.chosen.elements, len(table.candidates))
    main = int(weight.argmax())
    mixed = len(set(plan._options.tolist())) > 1
    alone = f", of {table.candidates[main]} alone" if mixed else ""
    part = f" for {weight[main] / weight.sum():.0%} of the elements" if mixed else ""
    about = described(as_scheme(table.candidates[main]))
    sentences = _reductions(plan, own)
    for aspect, called in _TOLD.items():
        others = _others(plan, main, aspect)
        if aspect == "headroom" and not others:
            continue
        value = (
            "the scheme's own" if about[aspect].startswith("of ") else _value(aspect, about[aspect])
        )
        sentences.append(
            f"{called}: {value}{part}"
            + (f"; {', '.join(others)}{alone}" if others else "; no candidate differs only in this")
        )
    return sentences


def _value(aspect: str, value: str) -> str:
    return _ROOMS.get(value, value) if aspect == "headroom" else value


def _figures(table: Table, options: np.ndarray) -> dict[str, float]:
    """Figures on the held-out steps, or on the chosen ones if there are none."""
    return ranked(table, table.held_out or table.chosen, options)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _times(other: float, own: float) -> str:
    if not math.isfinite(other):
        return "overflow" if other > 0 else "not measured"
    return f"{other / own:.3g} times the error" if 0 < own < math.inf else f"error {other:.3g}"


def _at(volume: float, own: float) -> str:
    """Another volume than one's own; nothing for the same bytes."""
    return f" at volume {volume:.3g}" if abs(volume - own) > SIDE else ""


def _reductions(plan: Plan, own: dict[str, float]) -> list[str]:
    """The reduction beside the others; nothing if nothing was reduced."""
    if not plan.reduction:
        return []
    if plan.about.get("workers") == 1:
        return ["reduction: none is needed, as one worker adds nothing"]
    others = []
    for row in plan.about.get("reductions", ()):
        # Files of 0.1.0 name the topology alone.
        there, in_best = (row.get(n, row["topology"]) for n in ("same_reduction", "reduction"))
        best_here = row["scheme"] == plan.spec
        if row["topology"] == plan.about["topology"] or (best_here and there == plan.reduction):
            continue
        same, best = (
            None
            if row[error] is None
            else _times(row[error], own[plan.wish.error]) + _at(row[volume], own["volume"])
            for error, volume in (("same_error", "same_volume"), ("error", "volume"))
        )
        others.append(
            f"the same in {there} "
            + (f"has {same}" if same else "cannot be used")
            + (
                ", and nothing is better there"
                if best_here
                else f", the best {'there' if in_best == there else f'in {in_best}'}, "
                f"{clip(row['scheme'], 200)}, {best or 'overflow'}"
            )
        )
    return [f"reduction: {plan.reduction}" + "".join(f"; {text}" for text in others)]


def _others(plan: Plan, main: int, aspect: str) -> list[str]:
    """Candidates that differ from the main one in one aspect only, and their errors."""
    table, error = plan._table, plan.wish.error
    units = len(table.units)
    own = _figures(table, np.full(units, main))
    alternatives = []
    for k, spec in enumerate(table.candidates):
        apart = differences(spec, table.candidates[main])
        # Sums saturate where there is less room: both keys are one choice.
        differ = [name for name, _, _ in apart if aspect != "headroom" or name != "overflow"]
        if differ != [aspect]:
            continue
        other = _figures(table, np.full(units, k))
        if aspect == "headroom" and other[error] == own[error]:
            continue
        cheaper = other["volume"] - own["volume"]
        if math.isnan(other[error]) or (aspect == "format" and abs(cheaper) > SIDE):
            continue
        volume = _at(other["volume"], own["volume"])
        text = f"{_value(aspect, apart[0][1])} {_times(other[error], own[error])}{volume}"
        alternatives.append((other[error], text))
    return [text for _, text in sorted(alternatives, key=lambda pair: pair[0])[:_NAMED]]
