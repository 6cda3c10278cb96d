"""Temporary folders that a killed process does not leave for ever: the next one removes them.

A process holds a lock on its folder, which ends with the process; a folder of this user that is
not locked is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "apscope-fetched-"


class TemporaryFolder:
    """A new folder in the system's place for temporary files, readable only by this user.

    Attributes
    ----------
    path : pathlib.Path
    """

    def __init__(self) -> None:
        _remove_left()
        place = None
        while place is None:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            place = _locked(self.path)  # another process may take it for one that was left
        self._place: int | None = place
        self._process = os.getpid()

    def remove(self) -> None:
        """Removes the folder and all in it; a child after a fork leaves it to its parent."""
        if self._place is None or self._process != os.getpid():
            return
        place, self._place = self._place, None
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(place)


def _locked(folder: Path) -> int | None:
    """The open and locked folder; None if another process has it, or it is not ours or gone."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        about, now = os.fstat(place), os.lstat(folder)
        if about.st_uid == os.geteuid() and (about.st_dev, about.st_ino) == (
            now.st_dev,
            now.st_ino,
        ):
            return place
    except OSError:
        pass
    os.close(place)
    return None


def _remove_left() -> None:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and (place := _locked(Path(entry.path))) is not None:
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(place)
