"""The limit as a plot: error against bits per element."""

from __future__ import annotations

from matplotlib.axes import Axes

from .._arrays.checks import of_type
from .._charts.limit import limit_chart
from .._rate_limit.limit import Limit
from ._drawn import draw_chart
from ._style import styled


@styled
def limit(found: Limit, *, ax: Axes | None = None) -> Axes:
    """Error against bits per element: the limit of a trace's values, best grids and schemes.

    The solid line is the error that no code of that many bits undercuts if it treats all elements
    alike; the dotted line, 0.255 bits above it, is reached by uniform steps with entropy-coded
    codes if errors are small. Grey diamonds: the best grid of 2^R levels. Every other mark is a
    scheme of `found`, its bits with those of the scales. Schemes with overflow are not drawn.

    Parameters
    ----------
    found : apscope.types.Limit
        Of `apscope.limit`.
    ax : Axes, optional
        The Axes to draw into; by default new ones.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        Not a Limit.
    """
    of_type("found", found, Limit, "the Limit that apscope.limit returns")
    ax = draw_chart(limit_chart(found), ax, 6.0, 4.2)
    ax.set_title(found.trace)
    return ax
