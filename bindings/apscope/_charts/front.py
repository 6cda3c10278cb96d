"""Error against volume: a point per scheme and reduction, and the undominated ones as steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from .._rate_limit.known import Known
from .._results.families import FAMILIES
from .._results.pooling import is_own
from .._results.ranking import RANKS
from .._results.ranking import sound as sound_rows
from .._results.volume import SIDE
from .._schemes.titles import reduction
from .._text import count_of
from .colours import REDUCTIONS
from .describe import Chart, Line, Log, Point, number, powers
from .fill import step_front
from .reference import SAYS, Reference, reference_of

#: Smaller errors are arrows at the lower edge: they are useless for narrow formats and would
#: flatten the rest.
FLOOR = 1e-7
#: Errors within this factor are level.
LEVEL = 1.01
#: Columns of `Results.summary` for the vertical axis, and their names.
MEASURES = {
    "error_over_noise": "error over noise", "step_nmse": "step NMSE",
    "nmse": "NMSE, pooled over everything",
    "distance": "1 − layer cosine", "worst_nmse": "NMSE of the worst layer and step",
}  # fmt: skip
#: The same for the horizontal axis.
COSTS = {"volume": "bytes sent, of fp32's", "time": "modelled seconds per step"}


def kind_of(topology: str) -> str:
    """The kind of a reduction, a key of `REDUCTIONS`."""
    if topology.startswith("two_phase"):
        return "two phases"
    return "own" if topology and is_own(topology) else "rounded sums"


def legend_of(rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Names, colours and symbols of the families of rows, and of several kinds of reductions."""
    kinds = {kind_of(name) for name in rows["topology"]}
    families = [name for name in FAMILIES if (rows["family"] == name).any()]
    if len(kinds) < 2:
        return [(f, FAMILIES[f].colour, FAMILIES[f].symbol) for f in families]
    called = {
        "own": "scheme's own",
        "rounded sums": " or ".join(
            dict.fromkeys(t for t in rows["topology"] if kind_of(t) == "rounded sums")
        ),
    }
    return [(f, FAMILIES[f].colour, "bar") for f in families] + [
        (called.get(kind, kind), FAMILIES["other"].colour, symbol)
        for kind, symbol in REDUCTIONS.items()
        if kind in kinds
    ]


def corners(front: list[tuple[float, float]], right: float) -> list[tuple[float, float]]:
    """The front as steps: the error is constant up to the next point's cost, and then falls."""
    line: list[tuple[float, float]] = []
    for x, y in front:
        if line:
            line.append((x, line[-1][1]))
        line.append((x, y))
    return [*line, (right, line[-1][1])] if line else []


def front_chart(
    rows: pd.DataFrame, titles: Callable[[str], str] = str,
    links: Callable[[str, str], str] = lambda *_: "", *, against: str = "volume",
    error: str | None = None, all_named: bool = False, mixtures: Iterable[tuple[float, float]] = (),
    floor: float = FLOOR, prefer: str = "", limit: Known | None = None,
) -> Chart:  # fmt: skip
    """Rows of `Results.summary` of one trace, as a chart; a scheme may have several reductions.

    Parameters
    ----------
    rows : DataFrame
        A row without a volume or an error has no point.
    titles : callable
        A spec's name for people.
    links : callable
        The id of the row of a table that has the numbers of a spec and a topology, or "".
    against : {"volume", "time"}
        The horizontal axis.
    error : str, optional
        The vertical axis; by default the figure that ranks.
    all_named : bool
        Whether every point has its name beside it, or only those of the front.
    mixtures : pairs of floats
        Cost and error of the front of mixtures (one scheme per layer), drawn as a separate line.
    floor : float
        Smaller errors are arrows at the lower edge.
    prefer : str
        The spec that the page names: it replaces a point of the front with the same bytes and an
        error at most 1 % smaller.
    limit : Known, optional
        Of the trace; drawn where the axes are error over noise and volume.

    Returns
    -------
    Chart
        Hollow points: a step overflowed or was skipped, a layer is lost, or the scheme has memory
        and steps are missing; such schemes are not in the front. With reductions of several kinds
        the symbol is that of the kind, a family has only its colour, a scheme with several is named
        with its reduction; beside two phases the front of rounded sums alone is dashed.
    """
    column = error or RANKS
    unit = MEASURES.get(column, column)
    drawable = rows[(rows[against] > 0) & np.isfinite(rows[column].astype(float))]
    if not len(drawable):
        return Chart(
            "Error against volume",
            f"No scheme has an error and a {against}.",
            Log(against, 0.1, 1.0, ()),
            Log(unit, 0.1, 1.0, ()),
        )
    x, y = drawable[against].to_numpy(float), np.maximum(drawable[column].to_numpy(float), floor)
    sound = sound_rows(drawable).to_numpy()
    front = step_front(zip(x[sound], y[sound]), SIDE if against == "volume" else 0.0)
    low = floor if (drawable[column] < floor).any() else y.min() / 1.8
    high = y.max() * 1.8
    left, right = x.min() / 1.35, x.max() * 1.35
    preferred = [p for p, spec in zip(zip(x, y), drawable["scheme"]) if spec == prefer]
    front = [
        next((p for p in preferred if abs(p[0] - a) <= SIDE and p[1] <= LEVEL * b), (a, b))
        for a, b in front
    ]
    kinds = [kind_of(name) for name in drawable["topology"]]
    mixed = len(set(kinds)) > 1
    repeated = drawable["scheme"].duplicated(keep=False)
    several = set(drawable.loc[repeated, "scheme"])
    on_front, named, points = set(front), set(), []
    for row, px, py, real, is_sound in zip(drawable.itertuples(), x, y, drawable[column], sound):
        look = FAMILIES[row.family]
        reduced = f", {reduction(row.topology)}" if row.scheme in several else ""
        first = is_sound and (px, py) in on_front and (px, py) not in named
        named |= {(px, py)} if first else set()
        points.append(
            Point(
                px,
                py,
                look.colour,
                REDUCTIONS[kind_of(row.topology)] if mixed else look.symbol,
                f"{row.scheme}{reduced}\n{unit} "
                f"{number(real, 3)}{', below the axis' if real < floor else ''}\n{against} "
                f"{number(px, 3)}"
                + (f"\noverflow in {count_of(row.overflowed, 'step')}" if row.overflowed else "")
                + (f"\nskipped {count_of(row.skipped, 'step')}" if row.skipped else "")
                + (f"\n{count_of(row.gaps, 'step')} after a gap: no rank" if row.gaps else "")
                + (f"\nloses {count_of(row.lost_layers, 'layer')}" if row.lost_layers else ""),
                hollow=not is_sound,
                faint=not first,
                link=links(row.scheme, row.topology),
                label=titles(row.scheme) + reduced if first or all_named else "",
                beyond="below" if real < floor else "",
            )
        )
    mixture_points = [(a, max(b, floor)) for a, b in mixtures if left <= a <= right and b > 0]
    rounded = sound & np.array([kind == "rounded sums" for kind in kinds])
    rounded_front = step_front(zip(x[rounded], y[rounded]), SIDE if against == "volume" else 0.0)
    lines = [
        Line(corners(front, right), ""),
        *(
            [Line(corners(rounded_front, right), "", dashed=True)]
            if rounded_front and "two phases" in kinds
            else []
        ),
        *(
            [Line(corners(step_front(mixture_points), right), FAMILIES["mixed"].colour, "mixed")]
            if mixture_points
            else []
        ),
    ]
    bounded = "bits_above_limit" in drawable and drawable["bits_above_limit"].notna().any()
    reference = (
        reference_of(limit, left, right, low, high)
        if limit is not None and bounded and (column, against) == ("error_over_noise", "volume")
        else Reference()
    )
    front_text = "; ".join(
        f"{p.says.splitlines()[0]} {'below ' if p.beyond else ''}{number(p.y)} at {number(p.x)}"
        for p in sorted(points, key=lambda p: p.x)
        if not p.faint
    )
    return Chart(
        title="Error against volume",
        says=f"{unit} of {len(points)} {'rows' if several else 'schemes'} against {against}. The "
        f"front, by increasing cost: {front_text}." + (f" {SAYS}" if reference.lines else ""),
        x=Log(
            COSTS[against],
            left,
            right,
            shares(left, right) if against == "volume" else powers(left, right),
        ),
        y=Log(unit, low, high, powers(low, high)),
        lines=[*reference.lines, *lines],
        points=[*reference.points, *points],
        legend=[*legend_of(drawable), *reference.legend],
    )


def shares(low: float, high: float) -> list[tuple[float, str]]:
    """Halves, quarters, ... of fp32's bytes."""
    exponents = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    every = max(1, -(-len(exponents) // 6))
    return [(2.0**k, f"1/{2**-k}" if k < 0 else f"{2**k}") for k in exponents if k % every == 0]
