"""Writes a folder or a file: all of it appears, or nothing.

```text
runs/                           the folder of a new `out`, or of a file; for an existing `out`,
`out/` itself
  .out.apscope-lock             held while one process writes `out`; says which
  .out.apscope-3f9c2a71/        made by that process, readable only by its user
    apscope.json                marks it as ours, and names the destination
    new/                        the files; moved to the destination when complete and on the disk
```

Such a folder remains after a kill. The next process that writes the same destination holds the
lock, so no other process uses the folder, and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import warnings
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from .durable import sync, sync_folder
from .lock import Lock, who
from .names import fresh, lock_of, stem
from .reading import read_limited

MARK = "apscope.json"
_LONGEST = 10_000  # bytes of a mark


class _NotWrittenError(OSError):
    """A system error that already names the destination."""


class Writing:
    """One process's work on one folder or file.

    Parameters
    ----------
    destination : path-like
        The folder or file.
    doing : str
        What writes it, for messages of other processes.
    into : bool, optional
        Whether files are moved into the destination, one by one; by default if it is an existing
        folder.
    patience : float
        Seconds to wait for another process that writes it.

    Raises
    ------
    ValueError
        On entering: another process writes the same destination.
    OSError
        Nothing can be written there, named by the destination.
    """

    def __init__(
        self,
        destination: str | os.PathLike[str],
        doing: str,
        into: bool | None = None,
        patience: float = 0,
    ) -> None:
        self.destination = Path(destination)
        absolute = Path(os.path.abspath(destination))
        self.into = absolute.is_dir() if into is None else into
        self.place = absolute if self.into else absolute.parent
        self._name = absolute.name
        self._doing, self._patience = doing, patience
        self._fresh: Path | None = None

    def __enter__(self) -> Writing:
        self._made = [folder for folder in (self.place, *self.place.parents) if not folder.exists()]
        with self.named():
            self.place.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self.place / lock_of(self._name), self._doing)
            try:
                self._lock.take(os.fspath(self.destination), self._patience)
            except BaseException:
                self._remove_made()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        if self._fresh is not None:
            _remove(self._fresh)
        self._lock.let_go()
        self._remove_made()
        if isinstance(error, OSError) and self._concerns(error):
            with self.named():
                raise error

    @property
    def left(self) -> list[Path]:
        """Hidden folders of killed processes for the same destination, oldest first."""
        return left_behind(self.place, self._name)

    def clear(self, but: Path | None = None) -> None:
        """Removes the hidden folders of killed processes, with a warning."""
        for path in self.left:
            if path not in (but, self._fresh):
                _remove(path)
                warnings.warn(
                    f"removed {path.name}, which an interrupted run left beside {self.destination}",
                    stacklevel=3,
                )

    @property
    def fresh(self) -> Path:
        """The hidden folder, made at the first use."""
        if self._fresh is None:
            while self._fresh is None:
                path = self.place / fresh(self._name)
                with contextlib.suppress(FileExistsError):  # another process made it
                    path.mkdir(mode=0o700)
                    self._fresh = path
            (self._fresh / MARK).write_text(
                json.dumps(who(self._doing) | {"writes": self._name}), encoding="utf-8"
            )
        return self._fresh

    def go_on_in(self, path: Path) -> None:
        """Uses one of `left` as the hidden folder."""
        self._fresh = path

    def leave(self) -> None:
        """Keeps the hidden folder for the next process that writes the destination."""
        self._fresh = None

    @property
    def new(self) -> Path:
        """The folder for the files, made at the first use."""
        path = self.fresh / "new"
        path.mkdir(exist_ok=True)
        return path

    def put_folder(self, synced: Collection[Path] = ()) -> None:
        """Renames the new folder to the destination, in one step; `synced` files are on the disk.

        Raises
        ------
        ValueError
            The destination exists by now.
        """
        with self.named():
            _sync_tree(self.new, synced)
            try:
                os.rename(self.new, self.place / self._name)
            except OSError as error:
                if not os.path.lexists(self.place / self._name):
                    raise
                raise ValueError(
                    f"{self.destination} was made while this was written, and is left unchanged; "
                    "give another destination"
                ) from error
            sync_folder(self.place)

    def put_files(self, names: Iterable[str], mark: str) -> None:
        """Moves files into the existing folder; its file `mark` is removed first and moved last.

        Without the mark the other files are invalid. An error restores the old files; a kill leaves
        a folder without its mark, and a hidden one beside it.
        """
        old = self.fresh / "old"
        old.mkdir()
        moves = [(self.place / mark, old / mark)]
        for name in [*(name for name in names if name != mark), mark]:
            moves += [(self.place / name, old / name), (self.new / name, self.place / name)]
        done: list[tuple[Path, Path]] = []
        try:
            with self.named():
                _sync_tree(self.new)
                for i, (source, target) in enumerate(moves):
                    if i in (1, len(moves) - 1):  # the mark is removed; all but the mark are moved
                        sync_folder(self.place)
                    if os.path.lexists(source):
                        done.append((source, target))
                        os.replace(source, target)
                sync_folder(self.place)
        except BaseException:
            self._undo(done)
            raise

    def _undo(self, moves: list[tuple[Path, Path]]) -> None:
        """Undoes moves, the last first, also one in progress; the next writer retries failures."""
        try:
            for source, target in reversed(moves):
                if not os.path.lexists(source):
                    os.replace(target, source)
        except OSError:
            self.leave()

    def put_file(self) -> None:
        """Renames the one new file to the destination, in one step."""
        with self.named():
            sync([self.new / self._name])
            os.replace(self.new / self._name, self.place / self._name)
            sync_folder(self.place)

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Makes system errors name the destination, not the hidden folder."""
        try:
            yield
        except _NotWrittenError:
            raise
        except OSError as error:
            raise _NotWrittenError(
                error.errno, f"{self.destination} cannot be written: {error.strerror or error}"
            ) from None

    def _concerns(self, error: OSError) -> bool:
        """Whether an error comes from writing here, not from reading."""
        hidden = os.fspath(self.place / stem(self._name))
        if error.filename is not None:
            return isinstance(error.filename, str) and error.filename.startswith(hidden)
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

    def _remove_made(self) -> None:
        """Empty folders above the destination that were made for it; the innermost first."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def refuse_dangling(destination: str | os.PathLike[str]) -> None:
    """Raises ValueError if the destination is a broken link."""
    if os.path.islink(destination) and not os.path.exists(destination):
        raise ValueError(
            f"{destination} is a link to {os.readlink(destination)}, which does not exist; remove "
            "the link, or give another destination"
        )


def left_behind(place: Path, name: str) -> list[Path]:
    """The hidden folders in `place` for `name`: this user's own, not links, and marked or empty."""
    folders = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            if re.fullmatch(re.escape(stem(name)) + "[0-9a-f]{8}", entry.name) and _is_ours(
                Path(entry.path), name
            ):
                folders.append(Path(entry.path))
    return sorted(folders, key=lambda path: path.lstat().st_mtime_ns)


def clear_left(destination: str | os.PathLike[str], doing: str) -> None:
    """Removes hidden folders of processes killed after the final rename, unless one is active."""
    absolute = Path(os.path.abspath(destination))
    for into in (False, True):
        place = absolute if into else absolute.parent
        with contextlib.suppress(OSError, ValueError):
            if any(name.startswith(stem(absolute.name)) for name in os.listdir(place)):
                with Writing(destination, doing, into=into) as writing:
                    writing.clear()


def _remove(folder: Path) -> None:
    """Removes a hidden folder as far as possible, its mark last, so remains are still marked."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name != MARK:
                shutil.rmtree(entry.path, ignore_errors=True) if entry.is_dir(
                    follow_symlinks=False
                ) else os.unlink(entry.path)
        if os.listdir(folder) == [MARK]:
            os.unlink(folder / MARK)
        os.rmdir(folder)


def halves(folder: Path, mark: str) -> Path | None:
    """Remains of an interrupted write in a folder without `mark`, the file that is written last."""
    if os.path.lexists(folder / mark):
        return None
    absolute = Path(os.path.abspath(folder))
    return next(iter(left_behind(absolute, absolute.name)), None)


def is_hidden(path: Path) -> bool:
    """Whether its name is that of a lock, or of a hidden folder, of the folder that contains it."""
    return path.name.startswith(stem(Path(os.path.abspath(path.parent)).name))


def _is_ours(path: Path, name: str) -> bool:
    try:
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return False
        names = os.listdir(path)
        try:
            return (
                not names or json.loads(read_limited(path / MARK, _LONGEST)).get("writes") == name
            )
        except ValueError:
            return names == [MARK]  # half of a mark; no user's file is lost
    except (OSError, ValueError, RecursionError, AttributeError):
        return False


def write_file(path: str | os.PathLike[str], text: str, doing: str) -> None:
    """Writes a text to a file, all or nothing; waits for another process that writes it.

    Raises
    ------
    ValueError
        A link that leads nowhere has its name.
    """
    refuse_dangling(path)
    with Writing(path, doing, into=False, patience=10) as writing:
        (writing.new / Path(path).name).write_text(text, encoding="utf-8")
        writing.put_file()
        writing.clear()


def _sync_tree(folder: Path, but: Collection[Path] = ()) -> None:
    for at, _, names in os.walk(folder):
        sync(path for name in names if (path := Path(at) / name) not in but)
        sync_folder(Path(at))
