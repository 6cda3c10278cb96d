"""The first screen: a verdict, its command and three static charts per trace."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._charts.choices import choices_chart
from .._charts.describe import Row
from .._charts.front import FLOOR, MEASURES, front_chart
from .._charts.layers import WORST, layer_map
from .._charts.svg import bars_svg, cells_svg, chart_svg
from .._page.numbers import figure
from .._results.noise import printed_error
from .._results.pooling import is_own, numbers
from .._results.ranking import RANKS, sound
from .._results.summary import of_topology
from .._results.volume import at_most, in_class
from .._results.winners import WIDTHS, least, scale_of, seconds, winner, within
from .._schemes.titles import reduction, titles
from .._text import clip
from .._traces.arrays import IN_MEMORY

#: Shares of fp32's bytes for which the best scheme is named, and their names.
_SHARES = ((0.25, "¼"), (0.5, "½"), (1.0, "all"))  # and scales of blocks
#: Size of a chart in pixels: for one trace among several, and for the only one.
_SMALL, _LARGE = (350.0, 158.0), (440.0, 300.0)


def _within(rows: pd.DataFrame, bits: dict[str, int]) -> tuple[pd.DataFrame, str]:
    """The sound schemes at a quarter of fp32's bytes, else at half, else at all; and the share."""
    for limit, called in _SHARES:
        sound = within(rows, bits, limit)
        if len(sound):
            return sound, called
    return rows.iloc[:0], ""


def chosen(rows: pd.DataFrame, bits: dict[str, int]) -> tuple[pd.Series | None, str]:
    """The row with the least error at a quarter of fp32's bytes, and the share.

    If no scheme sends so little, at half or all of fp32's bytes. Scales of blocks do not count.

    Parameters
    ----------
    rows : DataFrame
        One trace, from `shown_schemes.front`.
    bits : dict
        From `shown_schemes.bits_of`; used if nothing was reduced, so there is no volume.

    Returns
    -------
    tuple
        None if every scheme overflowed, skipped a step, lost a layer or has no rank. Of equal
        errors, the scheme that was requested first.
    """
    sound, called = _within(rows, bits)
    return (least(sound, bits) if len(sound) else None), called


def verdict(rows: pd.DataFrame, bits: dict[str, int]) -> dict[str, Any]:
    """The parts of the template's sentence; empty if no scheme is sound."""
    best, share = chosen(rows, bits)
    if best is None:
        return {}
    noisy = not math.isnan(best["error_over_noise"])
    value, low, high = printed_error(best)  # without the bias of few workers
    return {
        "scheme": best["scheme"],
        "topology": best["topology"],
        "choices": _choices(best, rows),
        "share": share,
        "sent": _sent(best["volume"], share),
        "what": "bytes" if rows["volume"].notna().any() else "bits",
        "noisy": noisy,
        "nmse": figure(best["step_nmse"], 2),
        "error": fraction(best["error_over_noise"]) if noisy else "",
        "corrected": fraction(value) if noisy else "",
        "interval": "" if math.isnan(low) else f"{fraction(low)}–{fraction(high)}",
        "seconds": _seconds(rows, bits, best),
        "narrow": _narrow(rows, bits, best),
    }


def refused(rows: pd.DataFrame, compared: pd.DataFrame) -> str:
    """Why there is no verdict, in a sentence; arguments as of `row_of`."""
    if sound(rows).any() and np.nanmax(numbers(compared, "nonzero"), initial=-1.0) == 0:
        return (
            "The gradients, added over the workers, are 0 or not finite everywhere, so no scheme "
            "has an error to compare."
        )
    return "Every scheme here overflowed, skipped a step, lost a layer or has no rank."


def _narrow(rows: pd.DataFrame, bits: dict[str, int], best: pd.Series) -> dict[str, str]:
    """The best of the narrowest width that is told, if it is not the best of the bytes above."""
    narrow = winner(rows, bits, min(WIDTHS))
    if narrow is None or (narrow.scheme, narrow.topology) == (best["scheme"], best["topology"]):
        return {}
    row = rows[rows["scheme"].eq(narrow.scheme) & rows["topology"].eq(narrow.topology)].iloc[0]
    return {
        "bits": str(narrow.bits),
        "scheme": narrow.scheme,
        "choices": _choices(row, rows),
        "nmse": figure(narrow.error, 2),
        "error": "" if math.isnan(row["error_over_noise"]) else fraction(row["error_over_noise"]),
    }


def _choices(row: pd.Series, rows: pd.DataFrame) -> str:
    """The reduction, the grid and the scale of a row, in this order; what it lacks is left out."""
    # One worker sends nothing.
    reduced = reduction(row["topology"]) if rows["volume"].notna().any() else ""
    return ", ".join(filter(None, (reduced, clip(row["format"], 40), _scale(row["scheme"]))))


def _scale(spec: str) -> str:
    """What shares a scale, in few words; "" if the scheme has its own."""
    text = scale_of(spec)
    kind, _, unit = text.partition(",")[0].removeprefix("one ").partition(" ")
    if kind == "per":
        return f"a scale per {unit.partition(' ')[0]}"
    if kind != "for":
        return "no scale" if text == "none" else ""
    return (
        f"one scale {text.removeprefix('one ')}" if unit == "all steps" else f"a scale for {unit}"
    )


def _seconds(rows: pd.DataFrame, bits: dict[str, int], best: pd.Series) -> list[dict[str, str]]:
    """What other figures say against the best scheme, in the words of the page."""
    named = titles(rows["scheme"])
    sound, _ = _within(rows, bits)
    return [
        {
            "figure": MEASURES.get(other.figure, other.figure.replace("_", " ")),
            "scheme": other.scheme,
            "name": named(other.scheme)
            + (f", {reduction(other.topology)}" if other.topology != best["topology"] else ""),
            "times": figure(other.best / other.error, 2),
        }
        for other in seconds(sound, best, bits)
    ]


def _sent(volume: float, share: str) -> str:
    """The share, or the volume itself where it is another."""
    exact = next(limit for limit, called in _SHARES if called == share)
    near = at_most(volume, exact) and at_most(0.98 * exact, volume)
    return share if math.isnan(volume) or near else figure(volume, 2)


def fraction(value: float) -> str:
    """An error in units of the noise: 1/190 reads better than 0.00526."""
    if not 0 < value < 0.1:
        return figure(value, 2)
    below = 1 / value
    return f"1/{float(f'{below:.2g}'):,.0f}" if below < 1e6 else figure(value, 2)


def command(trace: str, spec: str, topology: str, provenance: dict[str, Any]) -> str:
    """A command that replays one scheme of the results again, with the trace's original path.

    Of gradients in memory, which have no path, a line of Python.
    """
    try:
        words = shlex.split(provenance.get("command", ""))
    except ValueError:
        words = []
    path = next((word for word in words if Path(word).name == trace), trace)
    own = not topology or is_own(topology)
    seed = provenance.get("seed", 0)
    if path.startswith(IN_MEMORY):
        options = ([] if own else [f"topology={topology!r}"]) + ([f"seed={seed}"] if seed else [])
        return f"apscope.replay({', '.join(['gradients', repr(spec), *options])})"
    reduced = [] if own else ["--topology", topology]
    seeded = ["--seed", str(seed)] if seed else []
    return shlex.join(
        ["apscope", "replay", path, "--scheme", spec, *reduced, *seeded, "-o", "again"]
    )


def _floor(rows: pd.DataFrame) -> float:
    """The lower edge of error against bytes; fp16 and fp32, far below, would flatten the chart."""
    errors = rows[in_class(rows["volume"], _SHARES[0][0])][RANKS]
    return max(FLOOR, errors[errors > 0].min() / 50) if (errors > 0).any() else FLOOR


def row_of(
    trace: str, rows: pd.DataFrame, compared: pd.DataFrame, choices: pd.DataFrame,
    bits: dict[str, int],
    provenance: dict[str, Any], links: dict[tuple[str, str], str], *, alone: bool,
) -> dict[str, Any]:  # fmt: skip
    """One trace's row of the first screen.

    Parameters
    ----------
    trace : str
    rows : DataFrame
        Its rows of `shown_schemes.front`.
    compared : DataFrame
        Its rows of `compared_rows`, all schemes.
    choices : DataFrame
        From `choices.worth`; may be empty.
    bits : dict
        From `shown_schemes.bits_of`.
    provenance : dict
    links : dict
        Scheme and topology -> the id of their row in the tables below.
    alone : bool
        Whether it is the only trace, so that its charts are large.
    """
    from markupsafe import Markup

    parts = verdict(rows, bits)
    named = titles(rows["scheme"])
    width, height = _LARGE if alone else _SMALL
    unit = MEASURES[RANKS]
    charts = [bars_svg(choices_chart(choices, unit), width, height)] if len(choices) else []
    topology = parts.get("topology", rows["topology"].iloc[0])
    if ((rows["volume"] > 0) & rows[RANKS].notna()).any():
        charts.append(
            chart_svg(
                front_chart(
                    rows,
                    named,
                    lambda *row: links.get(row, ""),
                    floor=_floor(rows),
                    prefer=parts.get("scheme", ""),
                ),
                width,
                height,
            )
        )
    worst: Sequence[Row] = ()
    steps: Sequence[int] = ()
    if parts:
        cells = layer_map(of_topology(compared, topology), parts["scheme"], named)
        charts.append(cells_svg(cells, width, height))
        worst, steps = [row for row in cells.rows[:WORST] if row.peak], cells.steps
        if worst and worst[0].peak:
            peak, place = worst[0].peak
            parts |= {
                "worst": worst[0].name,
                "worst_error": "overflow"
                if math.isinf(peak)
                else fraction(peak)
                if parts["noisy"]
                else figure(peak, 2),
                "worst_step": cells.steps[place],
            }
    return {
        "verdict": parts,
        "refused": "" if parts else refused(rows, compared),
        "command": command(trace, parts["scheme"], topology, provenance) if parts else "",
        "charts": [Markup(svg) for svg in charts],
        "worst": worst,
        "steps": steps,
    }
