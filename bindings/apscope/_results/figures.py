"""The figures of a summary, as analysis/summary/summary_figures.inc lists them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .. import _core

Function = TypeVar("Function", bound=Callable[..., Any])


class Figure(NamedTuple):
    """An entry of the list.

    Attributes
    ----------
    name : str
    columns : tuple of str
        One of the same name, or those of every length of windows.
    unit : str
    section : int
        Of docs/definitions.md.
    page : {"part", "whole", "none"}
        What the report's page shows: the figure of the layers that a filter keeps, that of the
        whole trace whatever the filter, or nothing.
    says : str
        Its documentation; empty: the next entry's is for both.
    modelled : bool
        Whether it is of a whole step, by a model of it.
    """

    name: str
    columns: tuple[str, ...]
    unit: str
    section: int
    page: str
    says: str
    modelled: bool


FIGURES = tuple(Figure(*entry) for entry in _core.SUMMARY_FIGURES)


def columns_of(**wanted: Any) -> tuple[str, ...]:
    """The columns of the figures whose attributes have these values, in order."""
    return tuple(
        column
        for figure in FIGURES
        if all(getattr(figure, name) == value for name, value in wanted.items())
        for column in figure.columns
    )


def with_figures(function: Function) -> Function:
    """Describes the figures in the place of ``{figures}``, a line of the docstring."""
    before, _, after = (function.__doc__ or "").partition("{figures}")
    indent = before[before.rfind("\n") + 1 :]
    entries, names = [], []
    for figure in FIGURES:
        name = f"``{figure.name}{'_k' * (len(figure.columns) > 1)}``"
        names.append(f"{name} ({figure.unit})" if figure.unit else name)
        if figure.says:
            entries.append(f"- {', '.join(names)}: {figure.says} Section {figure.section}.")
            names.clear()
    filled = [
        textwrap.fill(entry, 100, initial_indent=indent, subsequent_indent=f"{indent}  ")
        for entry in entries
    ]
    function.__doc__ = before[: len(before) - len(indent)] + "\n".join(filled) + after
    return function
