"""A plan for terminals and notebooks: the answer, the figures, layers with reasons, the front."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._excess_loss.expected import expected_excess
from .._html import name, paragraphs, table
from .._results.noise import printed_error
from .._results.volume import SIDE
from .._results.winners import LEVEL, Second
from .._text import aligned, clip, count_of, numbered, printable
from .choose import Problem
from .objective import ERRORS, figures, unit_errors

if TYPE_CHECKING:
    from .plan import Plan

#: Letters of a spec in a table; a longer one stands whole below.
_LONGEST = 48
#: Rows of a front that are shown.
_CORNERS = 12
#: Of the noise: an error equivalent to 9 % fewer samples per step (docs/definitions.md, section
#: 16).
_HIGH = 0.1
#: A plan of at most `_NEAR` times the requested volume is mentioned if its error is at least
#: `_WORTH` times smaller.
_NEAR, _WORTH = 1.1, 2.0


def plan_tables(plan: Plan) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Of every table: title, heads, rows, and the heads of the columns with words."""
    error = plan.wish.error
    wide = {"error_over_noise": "error", "step_nmse": "NMSE"}[error]
    figures = [
        [
            row.what,
            row.steps,
            *(_over_noise(row) if c == "error_over_noise" else _figure(getattr(row, c))
              for c in _COLUMNS),
            str(row.overflowed or ""),
        ]
        for row in plan.figures.itertuples()
    ]  # fmt: skip
    front = plan.front
    shown = front.iloc[_thinned(len(front))]
    specs = [*plan.layers["scheme"], *plan.layers["cheaper"], *plan.layers["better"],
             *shown["largest"]]  # fmt: skip
    shortened, full_specs = numbered(specs, _LONGEST)
    called = dict(zip(specs, shortened))
    layers = [
        [
            clip(row.layer, 40), row.steps, f"{row.elements:,}", called[row.scheme],
            _figure(row.error), row.loses_by,
            _other(called[row.cheaper], row.cheaper_error, row.error, row.cheaper_loses_by),
            _other(called[row.better], row.better_error, row.error, ""),
            "" if math.isnan(row.sure) else f"{row.sure:.0%}",
        ]
        for row in plan.layers.itertuples()
    ]  # fmt: skip
    corners = [
        [
            _figure(r.volume),
            _figure(r.error_over_noise),
            _figure(r.step_nmse),
            str(r.schemes),
            called[r.largest],
        ]
        for r in shown.itertuples()
    ]
    corrected = {"error_over_noise": "error/noise corrected, 95 %"} if _is_corrected(plan) else {}
    columns = _COLUMNS | corrected
    heads = [
        "layer",
        "steps",
        "elements",
        "scheme",
        wide,
        "most of it",
        "next cheaper",
        "next better",
        "sure",
    ]
    tables = [
        (
            "predicted from the table, replayed, and the best single candidate",
            ["", "steps", *columns.values(), "overflow"],
            figures,
            ["", "steps"],
        ),
        (
            "layers",
            heads,
            layers,
            ["layer", "steps", "scheme", "most of it", "next cheaper", "next better"],
        ),
        (
            f"front: no mixture has less {error} for its volume ({len(front)} corners"
            + (f", {len(shown)} shown)" if len(shown) < len(front) else ")"),
            ["volume", "error/noise", "step NMSE", "schemes", "most elements in"],
            corners,
            ["most elements in"],
        ),
    ]
    filled = [(title, *_filled(heads, rows), words) for title, heads, rows, words in tables]
    if full_specs:
        lines = [[line] for line in full_specs]
        filled.append(("schemes that are shortened above", [""], lines, [""]))
    return filled


_COLUMNS = {"volume": "volume", "error_over_noise": "error/noise", "step_nmse": "step NMSE",
            "layer_cosine": "cosine", "underflow_wire": "underflow",
            "time": "time, s"}  # fmt: skip


def _filled(heads: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Without empty columns."""
    kept = [i for i in range(len(heads)) if any(row[i] not in ("", "-") for row in rows)]
    return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _thinned(count: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, _CORNERS)).round().astype(int).tolist()))


def _figure(value: Any) -> str:
    return "-" if value is None or pd.isna(value) else f"{value:.4g}"


def _is_corrected(plan: Plan) -> bool:
    """Whether the table has `_over_noise` with an interval."""
    return bool(plan.figures["error_over_noise_low"].notna().any())


def _over_noise(row: Any) -> str:
    """The corrected error over noise with its interval; without one, as estimated."""
    value, low, high = printed_error(row)
    return _figure(value) if math.isnan(low) else f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _other(scheme: str, error: float, own: float, loses_by: str) -> str:
    """Another candidate, and its error relative to the chosen one's."""
    if not scheme:
        return "none"
    times = f"{error / own:.3g}x" if own > 0 else "more" if error > 0 else "as much"
    return f"{scheme} {times}{f', {loses_by}' if loses_by else ''}"


def notes(plan: Plan, in_training: bool = True) -> list[str]:
    """Remarks on the figures; `in_training`: also what the error over noise costs in training."""
    remarks = [f"asked for: {plan.wish}"]
    if sentence := plan.about.get("not_finite"):
        remarks.append(sentence)
    if plan.wish.max_volume is not None:
        remarks += _near_the_limit(plan, plan.wish.max_volume)
    remarks += _by_the_other_figure(plan)
    if plan.gap:
        remarks.append(
            f"not proved to be the optimum of the table, which is at most {plan.gap:.2%} better"
        )
    if plan._table.chosen.noisy:
        remarks += _above_their_noise(plan)
        if in_training:
            remarks += _in_training(plan)
    else:
        remarks += _least_cosine(plan)
    if lost := plan.lost:
        remarks.append(
            f"less than half arrives of {count_of(len(lost), 'layer')}: {', '.join(lost[:4])}"
            + (", ..." if len(lost) > 4 else "")
        )
    if plan._table.counts_bits:
        remarks.append(
            "nothing is exchanged (one worker, or gradients that are not local): volumes are bits "
            "per value divided by fp32's 32"
        )
    if plan._replayed is None:
        remarks.append(
            "predicted only: the figures of schemes that depend on several layers change in a "
            "mixture; replay it on the trace"
        )
    elif plan.about.get("changed"):
        remarks.append(
            f"not separable: {', '.join(plan.about['changed'])} behaved differently in the mixture "
            "than alone, so 'plan replayed' counts"
        )
    if plan._banned:
        remarks.append(
            "only alone, not in mixtures: "
            f"{', '.join(plan._table.candidates[k] for k in sorted(plan._banned))}"
        )
    return remarks


def _by_the_other_figure(plan: Plan) -> list[str]:
    """The single candidate within the limits that is better by the error not minimized."""
    table, wish, best = plan._table, plan.wish, plan._single
    if wish.minimize not in ERRORS or not table.chosen.noisy or best is None:
        return []
    (figure,) = (error for error in ERRORS if error != wish.minimize)
    fitting = Problem(table, wish, plan._pinned, plan._banned).fitting
    errors = {
        k: figures(table, table.chosen, np.full(len(table.units), k))[figure] for k in fitting
    }
    other = min(fitting, key=lambda k: errors[k])
    if not errors[other] * LEVEL < errors[best]:
        return []
    second = Second(
        figure, table.candidates[other], table.reductions[other], errors[other], errors[best]
    )
    corrected = figure == "error_over_noise" and _is_corrected(plan)
    return [
        f"of the single candidates, {second}, on the steps it was chosen by"
        + (", not corrected" if corrected else "")
    ]


def _above_their_noise(plan: Plan) -> list[str]:
    """That layers have an error above `_HIGH` of their own noise, without numerically zero ones."""
    table = plan._table
    errors = unit_errors(table.chosen, "error_over_noise")
    own = errors[np.arange(len(errors)), plan._options]
    zero = set(plan.about.get("numerically_zero", ()))
    judged = np.array([not zero.issuperset(unit.tensors) for unit in table.units])
    high = (own > _HIGH) & judged
    if not high.any():
        return []
    elements = table.chosen.elements
    worst = int(np.where(high, own, 0.0).argmax())
    out = f"; without {', '.join(sorted(zero))}, numerically zero" if zero else ""
    limits = "; max_layer_error limits that" if plan.wish.error == "error_over_noise" else ""
    return [
        f"{high.sum()} of {count_of(int(judged.sum()), 'layer')}, with "
        f"{elements[high].sum() / elements.sum():.0%} of "
        f"the elements, have an error above {_HIGH:g} of their noise, at most {own[worst]:.3g} "
        f"({table.units[worst].name}){limits}{out}"
    ]


def _least_cosine(plan: Plan) -> list[str]:
    """The layer that arrives worst, where the noise, that its error is judged by, is unknown."""
    sums = plan._table.chosen
    if not sums.layers.any():
        return []
    own = sums.picked(plan._options).cosine[:, 0]
    cosines = np.divide(own, sums.layers, out=np.ones(len(own)), where=sums.layers > 0)
    worst = int(cosines.argmin())
    return [
        f"the noise is unknown or 0; the least layer_cosine of a layer is {cosines[worst]:.3g} "
        f"({plan._table.units[worst].name})"
    ]


def _in_training(plan: Plan) -> list[str]:
    """The excess loss predicted for the single scheme, which may be the plan itself."""
    single = plan.single
    if not single:
        return []
    own = plan.figures[plan.figures["what"] == "single"].iloc[-1]
    expected = str(expected_excess(single, own["error_over_noise"]))
    if not expected:
        return []
    mixed = "" if plan.spec == single else "; for mixtures none is established"
    return [
        f"expected excess training loss of {single} by its error over noise: {expected} nats, from "
        f"small models that were trained (docs/insight.md){mixed}"
    ]


def _near_the_limit(plan: Plan, limit: float) -> list[str]:
    """Remarks on tolerated side information, and on the gain of a little more volume."""
    error = plan.wish.error
    # Of the plan itself: between two corners of the front a mixture may have much less than both.
    used, inside = plan.figures["volume"].iloc[0], plan.figures[error].iloc[0]
    remarks = (
        [f"volume {used:.4g}: side information of up to {SIDE:g} counts as within {limit:g}"]
        if used > limit
        else []
    )
    front = plan.front
    above = front[
        (front["volume"] > limit + SIDE)
        & (front["volume"] <= _NEAR * limit)
        & (front[error] * _WORTH <= inside)
    ]
    if len(above):
        nearest = above.loc[above["volume"].idxmin()]
        remarks.append(
            f"just above {limit:g}: at volume {nearest['volume']:.4g} a plan, mostly of "
            f"{clip(nearest['largest'], 200)}, has {error} {nearest[error]:.3g} instead of "
            f"{inside:.3g}, on the steps it was chosen by"
        )
    return remarks


def plan_text(plan: Plan) -> str:
    """All of it."""
    sentences = [plan.verdict(), *plan.choices(), *notes(plan)]
    parts = [printable(text, 600) for text in sentences]
    for title, heads, rows, words in plan_tables(plan):
        parts += ["", title, *aligned(heads, rows, words)[0]]
    return "\n".join(parts)


def plan_html(plan: Plan) -> str:
    """The same for notebooks."""
    parts = [
        f"<b>Plan</b>: {html.escape(plan.verdict())}",
        *(html.escape(note) for note in [*plan.choices(), *notes(plan)]),
    ]
    for title, heads, rows, words in plan_tables(plan):
        cells = [
            [
                name(cell, 60) if head in ("layer", "scheme") else html.escape(cell)
                for head, cell in zip(heads, row)
            ]
            for row in rows
        ]
        parts += [
            html.escape(title),
            table(heads, cells, numeric=[head not in words for head in heads]),
        ]
    return paragraphs(parts)
