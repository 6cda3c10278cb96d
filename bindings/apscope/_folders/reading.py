"""Opens files that a caller or another file names: regular files only, up to a limit.

A pipe could block the reader for ever, and a device such as /dev/zero has no end.
"""

from __future__ import annotations

import errno
import io
import os
import stat

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def refuse_special(path: str | os.PathLike[str], expected: str = "a regular file") -> None:
    """Refuses a pipe, a device or a socket, also at the end of a link, without opening it.

    Raises
    ------
    ValueError
        It is one; the sentence says that `expected` would be right.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # its reader reports that
    if not stat.S_ISDIR(mode):
        _refuse(path, mode, expected)


def _refuse(path: str | os.PathLike[str], mode: int, expected: str) -> None:
    if not stat.S_ISREG(mode):
        what = next((name for test, name in _KINDS if test(mode)), "not a file")
        raise ValueError(f"{os.fspath(path)} is {what}; give {expected}")


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """A stream of the bytes of a regular file, or of one that a link leads to.

    Raises
    ------
    ValueError
        It is a pipe, a device or a socket.
    OSError
        It is a folder, or cannot be opened.
    """
    try:
        # A pipe without a writer is then opened at once.
        place = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ValueError(f"{os.fspath(path)} is a socket; give a regular file") from None
        raise
    try:
        mode = os.fstat(place).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        _refuse(path, mode, "a regular file")
    except BaseException:
        os.close(place)
        raise
    return open(place, "rb")


def read_limited(path: str | os.PathLike[str], longest: int) -> bytes:
    """The bytes of a regular file.

    Raises
    ------
    ValueError
        It is not a regular file, or has more than `longest` bytes; the sentence begins with its
        name.
    OSError
        It cannot be read.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size <= longest:
            data = stream.read(longest + 1)  # it may have grown, or be one of /proc, of size 0
            if len(data) <= longest:
                return data
    length = f"{size} bytes" if size > longest else f"more than {longest} bytes"
    raise ValueError(f"{os.fspath(path)} has {length}; at most {longest} are read")


def read_utf8(path: str | os.PathLike[str], longest: int) -> str:
    """The text of a regular file, which must be UTF-8; errors as of `read_limited`."""
    data = read_limited(path, longest)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 (at byte {error.start})") from None
