"""The files of a dump, on a local disk or at any address that fsspec supports."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from .._folders.arriving import SizeError, copy_remote
from .._folders.one_file import new_path
from .._folders.reading import open_regular, refuse_special
from .._folders.results import check_readable

#: Hidden files that belong to a dump; others, and hidden folders, are ignored.
_HIDDEN = {".metadata", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}


def natural(text: str) -> list[str | int]:
    """A key that sorts ``layers.9`` before ``layers.11``."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", text))]


def is_address(source: str | os.PathLike[str]) -> bool:
    """Whether `source` is opened by fsspec: ``s3://bucket/dump``."""
    return (
        isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)", source) is not None
    )


@dataclass(frozen=True)
class File:
    """One file of a dump.

    Attributes
    ----------
    name : str
        Below the dump, with ``/``.
    label : str
        Its name in messages.
    stamp : str
        Changes when the file does.
    """

    name: str
    label: str
    size: int
    stamp: str
    place: str = field(repr=False)  # its location: a path, or the file system's own name
    source: Source = field(repr=False)

    def dangling(self) -> str:
        """The target of a broken link; else nothing."""
        return (
            os.readlink(self.place)
            if self.source.remote is None and _dangles(Path(self.place))
            else ""
        )

    def open(self) -> BinaryIO:
        """The bytes, seekable. A remote file is read by ranges."""
        return (
            open_regular(self.place)
            if self.source.remote is None
            else self.source.remote.open(self.place, "rb")
        )

    def head(self, length: int = 16) -> bytes:
        """The first bytes."""
        with self.open() as stream:
            return stream.read(length)

    def local(self) -> Path:
        """A path that other libraries can open; a remote file is fetched, once."""
        if self.source.remote is None:
            return Path(self.place)
        path = self.source.staging() / self.name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with new_path(path, durable=False) as fetched:
                    copy_remote(self.source.remote, [(self.place, fetched, self.size or None)])
            except SizeError as error:
                raise ValueError(
                    f"{self.label} has {error.found} bytes, but was listed with {error.expected}"
                ) from None
        return path

    def forget(self) -> None:
        """Deletes what `local` fetched."""
        if self.source.remote is not None and self.source.folder is not None:
            (self.source.folder / self.name).unlink(missing_ok=True)


def _dangles(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _refuse(error: OSError) -> None:
    raise ValueError(
        f"{error.filename} cannot be listed: {(error.strerror or '').lower()}; "
        "allow it, or remove the folder"
    ) from None


class Source:
    """All files of a dump, in natural order of their names.

    Parameters
    ----------
    source : path-like or str
        A folder or a file; or an fsspec address.
    staging : callable
        Returns the folder for fetched remote files; called for the first one. `close` removes it.

    Raises
    ------
    ValueError
        Nothing is there, or fsspec or what it needs for this address is not installed.
    """

    def __init__(self, source: str | os.PathLike[str], staging: Callable[[], Path]):
        self.text = os.fspath(source)
        self.remote: Any = None
        self.folder: Path | None = None
        self._staging = staging
        self.files: Sequence[File] = sorted(
            self._remote() if is_address(source) else self._local(Path(source)),
            key=lambda file: natural(file.name),
        )

    def staging(self) -> Path:
        """The folder for fetched files."""
        if self.folder is None:
            self.folder = self._staging()
            self.folder.mkdir(exist_ok=True)
        return self.folder

    def close(self) -> None:
        """Deletes what was fetched."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _local(self, path: Path) -> list[File]:
        self._is_file = path.is_file()
        if self._is_file:
            return [self._local_file(path, path.name)]
        if not path.is_dir():
            refuse_special(path)
            raise ValueError(f"{path} does not exist")
        check_readable(path)
        files = []
        above = {str(path): {os.path.realpath(path)}}  # for every folder, itself and those above it
        for folder, folders, names in os.walk(path, onerror=_refuse, followlinks=True):
            reached = above.pop(folder)
            real = {name: os.path.realpath(os.path.join(folder, name)) for name in folders}
            folders[:] = [
                name for name in folders if not name.startswith(".") and real[name] not in reached
            ]
            above |= {os.path.join(folder, name): reached | {real[name]} for name in folders}
            for name in names:
                place = Path(folder) / name
                if (not name.startswith(".") or name in _HIDDEN) and (
                    place.is_file() or _dangles(place)
                ):
                    files.append(self._local_file(place, place.relative_to(path).as_posix()))
        return files

    def _local_file(self, path: Path, name: str) -> File:
        about = path.lstat() if _dangles(path) else path.stat()
        return File(name, str(path), about.st_size, str(about.st_mtime_ns), str(path), self)

    def _remote(self) -> list[File]:
        try:
            import fsspec
        except ImportError:
            raise ValueError(
                f"{self.text} needs fsspec, which is not installed; pip install 'apscope[remote]'"
            ) from None
        try:
            self.remote, root = fsspec.core.url_to_fs(self.text)
            self._is_file = self.remote.isfile(root)
            listed = (
                {root: self.remote.info(root)}
                if self._is_file
                else self.remote.find(root, detail=True)
            )
        except (ImportError, ValueError) as error:  # no such protocol, or its package is missing
            raise ValueError(f"{self.text} cannot be opened: {error}") from None
        except FileNotFoundError:
            listed = {}
        if not listed:
            raise ValueError(f"{self.text} does not exist")
        files = []
        for place, about in cast("dict[str, dict[str, Any]]", listed).items():
            name = place.rsplit("/", 1)[-1] if self._is_file else place[len(root.rstrip("/")) + 1 :]
            parts = name.split("/")
            if any(part.startswith(".") for part in parts[:-1]) or (
                parts[-1].startswith(".") and parts[-1] not in _HIDDEN
            ):
                continue
            stamp = str(
                about.get("ETag")
                or about.get("mtime")
                or about.get("created")
                or about.get("LastModified")
                or ""
            )
            files.append(
                File(
                    name,
                    f"{self.text.rstrip('/')}/{name}" if not self._is_file else self.text,
                    int(about.get("size") or 0),
                    stamp,
                    place,
                    self,
                )
            )
        return files
