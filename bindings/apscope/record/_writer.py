"""TraceWriter: writes a trace step by step, readable after every step."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .._traces.roles import guess_role
from ._safetensors import storable, write_safetensors

_PER_STEP = ("weights", "full_batch")
_PER_LAYER = ("activation_gradient", "layer_input")


class TraceWriter:
    """Writes a trace (docs/trace_format.md) without any framework.

    A step is committed by :meth:`end_step`: its files are written beside their places and renamed,
    then the manifest is replaced. Killed at any moment, the folder holds a readable trace of every
    committed step.

    Parameters
    ----------
    path : path-like
        The trace's folder; made if it is not there. It must not hold a trace.
    workers : int
        Number of data-parallel workers W; every worker must record every tensor at every step.
    model : str
        Free text.
    name : str, optional
        What reports call the trace; the folder's name where it is not given.
    stage : {"local", "reduced", "clipped"}
        Where gradients were taken: before the all-reduce, after it, or after clipping too.
    reduction : {"mean", "sum"}
        What training did with the workers' gradients.
    loss_divided_by_workers : bool
        Whether each worker's loss was divided by W before its gradient was taken.
    roles : mapping or callable, optional
        Tensor name -> role, or ``roles(name, shape)``; guessed from the name where it says nothing.
    metadata : mapping of str to str, optional
        How the trace was recorded; free text.
    resume : bool
        Go on with the trace that `path` holds, if it is there: it must have been begun with the same arguments.

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
        roles: Mapping[str, str] | Callable[[str, tuple[int, ...]], str | None] | None = None,
        metadata: Mapping[str, str] | None = None,
        resume: bool = False,
    ):
        self.path = Path(path)
        if workers < 1:
            raise ValueError(f"workers is {workers}; a trace has at least 1")
        if stage not in ("local", "reduced", "clipped"):
            raise ValueError(f"stage is {stage!r}; it must be 'local', 'reduced' or 'clipped'")
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}; it must be 'mean' or 'sum'")
        for key, value in (metadata or {}).items():
            if not isinstance(value, str):
                raise ValueError(f"metadata[{key!r}] is {value!r}; it must be a string")
        if (self.path / "manifest.json").exists() and not resume:
            raise ValueError(f"{self.path} already holds a trace; record into a new folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self.workers = workers
        self._head = {"schema_version": 1, **({"name": name} if name else {}), "model": model}
        self._head |= {"stage": stage, "reduction": reduction}
        self._head |= {"loss_divided_by_workers": bool(loss_divided_by_workers), "workers": workers}
        self._head |= {"metadata": dict(metadata or {})}
        self._roles = roles
        self._shapes: dict[str, tuple[int, ...]] | None = None  # fixed by the first committed step
        self._step: int | None = None
        self._pending: dict[tuple[str, int], dict[str, np.ndarray]] = {}  # (kind, worker) -> name -> values
        self._committed: list[tuple[int, str]] = []
        if (self.path / "manifest.json").exists():
            self._go_on()

    @property
    def committed(self) -> tuple[int, ...]:
        """Numbers of the steps that are in the trace for good."""
        return tuple(number for number, _ in self._committed)

    def _go_on(self) -> None:
        """Takes up the trace that is there, and holds this writer's arguments to it."""
        manifest = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        for key, value in self._head.items():
            if manifest.get(key) != value:
                raise ValueError(f"{self.path} holds a trace whose {key} is {manifest.get(key)!r}, not {value!r}; record into a new folder")
        self._shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in manifest["tensors"]}
        self._committed = [(step["number"], json.dumps(step)) for step in manifest["steps"]]

    def add(self, step: int, worker: int, name: str, array: object, kind: str = "gradient") -> None:
        """Copies one tensor of the step that is being recorded.

        Parameters
        ----------
        step : int
            The training step's number, above every committed one.
        worker : int
            Rank, from 0; ignored for ``weights`` and ``full_batch``, which exist once a step.
        name : str
            The parameter's dotted name; for the activation kinds the layer's.
        array : array-like
            Anything NumPy reads. float32, float16 and bfloat16 are stored as they are, other real
            dtypes as float32 where every element is an fp32 value.
        kind : {"gradient", "weights", "full_batch", "activation_gradient", "layer_input"}

        Raises
        ------
        ValueError
            Another step is open, the step is committed, the tensor was added already, the worker or
            kind does not exist, or the values are no fp32 values.
        """
        what = f"{kind} {name!r} of step {step}, worker {worker},"
        if kind not in ("gradient", *_PER_STEP, *_PER_LAYER):
            raise ValueError(f"unknown kind {kind!r} for {name!r}")
        if not 0 <= worker < self.workers:
            raise ValueError(f"worker {worker} is not one of 0 to {self.workers - 1}")
        if self._step is None:
            if step < 0 or (self._committed and step <= self._committed[-1][0]):
                lowest = self._committed[-1][0] + 1 if self._committed else 0
                raise ValueError(f"step {step} must be {lowest} or more; steps are recorded in ascending order")
            self._step = step
        elif step != self._step:
            raise ValueError(f"step {self._step} must be ended before step {step} begins")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {name!r} holds half a surrogate pair, which no file can hold; give it without") from None
        group = self._pending.setdefault((kind, 0 if kind in _PER_STEP else worker), {})
        if name in group:
            raise ValueError(f"{what} was added twice")
        group[name] = storable(array, what)

    def write_files(self, step: int) -> dict[str, dict]:
        """Writes what was added for `step` and returns file name -> ``{"bytes", "sha256"}``.

        The files belong to the trace only once :meth:`commit` lists them. Processes that record one
        worker each call this, send the result to one of them, and that one commits.
        """
        if step != self._step:
            raise ValueError(f"nothing was added for step {step}")
        shapes: dict[str, tuple[int, ...]] = {}
        for (kind, worker), tensors in self._pending.items():
            if kind == "gradient":
                found = {name: array.shape for name, array in tensors.items()}
                self._compare(found, self._shapes or shapes or found, f"worker {worker} at step {step}")
                shapes = found
        for kind in _PER_STEP:
            if whole := self._pending.get((kind, 0)):
                found = {name: array.shape for name, array in whole.items()}
                self._compare(found, self._shapes or shapes or found, f"{kind} at step {step}")
        folder = self.path / f"step_{step:08d}"
        folder.mkdir(exist_ok=True)
        contents: dict[str, tuple[dict[str, np.ndarray], dict[str, str]]] = {}
        for (kind, worker), tensors in self._pending.items():
            about = {"step": str(step), "stage": str(self._head["stage"])}
            about |= {} if kind in _PER_STEP else {"worker": str(worker)}
            prefix = f"{kind}/" if kind in _PER_LAYER else ""
            content, _ = contents.setdefault(_file_name(kind, worker), ({}, about))
            content |= {prefix + name: array for name, array in tensors.items()}
        files = {name: write_safetensors(folder / name, *contents[name]) for name in sorted(contents)}
        self._shapes = self._shapes or shapes
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
        """Puts `step` with its `files` (as :meth:`write_files` gives them) into the manifest."""
        for worker in range(self.workers):
            if _file_name("gradient", worker) not in files:
                raise ValueError(f"step {step} lacks the gradients of worker {worker} of {self.workers}")
        if self._committed and step <= self._committed[-1][0]:
            raise ValueError(f"step {step} is not above step {self._committed[-1][0]}, the last committed one")
        entry: dict = {"number": step}
        for key, value in (("loss", loss), ("learning_rate", learning_rate), ("loss_scale", loss_scale)):
            if value is not None:
                entry[key] = json_number(float(value))
        entry["files"] = dict(sorted(files.items()))
        self._committed.append((step, json.dumps(entry)))
        part = self.path / "manifest.json.part"
        part.write_text(self._manifest(), encoding="utf-8")
        os.replace(part, self.path / "manifest.json")

    def end_step(
        self,
        step: int,
        *,
        loss: float | None = None,
        learning_rate: float | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """Writes and commits `step`; after it the step is in the trace for good.

        Parameters
        ----------
        loss, learning_rate : float, optional
            The step's mean loss over the workers, and the learning rate in force.
        loss_scale : float, optional
            The factor still in the recorded gradients, where they are of a scaled loss.

        Raises
        ------
        ValueError
            A worker is missing, or its tensors' names or shapes differ from the first's; nothing is
            written then.
        """
        for worker in range(self.workers):
            if ("gradient", worker) not in self._pending:
                raise ValueError(f"step {step} lacks the gradients of worker {worker} of {self.workers}")
        self.commit(step, self.write_files(step), loss=loss, learning_rate=learning_rate, loss_scale=loss_scale)

    def close(self) -> None:
        """Forgets a step that was begun and not ended; committed steps are on disk already."""
        self._pending, self._step = {}, None

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _compare(self, found: dict, expected: dict, where: str) -> None:
        for name, shape in expected.items():
            if name not in found:
                raise ValueError(f"{where} lacks the tensor {name!r}")
            if found[name] != shape:
                raise ValueError(f"{where}: tensor {name!r} has shape {found[name]}, before it was {shape}")
        for name in found:
            if name not in expected:
                raise ValueError(f"{where} has the tensor {name!r}, which the trace does not have")

    def _role(self, name: str, shape: tuple[int, ...]) -> str:
        given = self._roles(name, shape) if callable(self._roles) else (self._roles or {}).get(name)
        return given or guess_role(name, shape)

    def _manifest(self) -> str:
        # One line a tensor and a step: long manifests stay readable and compare well.
        tensors = [json.dumps({"name": name, "shape": list(shape), "role": self._role(name, shape)}) for name, shape in (self._shapes or {}).items()]
        head = json.dumps(self._head, indent=1)[:-2]
        lists = (("tensors", tensors), ("steps", [text for _, text in self._committed]))
        return head + "".join(f',\n "{key}": [\n  ' + ",\n  ".join(rows) + "\n ]" for key, rows in lists) + "\n}\n"


def _file_name(kind: str, worker: int) -> str:
    if kind in _PER_STEP:
        return f"{kind}.safetensors"
    return f"{'worker' if kind == 'gradient' else 'activations_worker'}_{worker:04d}.safetensors"


def json_number(value: float) -> float | str:
    """The number, or the trace format's word for one that JSON has no word for."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
