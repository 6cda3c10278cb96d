"""Standard output of a command: names are escaped in one place, and errors name the output.

A name in a file may hold escape sequences or characters that change the direction of text, which a
terminal would obey. Text for people is always escaped; text for programs, such as CSV, only if it
goes to a terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from .._text import escaped

NAME = "standard output"


class Output(io.TextIOBase):
    """A stream that escapes; None as the stream: standard output is closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._exact = False
        self.failed: OSError | None = None  # told when the output is flushed, too

    def write(self, text: str) -> int:
        if self._stream is None:
            raise OSError(9, f"{NAME} is closed, so nothing can be printed", NAME)
        terminal = self.isatty()
        if terminal or not self._exact:
            text = escaped(text, bytes_too=terminal)
        with self._named():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with self._named():
                self._stream.flush()
        if self.failed is not None:
            raise self.failed

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """System errors of the output say so; a closed pipe stays one."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            sentence = f"{NAME} cannot be written: {error.strerror or error}"
            self.failed = OSError(error.errno, sentence, NAME)
            raise self.failed from None

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"

    @contextlib.contextmanager
    def exact(self) -> Iterator[None]:
        """Text for programs, which is not escaped unless it goes to a terminal."""
        self._exact = True
        try:
            yield
        finally:
            self._exact = False


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    """Puts an `Output` in place of ``sys.stdout``."""
    before = sys.stdout
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _fill_descriptors()
    sys.stdout = Output(before)
    try:
        yield
    finally:
        sys.stdout = before


def exactly() -> contextlib.AbstractContextManager[Any]:
    """Standard output for text that programs read."""
    return sys.stdout.exact() if isinstance(sys.stdout, Output) else contextlib.nullcontext()


def give_up() -> None:
    """Drops what could not be written, so that the end of the process does not try it again."""
    if isinstance(sys.stdout, Output):
        sys.stdout.failed = None
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fill_descriptors() -> None:
    """Opens closed standard descriptors, so that no file gets their numbers."""
    while (place := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(place)
