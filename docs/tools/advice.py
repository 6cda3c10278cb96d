"""The errors of plans on held-out steps: a table of docs/advice.md.

Every bundled trace is replayed once through `main`, in a ring. For every budget a plan is chosen on
every second step, for the typical error over the noise and for the NMSE of a step, and evaluated on
the others. It is compared with the best single scheme within the budget: the one that is best on
the same steps as the plan, and the one that turns out to be best on the held-out steps.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import apscope
from apscope._advice.choose import Problem
from apscope._results.summary import headline, summary

from . import page
from .page import DATA, TRACES

BUDGETS = (0.13, 0.2, 0.25, 0.3, 0.5)
FIGURES = ("error_over_noise", "step_nmse")
HEADS = (
    "trace", "volume", "figure", "plan", "schemes", "best single scheme by the same steps",
    "plan over it",
    "best single scheme in hindsight", "plan over it",
)  # fmt: skip


class Case(NamedTuple):
    """One plan beside single schemes; errors on the steps held out."""

    trace: str
    figure: str
    budget: float
    plan: Any
    error: float  # of the plan, replayed
    single: float  # of the scheme that is best by the same steps
    hindsight: float  # of the scheme that is best on the held-out steps
    hindsight_spec: str


def cases(name: str) -> list[Case]:
    """All of a trace."""
    results = apscope.replay(DATA / name, topology="ring")
    plans = []
    for figure in FIGURES:
        whole = apscope.recommend(results, minimize=figure, max_volume=1.1)
        plans += [(figure, budget, whole.solve(max_volume=budget)) for budget in BUDGETS]
    held_out = plans[0][2]._table.held_out.steps
    # A mixture counts as it is replayed: what looks at several layers does something else there
    # than alone.
    both = [
        results,
        apscope.replay(DATA / name, [plan for _, _, plan in plans], topology="ring"),
    ]
    frame = pd.concat([one.frame for one in both]).drop_duplicates(
        ["step", "tensor", "scheme", "stage", "topology"]
    )
    rows = headline(
        summary(frame[frame["step"].isin(held_out)].reset_index(drop=True)), "ring"
    ).set_index("scheme")
    return [_case(name, *plan, rows) for plan in plans]


def _case(name: str, figure: str, budget: float, plan: Any, rows: pd.DataFrame) -> Case:
    units = len(plan.layers)
    problem = Problem(plan._table, plan.wish, np.full(units, -1))
    within = [spec for k, spec in enumerate(plan.candidates) if problem.is_within(np.full(units, k))]
    best = min(within, key=lambda spec: rows.at[spec, figure])
    return Case(
        name,
        figure,
        budget,
        plan,
        rows.at[plan.spec, figure],
        rows.at[plan.single, figure],
        rows.at[best, figure],
        best,
    )


def lines(found: Iterable[Case]) -> list[str]:
    """The table."""
    return page.table(
        HEADS,
        [
            (
                f"`{case.trace}`", f"{case.budget:g}", f"`{case.figure}`", f"{case.error:.2g}",
                len(set(case.plan.layers["scheme"])), f"`{case.plan.single}` {case.single:.2g}",
                f"{case.error / case.single:.2g}", f"`{case.hindsight_spec}` {case.hindsight:.2g}",
                f"{case.error / case.hindsight:.2g}",
            )
            for case in found
        ],
    )  # fmt: skip


SECTIONS = {"plans": lambda: lines(case for name in TRACES for case in cases(name))}
