"""Writing a folder or a file: all of it appears at its place, or nothing.

```text
runs/                           the place of a new folder `out`, or of a file; of an `out` that is there, `out/` itself
  .out.apscope-lock             held while one process writes `out`; says which
  .out.apscope-3f9c2a71/        made by that process alone, for its user alone
    apscope.json                that it is ours, and of what
    new/                        what is written; moved to its place when it is whole and on the disk
```

A kill leaves such a folder behind. Who writes the same place next holds the lock, so nobody works in it any more, and removes it.
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

__all__ = ["Writing", "clear_left", "halves", "is_hidden", "left_behind", "refuse_dangling", "write_file"]

MARK = "apscope.json"


class _NotWrittenError(OSError):
    """An error of the system that names the destination already."""


class Writing:
    """One process's work on one folder or file.

    Parameters
    ----------
    destination : path-like
        What is written.
    doing : str
        What writes it, for those who come second.
    into : bool, optional
        Whether files are moved into the destination, one by one; by default where it is a folder that is there.
    patience : float
        Seconds to wait for another process that writes it.

    Raises
    ------
    ValueError
        On entering: another process writes the same destination.
    OSError
        Nothing can be written there, named by the destination.
    """

    def __init__(self, destination: str | os.PathLike[str], doing: str, into: bool | None = None, patience: float = 0) -> None:
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if self._fresh is not None:
            _remove(self._fresh)
        self._lock.let_go()
        self._remove_made()
        if isinstance(error, OSError) and self._concerns(error):
            with self.named():
                raise error

    @property
    def left(self) -> list[Path]:
        """What killed processes left of the same work, oldest first."""
        return left_behind(self.place, self._name)

    def clear(self, but: Path | None = None) -> None:
        """Removes, and names in a warning, what killed processes left."""
        for path in self.left:
            if path not in (but, self._fresh):
                _remove(path)
                warnings.warn(f"removed {path.name}, which an interrupted run had left beside {self.destination}", stacklevel=3)

    @property
    def fresh(self) -> Path:
        """The hidden folder, made at the first use."""
        if self._fresh is None:
            while self._fresh is None:
                path = self.place / fresh(self._name)
                with contextlib.suppress(FileExistsError):  # whoever made it, it is not ours
                    path.mkdir(mode=0o700)
                    self._fresh = path
            (self._fresh / MARK).write_text(json.dumps(who(self._doing) | {"writes": self._name}), encoding="utf-8")
        return self._fresh

    def go_on_in(self, path: Path) -> None:
        """Takes one of `left` for the fresh folder."""
        self._fresh = path

    def leave(self) -> None:
        """Lets the fresh folder stay for the next one who writes the destination."""
        self._fresh = None

    @property
    def new(self) -> Path:
        """Where the files are written: a folder of its own, made at the first use."""
        path = self.fresh / "new"
        path.mkdir(exist_ok=True)
        return path

    def put_folder(self, synced: Collection[Path] = ()) -> None:
        """Moves the new folder to its place, where none is, in one step. `synced` are files in it that are on the disk already.

        Raises
        ------
        ValueError
            Something stands there by now.
        """
        with self.named():
            _sync_tree(self.new, synced)
            try:
                os.rename(self.new, self.place / self._name)
            except OSError as error:
                if not os.path.lexists(self.place / self._name):
                    raise
                raise ValueError(f"{self.destination} was made while this was written, and stays as it is; give another place") from error
            sync_folder(self.place)

    def put_files(self, names: Iterable[str], mark: str) -> None:
        """Moves files into the folder that is there. The file `mark` goes first and comes last: without it the others are nothing.

        An error puts back what was there; a kill leaves a folder without its mark, and a hidden one beside it.
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
                    if i in (1, len(moves) - 1):  # the mark has gone; all but the mark have come
                        sync_folder(self.place)
                    if os.path.lexists(source):
                        done.append((source, target))
                        os.replace(source, target)
                sync_folder(self.place)
        except BaseException:
            self._undo(done)
            raise

    def _undo(self, moves: list[tuple[Path, Path]]) -> None:
        """Takes moves back, the last one first; one that was begun may not have been made. What cannot be is left for the next writer to replace."""
        try:
            for source, target in reversed(moves):
                if not os.path.lexists(source):
                    os.replace(target, source)
        except OSError:
            self.leave()

    def put_file(self) -> None:
        """Moves the one new file, of the destination's name, to its place, in one step."""
        with self.named():
            sync([self.new / self._name])
            os.replace(self.new / self._name, self.place / self._name)
            sync_folder(self.place)

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Errors of the system name the destination, not what is hidden beside it."""
        try:
            yield
        except _NotWrittenError:
            raise
        except OSError as error:
            raise _NotWrittenError(error.errno, f"{self.destination} cannot be written: {error.strerror or error}") from None

    def _concerns(self, error: OSError) -> bool:
        """Whether an error is of what is written here, not of what was read for it."""
        hidden = os.fspath(self.place / stem(self._name))
        return (isinstance(error.filename, str) and error.filename.startswith(hidden)) or error.errno in (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EFBIG,
            errno.EROFS,
        )

    def _remove_made(self) -> None:
        """Of the folders above the destination those that were made and hold nothing; the innermost first."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def refuse_dangling(destination: str | os.PathLike[str]) -> None:
    """Raises ValueError where a link that leads nowhere stands at the destination."""
    if os.path.islink(destination) and not os.path.exists(destination):
        raise ValueError(f"{destination} is a link to {os.readlink(destination)}, which is not there; take the link away, or give another place")


def left_behind(place: Path, name: str) -> list[Path]:
    """The hidden folders in `place` in which something of `name` was written: this user's own, no links, and marked or empty."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            if re.fullmatch(re.escape(stem(name)) + "[0-9a-f]{8}", entry.name) and _is_ours(Path(entry.path), name):
                found.append(Path(entry.path))
    return sorted(found, key=lambda path: path.lstat().st_mtime_ns)


def clear_left(destination: str | os.PathLike[str], doing: str) -> None:
    """Removes what killed processes left that had put the destination in its place already; where one works there, nothing."""
    absolute = Path(os.path.abspath(destination))
    for into in (False, True):
        place = absolute if into else absolute.parent
        with contextlib.suppress(OSError, ValueError):
            if any(name.startswith(stem(absolute.name)) for name in os.listdir(place)):
                with Writing(destination, doing, into=into) as writing:
                    writing.clear()


def _remove(folder: Path) -> None:
    """Removes a hidden folder as far as it can be, its mark last: what stays is still known for ours."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name != MARK:
                shutil.rmtree(entry.path, ignore_errors=True) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        if os.listdir(folder) == [MARK]:
            os.unlink(folder / MARK)
        os.rmdir(folder)


def halves(folder: Path, mark: str) -> Path | None:
    """What a write that was interrupted left in a folder that has no file `mark`, which such a write puts there last."""
    if os.path.lexists(folder / mark):
        return None
    absolute = Path(os.path.abspath(folder))
    return next(iter(left_behind(absolute, absolute.name)), None)


def is_hidden(path: Path) -> bool:
    """Whether it is by its name a lock, or a folder that is being written, of the folder that it lies in."""
    return path.name.startswith(stem(Path(os.path.abspath(path.parent)).name))


def _is_ours(path: Path, name: str) -> bool:
    try:
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return False
        names = os.listdir(path)
        try:
            return not names or json.loads((path / MARK).read_text(encoding="utf-8")).get("writes") == name
        except ValueError:
            return names == [MARK]  # the half of a mark; nothing of anybody's is lost with it
    except (OSError, ValueError, RecursionError, AttributeError):
        return False


def write_file(path: str | os.PathLike[str], text: str, doing: str) -> None:
    """Writes a text to a file in one step: it is what it was, or all of it. Who writes it at the moment is waited for."""
    with Writing(path, doing, into=False, patience=10) as writing:
        (writing.new / Path(path).name).write_text(text, encoding="utf-8")
        writing.put_file()
        writing.clear()


def _sync_tree(folder: Path, but: Collection[Path] = ()) -> None:
    for at, _, names in os.walk(folder):
        sync(path for name in names if (path := Path(at) / name) not in but)
        sync_folder(Path(at))
