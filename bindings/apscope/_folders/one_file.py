"""Writes one file under a new hidden name in the same folder, then renames it.

Only unpredictable names are opened, and no link is followed: another program's file is never
written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .durable import sync, sync_folder
from .names import fresh


@contextlib.contextmanager
def new_file(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """A stream for the bytes of a file, which is renamed when the block ends without an exception.

    Parameters
    ----------
    path : pathlib.Path
        The file. An existing one is replaced; of a link, the link itself.
    durable : bool
        The bytes are on the disk before the name; the name is after `sync_folder` of its folder.

    Raises
    ------
    OSError
        The file cannot be written; it names `path`.
    """
    with _new(path) as (place, hidden):
        with open(place, "wb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(place)
        os.replace(hidden, path)


@contextlib.contextmanager
def new_path(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Like `new_file`, for functions that write to a path: returns that of an empty file."""
    with _new(path) as (place, hidden):
        os.close(place)
        yield hidden
        if durable:
            sync([hidden])
        os.replace(hidden, path)


def put_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Writes a whole text or nothing; `durable`: it is on the disk when this returns."""
    with new_file(path, durable=durable) as stream:
        stream.write(text.encode())
    if durable:
        sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Makes a folder if there is none.

    Raises
    ------
    OSError
        It cannot be made, or a link or a file has its name.
    """
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and links are not followed", os.fspath(path))


def remove_left(folder: Path, names: re.Pattern[str]) -> None:
    """Removes the files in a folder whose whole name matches; of links, the links themselves."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if names.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


@contextlib.contextmanager
def _new(path: Path) -> Iterator[tuple[int, Path]]:
    """A new open file and its name; removed if the block raises. System errors name `path`."""
    hidden = path.with_name(fresh(path.name))
    try:
        place = os.open(
            hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
        )
        try:
            yield place, hidden
        except BaseException:
            with contextlib.suppress(OSError):
                hidden.unlink()
            raise
    except OSError as error:
        if error.errno is None or error.filename not in (None, os.fspath(hidden)):
            raise
        raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
