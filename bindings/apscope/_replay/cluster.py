"""A replay on a Dask cluster: one shard for every Dask worker, the same bytes as here.

Nothing of Dask is imported before a client is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .. import _core
from .._traces.trace import Trace, open_trace

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["check_client", "connect", "replay_on"]

INSTALL = "install it with: pip install 'apscope[dask]'"
REPORT_EVERY = 0.2  # seconds between two reports of a shard's progress
#: Specs, topologies, indices of steps and of tensors, workers, seed.
Arguments = tuple[list[str], list[str], list[int], list[int], int, int]


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


def run_shard(
    path: str,
    version: str,
    trace_hash: str,
    arguments: Arguments,
    threads: int,
    shard: tuple[int, int],
    draws: int,
    states: dict,
    topic: str | None,
    device: str,
) -> tuple[dict, dict, dict]:
    """What one Dask worker does: open the trace where it is, replay a shard of it."""
    from distributed import get_worker

    worker = get_worker()
    if _core.__version__ != version:
        raise ValueError(f"it has apscope {_core.__version__}, the client {version}")
    trace = open_trace(path)
    if trace.hash != trace_hash:
        raise ValueError(f"the trace at {path} there has another manifest than the client's")
    on_device = None
    if device == "cuda":
        from .._arrays.gpu import row_device

        on_device = row_device()
    reported = 0.0

    def update(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_EVERY or done == total:
            reported = time.monotonic()
            worker.log_event(topic, (shard[0], done, total))

    return _core.replay(trace.core, *arguments, threads or worker.state.nthreads, *shard, draws, states, None if topic is None else update, on_device)


def replay_on(
    client: Client,
    trace: Trace,
    arguments: Arguments,
    threads: int,
    shard: tuple[int, int],
    draws: int,
    states: Mapping[str, Any],
    update: Callable[[int, int], None] | None,
    device: str = "cpu",
) -> tuple[list[tuple[dict, dict]], dict]:
    """Columns and histogram rows of every part of a shard, and the states after the last step.

    Part j of M of shard I/N is shard (I + N j)/(N M): together the very items of I/N.
    """
    check_client(client)
    workers = client.nthreads()  # by address
    if not workers:
        raise ValueError("the Dask cluster has no workers; start at least one")
    index, count = shard
    items = max(1, len(arguments[2]) * len(arguments[3]))  # steps times tensors
    addresses = sorted(workers)[:items]
    total_parts = len(addresses)
    topic = None if update is None else f"apscope-{uuid4()}"
    told: dict[int, tuple[int, int]] = {}

    def heard(event: tuple[float, tuple[int, int, int]]) -> None:
        part, done, total = event[1]
        told[part] = (done, total)
        if update is not None and len(told) == total_parts:
            update(sum(d for d, _ in told.values()), sum(t for _, t in told.values()))

    if topic is not None:
        client.subscribe_topic(topic, heard)
    sent = client.scatter(dict(states), broadcast=True, hash=False) if states else {}
    futures = [
        client.submit(
            run_shard, str(trace.path.absolute()), _core.__version__, trace.hash, arguments, threads,
            (index + count * part, count * total_parts), draws, sent, topic, device,
            workers=[address], allow_other_workers=True, pure=False,
        )
        for part, address in enumerate(addresses)
    ]  # fmt: skip
    try:
        done = [_result(future, address) for future, address in zip(futures, addresses)]
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
