"""Traces on file systems of fsspec (s3://, gs://, memory://, ...), fetched when they are read.

The files of a trace are memory-mapped, so they must be local; for a remote trace the manifest is
read first, and only the files of the selected steps and workers are fetched. fsspec is not imported
before a URL is given.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .. import _core
from .._folders.arriving import SizeError, TooLargeError, copy_remote, read_remote
from .._folders.one_file import new_path
from .._folders.temporary import TemporaryFolder
from .._limits import MANIFEST_LENGTH
from .trace import KINDS, Trace

INSTALL = "install it with: pip install 'apscope[remote]'"


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ValueError(f"{url} needs fsspec; {INSTALL}") from None
    try:
        system, root = url_to_fs(url)
    except ImportError as error:  # the protocol's package
        raise ValueError(f"{url} cannot be read: {_one_line(error)}") from None
    except Exception as error:  # noqa: BLE001  # whatever a file system says of its own URLs
        raise ValueError(f"{url} is not a URL of a trace: {_one_line(error)}") from None
    return system, str(root).rstrip("/")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class RemoteTrace(Trace):
    """A remote trace: a `Trace` whose files are fetched when read, and kept until it is deleted."""

    def __init__(
        self,
        core: _core.Trace,
        url: str,
        fetch: Callable[[Mapping[str, tuple[Path, int]]], None],
        folder: TemporaryFolder,
    ) -> None:
        super().__init__(core)
        self.source = url
        self._fetch, self._here = fetch, set[str]()
        self._remove = weakref.finalize(self, folder.remove)

    def remove_files(self) -> None:
        """Deletes the fetched files, even if an exception's frames still refer to the trace."""
        self._remove()

    def require(
        self,
        steps: Iterable[int] | None = None,
        ranks: Iterable[int] | None = None,
        kinds: Iterable[str] = KINDS,
    ) -> None:
        missing = {}
        for path, size, _ in self.files(steps, ranks, kinds):
            name = f"{path.parent.name}/{path.name}"
            if name not in self._here:
                missing[name] = size
        if not missing:
            return
        needed, free = sum(missing.values()), shutil.disk_usage(self.path).free
        if needed > free:
            raise ValueError(
                f"{self.source}: its files need {needed} bytes in {self.path.parent.parent}, which "
                f"has {free}; select fewer steps or workers, or set TMPDIR to a larger place"
            )
        with contextlib.ExitStack() as arriving:
            for name in missing:
                (self.path / name).parent.mkdir(exist_ok=True)
            places = {
                name: arriving.enter_context(new_path(self.path / name, durable=False))
                for name in missing
            }
            self._fetch({name: (path, missing[name]) for name, path in places.items()})
        self._here |= missing.keys()

    def read(self, step: int, tensor: str, worker: int = 0, kind: str = "gradient") -> np.ndarray:
        if step in self.steps:
            self.require([self.steps.index(step)], [worker], [kind])
        return super().read(step, tensor, worker, kind)

    def names(self, step: int, kind: str = "gradient") -> list[str]:
        if step in self.steps:
            self.require([self.steps.index(step)], [0], [kind])
        return super().names(step, kind)

    def recorded(self) -> dict[str, tuple[int, ...]]:
        self.require(ranks=[0], kinds=["layer_input"])  # these files list the layers
        return super().recorded()

    def check(
        self,
        steps: Iterable[int] | None = None,
        ranks: Iterable[int] | None = None,
        kinds: Iterable[str] = KINDS,
        **keys: Any,
    ) -> None:
        self.require(steps, ranks, kinds)
        try:
            super().check(steps, ranks, kinds, **keys)
        except ValueError as error:
            raise ValueError(str(error).replace(str(self.path), self.source)) from None


def open_remote(url: str) -> RemoteTrace:
    """Opens a remote trace: reads its manifest; its files are fetched on request.

    Raises
    ------
    ValueError
        fsspec, or its package for the URL's protocol, is not installed; there is no trace; its
        manifest is malformed.
    OSError
        The file system cannot be read.
    """
    system, root = _file_system(url)
    url = url.rstrip("/")
    folder = TemporaryFolder()
    try:
        return _opened(system, root, url, folder)
    except BaseException:
        folder.remove()
        raise


def _opened(system: Any, root: str, url: str, folder: TemporaryFolder) -> RemoteTrace:
    place = folder.path / (PurePosixPath(root).name or "trace")
    place.mkdir()

    def fetch(places: Mapping[str, tuple[Path, int]]) -> None:
        try:
            copy_remote(
                system,
                [(f"{root}/{name}", path, size) for name, (path, size) in places.items()],
            )
        except SizeError as error:
            raise ValueError(
                f"{url}{error.place.removeprefix(root)} has {error.found} bytes, but the manifest "
                f"says {error.expected}"
            ) from None
        except FileNotFoundError as error:
            raise ValueError(
                f"{url}: a file is missing that the manifest lists: {_one_line(error)}"
            ) from None
        except Exception as error:  # noqa: BLE001  # of any file system
            raise OSError(f"{url} cannot be read: {_one_line(error)}") from None

    try:
        manifest = read_remote(system, f"{root}/manifest.json", MANIFEST_LENGTH)
    except FileNotFoundError:
        raise ValueError(f"{url} is not a trace: it has no manifest.json") from None
    except TooLargeError as error:
        raise ValueError(f"{url}/manifest.json {error}") from None
    except Exception as error:  # noqa: BLE001  # of any file system
        raise OSError(f"{url} cannot be read: {_one_line(error)}") from None
    (place / "manifest.json").write_bytes(manifest)
    try:
        core = _core.Trace.open(os.fspath(place), arriving=True)
    except ValueError as error:
        raise ValueError(str(error).replace(str(place), url)) from None
    return RemoteTrace(core, url, fetch, folder)
