"""What to use: a plan per trace within the usual bytes, and fronts of plans and schemes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .._advice.objective import USUAL_VOLUME
from .._advice.recommend import recommend
from .._advice.show import notes
from .._charts.front import front_chart
from .._charts.svg import chart_svg
from .._results.summary import family_of
from .._schemes.titles import titles

#: Number of layers whose choice is shown; the plan's file has all.
_LAYERS = 80


def use_of(
    results: Any, trace: str, rows: pd.DataFrame, gained: float | None = None
) -> dict[str, Any]:
    """The content of one trace's section.

    Parameters
    ----------
    results : Results
    trace : str
    rows : DataFrame
        The trace's rows of `shown_schemes.front`.
    gained : float, optional
        As in `report`: the expected excess is that of the summary, so none by error over noise.

    Returns
    -------
    dict
        Only ``refused``, a sentence that says why there is no plan; or ``verdict``, ``layers``,
        ``more`` (how many are not shown), ``chart``, ``command``.
    """
    from markupsafe import Markup

    try:
        plan = recommend(results, trace=trace, max_volume=USUAL_VOLUME)
    except ValueError as error:
        return {"refused": str(error)}
    named, table = titles([*rows["scheme"], *plan.candidates]), plan.layers
    layers = [
        {
            "layer": row.layer,
            "elements": row.elements,
            "scheme": row.scheme,
            "name": named(row.scheme),
            "family": family_of(row.scheme),
            "error": row.error,
            "why": row.loses_by,
            "sure": None if pd.isna(row.sure) else row.sure,
            "cheaper": _other(named, row.cheaper, row.cheaper_volume, row.cheaper_error),
            "better": _other(named, row.better, row.better_volume, row.better_error),
        }
        for row in table.head(_LAYERS).itertuples()
    ]
    measure = plan.wish.error
    chart = front_chart(
        rows, named, error=measure, mixtures=zip(plan.front["volume"], plan.front[measure])
    )
    return {
        "refused": "",
        "verdict": plan.verdict(),
        "notes": notes(plan, in_training=gained is None)[1:],
        "error": measure,
        "layers": layers,
        "more": len(table) - len(layers),
        "chart": Markup(chart_svg(chart, 520.0, 300.0)),
        "command": f"apscope recommend RESULTS --max-volume {USUAL_VOLUME}"
        + (f" --trace {trace}" if results.frame["trace"].nunique() > 1 else "")
        + " -o plan.json",
    }


def _other(named: Any, scheme: str, volume: float, error: float) -> dict[str, Any] | None:
    """The next choice of a layer, if there is one."""
    if not scheme:
        return None
    return {"scheme": scheme, "name": named(scheme), "volume": volume, "error": error}
