"""Reads and copies files of fsspec's file systems; each up to a size that is known before.

A server may announce another size, or send without end: so the size is compared with what the
server announces, and the copy stops one byte above it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any, BinaryIO

_AT_ONCE = 8  # files
_PIECE = 2**20  # bytes
_OPENING = Lock()  # file systems with a cache keep lists that are not made for several threads


def read_remote(system: Any, place: str, longest: int) -> bytes:
    """The bytes of a remote file.

    Raises
    ------
    TooLargeError
        It has more than `longest` bytes.
    Exception
        Whatever the file system raises.
    """
    with _stream(system, place) as stream:
        size = _announced(stream)
        if size is None or size <= longest:
            pieces, left = [], longest + 1
            while left and (piece := stream.read(min(left, _PIECE))):
                pieces.append(piece)
                left -= len(piece)
            if left > 0:
                return b"".join(pieces)
    raise TooLargeError(f"has {size or f'more than {longest}'} bytes; at most {longest} are read")


def copy_remote(system: Any, files: Sequence[tuple[str, Path, int | None]]) -> None:
    """Copies remote files, some at once.

    Parameters
    ----------
    system : fsspec.AbstractFileSystem
    files : sequence of (name there, path here, size in bytes)
        None as a size: it is unknown, and the copy stops where the disk would be full.

    Raises
    ------
    SizeError
        A file has another size.
    Exception
        Whatever the file system raises.
    """
    stop = Event()
    with ThreadPoolExecutor(min(_AT_ONCE, max(len(files), 1))) as pool:
        try:
            for _ in pool.map(lambda f: _copy(system, f[0], f[1], f[2], stop), files):
                pass
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _copy(system: Any, place: str, path: Path, size: int | None, stop: Event) -> None:
    with _stream(system, place) as stream, open(path, "wb") as out:
        announced = _announced(stream)
        if None not in (size, announced) and announced != size:
            raise SizeError(place, str(announced), size or 0)
        most = shutil.disk_usage(path.parent).free if size is None else size
        left = most + 1
        while left and not stop.is_set() and (piece := stream.read(min(left, _PIECE))):
            out.write(piece[:left])
            left -= min(len(piece), left)
    if left == 0 or (size is not None and left > 1):
        raise SizeError(place, f"more than {most}" if left == 0 else str(most + 1 - left), most)


class TooLargeError(ValueError):
    """A remote file that is longer than the limit; the words follow its name."""


class SizeError(ValueError):
    """A remote file that has not its expected size."""

    def __init__(self, place: str, found: str, expected: int) -> None:
        super().__init__(place, found, expected)
        self.place, self.found, self.expected = place, found, expected


def _stream(system: Any, place: str) -> BinaryIO:
    """The bytes in order. Over HTTP they come as one answer, whose end the server cannot hide."""
    protocol = system.protocol if isinstance(system.protocol, str) else "".join(system.protocol)
    with _OPENING:
        stream: BinaryIO = system.open(
            place, "rb", **({"block_size": 0} if "http" in protocol else {})
        )
    return stream


def _announced(stream: BinaryIO) -> int | None:
    size = getattr(stream, "size", None)
    return size if isinstance(size, int) else None
