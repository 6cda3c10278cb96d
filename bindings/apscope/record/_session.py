"""One trace recorded by one or many processes: each writes its files, process 0 commits steps.

The processes communicate only through a hidden folder of the trace, so a process that is gone stops
the recording and never blocks the others. Each has a mark, which distinguishes it from another job
in the folder:


- process 0 holds the trace's lock; ``leader.json`` has its own mark and those of the others. One
  whose mark is not in it writes nothing: process 0 may be removing the files of a killed run;
- ``hello_0003_MARK`` announces process 3, ``stopped_0003_MARK`` says why it gave up,
  ``left_0003_MARK`` that it then left;
- ``step_00000100_0003.json`` says that process 3's files of step 100 are complete, with their
  digests; it is removed when the step is committed.
"""

from __future__ import annotations

import contextlib
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

from .._folders.durable import sync_folder
from .._folders.json import read_json
from .._folders.lock import Lock
from .._folders.one_file import make_folder, put_text, remove_left
from .._folders.reading import read_utf8
from .._limits import MANIFEST_LENGTH, TEXT_LENGTH
from .._traces.absent import add_absent
from .._traces.loss_scale import add_divisor
from .._traces.manifest import (
    Manifest,
    Shapes,
    compare_shapes,
    file_name,
    lock_of_trace,
    merged_files,
    remove_uncommitted,
    step_folder,
)
from .._traces.order import NATURAL
from .._traces.safetensors import write_safetensors
from ._shards import Part, join

_POLL = 0.05  # seconds between two polls of the other processes' files


# no error of the caller's: why a recording ends before the training
class StopRecording(Exception):  # noqa: N818
    """Why a recording cannot continue, as half a sentence."""


class Session:
    """One process's part of a recording.

    Parameters
    ----------
    path : pathlib.Path
        The trace's folder, which all processes share.
    process, processes : int
        Its number from 0, and the number of processes. Process 0 writes the manifest.
    joined : bool
        The processes have parts of the same tensors, which process 0 joins as one worker; by
        default each process is a worker with whole tensors.
    first_step : int
        The first step of a resumed recording.
    resume : bool
        Continue an existing trace.
    patience : float
        Seconds to wait for another process's part of a step.
    about
        Further arguments of :class:`Manifest`.

    Raises
    ------
    ValueError
        The folder has a trace that is not to be resumed, or another recorder uses it.
    OSError
        The folder cannot be written.
    """

    def __init__(
        self,
        path: Path,
        process: int,
        processes: int,
        *,
        joined: bool,
        first_step: int,
        resume: bool,
        patience: float,
        **about: Any,
    ):
        self.path, self.process, self.processes = path, process, processes
        self.joined, self.patience = joined, patience
        workers = about.pop("workers", processes)
        self.workers = 1 if joined else workers
        self.bytes = self.committed = 0
        self._notes = path / ".recording"
        self._mark = uuid.uuid4().hex
        self._marks: dict[str, str] = {}  # those of the recording's processes, by number
        self._welcome = processes == 1
        self._stopped = False
        self._passes: set[str] = set()  # backward passes of the committed steps
        self._own: dict[int, tuple[dict, float]] = {}  # step -> its note on it, and the time
        self._last = -1  # the highest step that this process has written
        self.waits_for = ""  # the process that this one waits for
        #: Whether files wait in the folder of the notes: a resumed run has no step of its own yet.
        self._replaces = resume
        self._lock: Lock | None = None
        path.mkdir(parents=True, exist_ok=True)
        if process == 0:
            self._lead(first_step, resume, about)
        else:
            make_folder(self._notes)
            self._say("hello")

    def _say(self, what: str, text: str = "") -> None:
        _put(self._notes / f"{what}_{self.process:04d}_{self._mark}", text)

    def _said(self, what: str) -> list[tuple[int, str, Path]]:
        """Process, mark and path of a note."""
        return [
            (int(match[1]), match[2], path)
            for path in self._notes.glob(f"{what}_*")
            if (match := re.fullmatch(rf"{what}_(\d{{4,}})_([0-9a-f]{{32}})", path.name))
        ]

    def _lead(self, first_step: int, resume: bool, about: dict) -> None:
        if (self.path / "manifest.json").exists() and not resume:
            raise ValueError(
                f"{self.path} already has a trace; record into a new folder, or continue this one "
                "with resume=True"
            )
        self._lock = lock_of_trace(self.path, "recording")
        # A regular end leaves neither.
        remains = self._lock.path.exists() or (self._notes / "leader.json").exists()
        self._lock.take(os.fspath(self.path))
        try:
            make_folder(self._notes)
            self.manifest = Manifest(
                self.path, workers=self.workers, resume_at=first_step if resume else None, **about
            )
        except BaseException:
            with contextlib.suppress(OSError):  # if it has notes
                self._notes.rmdir()
            self._lock.let_go()
            raise
        self._accumulation_given = "accumulation" in (about.get("metadata") or {})
        if self.manifest.steps:
            self._last = self.manifest.steps[-1]
            self._passes.add(self.manifest.metadata.get("accumulation", "1"))
        # A process that has already said hello says it again.
        remove_left(self._notes, re.compile(r"[^.].*"))
        for left in self._notes.glob("step_*/"):
            shutil.rmtree(left, ignore_errors=True)
        if remains or resume:
            remove_uncommitted(self.path, [*self.manifest.steps, *self.manifest.outdated])
        self._list({"0": self._mark})

    def _answer(self) -> None:
        """Lists the marks of all processes that have said hello."""
        marks = {"0": self._mark}
        for process, mark, _ in self._said("hello"):
            if marks.setdefault(str(process), mark) != mark:
                raise StopRecording(
                    f"there are two processes with number {process}; give every job its own folder"
                )
        self._list(marks)

    def _list(self, marks: dict[str, str]) -> None:
        self._marks = marks
        _put(self._notes / "leader.json", json.dumps(marks))
        self._welcome = len(marks) >= self.processes

    def write(
        self,
        step: int,
        tensors: Mapping[int, Mapping[str, np.ndarray]],
        facts: Mapping[str, Any],
        parts: Mapping[str, Part] | None = None,
        others: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> None:
        """Writes a step's `tensors` (worker -> name -> values), `others`, and the note on them."""
        self._check_own() if self.process == 0 else self._wait_for_the_leader()
        if step <= self._last:  # its files are in the trace
            raise StopRecording(
                f"step {step} comes again, after step {self._last}; a run that goes back to a "
                "checkpoint needs a new recorder with first_step= and resume=True"
            )
        self._last = step
        about = {"step": str(step)}
        files: dict[str, dict] = {}
        shapes: Shapes = {}
        if self.joined:
            name = f"step_{step:08d}_{self.process:04d}.safetensors"
            # Process 0 joins it.
            files[name] = write_safetensors(self._notes / name, tensors[0], about, durable=False)
            shapes = {n: part.shape for n, part in (parts or {}).items()}
        else:
            # Until a resumed run has a step, the old files stay.
            folder = step_folder(self._notes if self._replaces else self.path, step)
            make_folder(folder)
            for worker, arrays in tensors.items():
                name = file_name("gradient", worker)
                files[name] = write_safetensors(
                    folder / name, arrays, about | {"worker": str(worker)}
                )
                here = {n: array.shape for n, array in arrays.items()}
                compare_shapes(here, shapes or here, f"worker {worker} at step {step}")
                shapes = here
            for name, arrays in (others or {}).items():
                files[name] = write_safetensors(folder / name, arrays, about)
            if self.process:
                sync_folder(folder)  # like process 0, before the manifest has the step
        self.bytes += sum(file["bytes"] for file in files.values())
        note = {
            "files": files,
            "shapes": shapes,
            "facts": dict(facts),
            "offsets": {n: list(part.offset) for n, part in (parts or {}).items()},
        }
        self._own[step] = note, time.monotonic()
        if self.process:
            _put(self._note(step, self.process), json.dumps(note))

    def _note(self, step: int, process: int) -> Path:
        return self._notes / f"step_{step:08d}_{process:04d}.json"

    def _check_own(self) -> None:
        if self._lock is None or not self._lock.held:
            raise StopRecording(f"{self.path} was removed, or another process now records into it")

    def _listed(self) -> bool:
        """Whether process 0 has listed this one."""
        with contextlib.suppress(OSError, ValueError):
            self._marks = read_json(self._notes / "leader.json")
            return self._marks.get(str(self.process)) == self._mark
        return False

    def _wait_for_the_leader(self) -> None:
        if self._welcome and not self._listed():
            raise StopRecording(
                f"process 0 no longer records into {self.path}, or the folder was removed"
            )
        deadline = time.monotonic() + self.patience
        while not self._welcome:
            self.waits_for = (
                f"process 0 is missing ({self.path} must be one folder for all processes)"
            )
            self._welcome = self._listed()
            self._heed()
            if not self._welcome:
                if time.monotonic() > deadline:
                    raise StopRecording(self.waits_for)
                if not (self._notes / f"hello_{self.process:04d}_{self._mark}").exists():
                    self._say("hello")
                time.sleep(_POLL)
        self.waits_for = ""
        self._taken()

    def _taken(self) -> bool:
        """Whether process 0 has all steps that this one has written."""
        for step, (_, written) in list(self._own.items()):
            if not self._note(step, self.process).exists():
                del self._own[step]
                self._replaces = False
            elif time.monotonic() - written > self.patience:
                raise StopRecording(
                    f"process 0 has not accepted step {step} for {self.patience:g} s"
                )
        return not self._own

    def _heed(self) -> None:
        """Stops if another process of this recording did."""
        for process, mark, path in self._said("stopped"):
            if process != self.process and self._marks.get(str(process)) == mark:
                raise StopRecording(f"process {process} stopped: {read_utf8(path, TEXT_LENGTH)}")

    def collect(self, patience: float = 0.0) -> None:
        """Process 0: commits steps that all have written; waits for others up to `patience` s."""
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
            missing = next(
                (p for p in range(1, self.processes) if not self._note(step, p).exists()), None
            )
            if missing is not None and waited > (patience or self.patience):
                raise StopRecording(
                    f"process {missing} has not written step {step} for {waited:.0f} s"
                )
            if not patience:
                return
            time.sleep(_POLL)

    @property
    def waiting(self) -> bool:
        """Whether process 0 has steps that others have not written yet."""
        return self.process == 0 and bool(self._own or not self._welcome)

    def _commit(self, step: int) -> bool:
        self._check_own()
        paths = [self._note(step, process) for process in range(1, self.processes)]
        if not all(path.exists() for path in paths):
            return False
        notes = [self._own[step][0], *map(read_json, paths)]
        shapes: Shapes = {name: tuple(shape) for name, shape in notes[0]["shapes"].items()}
        for process, note in enumerate(notes):
            here = {name: tuple(shape) for name, shape in note["shapes"].items()}
            expected = self.manifest.shapes or shapes
            compare_shapes(here, expected, f"process {process} at step {step}")
        files = merged_files(step, (note["files"] for note in notes))
        if self._replaces:
            self.manifest.drop_outdated()
            remove_uncommitted(self.path, self.manifest.steps)
            self._replaces = False
        folder = step_folder(self.path, step)
        make_folder(folder)
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # it is in the folder already
                os.replace(step_folder(self._notes, step) / name, folder / name)
        if self.joined:
            sources = [
                (self._notes / name, note["offsets"]) for note in notes for name in note["files"]
            ]
            files = {
                file_name("gradient", 0): write_safetensors(
                    folder / file_name("gradient", 0),
                    join(shapes, sources),
                    {"step": str(step), "worker": "0"},
                )
            }
        self.manifest.shapes = self.manifest.shapes or shapes
        facts = notes[0]["facts"]
        losses = [note["facts"]["loss"] for note in notes if note["facts"].get("loss") is not None]
        self._remember(step, [note["facts"] for note in notes])
        self.manifest.commit(
            step,
            files,
            loss=sum(losses) / len(losses) if losses else None,
            learning_rate=facts.get("learning_rate"),
        )
        for path in [*paths, *(source for source, _ in (sources if self.joined else []))]:
            path.unlink(missing_ok=True)
        del self._own[step]
        self.committed += 1
        return True

    def _remember(self, step: int, facts: list[dict]) -> None:
        """Adds facts that vary by step, and have no field in the manifest, to the metadata."""
        about = self.manifest.metadata
        if (scale := facts[0].get("divided_by")) is not None:
            add_divisor(about, step, scale)
        if facts[0].get("guessed") and not self.manifest.steps:
            about.setdefault("tensor_order", NATURAL)
        if not self._accumulation_given:
            self._passes.update(str(fact.get("passes")) for fact in facts)
            about.pop("accumulation", None)
            if len(self._passes) == 1 and not self._passes & {"None", "1"}:
                about["accumulation"] = next(iter(self._passes))
        if skipped := facts[0].get("skipped"):
            about["left_out_for_inf_or_nan"] = ", ".join(
                filter(None, [about.get("left_out_for_inf_or_nan"), *map(str, skipped)])
            )
        for name in dict.fromkeys(name for fact in facts for name in fact.get("zeros", ())):
            missing = [number for number, fact in enumerate(facts) if name in fact.get("zeros", ())]
            of = len(missing) if self.joined else len(facts)
            add_absent(about, step, name, missing, of, self.manifest.steps)

    def stop(self, reason: str) -> None:
        """Tells the others that this process no longer records."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._say("stopped", reason)

    def finish(self, whole: bool) -> None:
        """Ends recording: process 0 accepts the last steps and removes the notes; others wait."""
        while self.process and whole and not self._taken():
            self._heed()
            time.sleep(_POLL)
        self.collect(self.patience if whole else min(self.patience, 2.0))
        if self.process == 0:
            shutil.rmtree(self._notes)

    def close(self) -> None:
        """Releases the folder; after a stop the last process removes uncommitted files, notes."""
        if self._stopped:
            with contextlib.suppress(OSError, ValueError):
                self._leave()
        if self._lock is not None:
            self._lock.let_go()

    def _leave(self) -> None:
        self._say("left")  # it no longer writes; one that has only stopped may
        listed = self._listed()
        marks = (
            self._marks
            if listed
            else {str(process): mark for process, mark, _ in self._said("hello")}
        )
        left = {mark for _, mark, _ in self._said("left")}
        led = (self._notes / "leader.json").exists()
        if (led and not listed) or not set(marks.values()) <= left:
            return
        lock = self._lock or lock_of_trace(self.path, "the end of a recording")
        if lock is not self._lock:
            lock.take(os.fspath(self.path))  # or another process uses the folder now
        try:
            if lock.held and (self._listed() or not led):
                if led:
                    manifest = self.path / "manifest.json"
                    remove_uncommitted(
                        self.path,
                        [step["number"] for step in read_json(manifest, MANIFEST_LENGTH)["steps"]]
                        if manifest.exists()
                        else [],
                    )
                shutil.rmtree(self._notes, ignore_errors=True)
        finally:
            if lock is not self._lock:
                lock.let_go()


def _put(path: Path, text: str) -> None:
    """Writes a note, without syncing it to the disk."""
    put_text(path, text, durable=False)
