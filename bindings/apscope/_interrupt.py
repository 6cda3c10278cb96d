"""Ctrl-C while a command's modules are imported: one line and exit code 130, as in `cli.main`."""

from __future__ import annotations

import os
import signal
import sys
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


def release() -> None:
    """Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: Any) -> None:
    os.write(2, b"apscope: interrupted\n")
    os._exit(130)


_guard()
