"""What a caller gives in place of results: a path of results or of a trace, a trace, gradients."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from .._folders.results import check_readable, what_is
from .results import Results

if TYPE_CHECKING:
    from .._traces.opening import TraceLike
    from .._traces.trace import Trace

#: What functions of results or of a trace accept.
Given: TypeAlias = "Results | TraceLike"


def results_or_trace(source: Given) -> Results | Trace:
    """Results and traces as they are, opened, or made of gradients in memory (`from_arrays`).

    Raises
    ------
    ValueError
        A folder that is neither a trace nor a RESULTS folder.
    TypeError
        None of these.
    """
    from .._traces.opening import as_trace, is_url
    from .._traces.trace import Trace

    if isinstance(source, Results):
        return source
    gradients = isinstance(source, Trace | Iterable | os.PathLike) or hasattr(source, "__array__")
    if not gradients or hasattr(source, "iloc"):  # or a table of pandas
        raise TypeError(
            f"results is of type {type(source).__name__}; give Results, or the path of a RESULTS "
            "folder or of a trace, a Trace, or gradients {'name': array of (workers, ...)}"
        )
    if not isinstance(source, str | os.PathLike) or is_url(source):
        return as_trace(source)
    folder = check_readable(source)
    return as_trace(folder) if is_trace(folder) else Results.open(folder)


def is_trace(folder: Path) -> bool:
    """Whether a folder is a trace, and not a RESULTS folder.

    Raises
    ------
    ValueError
        It is neither.
    """
    if (folder / "manifest.json").is_file():
        return True
    if (folder / "provenance.json").is_file():
        return False
    raise ValueError(
        f"{folder} is neither a trace nor a RESULTS folder: "
        f"{what_is(folder, 'manifest.json and no provenance.json')}"
    )
