"""From results to a plan: a table per reduction, the choice, and, with a trace, its replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .._results.codes import coded_of
from .._results.noise import zero_layers
from .._results.nonfinite import COLUMNS as NONFINITE
from .._results.nonfinite import nonfinite
from .._results.pooling import headline_topology, held_topology, is_on_front, is_own
from .._results.results import Results
from .._results.volume import SIDE
from .._schemes.scheme import Scheme
from .._text import clip
from .._traces.selection import parse_steps
from ..cost import Network, step_time
from .choices import reduction_rows
from .objective import LIMITS, Wish, figures, ranked, total_of
from .plan import Plan, made
from .seconds import Latencies
from .table import Table, table_of
from .units import Tensor, pinned, units_of

#: Relative difference of sums beyond which a candidate behaved differently in a mixture than alone.
_EQUAL = 1e-9


@dataclass(frozen=True)
class Setting:
    """How a plan is made: the arguments of `recommend`."""

    wish: Wish
    groups: str
    periods: int
    fixed: Mapping[str, Scheme]
    holdout: Any
    simplest: bool
    topologies: tuple[str, ...] | None
    network: Network
    elements: float


def planned(
    results: Results,
    frame: pd.DataFrame,
    specs: list[str],
    setting: Setting,
    replays: Callable[[Sequence[Scheme], Sequence[str]], Results] | None,
) -> Plan:
    """The plan of one trace.

    Parameters
    ----------
    results : Results
    frame : DataFrame
        Their rows for the trace.
    specs : list of str
        The candidates; all are in the frame.
    setting : Setting
    replays : callable, optional
        Replays schemes on the trace like the candidates, in these reductions.
    """
    name = str(frame["trace"].iloc[0])
    described = _described(results, frame, name)
    tensors = [
        Tensor(t["name"], t["role"], t.get("sampled_from") or math.prod(t["shape"]))
        for t in described["tensors"]
    ]
    chosen, held_out = _split(sorted(int(s) for s in frame["step"].unique()), setting.holdout)
    fixed = {tensor: scheme.spec for tensor, scheme in pinned(tensors, setting.fixed).items()}
    units = units_of(tensors, chosen, setting.groups, setting.periods, fixed)
    noise = results.noise[results.noise["trace"] == name]

    def tabled(frame: pd.DataFrame, specs: list[str], topology: str) -> Table:
        return table_of(
            frame,
            noise,
            specs,
            units,
            topology,
            chosen,
            held_out,
            setting.network,
            setting.elements,
        )

    about = {
        "trace": name, "hash": described["hash"], "workers": described["workers"],
        "groups": setting.groups,
        "periods": setting.periods, "fixed": fixed, "simplest": bool(setting.simplest),
        "elements": setting.elements,
        "replay": results.provenance["command"], "version": results.provenance["version"],
        "tensors": [{"name": t.name, "role": t.role, "size": t.size} for t in tensors],
    }  # fmt: skip
    if zero := zero_layers(frame).get(name):
        about["numerically_zero"] = zero
    if sentence := nonfinite(coded_of(frame, NONFINITE)):
        about["not_finite"] = sentence
    places = {spec: k for k, spec in enumerate(specs)}
    pins = np.array([places[fixed[u.tensors[0]]] if u.tensors[0] in fixed else -1 for u in units])
    plans: dict[str, Plan] = {}
    refused: dict[str, str] = {}
    for topology in _topologies(frame, setting.topologies):
        table = tabled(frame, specs, topology)
        if not table.chosen.lossy:
            raise ValueError(
                "the gradients of the steps for the choice, added over the workers, are zero "
                "wherever they are finite, so no error can be compared with them; give other steps"
            )
        wish = setting.wish.completed(table.chosen.noisy)
        try:
            plans[topology] = made(table, wish, pins, {**about, "topology": topology})
        except ValueError as error:
            refused[topology] = str(error)
    if not plans:
        raise ValueError(_refused(refused))
    topology = _best(plans)
    plan = plans[topology]
    table, wish = plan._table, plan.wish
    about["topology"] = topology
    if len(plans) > 1:
        about["reductions"] = reduction_rows(plans, topology)
    plan = made(table, wish, pins, about)
    if replays is None:
        return plan
    while True:
        results_of_plan = replays([plan.scheme], [topology] if topology else [])
        mixed = tabled(results_of_plan.frame, [plan.spec], topology)
        _take_time(mixed, results_of_plan.frame, plan.spec, setting)
        changed = _changed(table, plan._options, mixed)
        plan = plan.replayed(mixed, [specs[k] for k in changed])
        # Candidates that depend on several layers are excluded if the mixture then breaks a limit,
        # or is worse than one of them alone.
        if not changed or set(changed) <= plan._banned or not _fails(plan):
            return plan
        plan = made(table, wish, pins, about, plan._banned | set(changed))


def _described(results: Results, frame: pd.DataFrame, name: str) -> dict[str, Any]:
    """The provenance of the trace.

    Raises
    ------
    ValueError
        It has no entry for the trace, or for one of its tensors.
    """
    entry = next((t for t in results.provenance.get("traces", ()) if t["name"] == name), None)
    missing = (
        []
        if entry is None
        else sorted(set(frame["tensor"]) - {t["name"] for t in entry["tensors"]})
    )
    if entry is None or missing:
        what = (
            f"the tensor {clip(missing[0])} of the trace {clip(name)}"
            if missing
            else f"the trace {clip(name)}"
        )
        raise ValueError(
            f"the results' provenance does not describe {what}; a plan needs its layers' names, "
            "roles and shapes: replay the trace again"
        )
    return entry


def _take_time(mixed: Table, frame: pd.DataFrame, spec: str, setting: Setting) -> None:
    """The time of a mixture as `Results.summary` has it: its parts share messages."""
    if mixed.counts_bits:
        return
    times = step_time(
        frame[(frame["topology"] != "exact") & frame["step"].isin(mixed.chosen.steps)],
        setting.network,
        elements=setting.elements,
    )
    mixed.latencies = Latencies([{spec: float(times["seconds"].iloc[0])}], [0.0])
    for sums in (mixed.chosen, mixed.held_out):
        if sums is not None:
            sums.seconds = np.zeros_like(sums.seconds)


def _fails(plan: Plan) -> bool:
    """Whether the replayed plan breaks a limit, or is worse than the best single candidate."""
    assert plan._replayed is not None
    replayed = ranked(plan._replayed, plan._replayed.chosen, np.zeros(len(plan._options), int))
    for name, value in plan.wish.limits.items():
        slack = (
            total_of(plan._table.chosen, LIMITS[name], value).limit - value
            if LIMITS[name] == "volume"
            else 0.0
        )
        got = replayed[LIMITS[name]]
        if (
            (got < value - 1e-12)
            if name.startswith("min")
            else not (got <= (value + slack) * (1 + 1e-9))
        ):
            return True
    if plan._single is None:
        return False
    alone = figures(plan._table, plan._table.chosen, np.full(len(plan._options), plan._single))
    return not replayed[plan.wish.minimize] <= alone[plan.wish.minimize] * 1.01


def _changed(table: Table, options: np.ndarray, mixed: Table) -> list[int]:
    """The candidates that behaved differently in the mixture than alone."""
    changed = set()
    for one, other in ((table.chosen, mixed.chosen), (table.held_out, mixed.held_out)):
        if one is None or other is None:
            continue
        alone = one.picked(options)
        # With overflow the two tables know different references, so their NMSEs differ.
        error = "parts" if alone.overflow.any() and other.overflow.any() else "nmse"
        for name in (error, "log2", "volume"):
            a, b = (getattr(sums, name).reshape(len(options), -1) for sums in (other, alone))
            same = np.isclose(a, b, rtol=_EQUAL, atol=0.0, equal_nan=True)
            changed |= {int(options[u]) for u in np.flatnonzero(~same.all(axis=1))}
    return sorted(changed)


def _topologies(frame: pd.DataFrame, requested: Sequence[str] | None) -> list[str]:
    """The reductions to choose from; an empty name for the wire of a trace without reduced rows."""
    replayed = [t for t in frame.loc[frame["stage"] == "reduced", "topology"].unique() if t]
    if not replayed:
        return [""]
    if requested is None:
        first = headline_topology(frame)
        others = [t for t in replayed if t != first and not is_own(t) and is_on_front(t, first)]
        return [first, *others]
    shared = [t for t in replayed if not is_own(t)]
    requested = list(dict.fromkeys(held_topology(shared, topology) for topology in requested))
    for topology in requested:
        if topology in ("exact", "sequential") and not (frame["workers"] == 1).all():
            raise ValueError(
                f"the topology '{topology}' is not used by any real system and has no volume; use "
                "another, such as ring"
            )
    return requested


def _best(plans: Mapping[str, Plan]) -> str:
    """The reduction of the best plan, the first of equals; volumes up to `SIDE` apart are equal."""
    figures_of = {}
    for topology, plan in plans.items():
        values = figures(plan._table, plan._table.chosen, plan._options)
        figures_of[topology] = (values[plan.wish.minimize], values[plan.wish.error])
    least = min(value for value, _ in figures_of.values())
    minimized = next(iter(plans.values())).wish.minimize
    near = {
        t: pair
        for t, pair in figures_of.items()
        if minimized == "volume" and pair[0] <= least + SIDE
    }
    return (
        min(figures_of, key=figures_of.__getitem__)
        if not near
        else min(near, key=lambda t: near[t][1])
    )


def _refused(refused: Mapping[str, str]) -> str:
    """Why no reduction has a plan."""
    reasons = list(dict.fromkeys(refused.values()))
    if len(reasons) == 1:
        return reasons[0]
    return "; ".join(f"in {topology}: {reason}" for topology, reason in refused.items())


def _split(steps: list[int], holdout: Any) -> tuple[list[int], list[int]]:
    """The steps used for the choice, and those held out."""
    if holdout is True:
        return (steps[::2], steps[1::2]) if len(steps) > 1 else (steps, [])
    if holdout is False:
        return steps, []
    selected = parse_steps(holdout)
    assert selected is not None
    if isinstance(selected, slice):
        low, high = (
            (-math.inf if selected.start is None else selected.start),
            (math.inf if selected.stop is None else selected.stop),
        )
        held_out = [s for s in steps if low <= s < high]
    else:
        held_out = [s for s in steps if s in set(selected)]
        if wrong := sorted(set(selected) - set(steps)):
            raise ValueError(
                f"holdout names step {wrong[0]}, which is not among those replayed: {steps[0]} to "
                f"{steps[-1]}"
            )
    if not held_out or len(held_out) == len(steps):
        raise ValueError(
            f"holdout='{holdout}' selects {'none' if not held_out else 'all'} of the steps "
            f"{steps[0]} to {steps[-1]}; the choice needs some"
        )
    return [s for s in steps if s not in set(held_out)], held_out
