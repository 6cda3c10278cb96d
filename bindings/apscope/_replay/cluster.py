"""A replay on a Dask cluster: a part for every Dask worker, of its share of the cost, the same bytes as here.

A part is three tasks: its Dask worker opens the trace and reads what it needs of it, finds the statistics of some (step, tensor) pairs, and with
the statistics of all replays its items. Nothing of Dask is imported before a client is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from .. import _core
from .._traces.opening import is_url, open_trace
from .._traces.trace import Trace
from .parts import Item, parts_by_cost

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Job", "check_client", "connect", "replay_on"]

INSTALL = "install it with: pip install 'apscope[dask]'"
REPORT_EVERY = 0.2  # seconds between two reports of a part's progress
#: What the check of a value's SHA-256 and its statistics are taken to cost, in seconds, beside schemes whose cost is measured: a weight
#: by which parts are made, and nothing else.
READ_A_VALUE = 3e-9

Arguments = tuple[list[str], list[str], list[int], list[int], int, int]  # specs, topologies, steps and tensors by index, workers, seed


@dataclass(frozen=True)
class Job:
    """What all parts of a replay share."""

    arguments: Arguments
    shard: tuple[int, int]
    draws: int
    threads: int  # 0: as many as a Dask worker has
    memory: int  # bytes; 0: half of a Dask worker's limit
    states: Mapping[str, Any]
    keep_states: bool
    device: str
    kinds: list[str]  # of files that are read
    check: bool  # whether they are compared with their SHA-256

    def options(self, threads: int = 0, memory: int = 0) -> _core.ReplayOptions:
        return _core.ReplayOptions(*self.arguments, *self.shard, self.draws, self.threads or threads, self.memory or memory)

    def options_of(self, worker: Any) -> _core.ReplayOptions:
        """With the threads and the memory of this Dask worker."""
        return self.options(worker.state.nthreads, (worker.memory_manager.memory_limit or 0) // 2)


def connect(address: str) -> Client:
    """A client of the scheduler at `address`, such as ``tcp://10.0.0.1:8786``.

    Raises
    ------
    ValueError
        dask.distributed is not installed, or `address` is none.
    OSError
        Nobody answers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(f"--dask needs dask.distributed; {INSTALL}") from None
    try:
        return Client(address, timeout=10)
    except (OSError, TimeoutError):
        raise OSError(f"no Dask scheduler answers at {address} within 10 seconds") from None


def check_client(client: Any) -> None:
    """Raises TypeError or ValueError for what is no client that one can wait for."""
    if not all(hasattr(client, name) for name in ("submit", "nthreads", "asynchronous")):
        raise TypeError(f"client is {type(client).__name__}; give a dask.distributed.Client")
    if client.asynchronous:
        raise ValueError("client is asynchronous; give one made with asynchronous=False, and wait for the replay")


def work_items(trace: Trace, job: Job) -> list[Item]:
    """All that a shard of a replay does: the items of its second pass, and pairs of other shards, whose statistics the first pass reads too."""
    _, _, steps, tensors, workers, _ = job.arguments
    work = [Item(tensor, step, cost, values, place=i) for i, (step, tensor, values, cost) in enumerate(_core.work_costs(trace.core, job.options()))]
    own = {(item.step, item.tensor): item for item in work}
    items = [item for item in work if item.step is None]
    sizes = [trace.manifest.tensors[k].size * workers for k in tensors]
    for pair in range(len(steps) * len(tensors)):
        step, tensor = divmod(pair, len(tensors))
        item = own.get((step, tensor), Item(tensor, step, 0.0, 0))
        size = sizes[tensor]
        items.append(replace(item, cost=item.cost + size * READ_A_VALUE, values=item.values + size, pair=pair))
    return items


class OpenTrace:
    """A trace as a Dask worker has it, with some files that are there and checked. Sent to another worker it is opened again there."""

    def __init__(self, path: str, version: str, trace_hash: str, job: Job, steps: list[int]) -> None:
        self.path, self.version, self.trace_hash, self.job, self.steps = path, version, trace_hash, job, steps

    def __reduce__(self) -> tuple[type[OpenTrace], tuple]:
        return OpenTrace, (self.path, self.version, self.trace_hash, self.job, self.steps)

    @cached_property
    def trace(self) -> Trace:
        from distributed import get_worker

        if _core.__version__ != self.version:
            raise ValueError(f"it has apscope {_core.__version__}, the client {self.version}")
        trace, job = open_trace(self.path), self.job
        if trace.hash != self.trace_hash:
            raise ValueError(f"the trace at {self.path} there has another manifest than the client's")
        files = ([job.arguments[2][step] for step in self.steps], range(job.arguments[4]), job.kinds)
        trace.require(*files)
        if job.check:
            trace.check(*files, threads=job.threads or get_worker().state.nthreads)
        return trace

    def opened(self) -> OpenTrace:
        """Itself, once its trace is open here."""
        _ = self.trace
        return self


def _telling(worker: Any, topic: str | None, part: tuple[str, int]) -> Callable[[int, int], None] | None:
    """What tells the client how far a part is; None where nobody listens."""
    reported = 0.0

    def update(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_EVERY or done == total:
            reported = time.monotonic()
            worker.log_event(topic, (part, done))

    return None if topic is None else update


Statistics = tuple[np.ndarray, np.ndarray]  # pairs, and what pass 1 found of each


def read_part(opened: OpenTrace, part: int, pairs: list[int], topic: str | None) -> tuple[Statistics, dict]:
    """Pass 1 of one Dask worker: the statistics of pairs, and the columns of their histograms."""
    from distributed import get_worker

    worker = get_worker()
    told = _telling(worker, topic, ("read", part))
    agreed, histograms = _core.read_statistics(opened.trace.core, opened.job.options_of(worker), pairs, told)
    return (np.array(pairs, np.intp), agreed), histograms


def run_part(opened: OpenTrace, part: int, items: list[int], statistics: list[Statistics], states: dict, topic: str | None) -> tuple[dict, dict]:
    """Pass 2 of one Dask worker: the columns of some items' rows, and the states after them."""
    from distributed import get_worker

    job, worker, on_device = opened.job, get_worker(), None
    if job.device == "cuda":
        from .._arrays.gpu import row_device

        on_device = row_device()
    told = _telling(worker, topic, ("run", part))
    pairs, agreed = (np.concatenate(found) for found in zip(*statistics))
    agreed[pairs] = agreed.copy()
    columns, _, after = _core.replay(opened.trace.core, job.options_of(worker), items, agreed, states, job.keep_states, told, on_device)
    return columns, after


class _Progress:
    """What is done of all parts, as they tell it: every value once by the statistics, then once by every scheme."""

    def __init__(self, client: Client, total: int, update: Callable[[int, int], None] | None) -> None:
        self.client, self.total, self.update = client, total, update
        self.topic = None if update is None else f"apscope-{uuid4()}"
        self.done: dict[tuple[str, int], int] = {}
        self.most = 0  # a part begins again where its worker ended
        if self.topic is not None:
            client.subscribe_topic(self.topic, self._heard)

    def _heard(self, event: tuple[float, tuple[tuple[str, int], int]]) -> None:
        part, done = event[1]
        self.done[part] = done
        self.tell(sum(self.done.values()))

    def tell(self, done: int) -> None:
        self.most = max(self.most, done)
        if self.update is not None:
            self.update(self.most, self.total)

    def close(self) -> None:
        if self.topic is not None:
            self.client.unsubscribe_topic(self.topic)


def replay_on(client: Client, trace: Trace, job: Job, update: Callable[[int, int], None] | None) -> tuple[list[dict], list[dict], dict]:
    """Columns of the rows of all parts of a shard, those of its histograms, and the states after the last step where they are kept."""
    check_client(client)
    workers = client.nthreads()  # by address
    if not workers:
        raise ValueError("the Dask cluster has no workers; start at least one")
    addresses = sorted(workers)
    items = work_items(trace, job)
    shares = parts_by_cost(items, [job.threads or max(1, workers[address]) for address in addresses])
    parts = [(address, share) for address, share in zip(addresses, shares) if share.items]
    path = trace.source if is_url(trace.source) else str(trace.path.absolute())
    states = client.scatter(dict(job.states), broadcast=True, hash=False) if job.states else {}
    shared, futures = replace(job, states={}), list[Any]()

    def submit(address: str, *call: Any) -> Any:
        futures.append(client.submit(*call, workers=[address], allow_other_workers=True, pure=False))
        return futures[-1]

    progress = _Progress(client, sum(item.values for item in items), update)
    try:
        opened = [
            submit(address, OpenTrace.opened, OpenTrace(path, _core.__version__, trace.hash, shared, share.steps(len(job.arguments[2]))))
            for address, share in parts
        ]
        reads = [submit(address, read_part, opened[i], i, share.pairs, progress.topic) for i, (address, share) in enumerate(parts)]
        statistics = [submit(address, itemgetter(0), read) for read, (address, _) in zip(reads, parts)]
        runs = [submit(address, run_part, opened[i], i, share.places, statistics, states, progress.topic) for i, (address, share) in enumerate(parts)]
        histograms = [_result(read, address)[1] for read, (address, _) in zip(reads, parts)]
        found = [_result(run, address) for run, (address, _) in zip(runs, parts)]
        progress.tell(progress.total)
    finally:
        client.cancel(futures)
        progress.close()
    after = {name: state for _, part_states in found for name, state in part_states.items()}
    return [columns for columns, _ in found], histograms, dict(sorted(after.items()))


def _result(future: Any, address: str) -> Any:
    """A part's result; a failure in one sentence, of the kind it would be here."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        return future.result()
    except KilledWorker as error:
        last = getattr(error.last_worker, "address", address)
        raise ChildProcessError(f"the Dask worker {last} ended while it replayed, and so did those that tried again; they may lack memory") from None
    except (CommClosedError, CancelledError):
        raise ChildProcessError("the connection to the Dask cluster was lost during the replay") from None
    except Exception as error:  # noqa: BLE001  # whatever a worker raised, told in one sentence
        for kind in (ValueError, TypeError, OSError):
            if isinstance(error, kind):
                raise kind(f"on a Dask worker ({address}): {error}") from None
        raise ChildProcessError(f"on a Dask worker ({address}): {type(error).__name__}: {' '.join(str(error).split())}") from None
