"""`apscope.recommend`: results of the candidates, given or replayed, and a plan made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from .._arrays.checks import integer, text
from .._arrays.float_environment import guarded
from .._replay.ladder import REDUCTIONS
from .._results.given import Given, results_or_trace
from .._results.pooling import one_trace
from .._results.results import Results
from .._schemes.scheme import Scheme, as_scheme
from .._traces.selection import parse_steps
from ..cost import Network
from .candidates import DEFAULT, candidates_of
from .objective import Wish, usual_figure
from .plan import Plan
from .planning import Setting, planned


@guarded
def recommend(
    source: Given,
    candidates: Scheme | str | Sequence[Scheme | str] | None = None,
    *,
    minimize: str | None = None,
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
    topology: str | Sequence[str] | None = None,
    trace: str | None = None,
    steps: slice | str | Iterable[int] | None = None,
    workers: int | None = None,
    network: Network | None = None,
    elements: float = 25.6e6,
    seed: int = 0,
    threads: int = 0,
    progress: bool = False,
) -> Plan:
    """Choose a reduction, and a scheme for every layer: the least error for a volume, or the reverse.

    Parameters
    ----------
    source : Results, Trace, path-like, URL or gradients
        Results of the candidates; or a trace or gradients in memory (as for `replay`), which are
        replayed through them, and then through the plan.
    candidates : schemes, optional
        Specs, or words for lists: ``main``, ``all``, ``hardware``, ``8-bit``, ``widths``
        (docs/advice.md). By default ``main`` and ``blocks``; for results all that they contain.
    minimize : {"step_nmse", "error_over_noise", "volume", "time"}, optional
        By default ``step_nmse``, or ``volume`` if only errors are limited. In training runs, mixtures with the least ``step_nmse`` were never worse than one scheme;
        with the least ``error_over_noise``, which is known for several workers only, some were
        (docs/insight.md).
    max_volume, max_time, max_nmse, max_error_over_noise, min_cosine, max_underflow : float, optional
        Limits of the figures of `Results.summary`: ``volume`` (0.25: a quarter of fp32's bytes,
        whatever side information is below 0.001), ``time`` (modelled seconds), ``step_nmse``,
        ``error_over_noise``, ``layer_cosine``, ``underflow_wire``. Without any: a volume of 0.28,
        8 bits a value and the scales of blocks; or, if volume or time is minimized, a ``step_nmse``
        of 0.01.
    max_layer_error : float, optional
        Limit for each layer, of the error that is minimized or limited: its part of
        ``step_nmse``, or its own ``error_over_noise``, whose mean of logarithms allows one bad
        layer if others are very good.
    groups : str
        Tensors that share a choice: ``layer`` (a tensor), ``module``, ``role``, ``model``,
        ``bucket:25MB``, or a regular expression, whose first capture group, or else the whole
        match, names the group.
    periods : int
        Number of ranges of steps, each with its own choice.
    fixed : mapping, optional
        Regular expressions of layers' names, and the scheme of these layers.
    holdout : bool, "A:B", or step numbers
        Steps that are not used for the choice, but to evaluate the plan. True: every second one, if
        there are at least two.
    simplest : bool
        Whether fewer schemes are preferred if the difference is not significant.
    topology : str or sequence of str, optional
        The reductions to choose from: the plan is made in each, and the best is the answer. All its
        layers have the same one, but schemes with their own reduction use that if they do not have
        the other. By default ``ring`` and ``two_phase`` for a trace; for results the first replayed
        one that adds in a format, and all in two phases.
    trace : str, optional
        The trace, for results of several.
    steps, workers, seed, threads, progress
        As for `replay`.
    network, elements
        Of the modelled time, as for `Results.summary`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        Limits that no mixture meets (the sentence says what can be reached), an unknown candidate,
        group or figure; results without the needed rows.

    Examples
    --------
    >>> import apscope
    >>> plan = apscope.recommend("notebooks/data/digits", ["aps:e3m0", "aps:e4m3fn"], max_volume=0.2)  # doctest: +SKIP
    """
    limits = {
        "max_volume": max_volume,
        "max_time": max_time,
        "max_nmse": max_nmse,
        "max_error_over_noise": max_error_over_noise,
        "min_cosine": min_cosine,
        "max_underflow": max_underflow,
    }
    figure = usual_figure(limits) if minimize is None else minimize
    wish = Wish(figure, **limits, max_layer_error=max_layer_error)
    if not isinstance(fixed, Mapping | None):
        raise TypeError(
            f"fixed={fixed!r:.60} must be a mapping of expressions of names to schemes, such as "
            "{'head': 'none:fp16'}"
        )
    schemes = {text("fixed", p): as_scheme(spec) for p, spec in (fixed or {}).items()}
    periods = integer("periods", periods, 1, 2**20)
    topologies = None
    if topology is not None:
        topologies = (topology,) if isinstance(topology, str) else tuple(topology)
    if topologies == ():
        raise ValueError("there is no topology to choose from; give at least one, such as ring")
    setting = Setting(
        wish,
        groups,
        periods,
        schemes,
        holdout,
        simplest,
        topologies,
        network or Network(),
        elements,
    )
    steps = parse_steps(steps)
    if candidates is not None:
        candidates_of(candidates)  # what is wrong with them is said before the source is opened
    opened = results_or_trace(source)
    if isinstance(opened, Results):
        if steps is not None or workers is not None:
            raise ValueError(
                "steps and workers select from a trace; results contain what was replayed"
            )
        frame = one_trace(opened.frame, trace)
        if not len(frame):
            raise ValueError("the results have no rows, so there is nothing to choose from")
        specs = list(
            dict.fromkeys([*_requested(frame, candidates), *(s.spec for s in schemes.values())])
        )
        replayed = set(frame["scheme"].unique())
        if missing := [s for s in specs if s not in replayed]:
            raise ValueError(
                f"the results have no scheme '{missing[0]}'; replay it, or leave it out"
            )
        return planned(opened, frame, specs, setting, None)
    if trace not in (None, opened.name):
        raise ValueError(
            f"no trace '{trace}' in the trace '{opened.name}'; trace= (--trace) selects one of the "
            "traces of results, so leave it out"
        )
    from .._replay.replay import replay

    def replays(schemes: Sequence[Scheme], reductions: Sequence[str]) -> Results:
        return replay(
            opened,
            schemes,
            topology=reductions or REDUCTIONS,
            steps=steps,
            workers=workers,
            seed=seed,
            threads=threads,
            progress=progress,
        )

    needed = candidates_of(
        [*candidates_of(DEFAULT if candidates is None else candidates), *schemes.values()]
    )
    results = replays(needed, topologies or REDUCTIONS)
    return planned(results, results.frame, [s.spec for s in needed], setting, replays)


def _requested(frame: pd.DataFrame, candidates: Any) -> list[str]:
    """The candidates among the schemes of results: by default all but hybrids."""
    replayed = list(frame["scheme"].unique())
    if candidates is None:
        return [spec for spec in replayed if not spec.startswith("hybrid(")]
    specs = [s.spec for s in candidates_of(candidates)]
    words = not isinstance(candidates, Scheme) and all(
        isinstance(c, str) and ":" not in c
        for c in ([candidates] if isinstance(candidates, str) else candidates)
    )
    selected = [spec for spec in specs if spec in replayed] if words else specs
    if not selected:
        raise ValueError(
            f"the results have none of the candidates {candidates}; they have "
            f"{', '.join(replayed[:6])}{', ...' * (len(replayed) > 6)}"
        )
    return selected
