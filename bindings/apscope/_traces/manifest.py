"""The manifest of a trace that is being written: its content, and commits step by step."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from .._folders.durable import sync_folder
from .._folders.json import parse_json
from .._folders.lock import Lock
from .._folders.names import lock_of, waiting
from .._folders.one_file import put_text, remove_left
from .._folders.reading import read_limited
from .._limits import MANIFEST_LENGTH, WORKERS
from .json_number import json_number
from .roles import Guess, Roles, given_role, guess_role

Shapes = dict[str, tuple[int, ...]]


class Manifest:
    """manifest.json of the trace at `path`, replaced as a whole by commits.

    Parameters
    ----------
    path : pathlib.Path
        The trace's folder; made if it does not exist.
    resume_at : int, optional
        Continue the existing trace, without its steps from this one on; by default there must be
        none.
    durable : bool
        The files of a step, and then the manifest, are on the disk when its commit returns.
        Otherwise a commit within a second of the last write leaves the manifest to a later one, or
        to `end`: rewriting all steps at each commit would take quadratic time.
    others
        As for :class:`apscope.record.TraceWriter`.

    Attributes
    ----------
    shapes : dict or None
        Tensor name -> shape, in the manifest's order; fixed by the first committed step.
    metadata : dict
        Free texts; changes are written by the next commit.

    Raises
    ------
    ValueError
        An argument is invalid in a manifest; the folder has a trace, or one that differs from the
        one to be continued.
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
        sampled_from: Mapping[str, int] | None = None,
        resume_at: int | None = None,
        durable: bool = True,
    ):
        self.path, self.workers, self._durable = path, workers, durable
        if not 1 <= workers <= WORKERS:
            raise ValueError(f"workers is {workers}; a trace has from 1 to {WORKERS}")
        if stage not in ("local", "reduced", "clipped"):
            raise ValueError(f"stage is {stage!r}; it must be 'local', 'reduced' or 'clipped'")
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}; it must be 'mean' or 'sum'")
        for key, value in (metadata or {}).items():
            if not isinstance(value, str):
                raise ValueError(f"metadata[{key!r}] is {value!r}; it must be a string")
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is not a folder; give another name for the trace")
        self._read = self._bytes()
        exists = self._read is not None
        if exists and resume_at is None:
            raise ValueError(f"{path} already has a trace; record into a new folder")
        path.mkdir(parents=True, exist_ok=True)
        self.head: dict = {"schema_version": 1, **({"name": name} if name else {}), "model": model}
        self.head |= {"stage": stage, "reduction": reduction}
        self.head |= {"loss_divided_by_workers": bool(loss_divided_by_workers), "workers": workers}
        self.metadata = dict(metadata or {})
        self._whole = dict(sampled_from or {})
        self.shapes: Shapes | None = None
        self._roles = roles
        self._committed: list[tuple[int, str]] = []
        #: Steps of a resumed trace that the file still lists, until the first new one is written.
        self.outdated: list[int] = []
        # Steps that the file lists, and when it may be written again.
        self._listed, self._next = 0, 0.0
        if exists and resume_at is not None:
            self._take_over(resume_at)

    def _bytes(self) -> bytes | None:
        try:
            return read_limited(self.path / "manifest.json", MANIFEST_LENGTH)
        except FileNotFoundError:
            return None

    def check_own(self) -> None:
        """Raises ValueError if another process has written the manifest since this one did."""
        if self._bytes() != self._read:
            raise ValueError(
                f"{self.path} now has another trace, written by another "
                "process; record into a new folder"
            )

    def _take_over(self, first: int) -> None:
        try:
            old = parse_json(self._read or b"", MANIFEST_LENGTH)
        except ValueError as error:
            raise ValueError(
                f"{self.path / 'manifest.json'}: {error}; record into a new folder"
            ) from None
        for key in ("workers", "stage", "reduction"):
            if old.get(key) != self.head[key]:
                raise ValueError(
                    f"{self.path} has a trace with {key} {old.get(key)!r}, not {self.head[key]!r}; "
                    "record into a new folder"
                )
        self.shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in old["tensors"]}
        self.metadata = {**old.get("metadata", {}), **self.metadata}
        self._whole |= {t["name"]: t["sampled_from"] for t in old["tensors"] if "sampled_from" in t}
        steps = [(step["number"], json.dumps(step)) for step in old["steps"]]
        self._committed = [step for step in steps if step[0] < first]
        self.outdated = [number for number, _ in steps if number >= first]
        self._listed = len(steps)

    def drop_outdated(self) -> None:
        """Takes the steps that new ones replace out of the file, before their files change."""
        if self.outdated:
            self.outdated = []
            self._write()

    @property
    def steps(self) -> list[int]:
        """Numbers of the committed steps, ascending."""
        return [number for number, _ in self._committed]

    @property
    def last(self) -> int:
        """Number of the last committed step; -1 if there is none."""
        return self._committed[-1][0] if self._committed else -1

    def check_workers(self, step: int, is_there: Callable[[int], bool]) -> None:
        """Raises ValueError for a worker whose gradients are missing."""
        for worker in range(self.workers):
            if not is_there(worker):
                raise ValueError(
                    f"step {step} lacks the gradients of worker {worker} of {self.workers}"
                )

    def check_sample(self, name: str, elements: int) -> None:
        """Raises ValueError if so many elements cannot be a sample of the tensor."""
        whole = self._whole.get(name)
        if whole is not None and not 1 <= elements <= whole:
            raise ValueError(
                f"sampled_from of {name!r} is {whole}, but a sample of {elements} elements was "
                "added; a sample has from 1 to sampled_from elements"
            )

    def check(self, step: int, files: Mapping[str, dict]) -> None:
        """Raises ValueError for a step that cannot be next."""
        known = step_files(self.workers)
        for name in files:
            if name not in known:
                raise ValueError(
                    f"{name!r} is not a file of a trace with workers={self.workers}; give what "
                    "write_files returned"
                )
        self.check_workers(step, lambda worker: file_name("gradient", worker) in files)
        if step <= self.last:
            raise ValueError(f"step {step} is not above step {self.last}, the last committed one")
        if not self.shapes:
            raise ValueError(
                f"this process wrote no gradients into {self.path}; call commit in a process that "
                "called write_files for a worker"
            )

    def commit(
        self,
        step: int,
        files: Mapping[str, dict],
        loss: float | None = None,
        learning_rate: float | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """Adds `step` with its existing `files` (name -> ``{"bytes", "sha256"}``)."""
        self.check(step, files)
        numbers = {"loss": loss, "learning_rate": learning_rate, "loss_scale": loss_scale}
        known = {name: value for name, value in numbers.items() if value is not None}
        entry: dict = {"number": step}
        entry |= {name: json_number(float(value)) for name, value in known.items()}
        entry["files"] = dict(sorted(files.items()))
        if self._durable:  # sync their names too, before the manifest lists them
            sync_folder(step_folder(self.path, step))
            sync_folder(self.path)
        self._committed.append((step, json.dumps(entry)))
        try:
            if self._durable or time.monotonic() >= self._next:
                self._write()
        except BaseException:
            self._committed.pop()  # the manifest on the disk lacks it
            raise

    def end(self) -> None:
        """Writes the manifest if it lacks a committed step."""
        if self._listed < len(self._committed):
            self._write()

    def _write(self) -> None:
        begun, text = time.monotonic(), self._text()
        put_text(self.path / "manifest.json", text, durable=self._durable)
        self._read, self._listed = text.encode(), len(self._committed)
        # For any length, only a small part of the time.
        self._next = begun + max(1, 20 * (time.monotonic() - begun))

    def _text(self) -> str:
        shapes = self.shapes or {}
        roles = {
            name: given_role(self._roles, name, shape) or guess_role(name, shape)
            for name, shape in shapes.items()
        }
        # One line per tensor and step: long manifests stay readable and diff well.
        tensors = [
            json.dumps(
                {"name": name, "shape": list(shape), "role": roles[name]}
                | ({"sampled_from": self._whole[name]} if name in self._whole else {})
            )
            for name, shape in shapes.items()
        ]
        head = json.dumps(self.head | {"metadata": self.metadata | _guessed(roles)}, indent=1)[:-2]
        lists = (("tensors", tensors), ("steps", [text for _, text in self._committed]))
        return (
            head
            + "".join(f',\n "{key}": [\n  ' + ",\n  ".join(rows) + "\n ]" for key, rows in lists)
            + "\n}\n"
        )


def _guessed(roles: Mapping[str, str], shown: int = 6) -> dict[str, str]:
    """The metadata's remark on roles that were not given."""
    names = [name for name, role in roles.items() if isinstance(role, Guess)]
    if not names:
        return {}
    which = (
        "all"
        if len(names) == len(roles)
        else f"{len(names)} of {len(roles)}: "
        f"{', '.join(names[:shown])}{', ...' if len(names) > shown else ''}"
    )
    return {"roles_guessed_by_name_and_shape": which}


def compare_shapes(shapes: Shapes, expected: Shapes, where: str) -> None:
    """Raises ValueError, beginning with `where`, for a missing, new or reshaped tensor."""
    for name, shape in expected.items():
        if name not in shapes:
            raise ValueError(f"{where} lacks the tensor {name!r}")
        if shapes[name] != shape:
            raise ValueError(
                f"{where}: tensor {name!r} has shape {shapes[name]}, but had {shape} before"
            )
    for name in shapes:
        if name not in expected:
            raise ValueError(f"{where} has the tensor {name!r}, which the trace does not have")


def step_folder(path: Path, step: int) -> Path:
    """The folder of a step's files."""
    return path / f"step_{step:08d}"


def file_name(kind: str, worker: int) -> str:
    """The file inside a step's folder for a kind of record."""
    if kind in ("weights", "full_batch"):
        return f"{kind}.safetensors"
    return f"{'worker' if kind == 'gradient' else 'activations_worker'}_{worker:04d}.safetensors"


def step_files(workers: int) -> set[str]:
    """All names that files of a step may have."""
    kinds = ("gradient", "weights", "full_batch", "layer_input")
    return {file_name(kind, worker) for kind in kinds for worker in range(workers)}


def merged_files(step: int, parts: Iterable[Mapping[str, dict]]) -> dict[str, dict]:
    """The files of all processes for a step; several may have written a file, all the same.

    Raises
    ------
    ValueError
        Two wrote different files of one name.
    """
    files: dict[str, dict] = {}
    for part in parts:
        for name, file in part.items():
            if files.setdefault(name, file) != file:
                raise ValueError(
                    f"two processes wrote different {name!r} of step {step}; let one process write "
                    "it, or all the same values"
                )
    return files


def lock_of_trace(path: Path, doing: str) -> Lock:
    """The lock for writing the manifest of the trace at `path`, held by one process at a time."""
    return Lock(path / lock_of("manifest.json"), doing)


_FILES = r"(?:(?:activations_)?worker_\d{4,}|weights|full_batch)\.safetensors"
_WHOLE = re.compile(_FILES)
_HALF = waiting(_FILES)


def remove_uncommitted(path: Path, keep: Collection[int], complete: bool = True) -> None:
    """Removes files of killed processes in a trace's folder; the caller holds its lock.

    These are half-written files and, if `complete`, the files of steps other than those to keep.
    Files that do not belong to a trace are kept.
    """
    remove_left(path, waiting(r"manifest\.json"))
    committed = set(keep)
    for folder in path.glob("step_*"):
        number = re.fullmatch(r"step_(\d{8,})", folder.name)
        if number is None or folder.is_symlink():
            continue
        remove_left(folder, _HALF)
        if int(number[1]) not in committed:
            if complete:
                remove_left(folder, _WHOLE)
            with contextlib.suppress(OSError):  # if it has files of others
                folder.rmdir()


def remove_half(path: Path, step: int) -> None:
    """Removes half-written files of a committed step."""
    remove_left(step_folder(path, step), _HALF)
