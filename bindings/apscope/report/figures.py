"""The figures of one trace's section, as groups of inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from .. import plots
from .._core import FloatFormat
from .svg import inline_svg


def figures(results: Any, m: dict[str, Any], prefix: str, progress: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
    """Groups of figures in reading order.

    Parameters
    ----------
    results : Results
    m : dict
        Numbers of the trace, from `measure`.
    prefix : str
        What the ids of these figures begin with; another one for every trace.
    progress : callable
        Called after every figure.

    Returns
    -------
    list of dict
        ``title``, ``text``, ``shown`` and ``more``: two lists of SVG, the second folded away.
    """
    trace, entries = m["trace"], m["schemes"]
    ranked = sorted(entries, key=lambda e: e["rank"])
    count = 0

    def draw(plot: Callable[..., Axes], *args: Any, what: str, **keys: Any) -> Any:
        nonlocal count
        count += 1
        svg = inline_svg(plot(results, *args, trace=trace, **keys).figure, f"{prefix}-{count}", f"{what}, trace {trace}")
        progress()
        return svg

    def split(chosen: list[dict[str, Any]], shown: set[str], one: Callable[[dict[str, Any]], Any]) -> dict[str, list]:
        first = [one(e) for e in chosen if e["scheme"] in shown]
        return {"shown": first, "more": [one(e) for e in chosen if e["scheme"] not in shown]}

    groups = []
    scaled = [e for e in entries if _scales(results, trace, e["scheme"])]
    floats = [(e, f) for e in entries if (f := _float_format(e["format"]))]
    shifted = [e for e, _ in floats if e in scaled and any(s != 0 for s in _scales(results, trace, e["scheme"]))]
    if shifted and trace in set(results.histograms["trace"]):
        formats = {e["scheme"]: e["format"] for e in shifted}
        front = {next((e for e in ranked if e in shifted and e["adds_in_format"] == a), shifted[0])["scheme"] for a in (False, True)}
        groups.append({
            "title": "Where the values lie",
            "text": "Exponents of all gradients over the ranges of the format, before and after the scheme's scale. "
            "What falls into underflow is rounded to 0; what falls into overflow is lost.",
            **split(shifted, front, lambda e: draw(
                plots.exponent_histogram, formats[e["scheme"]], scheme=e["scheme"], what=f"Exponents under {e['label']}")),
        })
    rates = {e["scheme"]: e["wire"]["underflow_rate"] for e in entries if e["wire"]["underflow_rate"] is not None}
    if rates:
        adding = [e for e in ranked if e["adds_in_format"] and e["scheme"] in rates]
        shown = {max(rates, key=rates.get), *(e["scheme"] for e in adding if e["wire"]["underflow_rate"] == max(a["wire"]["underflow_rate"] for a in adding)),
                 *(e["scheme"] for e in (adding or ranked)[:1]), ranked[0]["scheme"]}
        groups.append({
            "title": "Underflow by layer and step",
            "text": "Share of nonzero values that a worker sends as 0. Hatched: step skipped, or no nonzero value.",
            **split([e for e in entries if e["scheme"] in rates or e["skipped"]], shown,
                    lambda e: draw(plots.underflow_heat_map, e["scheme"], what=f"Underflow under {e['label']}")),
        })
    if m["headline_topology"]:
        groups.append({
            "title": "Encoding and adding, apart",
            "text": "Bars: NMSE when the codes are added without rounding, the cost of encoding alone. Markers: what the rounded "
            "additions of each topology add to it, reduced minus exact; hollow where they take away. Markers at the left end are "
            "too small for the axis.",
            "shown": [draw(plots.accumulation_error, what="NMSE of encoding and of the additions")], "more": [], "tall": True,
        })
    groups.append({
        "title": "What the bits buy", "text": "Higher is better; further left is cheaper.",
        "shown": [draw(plots.sqnr_against_bits, what="SQNR against bits a value")], "more": [],
    })
    if m["headline_topology"]:
        groups.append({
            "title": "Variance of the error",
            "text": "Of the reduced gradient, all layers together, relative to its mean square: 1 is an error as large as the gradient.",
            "shown": [draw(plots.variance_over_steps, what="Variance of the error over the steps")], "more": [],
        })
        shown = {e["scheme"] for e in (ranked[0], next((e for e in ranked if e["adds_in_format"]), ranked[0]))}
        groups.append({
            "title": "Bias",
            "text": "Mean signed error of the reduced gradient, all layers together, relative to its root mean square; the band is two "
            "standard errors either way. If elements err independently, a band clear of zero is a bias that chance does not explain.",
            **split(entries, shown, lambda e: draw(plots.bias_over_steps, e["scheme"], what=f"Bias under {e['label']}")),
        })
    if scaled:
        varying = {e["scheme"] for e in scaled if len(_scales(results, trace, e["scheme"])) > 1}
        groups.append({
            "title": "Scales",
            "text": "Exponent s of the scale 2^s. Crosses: skipped steps.",
            **split(scaled, varying, lambda e: draw(plots.scale_series, e["scheme"], what=f"Scale of {e['label']}")),
        })
    return groups


def _float_format(name: str) -> FloatFormat | None:
    try:
        return FloatFormat(name)
    except ValueError:
        return None  # a grid, such as uniform:7


def _scales(results: Any, trace: str, scheme: str) -> set[int]:
    frame = results.frame
    if "scale_exponent" not in frame:
        return set()
    rows = frame[(frame["trace"] == trace) & (frame["scheme"] == scheme) & (frame["stage"] == "wire")]
    return {int(s) for s in rows["scale_exponent"].dropna()}
