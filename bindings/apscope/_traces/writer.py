"""TraceWriter: writes a trace step by step, readable after every step."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .._arrays.checks import integer
from .._folders.lock import HeldError, Lock
from .._folders.names import fresh, stem
from .._folders.one_file import make_folder
from .._limits import NAME_LENGTH
from .._text import clip
from .manifest import (
    Manifest,
    compare_shapes,
    file_name,
    lock_of_trace,
    remove_half,
    remove_uncommitted,
    step_folder,
)
from .roles import Roles
from .safetensors import storable, write_safetensors

_PER_STEP = ("weights", "full_batch")
_PER_LAYER = ("activation_gradient", "layer_input")


class TraceWriter:
    """Writes a trace (docs/trace_format.md) without any framework.

    A step is committed by :meth:`end_step`: its files are written under hidden names and renamed,
    and once they are on the disk the manifest is replaced. After a kill at any moment, the folder
    has a readable trace of every committed step, or, if not `durable`, of the first ones.

    **One at a time.** A writer holds the folder's lock from its first commit until :meth:`close`,
    or its end; another writer or recorder that tries to commit gets an error that names the holder.
    Several processes may make one trace: each makes a writer on the folder, calls
    :meth:`write_files` for its workers, and sends the result to one of them, which alone calls
    :meth:`commit`. Only then are the files renamed, so files of another job in the folder are never
    included.

    Parameters
    ----------
    path : path-like
        The trace's folder; made if it does not exist. It must not have a trace.
    workers : int
        Number of data-parallel workers W; every worker must record every tensor at every step.
    model : str
        Free text.
    name : str, optional
        The trace's name in reports; by default the folder's name.
    stage : {"local", "reduced", "clipped"}
        Where gradients were taken: before the all-reduce, after it, or after clipping too.
    reduction : {"mean", "sum"}
        How training combined the workers' gradients.
    loss_divided_by_workers : bool
        Whether each worker's loss was divided by W before its gradient was taken.
    roles : mapping or callable, optional
        Tensor name, or a pattern of names such as ``tok*``, -> role; or ``roles(name, shape)``.
        Other roles are guessed from name and shape, which the metadata state.
    metadata : mapping of str to str, optional
        How the trace was recorded; free text.
    sampled_from : mapping of str to int, optional
        Of tensors of which a sample is written: the elements of the whole. A replay's counts and
        sums are then those of the whole, as the sample tells them.
    resume : bool
        Continue after the steps of an existing trace with the same workers, stage and reduction.
    durable : bool
        Wait at every step until it is on the disk, and lock the folder. Otherwise a power failure
        may lose files that the manifest lists, and until :meth:`close` the manifest may lack the
        steps of the last second, or of 20 times the time to write it; for callers that alone use
        the folder, and sync it at the end.

    Examples
    --------
    >>> with TraceWriter("run", workers=2, reduction="mean") as writer:   # doctest: +SKIP
    ...     for worker in range(2):
    ...         writer.add(0, worker, "fc.weight", gradients[worker])
    ...     writer.end_step(0, loss=2.3, learning_rate=0.1)
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        workers: int,
        model: str = "",
        name: str | None = None,
        stage: str = "local",
        reduction: str = "mean",
        loss_divided_by_workers: bool = False,
        roles: Roles = None,
        metadata: Mapping[str, str] | None = None,
        sampled_from: Mapping[str, int] | None = None,
        resume: bool = False,
        durable: bool = True,
    ):
        self._manifest = Manifest(
            Path(path),
            workers=workers,
            model=model,
            name=name,
            stage=stage,
            reduction=reduction,
            loss_divided_by_workers=loss_divided_by_workers,
            roles=roles,
            metadata=metadata,
            sampled_from=sampled_from,
            resume_at=sys.maxsize if resume else None,
            durable=durable,
        )
        self.path, self.workers, self._durable = self._manifest.path, workers, durable
        self._lock: Lock | None = None
        self._step: int | None = None
        # (kind, worker) -> name -> values
        self._pending: dict[tuple[str, int], dict[str, np.ndarray]] = {}
        if resume and durable:
            # Removes the lock of a killed process, even if nothing is recorded.
            with contextlib.suppress(HeldError, OSError):
                (left := lock_of_trace(self.path, "apscope.record.TraceWriter")).take(
                    os.fspath(self.path)
                )
                left.let_go()

    @property
    def committed(self) -> tuple[int, ...]:
        """Numbers of the committed steps."""
        return tuple(self._manifest.steps)

    def add(self, step: int, worker: int, name: str, array: object, kind: str = "gradient") -> None:
        """Copies one tensor of the current step.

        Parameters
        ----------
        step : int
            The training step's number, 0 to 2^63 - 1, above every committed one.
        worker : int
            Rank, from 0; ignored for ``weights`` and ``full_batch``, which exist once per step.
        name : str
            The parameter's dotted name; for the activation kinds the layer's.
        array : array-like
            Anything NumPy reads, and PyTorch tensors on any device. float32, float16 and bfloat16
            are stored as they are, fp8 as float16 (E8M0 as float32), other real dtypes as float32
            if every element is an fp32 value, complex numbers (...) as pairs (..., 2).
        kind : {"gradient", "weights", "full_batch", "activation_gradient", "layer_input"}

        Raises
        ------
        ValueError
            Another step is open, the step is committed, the tensor was added already, the worker or
            kind does not exist, the step is out of range, the values are not fp32 values, or
            there are more of them than `sampled_from` says, or none.
        TypeError
            Step or worker is not an integer; a masked array, whose mask a trace cannot keep.
        """
        what = f"{kind} {name!r} of step {step}, worker {worker},"
        if kind not in ("gradient", *_PER_STEP, *_PER_LAYER):
            raise ValueError(f"unknown kind {kind!r} for {name!r}")
        worker = integer("worker", worker, 0, self.workers - 1)
        step = integer("step", step, 0, 2**63 - 1)
        if self._step is None:
            lowest = self._manifest.last + 1
            if step < lowest:
                raise ValueError(
                    f"step {step} must be {lowest} or more; steps are recorded in ascending order"
                )
            self._step = step
        elif step != self._step:
            raise ValueError(f"step {self._step} must be ended before step {step} begins")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"the name {name!r} contains half a surrogate pair, "
                "which cannot be stored; remove it"
            ) from None
        if len(name.encode()) > NAME_LENGTH:
            raise ValueError(
                f"the name {clip(name)!r} has {len(name.encode())} bytes; names in a trace have at "
                f"most {NAME_LENGTH}"
            )
        if name == "__metadata__" and kind not in _PER_LAYER:
            raise ValueError(
                f"the name {name!r} is reserved in safetensors files for their metadata; give "
                "another name"
            )
        group = self._pending.setdefault((kind, 0 if kind in _PER_STEP else worker), {})
        if name in group:
            raise ValueError(f"{what} was added twice")
        values = storable(array, what)
        if kind == "gradient":
            self._manifest.check_sample(name, values.size)
        group[name] = values

    def write_files(self, step: int) -> dict[str, dict]:
        """Writes the tensors added for `step` and returns file name -> ``{"bytes", "sha256"}``.

        The files have hidden names until :meth:`commit` lists them. Processes that record one
        worker each call this, send the result to one of them, and that one commits.

        Raises
        ------
        ValueError
            Nothing was added for the step, or names or shapes of tensors differ from those of the
            first.
        """
        return self._write(step, at_once=False)

    def _write(self, step: int, *, at_once: bool) -> dict[str, dict]:
        if step != self._step:
            raise ValueError(f"nothing was added for step {step}")
        shapes: dict[str, tuple[int, ...]] = {}
        gradients = [key for key in self._pending if key[0] == "gradient"]
        for kind, worker in gradients + [(kind, 0) for kind in _PER_STEP]:
            if tensors := self._pending.get((kind, worker)):
                here = {name: array.shape for name, array in tensors.items()}
                what = f"worker {worker}" if kind == "gradient" else kind
                expected = self._manifest.shapes or shapes or here
                compare_shapes(here, expected, f"{what} at step {step}")
                shapes = here if kind == "gradient" else shapes
        folder = step_folder(self.path, step)
        make_folder(folder)
        contents: dict[str, tuple[dict[str, np.ndarray], dict[str, str]]] = {}
        for (kind, worker), tensors in self._pending.items():
            about = {"step": str(step), "stage": str(self._manifest.head["stage"])}
            about |= {} if kind in _PER_STEP else {"worker": str(worker)}
            prefix = f"{kind}/" if kind in _PER_LAYER else ""
            content, _ = contents.setdefault(file_name(kind, worker), ({}, about))
            content |= {prefix + name: array for name, array in tensors.items()}
        files = {}
        for name in sorted(contents):
            place = folder / (name if at_once else fresh(name))
            files[name] = write_safetensors(place, *contents[name], durable=self._durable)
            if not at_once:
                os.replace(place, _waits_at(folder, name, files[name]))
        self._manifest.shapes = self._manifest.shapes or shapes
        self._pending, self._step = {}, None
        return files

    def commit(
        self,
        step: int,
        files: Mapping[str, dict],
        *,
        loss: float | None = None,
        learning_rate: float | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """Adds `step` with its `files` (from :meth:`write_files`) to the manifest.

        Raises
        ------
        ValueError
            A worker's file is missing, the step is not above the last one, another process records
            into the folder, or this one wrote no gradients, so it does not know the tensors.
        """
        self._hold()
        self._manifest.check(step, files)
        folder = step_folder(self.path, step)
        for name, file in files.items():
            if (waits := _waits_at(folder, name, file)).exists():
                os.replace(waits, folder / name)
            if not (folder / name).is_file() or (folder / name).stat().st_size != file["bytes"]:
                raise ValueError(
                    f"{folder / name} of {file['bytes']} bytes is missing; write_files writes it, "
                    "into the same folder"
                )
        self._manifest.commit(
            step, files, loss=loss, learning_rate=learning_rate, loss_scale=loss_scale
        )
        remove_half(self.path, step)

    def _hold(self) -> None:
        """Takes the folder's lock, once."""
        if not self._durable:
            return  # the caller locks the whole folder
        if self._lock is None:
            lock = lock_of_trace(self.path, "apscope.record.TraceWriter")
            # Another process of this job may be starting.
            lock.take(os.fspath(self.path), patience=1)
            try:
                self._manifest.check_own()
            except BaseException:
                lock.let_go()
                raise
            self._lock, self._let_go = lock, weakref.finalize(self, lock.let_go)
        elif not self._lock.held:
            raise ValueError(
                f"{self.path} was removed, or another process uses it now; record into a new folder"
            )

    def end_step(
        self,
        step: int,
        *,
        loss: float | None = None,
        learning_rate: float | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """Writes and commits `step`; afterwards the step is in the trace permanently.

        Parameters
        ----------
        loss, learning_rate : float, optional
            The step's mean loss over the workers, and its learning rate.
        loss_scale : float, optional
            The factor still in the recorded gradients, if the loss was scaled.

        Raises
        ------
        ValueError
            A worker is missing, its tensors' names or shapes differ from the first's, or another
            process records into the folder; then nothing is written.
        """
        self._manifest.check_workers(step, lambda w: ("gradient", w) in self._pending)
        self._hold()
        files = self._write(step, at_once=True)
        self.commit(step, files, loss=loss, learning_rate=learning_rate, loss_scale=loss_scale)

    def close(self) -> None:
        """Drops an unfinished step, releases the folder; if not `durable`, writes the manifest."""
        self._pending, self._step = {}, None
        if self._lock is None:
            if not self._durable:  # only the caller uses the folder
                self._manifest.end()
                # An interrupted commit may be in the manifest.
                remove_uncommitted(self.path, self.committed, complete=False)
            return
        if self._lock.held:
            remove_uncommitted(self.path, self.committed, complete=False)
        self._let_go()
        self._lock = None

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _waits_at(folder: Path, name: str, file: Mapping[str, str]) -> Path:
    """The hidden name of a file with this digest before its commit."""
    return folder / f"{stem(name)}{file['sha256'][:8]}"
