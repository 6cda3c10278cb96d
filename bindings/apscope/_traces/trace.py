"""Recorded gradient traces: what was recorded, and the values without a copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from .. import _core

KINDS = ("gradient", "weights", "full_batch", "activation_gradient", "layer_input")


class Trace:
    """A recorded trace; made by :func:`open_trace`.

    Attributes
    ----------
    path : pathlib.Path
        The trace's folder; of a trace elsewhere the temporary one that its files are fetched into.
    source : str
        Where it was opened: the folder, or the URL.
    manifest
        Everything the manifest says, by attribute: ``model``, ``stage``, ``reduction``,
        ``loss_divided_by_workers``, ``workers``, ``metadata``, ``tensors`` (name, shape, role, size)
        and ``steps`` (number, loss, learning_rate, loss_scale, files).
    """

    def __init__(self, core: _core.Trace):
        self.core = core
        self.manifest = core.manifest
        self.path = Path(core.path)
        self.source = str(self.path)

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
        """SHA-256 of manifest.json, which holds the SHA-256 of every file of the trace."""
        return hashlib.sha256(self.core.manifest_bytes).hexdigest()

    def require(self, steps: Iterable[int] | None = None, ranks: Iterable[int] | None = None, kinds: Iterable[str] = KINDS) -> None:
        """Sees to it that the files of these kinds are here, of steps by their indices and of ranks; by default all. Here they are."""

    def read(self, step: int, tensor: str, worker: int = 0, kind: str = "gradient") -> np.ndarray:
        """One recorded tensor.

        Parameters
        ----------
        step : int
            A recorded step number (not an index).
        tensor : str
            A tensor's name; for the two activation kinds a layer's name (see :meth:`names`).
        worker : int
            Rank, from 0; ignored for ``weights`` and ``full_batch``, which exist once a step.
        kind : {"gradient", "weights", "full_batch", "activation_gradient", "layer_input"}

        Returns
        -------
        numpy.ndarray
            float32, read-only. A view of the memory-mapped file where the file holds fp32; fp16 and
            bf16 are widened, which is exact. The view stays valid after the trace is gone.

        Raises
        ------
        ValueError
            The trace has no such step, worker, tensor or kind; or a file disagrees with the
            manifest; or the file holds fp64 values that are no fp32 values.
        """
        return self.core.read(step, tensor, worker, kind)

    def names(self, step: int, kind: str = "gradient") -> list[str]:
        """Names recorded under `kind` at `step`, sorted; empty where the kind was not recorded."""
        if step not in self.steps:
            raise ValueError(f"{self.path}: step {step} was not recorded; recorded are {_few(self.steps)}")
        return self.core.names(self.steps.index(step), kind)

    def recorded(self) -> dict[str, tuple[int, ...]]:
        """Kind of record -> the step numbers that have it."""
        return {kind: tuple(n for i, n in enumerate(self.steps) if self.core.has(i, kind)) for kind in KINDS}

    def files(self) -> Iterator[tuple[Path, int, str]]:
        """Path, size in bytes and SHA-256 of every file, as the manifest gives them."""
        for step in self.manifest.steps:
            for file in step.files:
                yield self.path / f"step_{step.number:08d}" / file.name, file.bytes, file.sha256

    def check_file(self, path: Path, sha256: str) -> None:
        """Raises ValueError if the file at `path` has another SHA-256 than `sha256`."""
        with open(path, "rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(f"{path}: its SHA-256 is {found}, but the manifest says {sha256}")

    def __repr__(self) -> str:
        return (
            f"<Trace {self.name!r}: {len(self.steps)} steps, {self.workers} workers, "
            f"{len(self.tensors)} tensors, stage {self.manifest.stage}, reduction {self.manifest.reduction}>"
        )

    def _repr_html_(self) -> str:
        from .show import trace_html

        return trace_html(self)


def _few(values: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, values[:8]))
    return shown + (", ..." if len(values) > 8 else "")
