"""A replay on a Dask cluster: one part of the work per Dask worker, with the same bytes.

Dask is not imported before a client is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from .. import _core
from .._traces.opening import is_url
from .._traces.trace import Trace
from .job import Job
from .parts import Item, parts_by_cost
from .tasks import OpenTrace, read_part, run_part
from .waiting import ATTEMPTS, LOST, StrandedError, check_client, look, result, wait_for_workers

if TYPE_CHECKING:
    from distributed import Client

#: Assumed seconds per value for the SHA-256 check and the statistics; schemes are measured. Used
#: only to divide the work.
READ_A_VALUE = 3e-9


def work_items(trace: Trace, job: Job) -> list[Item]:
    """The work of a shard: the items of its second pass, and all pairs of the first pass."""
    _, _, steps, tensors, workers, _ = job.arguments
    work = [
        Item(tensor, step, cost, values, place=i)
        for i, (step, tensor, values, cost) in enumerate(
            _core.work_costs(trace.core, job.options())
        )
    ]
    by_pair = {(item.step, item.tensor): item for item in work}
    items = [item for item in work if item.step is None]
    recorded = list(trace.manifest.tensors)  # each access makes the whole list
    sizes = [recorded[k].size * workers for k in tensors]
    for pair in range(len(steps) * len(tensors)):
        step, tensor = divmod(pair, len(tensors))
        item = by_pair.get((step, tensor), Item(tensor, step, 0.0, 0))
        size = sizes[tensor]
        items.append(
            Item(
                tensor, step, item.cost + size * READ_A_VALUE, item.values + size, pair, item.place
            )
        )
    return items


class _Progress:
    """Progress of all parts: values visited once by the statistics, then once by every scheme."""

    def __init__(
        self, client: Client, total: int, update: Callable[[int, int], None] | None
    ) -> None:
        self.client, self.total, self.update = client, total, update
        self.topic = None if update is None else f"apscope-{uuid4()}"
        self.done: dict[tuple[str, int], int] = {}
        self.most = 0  # a part starts again if its worker ended
        self.lock = Lock()  # reports of parts arrive in a thread of Dask
        if self.topic is not None:
            client.subscribe_topic(self.topic, self._heard)

    def _heard(self, event: tuple[float, tuple[tuple[str, int], int]]) -> None:
        part, done = event[1]
        with self.lock:
            self.done[part] = done
            self._tell(sum(self.done.values()))

    def _tell(self, done: int) -> None:
        self.most = max(self.most, min(done, self.total))
        if self.update is not None:
            self.update(self.most, self.total)

    def begin_again(self) -> None:
        with self.lock:
            self.done.clear()

    def end(self) -> None:
        with self.lock:
            self._tell(self.total)

    def close(self) -> None:
        if self.topic is not None:
            self.client.unsubscribe_topic(self.topic)


def replay_on(
    client: Client, trace: Trace, job: Job, update: Callable[[int, int], None] | None
) -> tuple[list[bytes], list[dict], list[dict], list[dict], dict]:
    """From all parts: Parquet files of a shard's rows, histograms, noise, windows, kept states."""
    check_client(client)
    items = work_items(trace, job)
    progress = _Progress(client, sum(item.values for item in items), update)
    try:
        for attempt in range(ATTEMPTS):
            try:
                results = _on_workers(
                    client, trace, job, items, progress.topic, anywhere=attempt > 0
                )
                progress.end()
                return results
            except StrandedError:
                progress.begin_again()
                wait_for_workers(client)
    finally:
        progress.close()
    raise ChildProcessError(LOST)


def _on_workers(
    client: Client, trace: Trace, job: Job, items: list[Item], topic: str | None, anywhere: bool
) -> tuple[list[bytes], list[dict], list[dict], list[dict], dict]:
    """A part for every current worker; `anywhere`: any worker may take it."""
    workers, _ = look(client)
    if not workers:
        raise StrandedError
    addresses = sorted(workers)
    shares = parts_by_cost(
        items, [job.threads or max(1, workers[address]) for address in addresses]
    )
    parts = [(address, share) for address, share in zip(addresses, shares) if share.items]
    path = trace.source if is_url(trace.source) else str(trace.path.absolute())
    # In a list: the values of a dict would become keys of the cluster, which other replays use too.
    states = client.scatter([dict(job.states)], broadcast=True, hash=False) if job.states else [{}]
    shared, futures = replace(job, states={}), list[Any]()

    def submit(address: str, *call: Any) -> Any:
        placed = {} if anywhere else {"workers": [address], "allow_other_workers": True}
        futures.append(client.submit(*call, **placed, pure=False))
        return futures[-1]

    try:
        reads, statistics, runs = [], [], []
        opened = [
            submit(
                address,
                OpenTrace.opened,
                OpenTrace(
                    path, _core.__version__, trace.hash, shared, share.steps(len(job.arguments[2]))
                ),
            )
            for address, share in parts
        ]
        for i, (address, share) in enumerate(parts):
            reads.append(
                submit(address, read_part, opened[i], i, np.array(share.pairs, np.intp), topic)
            )
            statistics.append(submit(address, itemgetter(0), reads[-1]))
        for i, (address, share) in enumerate(parts):
            runs.append(
                submit(
                    address,
                    run_part,
                    opened[i],
                    i,
                    np.array(share.places, np.intp),
                    statistics,
                    states[0],
                    topic,
                )
            )
        results = [result(client, run, futures, anywhere) for run in runs]
        histograms = [result(client, read, futures, anywhere)[1] for read in reads]
    finally:
        client.cancel([*futures, *states] if job.states else futures)
    after = {name: state for *_, part_states in results for name, state in part_states.items()}
    return (
        [rows for rows, *_ in results],
        histograms,
        [noise for _, noise, _, _ in results],
        [windows for _, _, windows, _ in results],
        dict(sorted(after.items())),
    )
