"""A Dask worker's part of a replay: statistics of (step, tensor) pairs, then its items."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import _core
from .._results.columns import arrow_table, joined
from .._results.row_groups import RowGroups
from .._traces.opening import open_trace
from .._traces.remote import RemoteTrace
from .._traces.trace import Trace
from .waiting import on_worker

REPORT_EVERY = 0.2  # seconds between two reports of a part's progress

Statistics = tuple[np.ndarray, np.ndarray]  # pairs, and their statistics of pass 1


@dataclass(frozen=True)
class Job:
    """The data shared by all parts of a replay."""

    # Specs, topologies, steps and tensors by index, workers, seed.
    arguments: tuple[list[str], list[str], list[int], list[int], int, int]
    shard: tuple[int, int]
    draws: int
    threads: int  # 0: as many as a Dask worker has
    memory: int  # bytes; 0: half of a Dask worker's limit
    states: Mapping[str, Any]
    keep_states: bool
    device: str
    kinds: list[str]  # of files that are read
    check: bool  # whether to compare them with their SHA-256
    persistence: bool = False

    def options(self, threads: int = 0, memory: int = 0) -> _core.ReplayOptions:
        return _core.ReplayOptions(
            *self.arguments,
            *self.shard,
            self.draws,
            self.threads or threads,
            self.memory or memory,
            self.persistence,
        )

    def options_of(self, worker: Any) -> _core.ReplayOptions:
        """With the threads and the memory of this Dask worker."""
        return self.options(worker.state.nthreads, (worker.memory_manager.memory_limit or 0) // 2)

    def device_here(self) -> Any:
        """The GPU, if requested."""
        if self.device != "cuda":
            return None
        from .._arrays.gpu import row_device

        return row_device()


class OpenTrace:
    """A trace on a Dask worker, with its fetched and checked files; others open it again."""

    def __init__(
        self, path: str, version: str, trace_hash: str, job: Job, steps: list[int]
    ) -> None:
        self.path, self.version, self.trace_hash, self.job, self.steps = (
            path,
            version,
            trace_hash,
            job,
            steps,
        )

    def __reduce__(self) -> tuple[type[OpenTrace], tuple]:
        return OpenTrace, (self.path, self.version, self.trace_hash, self.job, self.steps)

    @cached_property
    def trace(self) -> Trace:
        with on_worker() as worker:
            job = self.job
            if _core.__version__ != self.version:
                raise ValueError(f"it has apscope {_core.__version__}, the client {self.version}")
            job.device_here()
            trace = open_trace(self.path)
            if trace.hash != self.trace_hash:
                raise ValueError(
                    f"the trace at {self.path} there has another manifest than the client's"
                )
            try:
                # Before any of its files is fetched.
                _core.check_memory(trace.core, job.options_of(worker))
                files = (
                    [job.arguments[2][step] for step in self.steps],
                    range(min(job.arguments[4], trace.workers)),
                    job.kinds,
                )
                trace.require(*files)
                if job.check:
                    trace.check(*files, threads=job.threads or worker.state.nthreads)
            except BaseException:
                if isinstance(trace, RemoteTrace):
                    trace.remove_files()
                raise
            return trace

    def opened(self) -> OpenTrace:
        """Itself, with its trace opened here."""
        _ = self.trace
        return self


def _telling(
    worker: Any, topic: str | None, part: tuple[str, int]
) -> Callable[[int, int], None] | None:
    """Reports a part's progress to the client; None if it does not want reports."""
    reported = 0.0

    def update(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_EVERY or done == total:
            reported = time.monotonic()
            worker.log_event(topic, (part, done))

    return None if topic is None else update


def read_part(
    opened: OpenTrace, part: int, pairs: np.ndarray, topic: str | None
) -> tuple[Statistics, dict]:
    """Pass 1 of one part: the statistics of pairs, and the columns of their histograms."""
    core = opened.trace.core
    with on_worker() as worker:
        told = _telling(worker, topic, ("read", part))
        agreed, histograms = _core.read_statistics(
            core, opened.job.options_of(worker), pairs.tolist(), told
        )
        return (pairs, agreed), histograms


def run_part(
    opened: OpenTrace,
    part: int,
    items: np.ndarray,
    statistics: list[Statistics],
    states: dict,
    topic: str | None,
) -> tuple[bytes, dict, dict, dict]:
    """Pass 2 of one part: rows as a Parquet file, columns of noise and windows, states after."""
    job, core = opened.job, opened.trace.core
    with on_worker() as worker:
        told = _telling(worker, topic, ("run", part))
        pairs, agreed = (np.concatenate(found) for found in zip(*statistics))
        agreed[pairs] = agreed.copy()
        file = io.BytesIO()
        groups = RowGroups(file)
        _, noise, windows, after = _core.replay(
            core,
            job.options_of(worker),
            lambda rows: groups.add(arrow_table(joined([(opened.trace.name, rows)]))),
            items.tolist(),
            agreed,
            states,
            job.keep_states,
            told,
            job.device_here(),
        )
        groups.close()
        return file.getvalue(), noise, windows, after
