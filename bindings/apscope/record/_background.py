"""Writes in a separate thread, with few steps in memory, and one warning if it ends early."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._traces.safetensors import code_of, storable
from ._session import Session, StopRecording
from ._shards import Part

logger = logging.getLogger("apscope.record")


@dataclass
class Step:
    """One step's gradients to be written."""

    number: int
    tensors: dict[int, dict[str, np.ndarray]]  # worker -> name -> values
    facts: dict[str, Any]
    parts: dict[str, Part] | None = None
    buffers: dict[str, Any] = field(default_factory=dict)  # returned once written
    # Further files of the step.
    others: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)


class Background:
    """Takes steps from the training and writes them with a :class:`Session`.

    The training waits only if `places` steps are being written; after waiting `patience` seconds
    the recording ends. Any failure ends the recording with one warning, a call of `warn` with the
    reason; nothing is raised in the training. From here on only the thread uses the session.
    """

    def __init__(
        self,
        session: Session,
        places: int,
        patience: float,
        warn: Callable[[str], None],
        round_to_fp32: bool = False,
    ):
        self.session, self.patience, self.warn = session, patience, warn
        self._round = round_to_fp32
        self.waited = 0.0  # seconds that the training waited for a free place
        self.stopped = False
        self._free: queue.Queue[dict[str, Any]] = queue.Queue()
        for _ in range(places):
            self._free.put({})
        # A text is the reason why the recording ends, for the others; a bool is the end, and
        # whether it is regular.
        self._steps: queue.Queue[Step | str | bool] = queue.Queue()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="apscope-record", daemon=True)
        self._thread.start()

    def buffers(self) -> dict[str, Any] | None:
        """A free place: an earlier step's buffers, or an empty dict; None if recording ended."""
        start = time.perf_counter()
        try:
            return None if self.stopped else self._free.get(timeout=self.patience)
        except queue.Empty:
            self.stop(
                self.session.waits_for
                or f"the disk has not finished a step for {self.patience:g} s"
            )
            return None
        finally:
            self.waited += time.perf_counter() - start

    def give_back(self, buffers: dict[str, Any]) -> None:
        """Returns an unused place."""
        self._free.put(buffers)

    def put(self, step: Step) -> None:
        """Passes a step to the thread; it must not change any more."""
        self._steps.put(step)

    def stop(self, reason: str, warn: bool = True) -> None:
        """Ends the recording; the steps committed so far are a trace. Returns at once."""
        with self._lock:
            first, self.stopped = not self.stopped, True
        if first:
            if warn:
                self.warn(reason)
            self._steps.put(reason)

    def finish(self, whole: bool) -> None:
        """Waits for pending steps; if not `whole` (after an exception), not for other processes."""
        self._steps.put(whole)
        self._thread.join(min(self.patience, 5.0) if self.stopped else 2 * self.patience)
        if self._thread.is_alive():
            self.stop(f"the disk has not finished a step for {2 * self.patience:g} s")

    def _run(self) -> None:
        while True:
            try:
                step = self._steps.get(
                    timeout=0.2 if self.session.waiting and not self.stopped else None
                )
            except queue.Empty:
                self._try(self.session.collect)
                continue
            if isinstance(step, str):
                self.session.stop(step)
            elif isinstance(step, bool):
                if not self.stopped:
                    self._try(self.session.finish, step)
                while not self._steps.empty():  # the reason of an irregular end
                    if isinstance(reason := self._steps.get(), str):
                        self.session.stop(reason)
                self.session.close()
                return
            else:
                if not self.stopped:
                    self._try(self._write, step)
                self._free.put(step.buffers)

    def _write(self, step: Step) -> None:
        gradients = {
            worker: _storable(
                f"gradient of step {step.number}, worker {worker},", arrays, self._round
            )
            for worker, arrays in step.tensors.items()
        }
        others = {
            file: _storable(f"{file} of step {step.number},", arrays, self._round)
            for file, arrays in step.others.items()
        }
        self.session.write(step.number, gradients, step.facts, step.parts, others)
        self.session.collect()

    def _try(self, what: Callable[..., None], *arguments: Any) -> None:
        try:
            what(*arguments)
        except StopRecording as error:
            self.stop(str(error))
        except OSError as error:
            self.stop(f"{error.filename or self.session.path}: {error.strerror or error}")
        # recording may fail in any way; training goes on
        except Exception as error:  # noqa: BLE001
            self.stop(" ".join(str(error).split()) or type(error).__name__)


def _storable(
    what: str, arrays: Mapping[str, np.ndarray], round_to_fp32: bool
) -> dict[str, np.ndarray]:
    return {
        name: array
        if code_of(array.dtype)
        else storable(array, f"{name!r} in {what}", round_to_fp32)
        for name, array in arrays.items()
    }
