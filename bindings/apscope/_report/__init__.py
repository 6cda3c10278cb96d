"""One self-contained, interactive HTML file: which scheme loses least, where and why."""

from __future__ import annotations

import os
from pathlib import Path

from .._folders.reading import open_regular
from .._folders.writing import write_file
from .._results.given import Given, results_or_trace
from .._results.results import Results

__all__ = ["check_destination", "page", "report"]

#: A mark in the head of every page that this package wrote.
MARK = '<meta name="generator" content="apscope'


def report(
    results: Given,
    out_path: str | os.PathLike,
    *,
    against: Given | None = None,
    force: bool = False,
    gained: float | None = None,
) -> Path:
    """Writes the report of a replay: one HTML file.

    Parameters
    ----------
    results : Results, Trace, path-like, URL or gradients
        A path is that of a RESULTS folder or a trace. A trace, and gradients in memory (as for
        `replay`), are first replayed through the schemes ``main`` and the default topologies.
    out_path : path-like
        The HTML file; its folder must exist. An earlier report is replaced.
    against : likewise, optional
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


def page(results: Given, against: Given | None = None, *, gained: float | None = None) -> str:
    """The report of a replay as HTML text; arguments as of `report` and `document.page`."""
    from .._excess_loss.expected import checked
    from .document import page as text

    if gained is not None:
        checked(gained)  # before a replay
    persistence = gained is not None
    other = None if against is None else _results(against, persistence)
    return text(_results(results, persistence), other, gained=gained)


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


def _results(given: Given, persistence: bool) -> Results:
    """Results as they are, opened, or of a replay of a trace."""
    source = results_or_trace(given)
    if isinstance(source, Results):
        return source
    from .._replay.replay import replay

    return replay(source, limit=True, persistence=persistence)
