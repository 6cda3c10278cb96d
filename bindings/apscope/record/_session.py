"""One trace that one or many processes record: each writes its own files, the first one puts whole steps into the manifest.

The processes speak through a hidden folder of the trace alone, so that a process that is gone stops the
recording and never blocks the others:

- ``lock`` is held by process 0 as long as it lives; ``leader.json`` is its list of the others' marks. One
  whose mark is not in it writes nothing: process 0 may be clearing what a killed run left behind;
- ``hello_0003.json`` is process 3's mark, ``stopped_0003.json`` why it gave up, ``left_0003.json`` that it then left;
- ``step_00000100_0003.json`` says that process 3's files of step 100 are whole, with their digests; it is
  removed when the step is committed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._traces.order import NATURAL
from ._manifest import Manifest, Shapes, compare_shapes, file_name, step_folder
from ._safetensors import write_safetensors
from ._shards import Part, join

_POLL = 0.05  # seconds between two looks at the other processes' files


class StopRecording(Exception):  # noqa: N818  # no error of the caller's: why a recording ends before the training
    """Why a recording cannot go on, as half a sentence."""


class Session:
    """One process's part of a recording.

    Parameters
    ----------
    path : pathlib.Path
        The trace's folder, which all processes share.
    process, processes : int
        This one's number from 0, and how many there are. Process 0 writes the manifest.
    joined : bool
        The processes hold parts of the same tensors, which process 0 joins to one worker's; by default
        each process is a worker with whole tensors.
    first_step : int
        Where a resumed recording begins.
    resume : bool
        Go on with a trace that is there.
    patience : float
        Seconds to wait for another process's part of a step.
    about
        What :class:`Manifest` takes besides.

    Raises
    ------
    ValueError
        The folder holds a trace that is not to be resumed, or another recorder is at work in it.
    OSError
        The folder cannot be written.
    """

    def __init__(self, path: Path, process: int, processes: int, *, joined: bool, first_step: int, resume: bool, patience: float, **about: Any):
        self.path, self.process, self.processes, self.joined, self.patience = path, process, processes, joined, patience
        self.workers = 1 if joined else about.pop("workers", processes)
        self.bytes = self.committed = 0
        self._notes = path / ".recording"
        self._mark = uuid.uuid4().hex
        self._welcome = processes == 1
        self._stopped = False
        self._passes: set[str] = set()  # backward passes of the committed steps
        self._own: dict[int, tuple[dict, float]] = {}  # step -> what this process says of it, and when it was written
        if process == 0:
            self._lead(first_step, resume, about)
        else:
            self._notes.mkdir(parents=True, exist_ok=True)
            self._say_hello()

    def _say_hello(self) -> None:
        _put(self._notes / f"hello_{self.process:04d}.json", self._mark)

    def _lead(self, first_step: int, resume: bool, about: dict) -> None:
        if (self.path / "manifest.json").exists() and not resume:
            raise ValueError(f"{self.path} already holds a trace; record into a new folder, or go on with this one by resume=True")
        remains = (self._notes / "lock").exists()  # which nothing but a recorder makes, and one that ended well removes
        self._notes.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._notes / "lock", "w")  # noqa: SIM115  # held as long as the session lives
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(f"another process is recording into {self.path}; give every run a folder of its own") from None
            self.manifest = Manifest(self.path, workers=self.workers, resume_at=first_step if resume else None, **about)
        except BaseException:
            self._lock.close()
            raise
        self._accumulation_given = "accumulation" in (about.get("metadata") or {})
        if self.manifest.steps:
            self._passes.add(self.manifest.metadata.get("accumulation", "1"))
        if remains or resume:
            self._clear(self.manifest.steps)
        self._answer()

    def _clear(self, keep: list[int]) -> None:
        """Removes what a killed run left: notes, and the workers' files of steps that the manifest does not list.

        Marks of its processes too. One that has said hello already says it again.
        """
        notes = [path for kind in ("step_*", "stopped_*", "left_*", "hello_*.json") for path in self._notes.glob(kind)]
        for path in [*notes, self.path / "manifest.json.part"]:
            path.unlink(missing_ok=True)
        for folder in self.path.glob("step_*"):
            number = re.fullmatch(r"step_(\d{8,})", folder.name)
            if number and int(number[1]) not in keep:
                for path in [p for kind in ("worker_*", "activations_worker_*", "weights") for p in folder.glob(f"{kind}.safetensors*")]:
                    path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # where somebody else's files lie in it
                    folder.rmdir()

    def _answer(self) -> None:
        """Lists the marks of all who have said hello."""
        marks = {path.name: path.read_text() for path in self._notes.glob("hello_*.json")}
        _put(self._notes / "leader.json", json.dumps(marks))
        self._welcome = len(marks) >= self.processes - 1

    def write(
        self,
        step: int,
        tensors: Mapping[int, Mapping[str, np.ndarray]],
        facts: Mapping[str, Any],
        parts: Mapping[str, Part] | None = None,
        others: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> None:
        """Writes this process's `tensors` (worker -> name -> values) of a step and `others` (file -> name -> values), and what it says of it."""
        self._wait_for_the_leader()
        about = {"step": str(step)}
        files: dict[str, dict] = {}
        shapes: Shapes = {}
        if self.joined:
            name = f"step_{step:08d}_{self.process:04d}.safetensors"
            files[name] = write_safetensors(self._notes / name, tensors[0], about)
            shapes = {n: part.whole for n, part in (parts or {}).items()}
        else:
            folder = step_folder(self.path, step)
            folder.mkdir(exist_ok=True)
            for worker, arrays in tensors.items():
                name = file_name("gradient", worker)
                files[name] = write_safetensors(folder / name, arrays, about | {"worker": str(worker)})
                found = {n: array.shape for n, array in arrays.items()}
                compare_shapes(found, shapes or found, f"worker {worker} at step {step}")
                shapes = found
            for name, arrays in (others or {}).items():
                files[name] = write_safetensors(folder / name, arrays, about)
        self.bytes += sum(file["bytes"] for file in files.values())
        note = {"files": files, "shapes": shapes, "facts": dict(facts), "offsets": {n: list(part.offset) for n, part in (parts or {}).items()}}
        self._own[step] = note, time.monotonic()
        if self.process:
            _put(self._note(step, self.process), json.dumps(note))

    def _note(self, step: int, process: int) -> Path:
        return self._notes / f"step_{step:08d}_{process:04d}.json"

    def _wait_for_the_leader(self) -> None:
        if self.process == 0:
            return
        deadline = time.monotonic() + min(self.patience, 30.0)  # all begin together
        while not self._welcome:
            with contextlib.suppress(OSError, ValueError):
                marks = json.loads((self._notes / "leader.json").read_text())
                self._welcome = marks.get(f"hello_{self.process:04d}.json") == self._mark
            if not self._welcome and time.monotonic() > deadline:
                raise StopRecording(f"process 0 is not there ({self.path} must be one folder for all processes)")
            self._heed()
            if not self._welcome:
                if not (self._notes / f"hello_{self.process:04d}.json").exists():
                    self._say_hello()
                time.sleep(_POLL)
        for step, (_, written) in list(self._own.items()):
            if not self._note(step, self.process).exists():
                del self._own[step]
            elif time.monotonic() - written > self.patience:
                raise StopRecording(f"process 0 has not taken step {step} for {self.patience:g} s")

    def _heed(self) -> None:
        """Stops where another process did."""
        for path in self._notes.glob("stopped_*.json"):
            if path.name != f"stopped_{self.process:04d}.json":
                raise StopRecording(f"process {int(path.stem[8:])} stopped: {path.read_text()}")

    def collect(self, patience: float = 0.0) -> None:
        """Process 0: commits the steps that all have written; waits up to `patience` seconds for the others."""
        if self.process:
            self._heed()
            return
        while True:
            if not self._welcome:
                self._answer()
            while self._own and self._commit(min(self._own)):
                pass
            self._heed()
            if not self._own:
                return
            step = min(self._own)
            waited = time.monotonic() - self._own[step][1]
            missing = next((p for p in range(1, self.processes) if not self._note(step, p).exists()), None)
            if missing is not None and waited > (patience or self.patience):
                raise StopRecording(f"process {missing} has not written step {step} for {waited:.0f} s")
            if not patience:
                return
            time.sleep(_POLL)

    @property
    def waiting(self) -> bool:
        """Whether process 0 has steps that others have not written yet."""
        return self.process == 0 and bool(self._own or not self._welcome)

    def _commit(self, step: int) -> bool:
        paths = [self._note(step, process) for process in range(1, self.processes)]
        if not all(path.exists() for path in paths):
            return False
        notes = [self._own[step][0], *(json.loads(path.read_text()) for path in paths)]
        shapes: Shapes = {name: tuple(shape) for name, shape in notes[0]["shapes"].items()}
        for process, note in enumerate(notes):
            found = {name: tuple(shape) for name, shape in note["shapes"].items()}
            compare_shapes(found, self.manifest.shapes or shapes, f"process {process} at step {step}")
        files = {name: digest for note in notes for name, digest in note["files"].items()}
        if self.joined:
            folder = step_folder(self.path, step)
            folder.mkdir(exist_ok=True)
            sources = [(self._notes / name, note["offsets"]) for note in notes for name in note["files"]]
            files = {
                file_name("gradient", 0): write_safetensors(
                    folder / file_name("gradient", 0), join(shapes, sources), {"step": str(step), "worker": "0"}
                )
            }
        self.manifest.shapes = self.manifest.shapes or shapes
        facts = notes[0]["facts"]
        losses = [note["facts"]["loss"] for note in notes if note["facts"].get("loss") is not None]
        self._remember(step, [note["facts"] for note in notes])
        self.manifest.commit(step, files, loss=sum(losses) / len(losses) if losses else None, learning_rate=facts.get("learning_rate"))
        for path in [*paths, *(source for source, _ in (sources if self.joined else []))]:
            path.unlink(missing_ok=True)
        del self._own[step]
        self.committed += 1
        return True

    def _remember(self, step: int, facts: list[dict]) -> None:
        """Puts what changes from step to step, and has no place in the manifest, into the metadata."""
        about = self.manifest.metadata
        if (scale := facts[0].get("divided_by")) is not None:
            about["divided_by_loss_scale"] = _more(about.get("divided_by_loss_scale", ""), f"{scale:g} from step {step}")
        if facts[0].get("guessed") and not self.manifest.steps:
            about.setdefault("tensor_order", NATURAL)
        if not self._accumulation_given:
            self._passes.update(str(fact.get("passes")) for fact in facts)
            about.pop("accumulation", None)
            if len(self._passes) == 1 and not self._passes & {"None", "1"}:
                about["accumulation"] = next(iter(self._passes))
        if skipped := facts[0].get("skipped"):
            about["left_out_for_inf_or_nan"] = ", ".join(filter(None, [about.get("left_out_for_inf_or_nan"), *map(str, skipped)]))
        for name in dict.fromkeys(name for fact in facts for name in fact.get("zeros", ())):
            lacking = [str(process) for process, fact in enumerate(facts) if name in fact.get("zeros", ())]
            of = "" if self.joined or len(lacking) == len(facts) else f" of worker {', '.join(lacking)}"
            key = f"no_gradient_so_zeros: {name}{of}"
            about[key] = _run(about.get(key, ""), step, self.manifest.steps)

    def stop(self, reason: str) -> None:
        """Tells the others that this process records no more."""
        self._stopped = True
        with contextlib.suppress(OSError):
            _put(self._notes / f"stopped_{self.process:04d}.json", reason)

    def finish(self, whole: bool) -> None:
        """Ends the recording: process 0 takes the last steps, and removes the notes where it has them all."""
        try:
            self.collect(self.patience if whole else min(self.patience, 2.0))
            if self.process == 0:
                shutil.rmtree(self._notes)
        finally:
            self.close()

    def close(self) -> None:
        """Gives the folder free; after a stop the last process to leave removes what was not committed, and the notes."""
        with contextlib.suppress(OSError, ValueError):
            if self._stopped:
                self._leave()
        if self.process == 0:
            self._lock.close()

    def _leave(self) -> None:
        _put(self._notes / f"left_{self.process:04d}.json", "")  # it writes nothing any more, as one that has stopped still may
        left = {int(path.stem[5:]) for path in self._notes.glob("left_*.json")}
        there = {int(path.stem[6:]) for path in self._notes.glob("hello_*.json")}
        led = (self._notes / "lock").exists()
        if there | ({0} if led else set()) <= left:
            if led:
                manifest = self.path / "manifest.json"
                self._clear([step["number"] for step in json.loads(manifest.read_text())["steps"]] if manifest.exists() else [])
            shutil.rmtree(self._notes, ignore_errors=True)  # two may do it at once


def _more(text: str, more: str) -> str:
    """`text` with `more` behind it, where its last value is another one."""
    last = text.rsplit(", ", 1)[-1]
    return text if last.partition(" ")[0] == more.partition(" ")[0] else ", ".join(filter(None, [text, more]))


def _run(text: str, step: int, committed: list[int]) -> str:
    """Steps as runs of recorded ones, "0-300, 700", with `step` behind them."""
    runs = text.split(", ") if text else []
    if runs and committed and runs[-1].rsplit("-", 1)[-1] == str(committed[-1]):
        return ", ".join([*runs[:-1], f"{runs[-1].split('-')[0]}-{step}"])
    return ", ".join([*runs, str(step)])


def _put(path: Path, text: str) -> None:
    """Writes the file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
