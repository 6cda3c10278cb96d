"""Recorded gradient traces: their description, and the values without a copy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from .. import _core
from .._arrays.checks import integer, made_by, of_type, text
from .._folders.reading import open_regular
from .._text import count_of

KINDS = ("gradient", "weights", "full_batch", "activation_gradient", "layer_input")
#: Files with fewer bytes are read one after the other: starting threads would take longer.
_ALONE = 2**25
#: Names of a kind's files, if they differ from the kind's name.
_FILES = {"gradient": "worker", "activation_gradient": "activations", "layer_input": "activations"}


class Trace:
    """A recorded trace; made by :func:`open_trace`.

    Attributes
    ----------
    path : pathlib.Path
        The trace's folder; for a remote trace the temporary folder of fetched files.
    source : str
        The folder or URL from which it was opened.
    manifest
        The content of the manifest, by attribute: ``model``, ``stage``, ``reduction``,
        ``loss_divided_by_workers``, ``workers``, ``metadata``, ``tensors`` (name, shape, role,
        size) and ``steps`` (number, loss, learning_rate, loss_scale, files).
    """

    @made_by("a Trace is made by apscope.open_trace, not by its constructor")
    def __init__(self, core: _core.Trace):
        self.core = of_type(
            "core", core, _core.Trace, "nothing to this class: apscope.open_trace opens a trace"
        )
        self.manifest = core.manifest
        self.path = Path(core.path)
        self.source = str(self.path)
        # Checked files, with their stamps before reading.
        self._checked: dict[Path, tuple[int, ...]] = {}

    @property
    def name(self) -> str:
        """The manifest's name, else the folder's."""
        return self.manifest.name

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Recorded step numbers, ascending."""
        return tuple(step.number for step in self.manifest.steps)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Tensor names, in the manifest's order."""
        return tuple(tensor.name for tensor in self.manifest.tensors)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Tensor name -> shape."""
        return {tensor.name: tensor.shape for tensor in self.manifest.tensors}

    @cached_property
    def roles(self) -> dict[str, str]:
        """Tensor name -> role: conv, linear, attention, norm, bias, embedding, head or other."""
        return {tensor.name: tensor.role for tensor in self.manifest.tensors}

    @property
    def workers(self) -> int:
        """Number of workers W; ranks are 0 to W-1."""
        return self.manifest.workers

    @cached_property
    def hash(self) -> str:
        """SHA-256 of manifest.json, which contains the SHA-256 of every file of the trace."""
        return hashlib.sha256(self.core.manifest_bytes).hexdigest()

    def require(
        self,
        steps: Iterable[int] | None = None,
        ranks: Iterable[int] | None = None,
        kinds: Iterable[str] = KINDS,
    ) -> None:
        """Makes files of these kinds, step indices and ranks available; local files already are."""

    def read(self, step: int, tensor: str, worker: int = 0, kind: str = "gradient") -> np.ndarray:
        """One recorded tensor.

        Parameters
        ----------
        step : int
            A recorded step number (not an index).
        tensor : str
            A tensor's name; for the two activation kinds a layer's name (see :meth:`names`).
        worker : int
            Rank, from 0; ignored for ``weights`` and ``full_batch``, which exist once per step.
        kind : {"gradient", "weights", "full_batch", "activation_gradient", "layer_input"}

        Returns
        -------
        numpy.ndarray
            float32, read-only. A view of the memory-mapped file if the file has fp32; fp16 and bf16
            are widened, which is exact. The view stays valid after the trace is deleted.

        Raises
        ------
        ValueError
            The trace has no such step, worker, tensor or kind; or a file disagrees with the
            manifest; or the file has fp64 values that are not fp32 values.
        """
        step, worker = integer("step", step, 0, 2**63 - 1), integer("worker", worker, 0, 2**31 - 1)
        return self.core.read(step, text("tensor", tensor), worker, text("kind", kind))

    def names(self, step: int, kind: str = "gradient") -> list[str]:
        """Names recorded as `kind` at `step`, sorted; empty if the kind was not recorded."""
        if step not in self.steps:
            raise ValueError(
                f"{self.path}: step {step} was not recorded; recorded are {_few(self.steps)}"
            )
        return self.core.names(self.steps.index(step), text("kind", kind))

    def recorded(self) -> dict[str, tuple[int, ...]]:
        """Kind of record -> the step numbers that have it."""
        return {
            kind: tuple(n for i, n in enumerate(self.steps) if self.core.has(i, kind))
            for kind in KINDS
        }

    def files(
        self,
        steps: Iterable[int] | None = None,
        ranks: Iterable[int] | None = None,
        kinds: Iterable[str] = KINDS,
    ) -> Iterator[tuple[Path, int, str]]:
        """Path, size in bytes and SHA-256 of files, from the manifest.

        Of these kinds, step indices and ranks; by default of all.

        Raises
        ------
        ValueError
            There is no such kind, index or rank.
        """
        kinds = tuple(kinds)
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"unknown kind {unknown[0]!r}; it must be one of {', '.join(KINDS)}")
        files = {_FILES.get(kind, kind) for kind in kinds}
        of_ranks = (
            None if ranks is None else {integer("rank", r, 0, self.workers - 1) for r in ranks}
        )
        at = list(self.manifest.steps)
        if steps is not None:
            at = [at[integer("step's index", i, 0, len(at) - 1)] for i in steps]
        for step in at:
            for file in step.files:
                match = re.fullmatch(
                    r"(activations|worker)_(?:worker_)?(\d+)\.safetensors", file.name
                )
                kind = match[1] if match else file.name.removesuffix(".safetensors")
                if kind in files and (not match or of_ranks is None or int(match[2]) in of_ranks):
                    path = self.path / f"step_{step.number:08d}" / file.name
                    yield path, file.bytes, file.sha256

    def check(
        self,
        steps: Iterable[int] | None = None,
        ranks: Iterable[int] | None = None,
        kinds: Iterable[str] = KINDS,
        *,
        threads: int = 0,
        update: Callable[[int, int], None] | None = None,
    ) -> None:
        """Compares :meth:`files` with their SHA-256; correct files are not read again.

        Parameters
        ----------
        steps, ranks, kinds
            As for :meth:`files`.
        threads : int
            0 uses all of the machine's.
        update : callable, optional
            Called with the number of bytes done, and the total.

        Raises
        ------
        ValueError
            A file differs from the manifest; the message names it.
        """
        files = dict.fromkeys(self.files(steps, ranks, kinds))  # a step may be given twice
        left = [file for file in files if self._checked.get(file[0]) != _stamp(file[0])]
        done, total = 0, sum(size for _, size, _ in left)
        stamps = {path: _stamp(path) for path, _, _ in left}
        digests = _sha256_of_all(list(stamps), 1 if total < _ALONE else threads)
        for (path, size, sha256), digest in zip(left, digests):
            if digest != sha256:
                raise ValueError(
                    f"{path}: its SHA-256 is {digest}, but the manifest "
                    f"says {sha256}; the file is damaged"
                )
            self._checked[path] = stamps[path]
            done += size
            if update is not None:
                update(done, total)

    def check_unchanged(self) -> None:
        """Checks that the files that were read or compared have not changed since.

        Raises
        ------
        ValueError
            One was changed, truncated or deleted; the message names it.
        """
        for path, stamp in self._checked.items():
            if _stamp(path) != stamp:
                raise ValueError(
                    f"{path} changed while it was read; open the trace and repeat this when "
                    "nothing writes to it"
                )
        self.core.check_unchanged()

    def __repr__(self) -> str:
        return (
            f"<Trace {self.name!r}: {count_of(len(self.steps), 'step')}, "
            f"{count_of(self.workers, 'worker')}, {count_of(len(self.tensors), 'tensor')}, stage "
            f"{self.manifest.stage}, reduction {self.manifest.reduction}>"
        )

    def _repr_html_(self) -> str:
        from .show import trace_html

        return trace_html(self)


def _stamp(path: Path) -> tuple[int, ...]:
    """A stamp that changes with the file; empty if there is none."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return ()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _sha256_of_all(paths: list[Path], threads: int) -> Iterator[str]:
    if threads == 1:
        yield from map(_sha256_of, paths)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads or _core.usable_processors()) as pool:
        try:
            yield from pool.map(_sha256_of, paths)
        finally:
            pool.shutdown(cancel_futures=True)


def _sha256_of(path: Path) -> str:
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _few(values: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, values[:8]))
    return shown + (", ..." if len(values) > 8 else "")
