"""Syncs files to the disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .reading import open_regular

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


def sync(paths: Iterable[Path]) -> None:
    """Waits until the contents of these files are on the disk."""
    for path in paths:
        place = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(place)
        finally:
            os.close(place)


class SyncAhead:
    """Syncs files in a separate thread while others are still written."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._waits: list[Future[None]] = []
        self.done: set[Path] = set()

    def begin(self, paths: Iterable[Path]) -> None:
        """Adds complete files."""
        from concurrent.futures import ThreadPoolExecutor

        self._pool = self._pool or ThreadPoolExecutor(1)
        self._waits.append(self._pool.submit(self._sync, list(paths)))

    def _sync(self, paths: list[Path]) -> None:
        sync(paths)
        self.done.update(paths)

    def end(self) -> None:
        """Waits for all; raises the system's error."""
        if self._pool is not None:
            self._pool.shutdown()
            for wait in self._waits:
                wait.result()
            self._pool, self._waits = None, []


def sync_folder(folder: Path) -> None:
    """Waits until the names in the folder are on the disk, if the file system supports that."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(place)
    finally:
        os.close(place)


def digest_of(path: Path) -> dict[str, int | str]:
    """The size in bytes and the SHA-256 of a file."""
    with open_regular(path) as stream:
        return {
            "bytes": os.fstat(stream.fileno()).st_size,
            "sha256": hashlib.file_digest(stream, "sha256").hexdigest(),
        }
