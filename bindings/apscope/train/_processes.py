"""Calls of one function in other processes, which may be killed at any moment.

``concurrent.futures`` may wait for ever if a process ends while another one starts. Here each
process has a pipe of its own, which ends when the process does.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any


@contextlib.contextmanager
def in_processes(
    count: int, function: Callable[[Any], Any]
) -> Iterator[Callable[[Sequence[Any]], Iterator[Any]]]:
    """A map of the function in so many processes, which end with the block.

    It gives each result when it is there, in any order, and raises the first exception of a call.
    It raises ChildProcessError if a process ends.
    """
    context = multiprocessing.get_context("spawn")
    processes: dict[Any, SpawnProcess] = {}  # by our end of its pipe

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(function, theirs), daemon=True)
        process.start()
        theirs.close()  # only the process holds it now
        processes[ours] = process

    def run(items: Sequence[Any]) -> Iterator[Any]:
        while len(processes) < min(count, len(items)):
            start()
        left = iter(items)
        busy = []
        for pipe, item in zip(processes, left):
            _give(pipe, item, count)
            busy.append(pipe)
        while busy:
            for pipe in wait(busy):
                result = _take(pipe, count)
                for item in left:
                    _give(pipe, item, count)
                    break
                else:
                    busy.remove(pipe)
                yield result

    try:
        yield run
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.join()


def _give(pipe: Any, item: Any, count: int) -> None:
    try:
        pipe.send(item)
    except OSError:
        raise _ended(count) from None


def _take(pipe: Any, count: int) -> Any:
    try:
        result, error = pipe.recv()
    except (EOFError, OSError):
        raise _ended(count) from None
    if error is not None:
        raise error
    return result


def _ended(count: int) -> ChildProcessError:
    return ChildProcessError(
        f"one of the {count} processes that train ended; run apscope train again, which "
        "continues, with fewer --jobs if memory ran out"
    )


def _serve(function: Callable[[Any], Any], pipe: Any) -> None:
    """What a process does: calls until the pipe ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            pipe.send(_result(function, pipe.recv()))


def _result(function: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return function(item), None
    except Exception as error:  # noqa: BLE001 - the parent raises it
        error.add_note(traceback.format_exc())  # a traceback itself is not sent
        return None, error


def _end_with_parent() -> None:
    """Ends this process when the command was killed: nobody would read its results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
