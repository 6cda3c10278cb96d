"""The reasons for a layer's scheme, and the gain of the plan, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._results.pooling import PARTS
from .._text import count_of
from .knapsack import multipliers
from .objective import Wish, total_of, unit_errors
from .significance import SAME, sureness
from .table import Table

if TYPE_CHECKING:
    from .plan import Plan

#: Columns of `Plan.figures`.
FIGURES = (
    "volume", "time", "error_over_noise",
    "error_over_noise_corrected", "error_over_noise_low", "error_over_noise_high",
    "step_nmse", "layer_cosine", "underflow_wire", "overflowed",
)  # fmt: skip
#: Columns of `Plan.layers`.
LAYERS = (
    "layer", "tensors", "steps", "elements", "scheme", "volume", "error", "loses_by",
    "cheaper", "cheaper_volume", "cheaper_error", "cheaper_loses_by", "better", "better_volume",
    "better_error", "sure",
)  # fmt: skip
#: Of a volume: a candidate below this is cheaper by more than its scales.
_CHEAPER = 0.85


def layer_rows(table: Table, wish: Wish, options: np.ndarray) -> pd.DataFrame:
    """One row per unit: its scheme, the parts of its error, the next cheaper and better ones."""
    sums, error = table.chosen, wish.error
    volume = total_of(sums, "volume").adds
    errors = unit_errors(sums, error)
    sure = sureness(sums, error, options, _price(table, wish, options))
    rows = []
    for u, (unit, k) in enumerate(zip(table.units, options)):
        measured = np.flatnonzero(np.isfinite(errors[u]) & np.isfinite(volume[u]))
        cheaper = _first(
            measured[volume[u, measured] < volume[u, k] * _CHEAPER], errors[u], volume[u]
        )
        lower = measured[errors[u, measured] < errors[u, k] / SAME]
        better = _first(lower, volume[u], errors[u])
        steps = sum(map(unit.contains, sums.steps))
        rows.append(
            {
                "layer": unit.name,
                "tensors": len(unit.tensors),
                "steps": unit.steps,
                "elements": round(float(sums.elements[u]) / max(steps, 1)),
                "scheme": table.candidates[k],
                "volume": volume[u, k],
                "error": errors[u, k],
                "loses_by": _most(sums.parts[u, k]),
            }
            | _other("cheaper", table, u, cheaper, volume, errors)
            | {"cheaper_loses_by": "" if cheaper is None else _most(sums.parts[u, cheaper])}
            | _other("better", table, u, better, volume, errors)
            | {"sure": sure[u]}
        )
    return pd.DataFrame(rows, columns=list(LAYERS))


def _first(among: np.ndarray, key: np.ndarray, then: np.ndarray) -> int | None:
    return int(among[np.lexsort([among, then[among], key[among]])[0]]) if len(among) else None


def _other(
    name: str, table: Table, unit: int, option: int | None, volume: np.ndarray, errors: np.ndarray
) -> dict[str, Any]:
    if option is None:
        return {name: "", f"{name}_volume": math.nan, f"{name}_error": math.nan}
    return {
        name: table.candidates[option],
        f"{name}_volume": volume[unit, option],
        f"{name}_error": errors[unit, option],
    }


def _price(table: Table, wish: Wish, options: np.ndarray) -> np.ndarray:
    """The price of volume at the plan's own volume, in units of the error."""
    volume, cost = (total_of(table.chosen, figure).adds for figure in ("volume", wish.error))
    allowed = np.isfinite(cost) & np.isfinite(volume)
    used = np.isin(np.arange(cost.shape[1]), options)
    allowed &= used | ~(allowed & used).any(axis=1, keepdims=True)
    spent = volume[np.arange(len(options)), options].sum()
    filled = [np.where(allowed, values, 0.0) for values in (cost, volume)]
    return (
        multipliers(filled[0], filled[1][None], np.array([spent * (1 + 1e-12)]), allowed)[0]
        * volume
    )


def _most(parts: np.ndarray) -> str:
    """The largest part of an error, and its share of the parts that are not negative."""
    if np.isnan(parts).any() or not parts[:4].sum() > 0:
        return ""
    place = int(parts[:4].argmax())
    return f"{PARTS[place].removeprefix('split_')} {parts[place] / parts[:4].sum():.0%}"


def verdict(plan: Plan) -> str:
    """The plan's gain over the best single scheme, its steps and interval; or why there is none."""
    held_out = plan._table.held_out
    side = "chosen" if held_out is None else "held out"
    figures = plan.figures[plan.figures["steps"] == side].set_index("what")
    own, error = figures.loc[plan._counted], plan.wish.error
    schemes = len(set(plan.layers["scheme"]))
    within = f", {plan.reduction}" if plan.reduction else ""
    how = "" if plan._counted == "plan" else " when replayed"
    head = f"{error} {_told(own, error)}{how} at volume {own['volume']:.3g}"
    if held_out is not None:
        head += (
            f" on {count_of(len(held_out.steps), 'step')} held out, chosen by "
            f"{(n := len(plan._table.chosen.steps))} other{'s' if n > 1 else ''}"
        )
    if schemes == 1:
        return f"{plan.layers['scheme'].iloc[0]} for every layer{within}: {head}; {_why_one(plan)}"
    head = f"{schemes} schemes{within}: {head}"
    if not plan.single:
        return f"{head}; no single candidate is within {_limits(plan.wish)}"
    best = f"{plan.single}, the best single candidate within the limits"
    if plan.wish.minimize in ("volume", "time"):
        figure = plan.wish.minimize
        return (
            f"{head}; {figure} {own[figure]:.4g} instead of "
            f"{figures.loc['single', figure]:.4g} with {best}"
        )
    middle, low, high = plan.against_single(side)
    if not 0 < middle < math.inf or math.isnan(own[error]):
        return f"{head}; {best}: {error} {_told(figures.loc['single'], error)}"
    sums = plan._table.chosen if held_out is None else held_out
    runs = len(sums.losses)
    if middle < 1:  # the factor that is told is the reciprocal
        low, high = 1 / high, 1 / low
    spread = "" if math.isnan(low) else f", 95 %: {low:.3g} to {high:.3g}"
    spread = f" (geometric mean over {runs} runs of steps{spread})" if runs > 1 else ""
    if abs(math.log(middle)) < math.log(SAME):
        return f"{head}; within a hundredth of {best}"
    gain = f"{middle:.3g} times less" if middle >= 1 else f"{1 / middle:.3g} times MORE"
    # A few steps can decide the mean.
    mean = own[error] / figures.loc["single", error]
    but = f", but {mean:.3g} times MORE in the mean over the steps" if mean > SAME < middle else ""
    return f"{head}; {gain}{spread} than {best}{but}"


def _told(figures: pd.Series, error: str) -> str:
    if math.isnan(figures[error]):
        return "unknown"
    return f"{figures[error]:.3g}" + (" with overflow" if figures["overflowed"] else "")


def _limits(wish: Wish) -> str:
    limits = wish.limits | (
        {} if wish.max_layer_error is None else {"max_layer_error": wish.max_layer_error}
    )
    return " and ".join(f"{name}={value:g}" for name, value in limits.items())


def _why_one(plan: Plan) -> str:
    figure = plan.wish.minimize
    if np.array_equal(plan._best, plan._options):
        found = "that was found" if plan.gap else "of the candidates"
        return f"no mixture {found} has less {figure} within the limits"
    chosen = plan.figures[plan.figures["steps"] == "chosen"].set_index("what")[figure]
    best, own = chosen["optimum"], chosen["plan"]
    if best * SAME >= own:
        return f"the best mixture has less than a hundredth less {figure}"
    steps = count_of(len(plan._table.chosen.steps), "step")
    return (
        f"the best mixture has {figure} {best:.3g} instead of {own:.3g} on the "
        f"{steps} used for its choice: indistinguishable"
    )
