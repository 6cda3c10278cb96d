"""Docstring sections that several functions share, written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: Sections in numpydoc's order; text before them is the summary.
_ORDER = ("Attributes", "Parameters", "Returns", "Raises", "Notes", "Examples")


def with_sections(text: str) -> Callable[[Function], Function]:
    """Adds the sections that a docstring lacks; ``{operands}``: parameters before `format`."""

    def sections(doc: str) -> list[str]:
        return re.split(r"\n\n(?=\w+\n-+\n)", "\n\n" + inspect.cleandoc(doc))

    def write(function: Function) -> Function:
        operands = ", ".join(inspect.signature(function).parameters).partition(", format")[0]
        summary, *sections_here = sections(function.__doc__ or "")
        _, *shared = sections(text.format(operands=operands))
        by_title = {section.partition("\n")[0]: section for section in (*shared, *sections_here)}
        parts = [summary.strip(), *(by_title[name] for name in _ORDER if name in by_title)]
        function.__doc__ = "\n\n".join(parts)
        return function

    return write
