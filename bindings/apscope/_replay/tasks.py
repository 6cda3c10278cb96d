"""A Dask worker's part of a replay: statistics of (step, tensor) pairs, then its items."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .. import _core
from .._results.columns import arrow_table, joined
from .._results.row_groups import RowGroups
from .._traces.opening import open_trace
from .._traces.remote import RemoteTrace
from .._traces.trace import Trace
from .job import Job
from .waiting import on_worker

REPORT_EVERY = 0.2  # seconds between two reports of a part's progress

Statistics = tuple[np.ndarray, np.ndarray]  # pairs, and their statistics of pass 1


@dataclass(eq=False)
class OpenTrace:
    """A trace on a Dask worker, with its fetched and checked files; others open it again."""

    path: str
    version: str
    trace_hash: str
    job: Job
    steps: list[int]

    def __reduce__(self) -> tuple[type[OpenTrace], tuple]:
        return OpenTrace, tuple(getattr(self, field.name) for field in fields(self))

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
        report = _telling(worker, topic, ("read", part))
        agreed, histograms = _core.read_statistics(
            core, opened.job.options_of(worker), pairs.tolist(), report
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
        report = _telling(worker, topic, ("run", part))
        pairs, agreed = (np.concatenate(several) for several in zip(*statistics))
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
            report,
            job.device_here(),
        )
        groups.close()
        return file.getvalue(), noise, windows, after
