"""Runs that are to be trained, each into its file: here, or in processes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._folders.one_file import make_folder, put_text
from ._run import Run, train


@dataclass(frozen=True)
class Job:
    """A run and its place.

    Attributes
    ----------
    run : Run
    place : pathlib.Path
        Of the run's file, without the suffix; its name is the run's key.
    checkpoint : float
        Seconds between two checkpoints.
    trace : pathlib.Path, optional
        The folder of its recorded gradients; such a run is not resumed.
    record : tuple of int
        The recorded steps; the errors of every run are counted at them.
    """

    run: Run
    place: Path
    checkpoint: float
    trace: Path | None
    record: tuple[int, ...]


Train = Callable[[Sequence[Job]], Iterator[Run]]  #: Trains all; gives each when its file is there.


@contextlib.contextmanager
def in_processes(count: int) -> Iterator[Train]:
    """A function that trains in so many processes; 1: in this one."""
    if count == 1:
        yield lambda jobs: map(_train, jobs)
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _end_with_parent)

    def run(jobs: Sequence[Job]) -> Iterator[Run]:
        for future in as_completed([pool.submit(_train, job) for job in jobs]):
            try:
                yield future.result()
            except BrokenProcessPool:
                raise ChildProcessError(
                    f"one of the {count} processes that train ended; run apscope train again, "
                    "which continues, with fewer --jobs if memory ran out"
                ) from None

    try:
        yield run
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _train(job: Job) -> Run:
    """Trains one run, and puts its file in place; of a recorded run the trace first."""
    if job.trace is None:
        saved = job.place.with_suffix(".pt")
        found = train(job.run, saved, job.checkpoint, record=job.record)
    else:
        with new_trace(job.trace) as new:
            found = train(job.run, trace=new, record=job.record, key=job.place.name)
    keep(job, found)
    return job.run


@contextlib.contextmanager
def new_trace(trace: Path) -> Iterator[Path]:
    """A hidden folder of the same name, which takes the trace's place when the block ends."""
    half = trace.with_name(f".{trace.name}.half")
    for left in (half, trace):
        shutil.rmtree(left, ignore_errors=True)
    make_folder(half)
    yield half / trace.name
    os.replace(half / trace.name, trace)
    half.rmdir()


def keep(job: Job, found: dict[str, Any]) -> None:
    """Puts a finished run's file in place, and removes its checkpoint."""
    put_text(job.place.with_suffix(".json"), json.dumps(found))
    job.place.with_suffix(".pt").unlink(missing_ok=True)


def _end_with_parent() -> None:
    """A process of the pool ends when the command was killed: nobody would read its results."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
