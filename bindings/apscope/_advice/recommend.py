"""`apscope.recommend`: candidates replayed, the table, the choice, and the plan replayed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._arrays.checks import integer
from .._arrays.float_environment import guarded
from .._results.folders import check_readable, what_is
from .._results.pooling import headline_topology, is_own, one_trace
from .._results.results import Results
from .._schemes.scheme import Scheme, as_scheme
from .._traces.opening import is_url, open_trace
from .._traces.selection import parse_steps
from .._traces.trace import Trace
from ..cost import Network, step_time
from .candidates import candidates_of
from .plan import Plan, made
from .seconds import Latencies
from .table import Table, table_of
from .units import Tensor, pinned, units_of
from .wish import LIMITS, Wish, figures, total_of

__all__ = ["recommend"]

#: Of sums that should be equal, relative: beyond, a candidate did something else in a mixture than alone.
_EQUAL = 1e-9


@guarded
def recommend(
    source: Results | Trace | str | os.PathLike[str],
    candidates: Scheme | str | Sequence[Scheme | str] | None = None,
    *,
    minimize: str = "error_over_noise",
    max_volume: float | None = None,
    max_time: float | None = None,
    max_nmse: float | None = None,
    max_error_over_noise: float | None = None,
    min_cosine: float | None = None,
    max_underflow: float | None = None,
    max_layer_error: float | None = None,
    groups: str = "layer",
    periods: int = 1,
    fixed: Mapping[str, Scheme | str] | None = None,
    holdout: str | bool | Iterable[int] = True,
    simplest: bool = True,
    topology: str | None = None,
    trace: str | None = None,
    steps: slice | str | Iterable[int] | None = None,
    workers: int | None = None,
    network: Network | None = None,
    elements: float = 25.6e6,
    seed: int = 0,
    threads: int = 0,
    progress: bool = False,
) -> Plan:
    """Choose a scheme for every layer: the least error for a volume, or the least volume for an error.

    Parameters
    ----------
    source : Results, Trace, path-like or URL
        Results of the candidates; or a trace, which is replayed through them, and then through the plan.
    candidates : schemes, optional
        Specs, or words for lists: ``main``, ``all``, ``hardware``, ``8-bit``, ``widths`` (docs/advice.md). By default ``main``, of results
        all that they hold.
    minimize : {"error_over_noise", "step_nmse", "volume", "time"}
        The noise is that of the batch; where it is not known (one worker), ``step_nmse`` takes its place.
    max_volume, max_time, max_nmse, max_error_over_noise, min_cosine, max_underflow : float, optional
        Limits of the figures of `Results.summary`: ``volume`` (0.25: a quarter of fp32's bytes, whatever side information is below 0.001),
        ``time`` (modelled seconds), ``step_nmse``, ``error_over_noise``, ``layer_cosine``, ``underflow_wire``. Without any: a volume of 0.25, or
        where that is minimized an error over the noise of 0.02.
    max_layer_error : float, optional
        Of every layer by itself: ``error_over_noise`` of the layer, or its part of ``step_nmse``. A mean of logarithms lets one layer be bad where
        others are very good; this does not.
    groups : str
        What shares a choice: ``layer`` (a tensor), ``module``, ``role``, ``model``, ``bucket:25MB``, or a regular expression, whose first
        parenthesis, else all that it finds, names the group.
    periods : int
        Into how many ranges of steps with choices of their own the steps are cut.
    fixed : mapping, optional
        Regular expressions of layers' names, and the scheme that these have.
    holdout : bool, "A:B", or step numbers
        Steps that the choice does not see, and on which the plan is stated. True: every second one, where there are two at least.
    simplest : bool
        Whether fewer schemes win where the steps do not tell the difference.
    topology : str, optional
        The order of the additions; by default ``ring`` of a trace, of results the first replayed.
    trace : str, optional
        Of results that hold several.
    steps, workers, seed, threads, progress
        Of the replay, as `replay` takes them.
    network, elements
        Of the modelled time, as `Results.summary` takes them.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        Limits that no mixture meets (the sentence says what is within reach), an unknown candidate, group or figure; results without
        what is needed.

    Examples
    --------
    >>> import apscope
    >>> plan = apscope.recommend("notebooks/data/digits", ["aps:e3m0", "aps:e4m3fn"], max_volume=0.2)  # doctest: +SKIP
    """
    wish = Wish(minimize, max_volume, max_time, max_nmse, max_error_over_noise, min_cosine, max_underflow, max_layer_error)
    network = network or Network()
    fixed = {pattern: as_scheme(spec) for pattern, spec in (fixed or {}).items()}
    opened = source if isinstance(source, (Results, Trace)) else _opened(source)
    replays = None
    if isinstance(opened, Trace):
        from .._replay.replay import replay

        whole = opened  # a name of its own for the function below
        options = {"topology": topology or "ring", "steps": steps, "workers": workers, "seed": seed, "threads": threads, "progress": progress}

        def replays(schemes: Sequence[Scheme]) -> Results:
            return replay(whole, schemes, **options)

        chosen_schemes = candidates_of(["main"] if candidates is None else candidates)
        results = replays(candidates_of([*chosen_schemes, *fixed.values()]))
    else:
        if steps is not None or workers is not None:
            raise ValueError("steps and workers select from a trace; results hold what was replayed")
        results = opened
    frame = one_trace(results.frame, trace)
    if not len(frame):
        raise ValueError("the results have no rows, so there is nothing to choose from")
    specs = [s.spec for s in chosen_schemes] if replays else _held(frame, candidates)
    specs = list(dict.fromkeys([*specs, *(s.spec for s in fixed.values())]))
    there = set(frame["scheme"].unique())
    if lacking := [s for s in specs if s not in there]:
        raise ValueError(f"the results hold no scheme '{lacking[0]}'; replay it, or leave it out")
    return _planned(
        results, frame, specs, wish, groups, integer("periods", periods, 1, 2**20), fixed, holdout, simplest, topology, network, elements, replays
    )


def _planned(results, frame, specs, wish, groups, periods, fixed, holdout, simplest, topology, network, elements, replays) -> Plan:  # noqa: ANN001
    name = str(frame["trace"].iloc[0])
    told = next(t for t in results.provenance["traces"] if t["name"] == name)
    topology = _topology(frame, topology)
    tensors = [Tensor(t["name"], t["role"], math.prod(t["shape"])) for t in told["tensors"]]
    chosen, held_out = _split(sorted(int(s) for s in frame["step"].unique()), holdout)
    held = {tensor: scheme.spec for tensor, scheme in pinned(tensors, fixed).items()}
    units = units_of(tensors, chosen, groups, periods, held)
    noise = results.noise[results.noise["trace"] == name]

    def tabled(frame: pd.DataFrame, specs: list[str]) -> Table:
        return table_of(frame, noise, specs, units, topology, chosen, held_out, network, elements)

    table = tabled(frame, specs)
    about = {
        "trace": name, "hash": told["hash"], "workers": told["workers"], "topology": topology, "groups": groups, "periods": periods, "fixed": held,
        "simplest": bool(simplest), "elements": elements, "replay": results.provenance["command"], "version": results.provenance["version"],
        "tensors": [{"name": t.name, "role": t.role, "size": t.size} for t in tensors],
    }  # fmt: skip
    wish = wish.completed(table.chosen.noisy)
    places = {spec: k for k, spec in enumerate(specs)}
    pins = np.array([places[held[u.tensors[0]]] if u.tensors[0] in held else -1 for u in units])
    plan = made(table, wish, pins, about)
    if replays is None:
        return plan
    banned: frozenset[int] = frozenset()
    while True:
        own = replays([plan.scheme])
        mixed = tabled(own.frame, [plan.spec])
        _take_time(mixed, own.frame, plan.spec, network, elements)
        changed = _changed(table, plan._options, mixed)
        plan = Plan(
            table, plan.wish, plan._options, plan._best, plan._single, plan._gap, about | {"changed": [specs[k] for k in changed]}, mixed, banned
        )
        # Candidates that look at several layers are no use in a mixture that then breaks a limit, or is worse than one of them alone.
        if not changed or set(changed) <= banned or not _fails(plan):
            return plan
        banned |= set(changed)
        plan = made(table, wish, pins, about, banned)


def _take_time(mixed: Table, frame: pd.DataFrame, spec: str, network: Network, elements: float) -> None:
    """The time of a mixture as `Results.summary` has it: its parts share messages."""
    if mixed.counts_bits:
        return
    told = step_time(frame[(frame["topology"] != "exact") & frame["step"].isin(mixed.chosen.steps)], network, elements=elements)
    mixed.latencies = Latencies([{spec: float(told["seconds"].iloc[0])}], [0.0])
    for sums in (mixed.chosen, mixed.held_out):
        if sums is not None:
            sums.seconds = np.zeros_like(sums.seconds)


def _fails(plan: Plan) -> bool:
    """Whether the plan as replayed breaks a limit, or has more of what is minimized than the best single candidate."""
    assert plan._replayed is not None
    replayed = figures(plan._replayed, plan._replayed.chosen, np.zeros(len(plan._options), int))
    for name, value in plan.wish.limits.items():
        slack = total_of(plan._table.chosen, LIMITS[name], value).limit - value if LIMITS[name] == "volume" else 0.0
        got = replayed[LIMITS[name]]
        if (got < value - 1e-12) if name.startswith("min") else not (got <= (value + slack) * (1 + 1e-9)):
            return True
    if plan._single is None:
        return False
    alone = figures(plan._table, plan._table.chosen, np.full(len(plan._options), plan._single))
    return not replayed[plan.wish.minimize] <= alone[plan.wish.minimize] * 1.01


def _changed(table: Table, options: np.ndarray, mixed: Table) -> list[int]:
    """The candidates that did something else in the mixture than alone."""
    found = set()
    for one, other in ((table.chosen, mixed.chosen), (table.held_out, mixed.held_out)):
        if one is None or other is None:
            continue
        alone = one.picked(options)
        for name in ("nmse", "log2", "volume"):
            a, b = (getattr(sums, name).reshape(len(options), -1) for sums in (alone, other))
            same = (np.abs(a - b) <= _EQUAL * np.abs(a)) | (np.isnan(a) & np.isnan(b))
            found |= {int(options[u]) for u in np.flatnonzero(~same.all(axis=1))}
    return sorted(found)


def _opened(source: str | os.PathLike[str]) -> Results | Trace:
    if is_url(source):
        return open_trace(source)
    folder = check_readable(source)
    if (folder / "manifest.json").is_file():
        return open_trace(folder)
    if (folder / "provenance.json").is_file():
        return Results.open(folder)
    raise ValueError(f"{Path(folder)} is neither a trace nor a RESULTS folder: {what_is(folder, 'manifest.json and no provenance.json')}")


def _held(frame: pd.DataFrame, candidates: Any) -> list[str]:
    """The candidates among the schemes of results: all but hybrids by default; of words those that there are."""
    there = list(frame["scheme"].unique())
    if candidates is None:
        return [spec for spec in there if not spec.startswith("hybrid(")]
    asked = [s.spec for s in candidates_of(candidates)]
    words = not isinstance(candidates, Scheme) and all(
        isinstance(c, str) and ":" not in c for c in ([candidates] if isinstance(candidates, str) else candidates)
    )
    found = [spec for spec in asked if spec in there] if words else asked
    if not found:
        raise ValueError(f"the results hold none of the candidates {candidates}; they hold {', '.join(there[:6])}{', ...' * (len(there) > 6)}")
    return found


def _topology(frame: pd.DataFrame, topology: str | None) -> str:
    """The order of the additions; empty for the wire of a trace without reduced rows."""
    held = [t for t in frame.loc[frame["stage"] == "reduced", "topology"].unique() if t]
    if not held:
        return ""
    if topology is None:
        return headline_topology(frame)
    if topology not in held:
        raise ValueError(f"the results have no topology '{topology}'; use one of {', '.join(t for t in held if not is_own(t))}")
    if topology in ("exact", "sequential") and not (frame["workers"] == 1).all():
        raise ValueError(f"the topology '{topology}' has no volume, for nobody runs it; use another, such as ring")
    return topology


def _split(steps: list[int], holdout: Any) -> tuple[list[int], list[int]]:
    """The steps that the choice rests on, and those held out."""
    if holdout is True:
        return (steps[::2], steps[1::2]) if len(steps) > 1 else (steps, [])
    if holdout is False:
        return steps, []
    asked = parse_steps(holdout)
    assert asked is not None
    if isinstance(asked, slice):
        low, high = (-math.inf if asked.start is None else asked.start), (math.inf if asked.stop is None else asked.stop)
        out = [s for s in steps if low <= s < high]
    else:
        out = [s for s in steps if s in set(asked)]
        if wrong := sorted(set(asked) - set(steps)):
            raise ValueError(f"holdout names step {wrong[0]}, which is not among those replayed: {steps[0]} to {steps[-1]}")
    if not out or len(out) == len(steps):
        raise ValueError(
            f"holdout='{holdout}' holds {'none' if not out else 'all'} of the steps {steps[0]} to {steps[-1]}; some must stay to choose by"
        )
    return [s for s in steps if s not in set(out)], out
