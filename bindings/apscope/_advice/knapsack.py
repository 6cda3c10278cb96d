"""The exact choice: one option per unit, at the least total cost, with totals within limits.

A dynamic programme over the units keeps the undominated partial choices whose bound, the total cost
of the Lagrangian relaxation, is below the best complete choice known. With one limit (a knapsack)
and good multipliers, few remain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Number of partial choices kept. If there are more, the least promising are dropped, and the gap
#: bounds the loss.
CAP = 40_000
_FIRST_CAP = 256  # of the search for an initial complete choice
_ROUNDINGS = 1e-12  # relative: rounding errors of a sum that meets a limit exactly


@dataclass(frozen=True, eq=False)
class Solution:
    """A choice within the limits.

    Attributes
    ----------
    choice : int array
        The option of every unit.
    value : float
        Its total cost.
    bound : float
        No choice within the limits has a lower one; equal to `value` if the search was complete.
    """

    choice: np.ndarray
    value: float
    bound: float


def solve(
    cost: np.ndarray, uses: np.ndarray, limits: np.ndarray, allowed: np.ndarray, cap: int = CAP
) -> Solution | None:
    """The choice of least cost within the limits; ties in the order of the options.

    Parameters
    ----------
    cost : (units, options) floats
    uses : (limits, units, options) floats
        An option's terms of every total.
    limits : (limits,) floats
    allowed : (units, options) bools
        Options that a unit may have; at least one per unit.
    cap : int
        Number of partial choices that are kept.

    Returns
    -------
    Solution or None
        None if no choice is within the limits.
    """
    units = len(cost)
    width = np.abs(np.where(allowed, uses, 0.0)).max(axis=(1, 2), initial=0.0)
    # Scales of the totals, so that multipliers are comparable.
    width = np.where(width > 0, width, 1.0)
    uses, limits = uses / width[:, None, None], limits / width
    limits = limits + _ROUNDINGS * (
        np.abs(limits) + np.abs(np.where(allowed, uses, 0.0)).max(axis=2, initial=0.0).sum(axis=1)
    )
    options = [_nondominated(cost[u], uses[:, u], np.flatnonzero(allowed[u])) for u in range(units)]
    mu = multipliers(cost, uses, limits, allowed)
    reduced = np.where(allowed, cost + np.tensordot(mu, uses, 1), np.inf)
    # Units that the relaxation decides clearly come first: the bound then excludes most choices.
    spread = [np.ptp(reduced[u, options[u]]) for u in range(units)]
    order = np.argsort(spread, kind="stable")[::-1]
    parts = [(cost[u, options[u]], uses[:, u][:, options[u]], options[u]) for u in order]
    least = np.array([[use.min(axis=1) for _, use, _ in parts]]).reshape(units, len(limits))
    least = np.vstack([least[::-1].cumsum(axis=0)[::-1], np.zeros(len(limits))])
    rest = (
        np.append(np.array([reduced[u, options[u]].min() for u in order])[::-1].cumsum()[::-1], 0.0)
        - mu @ limits
    )
    found: Solution | None = None
    for size in sorted({min(_FIRST_CAP, cap), cap}):
        known = np.inf if found is None else found.value
        whole, dropped = _search(parts, order, mu, limits, least, rest, size, known)
        if whole is not None:
            found = Solution(whole[1], whole[0], min(whole[0], dropped))
        elif found is not None:
            found = Solution(found.choice, found.value, min(found.value, dropped))
        if dropped == np.inf:
            break
    return found


def _search(
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    order: np.ndarray,
    mu: np.ndarray,
    limits: np.ndarray,
    least: np.ndarray,
    rest: np.ndarray,
    cap: int,
    known: float,
) -> tuple[tuple[float, np.ndarray] | None, float]:
    """The best complete choice below `known`, or None, and the least bound of dropped choices."""
    value, used = np.zeros(1), np.zeros((1, len(limits)))
    steps, dropped = [], np.inf
    for at, (cost, use, _) in enumerate(parts):
        count = len(cost)
        values = (value[:, None] + cost).ravel()
        useds = (used[:, None, :] + use.T).reshape(len(values), len(limits))
        bounds = values + useds @ mu + rest[at + 1]
        kept = np.flatnonzero((bounds < known) & (useds + least[at + 1] <= limits).all(axis=1))
        kept = kept[_undominated(values[kept], useds[kept])]
        if len(kept) > cap:
            by_bound = np.argsort(bounds[kept], kind="stable")
            dropped = min(dropped, bounds[kept[by_bound[cap]]])
            kept = np.sort(kept[by_bound[:cap]])
        value, used = values[kept], useds[kept]
        steps.append((kept // count, kept % count))
        if not len(kept):
            return None, dropped
    best = int(np.argmin(value))
    choice, place = np.zeros(len(order), np.int64), best
    for (parent, option), (_, _, names), unit in zip(reversed(steps), reversed(parts), order[::-1]):
        choice[unit], place = names[option[place]], parent[place]
    return (float(value[best]), choice), float(dropped)


def _undominated(value: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Which partial choices are undominated; with several limits, in value and the first total."""
    if used.shape[1] == 0:
        return np.array([int(np.argmin(value))]) if len(value) else np.zeros(0, np.int64)
    if not len(value):
        return np.zeros(0, np.int64)
    if used.shape[1] == 1:
        # Without the order of equals, which takes most of the time, few are left.
        order = np.argsort(used[:, 0])
        near = np.sort(order[value[order] <= np.minimum.accumulate(value[order])])
        order = near[np.lexsort([value[near], used[near, 0]])]
        low = np.minimum.accumulate(value[order])
        return np.sort(order[np.append(True, value[order][1:] < low[:-1])])
    order = np.lexsort([*used.T[1:], value, used[:, 0]])
    same = (value[order][1:] == value[order][:-1]) & (used[order][1:] == used[order][:-1]).all(
        axis=1
    )
    return np.sort(order[np.append(True, ~same)])


def _nondominated(cost: np.ndarray, uses: np.ndarray, options: np.ndarray) -> np.ndarray:
    """The undominated options; the first of equals."""
    points = np.vstack([cost, uses])[:, options].T
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)  # i beats or equals j
    equal = no_worse & no_worse.T
    earlier = np.arange(len(options))[:, None] < np.arange(len(options))
    beaten = (no_worse & ~equal) | (equal & earlier)
    return options[~beaten.any(axis=0)]


def multipliers(
    cost: np.ndarray, uses: np.ndarray, limits: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Multipliers that maximize the relaxation's bound: exactly for one limit, nearly for more."""
    if not len(limits):
        return np.zeros(0)
    rows = np.arange(len(cost))

    def totals(mu: np.ndarray) -> tuple[float, np.ndarray]:
        reduced = np.where(allowed, cost + np.tensordot(mu, uses, 1), np.inf)
        chosen = reduced.argmin(axis=1)
        return reduced[rows, chosen].sum() - mu @ limits, uses[:, rows, chosen].sum(axis=1) - limits

    best = np.zeros(len(limits))
    # One after the other, by bisection of the sign of the excess.
    for _ in range(3 if len(limits) > 1 else 1):
        for r in range(len(limits)):
            low, high = 0.0, _scale(cost, uses[r], allowed)
            trial = best.copy()
            for _ in range(60):
                trial[r] = (low * high) ** 0.5 if low > 0 else high * 1e-9 if high > 0 else 0.0
                low, high = (trial[r], high) if totals(trial)[1][r] > 0 else (low, trial[r])
                if high <= low * (1 + 1e-12) or trial[r] == 0.0:
                    break
            if totals(trial)[0] >= totals(best)[0]:
                best = trial
    if len(limits) > 1:
        best = _ascend(totals, best)
    return best


def _scale(cost: np.ndarray, use: np.ndarray, allowed: np.ndarray) -> float:
    """Above every multiplier at which a unit's choice changes."""
    values, steps = np.where(allowed, cost, np.nan), np.where(allowed, use, np.nan)
    gaps = np.diff(np.unique(steps[~np.isnan(steps)]))
    widest = np.nanmax(np.nanmax(values, axis=1) - np.nanmin(values, axis=1))
    return float(widest / gaps[gaps > 0].min()) * 2 if (gaps > 0).any() and widest > 0 else 0.0


def _ascend(
    totals: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
) -> np.ndarray:
    """Subgradient steps from a point; returns the best one seen."""
    best, (top, excess) = start, totals(start)
    now, length = start, np.abs(start) + 1e-3 * (np.abs(start).max() or 1.0)
    for step in range(200):
        norm = np.abs(excess * length).max()
        if norm == 0:
            break
        now = np.maximum(now + 0.3 * 0.97**step * length * (excess * length) / norm, 0.0)
        bound, excess = totals(now)
        if bound > top:
            best, top = now, bound
    return best
