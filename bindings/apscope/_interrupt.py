"""Ctrl-C of a command: one line and exit code 130, also while its modules are imported."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any


def _guard() -> None:
    """If this process is the command line, Ctrl-C ends it with one line until `release`."""
    of_module = sys.argv[:1] == ["-m"] and ("-m", "apscope") in zip(
        sys.orig_argv, sys.orig_argv[1:]
    )
    of_script = (
        os.path.basename((sys.argv or [""])[0]) == "apscope" and sys.argv[0] in sys.orig_argv
    )
    if (of_module or of_script) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextlib.contextmanager
def interrupts() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt, and an error after it is one, too.

    An extension module that asks whether an object has an attribute takes the KeyboardInterrupt for
    a no, and fails elsewhere.
    """
    came: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    ours = before in (_end, signal.default_int_handler) and (
        threading.current_thread() is threading.main_thread()
    )
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception:
        if came:
            raise KeyboardInterrupt from None
        raise
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: Any) -> None:
    os.write(2, b"apscope: interrupted\n")
    os._exit(130)


_guard()
