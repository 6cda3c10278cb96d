"""The ladder of scales: one rule and rounding with finer and finer scales, in every reduction.

From one scale for all steps to one for 16 elements. The gain of a finer scale is the quotient of
two rungs that differ only in the scale, that of a reduction or a format the quotient of two rows
that differ only in it; docs/definitions.md, section 17.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._arrays.float_environment import guarded
from .._arrays.inputs import as_format
from .._core import BlockFormat
from .._results.factors import factor as factor_of
from .._results.factors import step_errors
from .._results.pooling import (
    headline_topology,
    held_topology,
    is_on_front,
    topologies_of,
    wire_of,
)  # fmt: skip
from .._results.ranking import RANKS, finest_block, sound
from .._results.row_table import frame_of
from .._results.summary import COLUMNS as SUMMARY_COLUMNS
from .._results.summary import summary
from .._schemes.scheme import as_scheme

__all__ = [
    "COLUMNS", "FORMATS", "REDUCTIONS", "RULES", "RUNGS", "Rung", "better_reduction", "ladder",
    "ladder_schemes",
]  # fmt: skip


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
    Rung(
        "16",
        "aps:{format},rule={rule},unit=16",
        "32",
        "one scale per 16 elements, for at most 4 bits",
    ),
    *(
        Rung(
            f"{unit}, √W",
            f"aps:{{format}},rule={{rule}},unit={unit},headroom=sqrt_workers,overflow=saturate",
            unit,
            f"one scale per {unit} elements with room for √W workers in a ring; larger sums saturate",
        )
        for unit in ("32", "16")
    ),
)

#: Default formats of `ladder`: hardware's two of 8 bits, two with fewer exponent bits, hardware's
#: of 4 bits, and one with more exponent bits. Those that no hardware has spend no code on infinity.
FORMATS = ("e5m2", "e4m3fn", "e3m4", "e2m5finite", "e2m1fn", "e3m0noinf")

#: Default reductions of `ladder`: partial sums rounded in a ring, and two encodings with a sum in
#: fp32 between them.
REDUCTIONS = ("ring", "two_phase")

#: Rules of a scale: docs/definitions.md, section 8.
RULES = ("tight", "ceil")

#: Columns of `ladder`, in order.
COLUMNS = (
    "trace", "format", "rung", "finer_than", "factor", "factor_low", "factor_high",
    "other_reduction", "reduction_factor", "reduction_factor_low", "reduction_factor_high",
    "other_format", "format_factor", "format_factor_low", "format_factor_high", "scale_exponent",
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
    specs = {}
    for format_ in [formats] if isinstance(formats, str) else formats:
        name = _float_format(format_)
        finest = finest_block(as_format(name).storage_bits)
        left_out = ("32, √W",) if finest == 16 else ("16", "16, √W")
        for rung in (r for r in RUNGS if r.name not in left_out):
            scheme = as_scheme(rung.spec.format(format=name, rule=rule))
            specs[scheme.format, rung.name] = scheme.spec
    if not specs:
        raise ValueError("there is no format to make a ladder of; give at least one, such as e3m4")
    return specs


def _float_format(format_: Any) -> str:
    """The format's name; of a block format, which has a scale of its own, a sentence."""
    try:
        return as_format(format_).name
    except ValueError as error:
        try:
            block = BlockFormat(format_)
        except ValueError:
            raise error from None
        scheme = (
            "nvfp4" if block.tensor_scale else f"mx:block_format={block.name.replace(',', '/')}"
        )
        raise ValueError(
            f"'{format_}' is a block format, and a ladder puts scales of several sizes over a float "
            f"format: give that of its elements, {block.element.name}, and replay {scheme} for its "
            "own scale"
        ) from None


@guarded
def ladder(
    results: Any,
    formats: Iterable[Any] | None = None,
    *,
    rule: str = "tight",
    topology: str | Iterable[str] | None = None,
    batch_factor: float = 1.0,
    progress: bool = False,
    threads: int = 0,
) -> pd.DataFrame:
    """The gain of a reduction, a format and finer scales: the error of every rung, and factors.

    Parameters
    ----------
    results : Results, DataFrame, Trace, path-like, URL or gradients
        A RESULTS table, whose rungs are used; or a trace or gradients in memory (as for `replay`),
        which are replayed through all rungs.
    formats : sequence of formats, optional
        By default `FORMATS` for a trace, all formats for results.
    rule : {"tight", "ceil"}
        Of every rung's scale: the largest that fits, or APS's own.
    topology : str or iterable of str, optional
        The reductions; by default ``ring`` and ``two_phase`` for a trace; for results the first
        replayed one that adds in a format and all in two phases.
    batch_factor : float
        The noise is that of a batch larger than the recorded one by this factor.
    progress : bool
        Whether a replay shows a bar.
    threads : int
        Of a replay; 0: all of the machine's.

    Returns
    -------
    DataFrame
        `COLUMNS`: one row per trace, reduction, format and rung, in that order, with the columns of
        `Results.summary`, the number of steps, and

        - ``factor``: the error of the rung ``finer_than``, which differs only in its coarser
          scales or, of ``32, √W``, in its room, divided by this one's: the quotient of their
          ``step_nmse``, over the steps that both have; infinite with overflow; NaN if one of the
          two is missing, or has memory and steps with ``gaps``;
        - ``reduction_factor``: the same of the row that differs only in the reduction, that of the
          first reduction, ``other_reduction``;
        - ``format_factor``: the same of the row that differs only in the format, that of the first
          format of as many bits, ``other_format``;
        - ``..._low``, ``..._high``: their 95 % intervals, with steps as independent draws; NaN for
          fewer than four steps;
        - ``scale_exponent``: of one scale for everything, 2^this; NaN for others.

        A rung without a row in a reduction is missing there.

    Raises
    ------
    ValueError
        Results without a rung; an unknown format, rule, topology; no topology; a `batch_factor`
        that is not positive.
    """
    from .._results.given import results_or_trace
    from .._results.results import Results

    names = None
    if topology is not None:
        names = [topology] if isinstance(topology, str) else list(topology)
    if names == []:
        raise ValueError(
            "there is no topology to make a ladder of; give at least one, such as ring"
        )
    if not isinstance(results, pd.DataFrame):
        results = results_or_trace(results)
    if not isinstance(results, pd.DataFrame | Results):
        from .replay import replay

        specs = list(
            dict.fromkeys(ladder_schemes(FORMATS if formats is None else formats, rule).values())
        )
        results = replay(
            results, specs, topology=names or REDUCTIONS, progress=progress, threads=threads
        )
    frame = frame_of(results)
    rungs = _rungs_in(frame, formats, rule)
    frame = frame[frame["scheme"].isin(set(rungs.values()))]
    rows: list[dict[str, Any]] = []
    errors: dict[tuple[str, str, str, str], pd.Series] = {}
    for name in _reductions(frame, names):
        part = frame[wire_of(frame, name) | frame["topology"].isin([name])]
        table = summary(
            results if part is frame else _like(results, part),
            batch_factor=batch_factor,
        ).set_index(["trace", "scheme"])
        steps, scale_of = step_errors(part), _single_scales(part)
        for trace in dict.fromkeys(part["trace"]):
            for (f, rung), spec in rungs.items():
                if (trace, spec) not in table.index:
                    continue
                figures = dict(table.loc[(trace, spec)])
                of_steps = steps[trace, spec]
                # A scheme with memory on steps with gaps has no rank, so no factor either.
                if not figures["gaps"]:
                    errors[trace, name, f, rung] = of_steps
                scale = scale_of.get((trace, spec), np.nan)
                rows.append(
                    figures
                    | {"trace": trace, "reduction": name, "format": f, "rung": rung}
                    | {"scheme": spec, "steps": len(of_steps), "scale_exponent": scale}
                )
    places = {name: i for i, name in enumerate(dict.fromkeys(row["trace"] for row in rows))}
    rows.sort(key=lambda row: places[row["trace"]])
    return pd.DataFrame([row | _factors(row, rows, errors) for row in rows])[list(COLUMNS)]


def better_reduction(table: pd.DataFrame) -> str:
    """The reduction of the row of `ladder` with the least error, of one trace."""
    error = table[RANKS].where(sound(table), np.inf).fillna(np.inf)
    return str(table["topology"].iloc[int(error.to_numpy(float).argmin())])


def _reductions(frame: pd.DataFrame, names: list[str] | None) -> list[str]:
    """The reductions of the rows: those asked for, or those that rank side by side."""
    replayed = topologies_of(frame[frame["stage"] == "reduced"])
    if not replayed:
        return [names[0] if names else "exact"]  # the wire alone
    if names is None:
        first = headline_topology(frame)
        return [first, *(name for name in replayed if name != first and is_on_front(name, first))]
    return list(dict.fromkeys(held_topology(replayed, name) for name in names))


def _factors(
    row: dict[str, Any],
    rows: list[dict[str, Any]],
    errors: dict[tuple[str, str, str, str], pd.Series],
) -> dict[str, Any]:
    """The factors of a row: of the rung, the reduction and the format, all else equal."""
    trace, reduction, f, rung = (row[name] for name in ("trace", "reduction", "format", "rung"))
    like = [other for other in rows if other["trace"] == trace and other["rung"] == rung]
    coarser = next(r.finer_than for r in RUNGS if r.name == rung) or ""
    first = next(other["reduction"] for other in like if other["format"] == f)
    bits = as_format(f).storage_bits
    grid = next(
        other["format"]
        for other in like
        if other["reduction"] == reduction and as_format(other["format"]).storage_bits == bits
    )
    columns: dict[str, Any] = {
        "finer_than": coarser,
        "other_reduction": "" if first == reduction else first,
        "other_format": "" if grid == f else grid,
    }
    for name, other in (
        ("factor", (trace, reduction, f, coarser)),
        ("reduction_factor", (trace, first, f, rung)),
        ("format_factor", (trace, reduction, grid, rung)),
    ):
        this = (trace, reduction, f, rung)
        middle = low = high = np.nan
        if this != other and this in errors and other in errors:
            middle, low, high = factor_of(errors[other], errors[this])
        columns |= {name: middle, f"{name}_low": low, f"{name}_high": high}
    return columns


def _single_scales(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """By (trace, scheme): the exponent of the scale of all rows, of schemes that have only one."""
    known = rows[(rows["stage"] == "reduced") & rows["scale_exponent"].notna()]
    of = known.groupby(["trace", "scheme"], sort=False, observed=True)["scale_exponent"]
    scales = of.agg(["nunique", "first"])
    return {pair: float(row["first"]) for pair, row in scales.iterrows() if row["nunique"] == 1}


def _like(results: Any, frame: pd.DataFrame) -> Any:
    """The same results with only these rows."""
    from .._results.results import Results

    if isinstance(results, pd.DataFrame):
        return frame
    return Results(
        frame, results.histograms, results.provenance, results.noise, results.limit,
        results.persistence,
    )  # fmt: skip


def _rungs_in(
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
    rungs = {place: spec for place, spec in ladder_schemes(formats, rule).items() if spec in specs}
    if not rungs:
        raise ValueError(
            f"the results have no rung of the ladder with rule={rule} in these formats; apscope "
            "ladder TRACE replays all of them"
        )
    return rungs


def _is_float(name: str) -> bool:
    try:
        as_format(name)
    except (ValueError, TypeError):
        return False
    return True
