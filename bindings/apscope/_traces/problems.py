"""Finds all errors in a trace, and files in its folder that do not belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .._folders.durable import digest_of
from .opening import open_trace
from .trace import KINDS, Trace


def problems(folder: Path) -> Iterator[str]:
    """A sentence for every difference from the manifest: files, sizes, digests, headers, values."""
    try:
        trace = open_trace(folder)
    except (ValueError, OSError) as error:
        yield str(error)
        return
    damaged = set()
    for path, size, sha256 in trace.files():
        try:
            digest = digest_of(path)
        except OSError as error:
            yield f"{path}: {error.strerror}"
            damaged.add(path.parent)
            continue
        for key, expected in (("bytes", size), ("sha256", sha256)):
            if digest[key] != expected:
                yield f"{path}: its {key} is {digest[key]}, but the manifest says {expected}"
                damaged.add(path.parent)
    for step in trace.steps:
        if folder / f"step_{step:08d}" not in damaged:  # a damaged file has been reported
            yield from _of_step(trace, step)


def _of_step(trace: Trace, step: int) -> Iterator[str]:
    for kind in KINDS:
        names = trace.tensors if kind == "gradient" else trace.names(step, kind)
        for name in names:
            for worker in range(1 if kind in ("weights", "full_batch") else trace.workers):
                try:
                    trace.read(step, name, worker, kind)
                except ValueError as error:
                    yield str(error)


def strays(folder: Path) -> list[str]:
    """Paths in the folder that its manifest does not list, which nothing reads."""
    trace = open_trace(folder)
    known = {path for path, _, _ in trace.files()} | {folder / "manifest.json"}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path not in known and not path.is_dir()
    )
