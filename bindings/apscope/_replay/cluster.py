"""A replay on a Dask cluster: a part for every Dask worker, of its share of the cost, the same bytes as here.

Nothing of Dask is imported before a client is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .. import _core
from .._traces.opening import is_url, open_trace
from .._traces.trace import Trace

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Job", "check_client", "connect", "parts_by_cost", "replay_on"]

INSTALL = "install it with: pip install 'apscope[dask]'"
REPORT_EVERY = 0.2  # seconds between two reports of a shard's progress


@dataclass(frozen=True)
class Job:
    """What all parts of a replay share."""

    arguments: tuple[list[str], list[str], list[int], list[int], int, int]  # specs, topologies, steps and tensors by index, workers, seed
    draws: int
    threads: int  # 0: as many as a Dask worker has
    memory: int  # bytes; 0: half of a Dask worker's limit
    states: Mapping[str, Any]
    keep_states: bool
    device: str
    kinds: list[str]  # of files that are read
    check: bool  # whether they are compared with their SHA-256


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


def parts_by_cost(costs: Sequence[float], threads: Sequence[int]) -> list[list[int]]:
    """Which items each of some machines does, so that all take about as long: the dearest first, each to who would end it first.

    Parameters
    ----------
    costs : sequence of float
        Of the items, in seconds of one thread.
    threads : sequence of int
        Of the machines.

    Returns
    -------
    list of lists of int
        A list of items, ascending, a machine; empty for machines that nothing is left for.
    """
    parts: list[list[int]] = [[] for _ in threads]
    free = [(0.0, 0, machine) for machine in range(len(threads))]  # when, after how many items, which
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        ends = [(when + costs[item] / threads[machine], count, machine) for when, count, machine in free]
        end, count, machine = min(ends)
        free[machine] = (end, count + 1, machine)
        parts[machine].append(item)
    return [sorted(part) for part in parts]


def run_part(
    path: str, version: str, trace_hash: str, job: Job, shard: tuple[int, int], part: int, items: list[int], states: dict, topic: str | None
) -> tuple[dict, dict, dict]:
    """What one Dask worker does: open the trace where it is, replay some items of a shard of it."""
    from distributed import get_worker

    worker = get_worker()
    if _core.__version__ != version:
        raise ValueError(f"it has apscope {_core.__version__}, the client {version}")
    trace = open_trace(path)
    if trace.hash != trace_hash:
        raise ValueError(f"the trace at {path} there has another manifest than the client's")
    files = (job.arguments[2], range(job.arguments[4]), job.kinds)
    trace.require(*files)
    if job.check:
        trace.check(*files, threads=job.threads or worker.state.nthreads)
    on_device = None
    if job.device == "cuda":
        from .._arrays.gpu import row_device

        on_device = row_device()
    reported = 0.0

    def update(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_EVERY or done == total:
            reported = time.monotonic()
            worker.log_event(topic, (part, done, total))

    threads = job.threads or worker.state.nthreads
    memory = job.memory or (worker.memory_manager.memory_limit or 0) // 2
    told = None if topic is None else update
    return _core.replay(trace.core, *job.arguments, *shard, job.draws, threads, memory, items, states, job.keep_states, told, on_device)


def replay_on(
    client: Client, trace: Trace, job: Job, shard: tuple[int, int], update: Callable[[int, int], None] | None
) -> tuple[list[tuple[dict, dict]], dict]:
    """Columns and histogram rows of every part of a shard, and the states after the last step where they are kept."""
    check_client(client)
    workers = client.nthreads()  # by address
    if not workers:
        raise ValueError("the Dask cluster has no workers; start at least one")
    costs = _core.work_costs(trace.core, *job.arguments, *shard, job.draws)
    addresses = sorted(workers)
    shares = parts_by_cost(costs, [job.threads or max(1, workers[address]) for address in addresses])
    parts = [(address, items) for address, items in zip(addresses, shares) if items] or [(addresses[0], [])]
    topic = None if update is None else f"apscope-{uuid4()}"
    told: dict[int, tuple[int, int]] = {}
    most = 0

    def heard(event: tuple[float, tuple[int, int, int]]) -> None:
        nonlocal most
        part, done, total = event[1]
        told[part] = (done, total)
        if update is not None and len(told) == len(parts):
            most = max(most, sum(d for d, _ in told.values()))  # a part begins again where its worker ended
            update(most, sum(t for _, t in told.values()))

    if topic is not None:
        client.subscribe_topic(topic, heard)
    sent = client.scatter(dict(job.states), broadcast=True, hash=False) if job.states else {}
    path = trace.source if is_url(trace.source) else str(trace.path.absolute())
    shared = replace(job, states={})
    futures = [
        client.submit(
            run_part, path, _core.__version__, trace.hash, shared, shard, part, items, sent, topic,
            workers=[address], allow_other_workers=True, pure=False,
        )
        for part, (address, items) in enumerate(parts)
    ]  # fmt: skip
    try:
        done = [_result(future, address) for future, (address, _) in zip(futures, parts)]
        if update is not None and told:
            total = sum(t for _, t in told.values())
            update(total, total)
    finally:
        client.cancel(futures)
        if topic is not None:
            client.unsubscribe_topic(topic)
    after: dict[str, Any] = {}
    for _, _, part_states in done:
        after.update(part_states)
    return [(columns, histogram) for columns, histogram, _ in done], dict(sorted(after.items()))


def _result(future: Any, address: str) -> tuple[dict, dict, dict]:
    """A shard's result; a failure in one sentence, of the kind it would be here."""
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
