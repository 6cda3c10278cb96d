"""One self-contained, interactive HTML file: which scheme loses least, where and why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._folders.reading import open_regular
from .._folders.writing import write_file
from .._results.results import Results

__all__ = ["check_destination", "page", "report"]

#: A mark in the head of every page that this package wrote.
MARK = '<meta name="generator" content="apscope'


def report(
    results: Any,
    out_path: str | os.PathLike,
    *,
    against: Any = None,
    force: bool = False,
    gained: float | None = None,
) -> Path:
    """Writes the report of a replay: one HTML file.

    Parameters
    ----------
    results : Results or path-like
        A path is that of a RESULTS folder.
    out_path : path-like
        The HTML file; its folder must exist. An earlier report is replaced.
    against : Results or path-like, optional
        Other results, of another seed, recording or format: a section says what changed.
    force : bool
        Whether a file that is not a report may be replaced too.
    gained : float, optional
        The loss in nats by which an fp32 training of this model falls from its middle to its end:
        the expected excess loss is that of ``update_loss_10``, of every kind of scheme, as in
        `Results.summary`; by default that of ``error_over_noise``.

    Returns
    -------
    pathlib.Path
        The HTML file.

    Raises
    ------
    ValueError
        The results are empty, `against` is of another trace, the folder is missing or is not a
        folder, the existing file is not a report of apscope, or `gained` is below 0 or NaN.
    ImportError
        The package with the plotting library is missing.
    OSError
        The file cannot be written. No partial file remains.
    """
    out_path = check_destination(out_path, force=force)
    # Bytes of a path that are not text.
    text = page(results, against, gained=gained).encode(errors="backslashreplace").decode()
    write_file(out_path, text, "apscope report")
    return out_path


def page(results: Any, against: Any = None, *, gained: float | None = None) -> str:
    """The report of a replay as HTML text; arguments as of `report` and `document.page`."""
    from .document import page as text

    other = None if against is None else _results(against)
    return text(_results(results), other, gained=gained)


def check_destination(out_path: str | os.PathLike, *, force: bool = False) -> Path:
    """The path, after checks that a report can be written there.

    Raises
    ------
    ValueError
        Its folder is missing or not a folder; it would replace a folder, or, without `force`, a
        file that is not a report.
    """
    out_path = Path(out_path)
    if not out_path.parent.is_dir():
        raise ValueError(
            f"{out_path}: its folder {out_path.parent} does not exist "
            "or is not a folder; create it first"
        )
    if out_path.is_dir() or out_path.suffix not in (".html", ".htm"):
        raise ValueError(f"{out_path}: the report is an HTML file; give a name that ends in .html")
    if out_path.exists() and not force:
        with open_regular(out_path) as stream:
            if MARK.encode() not in stream.read(4096):
                raise ValueError(
                    f"{out_path} exists and is not a report of apscope; give another name, or "
                    "--force to replace it"
                )
    return out_path


def _results(results: Any) -> Results:
    if isinstance(results, (str, os.PathLike)):
        return Results.open(results)
    if not isinstance(results, Results):
        raise TypeError(
            f"results is of type {type(results).__name__}; give "
            "Results, or the path of a RESULTS folder"
        )
    return results
