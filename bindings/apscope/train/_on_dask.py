"""Runs on a Dask cluster: a task each, which gives its file and its trace back to the client.

The same bits as in processes: a worker with other versions or other data is refused, and a process
trains one run at a time, because PyTorch's generator and its number of threads are the process's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from .._folders.reading import read_utf8
from .._limits import EXPERIMENT_LENGTH
from .._replay.waiting import (
    ATTEMPTS,
    LOST,
    StrandedError,
    check_client,
    finished,
    on_worker,
    wait_for_workers,
)
from . import _tasks as tasks
from ._jobs import Job, Train, keep, new_trace
from ._run import Run, train
from ._versions import versions

if TYPE_CHECKING:
    from distributed import Client

_ALONE = Lock()
Files = dict[str, bytes]  # of a trace, by their path in its folder


@dataclass(frozen=True)
class _Facts:
    """The data that a worker needs in addition to a job."""

    versions: dict[str, str]
    data: dict[str, str]  # by task
    experiment: str  # the text of experiment.json


def on_cluster(
    client: Client, folder: Path, data: dict[str, str], say: Callable[[str], None]
) -> Train:
    """A function that trains on the cluster's workers.

    Workers that see the experiment's folder write checkpoints there. `data`: where every task's
    data comes from, which is that of the workers. `say` is called with a sentence about a worker
    with threads that will wait.

    Raises
    ------
    TypeError, ValueError
        It is not a synchronous client, or the cluster has no workers.
    """
    check_client(client)
    threads = client.nthreads()
    most = max(threads, key=lambda address: threads[address])
    if threads[most] > 1:
        say(
            f"the Dask worker {most} has {threads[most]} threads and trains one run at a time; "
            "start "
            "several with one thread each: dask worker --nworkers N --nthreads 1"
        )

    def run(jobs: Sequence[Job]) -> Iterator[Run]:
        facts = _Facts(versions(), data, read_utf8(folder / "experiment.json", EXPERIMENT_LENGTH))
        left = list(jobs)
        for _ in range(ATTEMPTS):
            futures = [client.submit(_train_there, job, facts, pure=False) for job in left]
            ended = set()
            try:
                for i, (result, files) in finished(client, futures):
                    _put(left[i], result, files)
                    ended.add(i)
                    yield left[i].run
                return
            except StrandedError:
                left = [job for i, job in enumerate(left) if i not in ended]
                wait_for_workers(client)
            finally:
                client.cancel(futures)
        raise ChildProcessError(LOST)

    return run


def _train_there(job: Job, facts: _Facts) -> tuple[dict[str, Any], Files]:
    """On a worker: a run's file, and its trace's files if it is recorded."""
    with on_worker(), _ALONE:
        _check(job.run, facts)
        if job.trace is None:
            saved = job.place.with_suffix(".pt") if _sees(job.place.parent.parent, facts) else None
            return train(job.run, saved, job.checkpoint, record=job.record), {}
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, job.trace.name)
            result = train(job.run, trace=trace, record=job.record, key=job.place.name)
            paths = [path for path in trace.rglob("*") if path.is_file()]
            return result, {str(path.relative_to(trace)): path.read_bytes() for path in paths}


def _check(run: Run, facts: _Facts) -> None:
    """Raises ValueError unless the run has the client's bits here."""
    for name, version in versions().items():
        if version != facts.versions[name]:
            raise ValueError(f"it has {name} {version}, the client {facts.versions[name]}")
    task = run.task
    about = tasks.load(task.name, task.model, task.text).about
    if about != facts.data[task.label]:
        raise ValueError(f"its data is '{about}', the client's '{facts.data[task.label]}'")


def _sees(folder: Path, facts: _Facts) -> bool:
    """Whether the experiment's folder is here too."""
    try:
        return read_utf8(folder / "experiment.json", EXPERIMENT_LENGTH) == facts.experiment
    except (OSError, ValueError):
        return False


def _put(job: Job, result: dict[str, Any], files: Files) -> None:
    """On the client: writes the files that a worker returned."""
    if job.trace is not None:
        with new_trace(job.trace) as new:
            for path, content in files.items():
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                (new / path).write_bytes(content)
    keep(job, result)
