"""Opens traces by folder or URL."""

from __future__ import annotations

import copyreg
import os
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import _core
from .._arrays.checks import shown
from .._folders.results import check_readable, what_is
from .remote import RemoteTrace, open_remote
from .trace import Trace

if TYPE_CHECKING:
    from .arrays import Gradients

#: What functions of one trace accept.
TraceLike: TypeAlias = "Trace | str | os.PathLike[str] | Gradients"


def is_url(path: str | os.PathLike) -> bool:
    """Whether it is a URL for fsspec, such as ``s3://bucket/run``."""
    return isinstance(path, str) and re.match(r"[A-Za-z][A-Za-z0-9+.:-]*://", path) is not None


def as_trace(trace: TraceLike) -> Trace:
    """The trace, or that of a path or URL, or of gradients in memory."""
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, str | os.PathLike):
        return open_trace(trace)
    from .arrays import from_arrays

    return from_arrays(trace)


def open_trace(path: str | os.PathLike) -> Trace:
    """Opens a trace: a folder with a manifest.json (docs/trace_format.md).

    Reads the manifest and checks that every file it lists exists with its full length; reads no
    values.

    Parameters
    ----------
    path : path-like, or URL
        The trace's folder; or a URL of any file system of fsspec (``s3://bucket/run``,
        ``gs://...``, ``memory://...``), whose files are fetched into a temporary folder when they
        are read (`replay`: those of the selected steps and workers) and deleted with the trace.
        Needs ``apscope[remote]`` and fsspec's package for the protocol, such as s3fs.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        `path` is not a trace, or its manifest or a file is malformed, missing or truncated; the
        sentence names the file. Or a package for its URL is not installed.
    OSError
        A file cannot be read.
    TypeError
        `path` is neither a text nor a path.
    """
    if is_url(path):
        return open_remote(str(path))
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path is {shown(path)}, of type {type(path).__name__}; give a trace's folder or URL; "
            "apscope.record.from_arrays makes a trace of arrays"
        )
    path = check_readable(path)
    if not (path / "manifest.json").exists():
        raise ValueError(f"{path} is not a trace: {what_is(path, 'manifest.json')}")
    # pybind11 would call the Path, and take Ctrl-C in that call for an argument of a wrong type.
    return Trace(_core.Trace.open(os.fspath(path)))


def _pickled(trace: Trace) -> tuple[Any, ...]:
    """A trace as its place and hash: it is opened again, and must be the same."""
    source = trace.source if is_url(trace.source) else os.path.abspath(trace.path)
    return _opened_again, (source, trace.hash)


def _opened_again(source: str, sha256: str) -> Trace:
    trace = open_trace(source)
    if trace.hash != sha256:
        raise ValueError(
            f"{trace.source} is another trace than the one that was pickled: its hash is "
            f"{trace.hash}, not {sha256}"
        )
    return trace


for _class in (Trace, RemoteTrace):
    copyreg.pickle(_class, _pickled)
