"""The choice from a table: the optimum, the best single scheme, the simplest equivalent mixture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .knapsack import CAP, Solution, solve
from .objective import ERRORS, LIMITS, Wish, figures, total_of, unit_errors
from .significance import is_beaten, is_worse
from .table import Table

#: Partial choices kept when a mixture of fewer schemes is tried.
_QUICK = 256


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen.

    Attributes
    ----------
    options : (U,) int array
        The index of every unit's candidate.
    best : (U,) int array
        The optimum; `options` is not significantly worse.
    single : int or None
        The candidate that alone is best within the limits.
    bound : float
        No mixture has a lower sum (of logarithms for error_over_noise) in the table; `value` is
        that of `best`.
    value : float
    """

    options: np.ndarray
    best: np.ndarray
    single: int | None
    bound: float
    value: float

    @property
    def gap(self) -> float:
        """How far the optimum could be below `best`, as a sum; 0 if `best` is proved optimal."""
        gap = self.value - self.bound
        # Sums in another order differ by as much.
        return gap if gap > 1e-12 * abs(self.value) else 0.0


class Problem:
    """A wish applied to a table.

    Parameters
    ----------
    table : Table
    wish : Wish
        Completed.
    pinned : (U,) int array
        The only candidate of a unit, or -1.
    banned : set of int
        Candidates that no mixture may contain; alone they are allowed.
    may_lose : bool
        Whether units may be lost that another candidate keeps: less than half of them arrives.
    """

    def __init__(
        self, table: Table, wish: Wish, pinned: np.ndarray, banned: frozenset[int] = frozenset(),
        may_lose: bool = False,
    ) -> None:  # fmt: skip
        self.table, self.wish, self.banned = table, wish, banned
        sums = table.chosen
        self.totals = {
            name: total_of(sums, LIMITS[name], value) for name, value in wish.limits.items()
        }
        self.cost = total_of(sums, wish.minimize).adds
        needed = [self.cost, sums.nmse.sum(axis=2), *(t.adds for t in self.totals.values())]
        self.measured = np.isfinite(np.stack(needed)).all(axis=0)
        if wish.max_layer_error is not None:
            self.measured &= unit_errors(sums, wish.error) <= wish.max_layer_error
        pinned = pinned[:, None]
        self.allowed = self.measured & ((pinned < 0) | (pinned == np.arange(len(table.candidates))))
        keeps = ~(sums.gain < 0.5)
        self.keeps = keeps | ~(keeps & self.allowed).any(axis=1, keepdims=True)
        if not may_lose:
            self.allowed &= self.keeps

    def objective(self, options: np.ndarray) -> float:
        """The minimized figure of a mixture: the sum, and latencies."""
        total = float(self.cost[np.arange(len(options)), options].sum())
        return total + self.table.latency(options) if self.wish.minimize == "time" else total

    def is_within(self, options: np.ndarray) -> bool:
        """Whether a mixture is measured everywhere and within the limits."""
        rows = np.arange(len(options))
        if not self.measured[rows, options].all():
            return False
        for name, total in self.totals.items():
            value = total.adds[rows, options].sum()
            if name == "max_time":
                value += self.table.latency(options)
            if value > total.limit + 1e-12 * abs(total.limit):
                return False
        return True

    def solved(self, among: np.ndarray | None = None, cap: int = CAP) -> Solution | None:
        """The optimum over some of the candidates; None if there is none.

        The latencies of a mixture's messages do not add up: the least latency of any mixture is
        subtracted from the limit of the time, and, if the mixture found has more, also its excess
        over the limit.
        """
        allowed = self.allowed.copy()
        allowed[:, list(self.banned)] = False
        if among is not None:
            allowed &= np.isin(np.arange(allowed.shape[1]), among)
        if not allowed.any(axis=1).all():
            return None
        names = list(self.totals)
        uses = (
            np.stack([np.where(allowed, self.totals[n].adds, 0.0) for n in names])
            if names
            else np.zeros((0, *allowed.shape))
        )
        limits = np.array([self.totals[n].limit for n in names])
        least = self.table.latencies.least()
        timed = names.index("max_time") if "max_time" in names else None
        if timed is not None:
            limits[timed] -= least
        first: Solution | None = None
        for _ in range(8):
            found = solve(np.where(allowed, self.cost, 0.0), uses, limits, allowed, cap)
            if found is None:
                return None
            first = first or found
            if self.is_within(found.choice):
                return Solution(
                    found.choice,
                    self.objective(found.choice),
                    first.bound + (least if self.wish.minimize == "time" else 0.0),
                )
            if timed is None:
                return None
            limits[timed] -= self.table.latency(found.choice) - least
        return None

    @cached_property
    def fitting(self) -> list[int]:
        """The candidates that alone are within the limits.

        Those that lose units that another keeps only where all such do.
        """
        units = len(self.table.units)
        fit = [k for k in range(len(self.table.candidates)) if self.is_within(np.full(units, k))]
        return [k for k in fit if self.keeps[:, k].all()] or fit

    @cached_property
    def single(self) -> int | None:
        """The candidate that is best for all units within the limits; the first of equals."""
        units = len(self.table.units)
        return min(self.fitting, key=lambda k: self.objective(np.full(units, k)), default=None)


def choose(problem: Problem, simplest: bool = True) -> Choice:
    """The choice of a problem.

    Raises
    ------
    ValueError
        No mixture is within the limits; the sentence says what can be reached.
    """
    found = problem.solved()
    units, single = len(problem.table.units), problem.single
    pure = (
        None if single is None or not problem.allowed[:, single].all() else np.full(units, single)
    )
    if found is None or (pure is not None and problem.objective(pure) <= found.value):
        if pure is None:
            raise ValueError(_out_of_reach(problem))
        value = problem.objective(pure)
        return Choice(
            pure, pure, single, value if found is None else min(found.bound, value), value
        )
    options = _simplest(problem, found.choice, pure) if simplest else found.choice
    return Choice(options, found.choice, single, found.bound, found.value)


def _simplest(problem: Problem, best: np.ndarray, pure: np.ndarray | None) -> np.ndarray:
    """Fewer schemes, if not significantly worse than the optimum; ties: the better, the earlier."""
    if pure is not None and not is_beaten(problem, pure, best):
        return pure
    most = np.inf if pure is None else problem.objective(pure)
    schemes = sorted(set(best.tolist()))
    weight = np.bincount(best, problem.table.chosen.elements, len(problem.table.candidates))
    # A scheme that is needed now is still needed when another one is removed: each is tried once,
    # those with the fewest elements first.
    for left_out in sorted(schemes, key=lambda k: (weight[k], -k)):
        found = (
            problem.solved(np.array([k for k in schemes if k != left_out]), cap=_QUICK)
            if len(schemes) > 1
            else None
        )
        if found is not None and found.value <= most and not is_worse(problem, found.choice, best):
            schemes.remove(left_out)
    found = problem.solved(np.array(schemes))
    return (
        best
        if found is None or found.value > most or is_worse(problem, found.choice, best)
        else found.choice
    )


def _reached(problem: Problem, name: str) -> tuple[float, float]:
    """The least and the largest value of a limited figure, over all mixtures."""
    sums, figure = problem.table.chosen, LIMITS[name]
    if figure == "underflow_wire":  # a quotient: that of the mixture with the fewest
        ends = [
            np.where(problem.allowed, s * sums.underflow, np.inf).argmin(axis=1) for s in (1, -1)
        ]
    else:
        adds = total_of(sums, figure, 1.0).adds
        ends = [np.where(problem.allowed, s * adds, np.inf).argmin(axis=1) for s in (1, -1)]
    low, high = (figures(problem.table, sums, end)[figure] for end in ends)
    return min(low, high), max(low, high)


def _out_of_reach(problem: Problem) -> str:
    """Why no mixture is within the limits, and what can be reached."""
    without_candidate = ~problem.allowed.any(axis=1)
    if without_candidate.any():
        names = [problem.table.units[u].name for u in np.flatnonzero(without_candidate)]
        if (most := problem.wish.max_layer_error) is not None:
            errors = unit_errors(problem.table.chosen, problem.wish.error)[without_candidate]
            least = np.where(np.isnan(errors), np.inf, errors).min(axis=1).max()
            if np.isfinite(least):
                return (
                    f"max_layer_error={most:g} is out of reach: the least {problem.wish.error} "
                    f"of {names[0]} is above it; {least:.4g} can be met"
                )
        return (
            "no candidate was measured without overflow, and on consecutive steps if it has "
            f"memory, in {', '.join(names[:4])}{', ...' * (len(names) > 4)}; give other candidates"
        )
    limits = problem.wish.limits
    within = (
        ""
        if problem.wish.max_layer_error is None
        else f" within max_layer_error={problem.wish.max_layer_error:g}"
    )
    for name, value in limits.items():
        low, high = _reached(problem, name)
        if (high < value) if name.startswith("min") else (low > value):
            ends = [f"{end:.4g}" for end in (low, high)]
            lies = f"lies between {' and '.join(ends)}" if ends[0] != ends[1] else f"is {ends[0]}"
            return (
                f"{name}={value:g} is out of reach: the {LIMITS[name]} of these "
                f"candidates{within} {lies}"
            )
    # Each can be met alone: the reachable value of the first that conflicts with the others.
    for name in limits:
        others = Wish(
            _minimized(name),
            **{n: v for n, v in limits.items() if n != name},
            max_layer_error=problem.wish.max_layer_error,
        )
        relaxed = Problem(
            problem.table,
            others,
            np.where(problem.allowed.sum(axis=1) == 1, problem.allowed.argmax(axis=1), -1),
            problem.banned,
        )
        found = relaxed.solved() if others.minimize == LIMITS[name] else None
        if found is not None:
            got = figures(problem.table, problem.table.chosen, found.choice)[LIMITS[name]]
            rest = ", ".join(f"{n}={v:g}" for n, v in others.limits.items())
            return (
                f"{name}={limits[name]:g} is out of reach together with {rest}: under these "
                f"the least {LIMITS[name]} is {got:.4g}"
            )
    return (
        "no mixture of these candidates meets "
        f"{', '.join(f'{n}={v:g}' for n, v in limits.items())} together"
    )


def _minimized(name: str) -> str:
    figure = LIMITS[name]
    return figure if figure in (*ERRORS, "volume", "time") else "volume"
