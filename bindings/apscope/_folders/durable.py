"""Files that are on the disk before anything says that they are."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["digest_of", "sync", "sync_folder"]


def sync(paths: Iterable[Path]) -> None:
    """Waits until the contents of these files are on the disk."""
    for path in paths:
        place = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def sync_folder(folder: Path) -> None:
    """Waits until the names in the folder are on the disk; file systems that know no such wait are left alone."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            os.fsync(place)
    finally:
        os.close(place)


def digest_of(path: Path) -> dict[str, int | str]:
    """The size in bytes and the SHA-256 of a file."""
    with open(path, "rb") as stream:
        return {"bytes": os.fstat(stream.fileno()).st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}
