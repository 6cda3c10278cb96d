"""The manifest of a trace that is being written: what it says, and committing one step after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from .._traces.json_number import json_number
from .._traces.roles import Guess, Roles, guess_role, said

Shapes = dict[str, tuple[int, ...]]


class Manifest:
    """manifest.json of the trace at `path`, replaced as a whole by every commit.

    Parameters
    ----------
    path : pathlib.Path
        The trace's folder; made if it is not there.
    resume_at : int, optional
        Go on with the trace that is there, its steps from this one on left out; by default it must hold none.
    others
        As for :class:`apscope.record.TraceWriter`.

    Attributes
    ----------
    shapes : dict or None
        Tensor name -> shape, in the manifest's order; fixed by the first committed step.
    metadata : dict
        Free texts; what changes here is written by the next commit.

    Raises
    ------
    ValueError
        An argument says what no manifest can; the folder holds a trace, or one that differs from what is to be continued.
    """

    def __init__(
        self,
        path: Path,
        *,
        workers: int,
        model: str = "",
        name: str | None = None,
        stage: str = "local",
        reduction: str = "mean",
        loss_divided_by_workers: bool = False,
        roles: Roles = None,
        metadata: Mapping[str, str] | None = None,
        resume_at: int | None = None,
    ):
        self.path, self.workers = path, workers
        if workers < 1:
            raise ValueError(f"workers is {workers}; a trace has at least 1")
        if stage not in ("local", "reduced", "clipped"):
            raise ValueError(f"stage is {stage!r}; it must be 'local', 'reduced' or 'clipped'")
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}; it must be 'mean' or 'sum'")
        for key, value in (metadata or {}).items():
            if not isinstance(value, str):
                raise ValueError(f"metadata[{key!r}] is {value!r}; it must be a string")
        there = (path / "manifest.json").exists()
        if there and resume_at is None:
            raise ValueError(f"{path} already holds a trace; record into a new folder")
        path.mkdir(parents=True, exist_ok=True)
        self.head: dict = {"schema_version": 1, **({"name": name} if name else {}), "model": model}
        self.head |= {"stage": stage, "reduction": reduction}
        self.head |= {"loss_divided_by_workers": bool(loss_divided_by_workers), "workers": workers}
        self.metadata = dict(metadata or {})
        self.shapes: Shapes | None = None
        self._roles = roles
        self._committed: list[tuple[int, str]] = []
        if there and resume_at is not None:
            self._take_over(resume_at)

    def _take_over(self, first: int) -> None:
        old = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        for key in ("workers", "stage", "reduction"):
            if old.get(key) != self.head[key]:
                raise ValueError(f"{self.path} holds a trace with {key} {old.get(key)!r}, not {self.head[key]!r}; record into a new folder")
        self.shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in old["tensors"]}
        self.metadata = {**old.get("metadata", {}), **self.metadata}
        self._committed = [(step["number"], json.dumps(step)) for step in old["steps"] if step["number"] < first]
        self._write()  # before any file of a step that is left out is touched

    @property
    def steps(self) -> list[int]:
        """Numbers of the committed steps, ascending."""
        return [number for number, _ in self._committed]

    def commit(
        self,
        step: int,
        files: Mapping[str, dict],
        *,
        loss: float | None = None,
        learning_rate: float | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """Puts `step` with its `files` (name -> ``{"bytes", "sha256"}``) into the manifest, on disk."""
        for worker in range(self.workers):
            if file_name("gradient", worker) not in files:
                raise ValueError(f"step {step} lacks the gradients of worker {worker} of {self.workers}")
        if self._committed and step <= self._committed[-1][0]:
            raise ValueError(f"step {step} is not above step {self._committed[-1][0]}, the last committed one")
        entry: dict = {"number": step}
        for key, value in (("loss", loss), ("learning_rate", learning_rate), ("loss_scale", loss_scale)):
            if value is not None:
                entry[key] = json_number(float(value))
        entry["files"] = dict(sorted(files.items()))
        self._committed.append((step, json.dumps(entry)))
        self._write()

    def _write(self) -> None:
        part = self.path / "manifest.json.part"
        part.write_text(self._text(), encoding="utf-8")
        os.replace(part, self.path / "manifest.json")

    def _text(self) -> str:
        shapes = self.shapes or {}
        roles = {name: said(self._roles, name, shape) or guess_role(name, shape) for name, shape in shapes.items()}
        # One line a tensor and a step: long manifests stay readable and compare well.
        tensors = [json.dumps({"name": name, "shape": list(shape), "role": roles[name]}) for name, shape in shapes.items()]
        head = json.dumps(self.head | {"metadata": self.metadata | _guessed(roles)}, indent=1)[:-2]
        lists = (("tensors", tensors), ("steps", [text for _, text in self._committed]))
        return head + "".join(f',\n "{key}": [\n  ' + ",\n  ".join(rows) + "\n ]" for key, rows in lists) + "\n}\n"


def _guessed(roles: Mapping[str, str], shown: int = 6) -> dict[str, str]:
    """What the metadata say of roles that were not given."""
    names = [name for name, role in roles.items() if isinstance(role, Guess)]
    if not names:
        return {}
    which = "all" if len(names) == len(roles) else f"{len(names)} of {len(roles)}: {', '.join(names[:shown])}{', ...' if len(names) > shown else ''}"
    return {"roles_guessed_by_name_and_shape": which}


def compare_shapes(found: Shapes, expected: Shapes, where: str) -> None:
    """Raises ValueError, beginning with `where`, for a tensor that is missing, new or of another shape."""
    for name, shape in expected.items():
        if name not in found:
            raise ValueError(f"{where} lacks the tensor {name!r}")
        if found[name] != shape:
            raise ValueError(f"{where}: tensor {name!r} has shape {found[name]}, before it was {shape}")
    for name in found:
        if name not in expected:
            raise ValueError(f"{where} has the tensor {name!r}, which the trace does not have")


def step_folder(path: Path, step: int) -> Path:
    """Where the files of a step lie."""
    return path / f"step_{step:08d}"


def file_name(kind: str, worker: int) -> str:
    """The file inside a step's folder that holds a kind of record."""
    if kind in ("weights", "full_batch"):
        return f"{kind}.safetensors"
    return f"{'worker' if kind == 'gradient' else 'activations_worker'}_{worker:04d}.safetensors"
