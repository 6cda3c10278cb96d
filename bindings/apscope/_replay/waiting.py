"""Tasks on a Dask cluster: connecting, waiting, and one sentence for whatever fails.

Dask is not imported before a client is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client

INSTALL = "install it with: pip install 'apscope[dask]'"
ANSWER = 30.0  # seconds that a scheduler has to answer, as in Dask's own settings
POLL = 1.0  # seconds between two looks at a cluster
#: Polls in which workers exist but none has a part: Dask reserves the tasks of the last worker
#: that ended.
STRANDED_AFTER = 5
NO_WORKERS = 60.0  # seconds without any worker
ATTEMPTS = 3  # times that lost tasks are given again
LOST = "the connection to the Dask cluster was lost"


@contextmanager
def connect(address: str) -> Iterator[Client]:
    """A client of the scheduler at `address`, such as ``tcp://10.0.0.1:8786``; closed at the end.

    What fails while it closes is left out: the results are here, or there is an error already.

    Raises
    ------
    ValueError
        dask.distributed is not installed, or `address` is invalid.
    OSError
        No scheduler answers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(f"--dask needs dask.distributed; {INSTALL}") from None
    try:
        client = Client(address, timeout=ANSWER)
    except (OSError, TimeoutError):
        raise OSError(
            f"no Dask scheduler answers at {address} within {ANSWER:.0f} seconds"
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # Dask asserts its own state, which a busy machine can delay
            client.close()


def check_client(client: Any) -> None:
    """Raises TypeError or ValueError unless `client` is a synchronous Dask client with workers."""
    if not all(hasattr(client, name) for name in ("submit", "nthreads", "asynchronous")):
        raise TypeError(f"client is {type(client).__name__}; give a dask.distributed.Client")
    if client.asynchronous:
        raise ValueError(
            "client is asynchronous; give one made with asynchronous=False, and wait for the result"
        )
    if not client.nthreads():
        raise ValueError("the Dask cluster has no workers; start at least one")


class StrandedError(Exception):
    """Workers ended, and their parts or results are lost."""


def look(client: Client) -> tuple[dict[str, int], set[str]]:
    """The threads of the current workers, and the keys of their tasks."""
    try:
        return client.nthreads(), {key for keys in client.processing().values() for key in keys}
    except OSError:
        raise ChildProcessError(LOST) from None


def wait_for_workers(client: Client) -> None:
    if client.status != "running":
        raise ChildProcessError(LOST)
    begun = time.monotonic()
    while not look(client)[0]:
        if time.monotonic() - begun >= NO_WORKERS:
            raise ChildProcessError(
                f"the Dask cluster has had no workers for {NO_WORKERS:.0f} seconds"
            )
        time.sleep(POLL)


def _wait_for(client: Client, futures: Sequence[Any], anywhere: bool) -> None:
    """Waits until all are done; raises the first error."""
    idle = 0
    while pending := [future for future in futures if _is_pending(future)]:
        for future in futures:
            if future.status in ("error", "cancelled"):
                _value(future, POLL)
        if _one_ends(pending):
            idle = 0
        else:
            wait_for_workers(client)
            processing = look(client)[1]
            idle = 0 if any(future.key in processing for future in pending) else idle + 1
            if idle >= STRANDED_AFTER and not anywhere:
                raise StrandedError


def _is_pending(future: Any) -> bool:
    """Whether it is not done; what is lost is to be computed again."""
    return future.status in ("pending", "lost")


def _one_ends(pending: list[Any]) -> bool:
    """Waits for the first of them, at most `POLL` seconds; whether something happened."""
    from concurrent.futures import CancelledError

    from distributed import wait

    try:
        wait(pending, timeout=POLL, return_when="FIRST_COMPLETED")
    except CancelledError:
        return True
    except TimeoutError:
        return False
    return True


def finished(client: Client, futures: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Places and results of tasks that any worker may take, in the order in which they end.

    Raises
    ------
    StrandedError
        They were cancelled, or the connection ended.
    ValueError, TypeError, OSError, ChildProcessError
        The first failure of a task, in one sentence; no worker came back.
    """
    left, patience = dict(enumerate(futures)), 32 * POLL
    while left:
        ended = [i for i, future in left.items() if not _is_pending(future)]
        if not ended and not _one_ends(list(left.values())):
            wait_for_workers(client)
        for i in ended:
            try:
                value = _value(left[i], patience)
            except AwayError:
                patience *= 2
                continue
            del left[i]
            yield i, value


def result(client: Client, future: Any, futures: list[Any], anywhere: bool) -> Any:
    """A part's result; waits for all the others too."""
    patience = 32 * POLL
    while True:
        _wait_for(client, futures, anywhere)
        try:
            return _value(future, patience)
        except AwayError:
            patience *= 2


class AwayError(Exception):
    """A result did not arrive in time: it is large, or its worker ended."""


def _value(future: Any, patience: float) -> Any:
    """The result of a finished future; a failure is one sentence, of the same type as here."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        return future.result(timeout=patience)
    except KilledWorker as error:
        last = getattr(error.last_worker, "address", "")
        raise ChildProcessError(
            f"the Dask worker {last}".rstrip()
            + " ended while it worked, and so did those that tried again; they may lack memory"
        ) from None
    except (CommClosedError, CancelledError):
        raise StrandedError from None
    except Exception as error:  # noqa: BLE001  # whatever a worker raised, told in one sentence
        if isinstance(error, TimeoutError) and future.status != "error":
            raise AwayError from None
        notes = getattr(error, "__notes__", [])  # the address, if a part failed
        where, what = (
            f"on a Dask worker ({notes[0]})" if notes else "on the Dask cluster",
            " ".join(str(error).split()),
        )
        for kind in (ValueError, TypeError, OSError):
            if isinstance(error, kind):
                raise kind(f"{where}: {what}") from None
        raise ChildProcessError(f"{where}: {type(error).__name__}: {what}") from None


@contextmanager
def on_worker() -> Iterator[Any]:
    """The Dask worker that runs this; an error gets its address as a note."""
    from distributed import get_worker

    worker = get_worker()
    try:
        yield worker
    except Exception as error:
        error.add_note(worker.address)
        raise
