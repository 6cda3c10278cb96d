"""Runs that are to be trained, each into its file: here, or in processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._folders.one_file import make_folder, put_text
from ._processes import in_processes
from ._run import Run, train


@dataclass(frozen=True)
class Job:
    """A run and its place."""

    run: Run
    place: Path  #: of the run's file, without the suffix; its name is the run's key
    checkpoint: float  #: seconds between two checkpoints
    trace: Path | None  #: the folder of its recorded gradients; such a run is not resumed
    record: tuple[int, ...]  #: the recorded steps; the errors of every run are counted at them


Train = Callable[[Sequence[Job]], Iterator[Run]]  #: Trains all; gives each when its file is there.


def trained_in(processes: int) -> AbstractContextManager[Train]:
    """A function that trains in so many processes; 1: in this one."""
    if processes == 1:
        return contextlib.nullcontext(lambda jobs: map(_train, jobs))
    return in_processes(processes, _train)


def _train(job: Job) -> Run:
    """Trains one run, and puts its file in place; of a recorded run the trace first."""
    if job.trace is None:
        saved = job.place.with_suffix(".pt")
        result = train(job.run, saved, job.checkpoint, record=job.record)
    else:
        with new_trace(job.trace) as new:
            result = train(job.run, trace=new, record=job.record, key=job.place.name)
    keep(job, result)
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


def keep(job: Job, result: dict[str, Any]) -> None:
    """Puts a finished run's file in place, and removes its checkpoint."""
    put_text(job.place.with_suffix(".json"), json.dumps(result))
    job.place.with_suffix(".pt").unlink(missing_ok=True)
