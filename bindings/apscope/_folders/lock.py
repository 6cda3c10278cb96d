"""A lock next to the destination, which names its holder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .reading import read_limited

_LONGEST = 10_000  # bytes of what a holder says


class HeldError(ValueError):
    """Another process holds the lock; the message says which."""


class Lock:
    """A locked file of one process, unlocked when the process ends, removed when it is released.

    Parameters
    ----------
    path : pathlib.Path
        The lock's file. A link there is not followed.
    doing : str
        What the holder is doing, such as ``apscope replay``, for messages of other processes.
    """

    def __init__(self, path: Path, doing: str) -> None:
        from filelock import FileLock  # importing it takes longer than opening a small trace

        self.path, self.doing = path, doing
        self._lock = FileLock(path, thread_local=False)
        self._inode: tuple[int, int] | None = None  # of the file that was locked

    def take(self, what: str, patience: float = 0) -> None:
        """Takes the lock; waits at most that many seconds.

        Raises
        ------
        HeldError
            Another process holds it: ``another apscope replay writes WHAT``, and which one.
        OSError
            The file cannot be made.
        """
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=patience)
        except Timeout:
            raise HeldError(
                f"{_holder(self.path)} {what}; wait for it, or give another destination"
            ) from None
        try:
            about = self.path.lstat()
            self._inode = about.st_dev, about.st_ino
            self._say(json.dumps(who(self.doing)))
        except BaseException:
            self.let_go()
            raise

    @property
    def held(self) -> bool:
        """Whether this process, not its parent before a fork, holds the file now at the path."""
        if not self._lock.is_locked or self._inode is None:
            return False
        try:
            about = self.path.lstat()
        except OSError:
            return False
        return self._inode == (about.st_dev, about.st_ino)

    def let_go(self) -> None:
        """Removes the file, then unlocks it: a waiting process sees that and makes another."""
        if self.held:
            with contextlib.suppress(OSError):
                self.path.unlink()
        if self._lock.is_locked:
            self._lock.release()

    def _say(self, text: str) -> None:
        place = os.open(self.path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(place, text.encode())
        finally:
            os.close(place)


def who(doing: str) -> dict[str, Any]:
    """The description of this process for others."""
    return {
        "doing": doing,
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _holder(path: Path) -> str:
    try:
        holder = json.loads(read_limited(path, _LONGEST))
        return (
            f"another {holder['doing']} (process {holder['process']} on {holder['host']}, since "
            f"{holder['since']}) writes"
        )
    except (OSError, ValueError, LookupError, TypeError):
        return "another process of apscope writes"
