"""The report's page in a notebook cell."""

from __future__ import annotations

import html
from typing import Any


class Explorer:
    """The report's page for notebooks, which show it in a separate frame; made by `explore`.

    Attributes
    ----------
    page : str
        The whole page: HTML with its data, scripts and styles, which loads nothing.
    height : int
        Height of the frame, in CSS pixels.
    """

    def __init__(self, page: str, height: int) -> None:
        self.page = page
        self.height = height

    def __repr__(self) -> str:
        return (
            f"<Explorer: a page of {len(self.page) / 1e6:.1f} MB that notebooks show; "
            "apscope.report(results, 'report.html') writes it to a file>"
        )

    def _repr_html_(self) -> str:
        # A sandbox without allow-same-origin: the page's scripts run but cannot reach the notebook.
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" sandbox="allow-scripts allow-downloads" '
            f'title="apscope report" style="width:100%;height:{self.height}px;border:1px solid '
            '#8888;border-radius:4px" loading="lazy"></iframe>'
        )


def explore(results: Any, *, against: Any = None, height: int = 800) -> Explorer:
    """The report of results as an interactive page in a notebook cell.

    Parameters
    ----------
    results : Results, Trace, path-like, URL or gradients
        As for `apscope.report`.
    against : likewise, optional
        Other results, for the section that compares the two; as in `apscope.report`.
    height : int
        Height of the frame, in CSS pixels, 200 to 10000.

    Returns
    -------
    Explorer
        Shown if it is the last expression of a cell, in Jupyter and compatible tools; works without
        a network. The notebook keeps the page, some megabytes; clear the output before committing
        it.

    Raises
    ------
    ValueError, TypeError
        As `apscope.report`; a height out of range.

    Examples
    --------
    >>> apscope.explore(results)   # doctest: +SKIP
    """
    from .._arrays.checks import integer
    from . import page

    height = integer("height", height, 200, 10000)
    return Explorer(page(results, against), height)
