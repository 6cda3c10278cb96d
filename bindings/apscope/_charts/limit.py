"""Error against bits per element: the limit, the entropy-coded line, best grids and schemes."""

from __future__ import annotations

import math

import numpy as np

from .._rate_limit.limit import ENTROPY_CODED, Limit
from .._results.families import FAMILIES
from .._results.summary import family_of
from .._schemes.titles import title
from .describe import Chart, Line, Linear, Log, Point, number, powers

_LIMIT, _CODED, _GRID = "#222222", "#555555", "#777777"
#: Places of a line between its ends.
_PLACES = 65


def limit_chart(found: Limit) -> Chart:
    """An `apscope.limit` as a chart.

    Parameters
    ----------
    found : Limit

    Returns
    -------
    Chart
        The solid line is the limit L(R), the dotted one lies `ENTROPY_CODED` bits to its right.
        Grey diamonds are the best grids, the others schemes. What has no limit is not drawn.
    """
    grids = found.grids[found.grids["error"] > 0]
    schemes = found.schemes[np.isfinite(found.schemes["error"]) & (found.schemes["error"] > 0)]
    bits_drawn = [*found.curve["bits"], *schemes["bits"]]
    low, high = (math.floor(min(bits_drawn)), math.ceil(max(bits_drawn))) if bits_drawn else (0, 8)
    bits = np.linspace(low, max(high, low + 1), _PLACES)
    least = found.at(bits)
    coded = least * 4.0**ENTROPY_CODED
    lines = [
        Line(_where_known(bits, least), _LIMIT, "limit"),
        Line(_where_known(bits, coded), _CODED, "entropy-coded", dashed=True),
    ]
    points = [
        Point(r.bits, r.error, _GRID, "diamond", _says(f"best grid of {r.levels} levels", r))
        for r in grids.itertuples()
    ]
    seen: dict[str, tuple[str, str]] = {}
    for r in schemes.itertuples():
        family, name = family_of(r.scheme), title(r.scheme).replace("block_format ", "")
        seen[family] = FAMILIES[family]
        points.append(Point(r.bits, r.error, *FAMILIES[family], _says(r.scheme, r), label=name))
    drawn = [*(p.y for p in points), *(y for line in lines for _, y in line.points)]
    bottom, top = (min(drawn) / 1.5, max(drawn) * 1.5) if drawn else (0.1, 1.0)
    ticks = [(float(r), str(r)) for r in range(low, max(high, low + 1) + 1)]
    return Chart(
        title="The limit",
        says="Mean squared error against bits per element. Solid: the limit of these values; "
             f"dotted: entropy-coded steps, {ENTROPY_CODED:.3f} bits from it; grey: best grids. "
             + "; ".join(f"{r.scheme} {number(r.bits_above_limit)} bits above" for r in
                         schemes.itertuples() if not math.isnan(r.bits_above_limit)),
        x=Linear("bits per element, scales included", float(low), float(max(high, low + 1)), ticks),
        y=Log("error / 4^floor(log2 rms) of the block", bottom, top, powers(bottom, top)),
        lines=lines, points=points,
        legend=[("best grid of 2^R levels", _GRID, "diamond"),
                *((name, *look) for name, look in seen.items())],
    )  # fmt: skip


def _where_known(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(x, y) if b > 0]


def _says(name: str, row: object) -> str:
    above = row.bits_above_limit  # type: ignore[attr-defined]
    far = "" if math.isnan(above) else f"\n{above:.2f} bits above the limit"
    return f"{name}\n{row.bits:.3g} bits, error {number(row.error)}{far}"  # type: ignore[attr-defined]
