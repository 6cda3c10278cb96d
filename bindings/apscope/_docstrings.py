"""Docstring sections that several functions share, written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def with_sections(text: str) -> Callable[[Function], Function]:
    """Adds sections to a docstring before examples; ``{operands}``: parameters before `format`."""

    def write(function: Function) -> Function:
        operands = ", ".join(inspect.signature(function).parameters).partition(", format")[0]
        own, examples, calls = inspect.cleandoc(function.__doc__ or "").partition(
            "Examples\n--------\n"
        )
        function.__doc__ = f"{own.rstrip()}\n\n{text.strip().format(operands=operands)}\n\n{examples}{calls}".rstrip()
        return function

    return write
