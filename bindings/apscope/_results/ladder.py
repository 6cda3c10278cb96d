"""The ladder of scales: one rule and rounding with finer and finer scales.

From one scale for all steps to one for 16 elements. The gain of a finer scale is the quotient of
two rungs that differ only in the scale; docs/definitions.md, section 17.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._arrays.float_environment import guarded
from .._arrays.inputs import as_format
from .._schemes.scheme import as_scheme
from .factors import factor as factor_of
from .factors import step_logs
from .pooling import frame_of, headline_topology, wire_of
from .summary import COLUMNS as SUMMARY_COLUMNS
from .summary import summary

__all__ = ["COLUMNS", "FORMATS", "RULES", "RUNGS", "Rung", "ladder", "ladder_schemes"]


class Rung(NamedTuple):
    """One step of the ladder."""

    name: str
    spec: str  # of its scheme, with placeholders format and rule
    finer_than: str | None  # the rung that it is compared with, which differs in one thing
    meaning: str


#: From the coarsest scale to the finest.
RUNGS = (
    Rung(
        "largest constant",
        "loss_scaling:{format},scale=largest,rule={rule}",
        None,
        "one scale for all steps: the largest that never saturates",
    ),
    Rung(
        "best constant",
        "loss_scaling:{format},scale=best,overflow=saturate",
        None,
        "one scale for all steps: the one with the least error over noise, or where the noise is "
        "unknown (one worker) the least step NMSE; it may clip gradients or their sums",
    ),
    Rung(
        "best constant, NMSE",
        "loss_scaling:{format},scale=best,by=step_nmse,overflow=saturate",
        None,
        "one scale for all steps: the one with the least step NMSE; it may clip gradients or their "
        "sums",
    ),
    Rung(
        "GradScaler",
        "dynamic_loss_scaling:{format}",
        None,
        "torch's loss scale, unchanged: doubles, halves and skips by its own rule",
    ),
    Rung(
        "step",
        "aps:{format},rule={rule},unit=model",
        "largest constant",
        "one scale per step for all layers",
    ),
    Rung(
        "step, delayed",
        "aps:{format},rule={rule},unit=model,delay=1",
        "step",
        "the scale of the step before",
    ),
    Rung(
        "bucket", "aps:{format},rule={rule},unit=bucket:25MB", "step", "one scale per bucket of DDP"
    ),
    Rung("layer", "aps:{format},rule={rule}", "step", "one scale per layer and step: APS"),
    Rung("row", "aps:{format},rule={rule},unit=row", "layer", "one scale per row of a matrix"),
    Rung("1024", "aps:{format},rule={rule},unit=1024", "layer", "one scale per 1,024 elements"),
    Rung("32", "aps:{format},rule={rule},unit=32", "1024", "one scale per 32 elements"),
    Rung("16", "aps:{format},rule={rule},unit=16", "32", "one scale per 16 elements"),
)

#: Default formats of `ladder`: hardware's two, and one with fewer exponent bits.
FORMATS = ("e5m2", "e4m3fn", "e3m4", "e2m5", "e3m0")

#: Rules of a scale: docs/definitions.md, section 8.
RULES = ("tight", "ceil")

#: Columns of `ladder`, in order.
COLUMNS = (
    "trace", "format", "rung", "finer_than", "factor", "factor_low", "factor_high",
    "scale_exponent",
    *(c for c in SUMMARY_COLUMNS if c not in ("trace", "format", "family", "scheme", "topology")),
    "steps", "scheme", "topology",
)  # fmt: skip


def ladder_schemes(
    formats: Iterable[Any] = FORMATS, rule: str = "tight"
) -> dict[tuple[str, str], str]:
    """The scheme of every format and rung, by (format, rung); formats as their schemes print them.

    Raises
    ------
    ValueError
        No such format or rule; no format.
    """
    if rule not in RULES:
        raise ValueError(f"unknown rule '{rule}'; use one of {', '.join(RULES)}")
    found = {}
    for given in [formats] if isinstance(formats, str) else formats:
        name = given if isinstance(given, str) else as_format(given).name
        for rung in RUNGS:
            scheme = as_scheme(rung.spec.format(format=name, rule=rule))
            found[scheme.format, rung.name] = scheme.spec
    if not found:
        raise ValueError("there is no format to make a ladder of; give at least one, such as e3m4")
    return found


@guarded
def ladder(
    results: Any,
    formats: Iterable[Any] | None = None,
    *,
    rule: str = "tight",
    topology: str | None = None,
    batch_factor: float = 1.0,
    progress: bool = False,
    threads: int = 0,
) -> pd.DataFrame:
    """The gain of finer scales: the error of every rung, and its ratio to a coarser one.

    Parameters
    ----------
    results : Results, DataFrame, Trace or path
        A RESULTS table, whose rungs are used; or a trace, which is replayed through all rungs.
    formats : sequence of formats, optional
        By default `FORMATS` for a trace, all formats for results.
    rule : {"tight", "ceil"}
        Of every rung's scale: the largest that fits, or APS's own.
    topology : str, optional
        The order of the additions; by default ``ring`` for a trace, the first replayed one for
        results.
    batch_factor : float
        The noise is that of a batch larger than the recorded one by this factor.
    progress : bool
        Whether a replay shows a bar.
    threads : int
        Of a replay; 0: all of the machine's.

    Returns
    -------
    DataFrame
        `COLUMNS`: one row per trace, format and rung, in that order, with the columns of
        `Results.summary`, the number of steps, and

        - ``finer_than``: the rung that differs only in its coarser scales, empty if there is none;
        - ``factor``: that rung's error divided by this one's, in a typical block: the quotient of
          the two ``error_over_noise``, in which the noise cancels. For a trace of unknown noise
          (one worker), the geometric mean over the steps of the quotient of their NMSE; NaN if one
          of the two has memory and steps with ``gaps``;
        - ``scale_exponent``: of one scale for everything, 2^this; NaN for others;
        - ``factor_low``, ``factor_high``: its 95 % interval, with steps as independent draws
          (Student's t of the steps' logarithms); NaN with one step.

    Raises
    ------
    ValueError
        Results without a rung; an unknown format, rule, topology; a `batch_factor` that is not
        positive.
    """
    from .._traces.trace import Trace

    if isinstance(results, Trace):
        from .._replay.replay import replay

        specs = list(
            dict.fromkeys(ladder_schemes(FORMATS if formats is None else formats, rule).values())
        )
        results = replay(
            results, specs, topology=topology or "ring", progress=progress, threads=threads
        )
    frame = frame_of(results)
    wanted = _held(frame, formats, rule)
    topology = topology or headline_topology(frame)
    frame = frame[frame["scheme"].isin(set(wanted.values()))]
    kept = frame[wire_of(frame, topology) | frame["topology"].isin([topology])]
    if not (kept["stage"] == "reduced").any() and (frame["stage"] == "reduced").any():
        held = [t for t in frame["topology"].unique() if t]
        raise ValueError(f"the results have no topology '{topology}'; use one of {', '.join(held)}")
    table = summary(
        results if kept is frame else _like(results, kept), batch_factor=batch_factor
    ).set_index(["trace", "scheme"])
    steps = step_logs(kept)
    scale_of = _single_scales(kept)
    rows = []
    for trace in dict.fromkeys(kept["trace"]):
        for (name, rung), spec in wanted.items():
            if (trace, spec) not in table.index:
                continue
            coarser = next(r.finer_than for r in RUNGS if r.name == rung)
            logs = steps[trace, spec]
            factor = (np.nan,) * 3
            before = wanted.get((name, coarser)) if coarser else None
            pair = [(trace, s) for s in (before, spec) if s is not None]
            # A scheme with memory on steps with gaps has no rank, so no factor either.
            if len(pair) == 2 and all(p in steps and not table.at[p, "gaps"] for p in pair):
                factor = factor_of(steps[pair[0]], logs)
            rows.append(
                dict(table.loc[(trace, spec)])
                | {
                    "trace": trace,
                    "format": name,
                    "rung": rung,
                    "finer_than": coarser or "",
                    "scale_exponent": scale_of.get((trace, spec), np.nan),
                    "scheme": spec,
                    "steps": len(logs),
                }
                | dict(zip(("factor", "factor_low", "factor_high"), factor))
            )
    return pd.DataFrame(rows)[list(COLUMNS)]


def _single_scales(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """By (trace, scheme): the exponent of the scale of all rows, of schemes that have only one."""
    known = rows[(rows["stage"] == "reduced") & rows["scale_exponent"].notna()]
    of = known.groupby(["trace", "scheme"], sort=False, observed=True)["scale_exponent"]
    found = of.agg(["nunique", "first"])
    return {pair: float(row["first"]) for pair, row in found.iterrows() if row["nunique"] == 1}


def _like(results: Any, frame: pd.DataFrame) -> Any:
    """The same results with only these rows."""
    from .results import Results

    if isinstance(results, pd.DataFrame):
        return frame
    return Results(frame, results.histograms, results.provenance, results.noise)


def _held(
    frame: pd.DataFrame, formats: Iterable[Any] | None, rule: str
) -> dict[tuple[str, str], str]:
    """The rungs in a table."""
    specs = set(frame["scheme"])
    if formats is None:
        names = [n for n in dict.fromkeys(frame["format"]) if _is_float(str(n))]
        formats = [n for n in names if len(specs & set(ladder_schemes([n], rule).values())) > 1]
        if not formats:
            raise ValueError(
                f"the results do not have two rungs of the ladder with rule={rule}; apscope ladder "
                "TRACE replays all of them"
            )
    wanted = {place: spec for place, spec in ladder_schemes(formats, rule).items() if spec in specs}
    if not wanted:
        raise ValueError(
            f"the results have no rung of the ladder with rule={rule} in these formats; apscope "
            "ladder TRACE replays all of them"
        )
    return wanted


def _is_float(name: str) -> bool:
    try:
        as_format(name)
    except (ValueError, TypeError):
        return False
    return True
