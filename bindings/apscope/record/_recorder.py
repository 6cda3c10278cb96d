"""Recorder: records the gradients of any training loop."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._folders.lock import HeldError
from .._text import count_of, hint
from .._traces.roles import Roles, either
from ._arguments import Chosen, check_arguments, chooser
from ._background import Background, Step, logger
from ._mistakes import Unattached
from ._overhead import Overhead
from ._pytree import Leaves
from ._session import Session, StopRecording
from ._shards import Part


class Recorder:
    """Records selected steps of a training run into a trace, and never harms the training.

    ``attach(model)`` detects how a PyTorch model is wrapped, reads its gradients as they arrive in
    ``.grad`` (before an all-reduce, before unscaling and clipping) and ends a step with each
    ``optimizer.step()``. Other loops call ``record_pytree(gradients)`` once per step. Files are
    written by a separate thread; a full disk, a folder that cannot be written or a process that is
    gone end the recording with one warning (logger ``apscope.record``), and the steps committed
    until then are a trace. A mistake in the script is raised at the first step that shows it; once
    a step is recorded, it ends the recording like the others. Forked processes, such as a
    DataLoader's, record nothing.

    Parameters
    ----------
    path : path-like
        The trace's folder, shared by all processes; it must not have a trace yet (see `resume`).
        Uncommitted files of a killed recording are removed.
    every : int, optional
        Records the steps 0, every, 2 every, ...; 100 if neither it nor `steps` is given.
    steps : collection of int, optional
        The steps to record, instead of `every`.
    consecutive : int
        Records this many steps from each of these on: errors that stay from step to step, and the
        memory of error feedback, show in consecutive steps only. At most `every`.
    tensors : str, collection of str, or callable, optional
        Regular expression that matches names of the tensors to record, the names, or a function of
        a name. By default those that require a gradient when the model is attached; give ``".*"``
        to record a model whose layers are unfrozen one after the other.
    what : collection of str
        Further records of an attached model besides gradients: ``weights`` (before the step's
        update), ``layer_input`` (of every layer with parameters, at its last call in the step) and
        ``activation_gradient`` (with respect to that call's output).
    workers : int
        Number of data-parallel workers along the leading axis of the arrays of ``record_pytree``.
    process, processes : int, optional
        This process's number and the number of processes; by default from ``torch.distributed``.
    first_step : int
        The number of the first step, for a run that continues from a checkpoint.
    resume : bool
        Continue the trace in `path`; its steps from `first_step` on are replaced.
    places : int
        Steps in memory at a time, 1 or more, each as large as the recorded gradients.
    patience : float
        Seconds to wait for the disk or for another process before the recording ends.
    quiet : bool
        Do not print the number of recorded steps and the time of recording at the end.
    round_to_fp32 : bool
        Round float64 values that are not fp32 values to fp32, ties to even, instead of refusing
        them; the metadata says ``rounding_to_fp32: allowed``.
    name, model, reduction, loss_divided_by_workers, roles, metadata
        As for :class:`TraceWriter`; by default model and roles are those of an attached model, by
        the types of its layers.

    Raises
    ------
    ValueError
        An argument is out of range; or, in the with-block, a PyTorch optimizer steps twice and no
        model is attached.

    Examples
    --------
    >>> with Recorder("trace", every=100) as rec:   # doctest: +SKIP
    ...     rec.attach(model)
    ...     for x, y in batches:
    ...         optimizer.zero_grad()
    ...         loss_function(model(x), y).backward()
    ...         optimizer.step()
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        every: int | None = None,
        steps: Collection[int] | None = None,
        consecutive: int = 1,
        tensors: Chosen = None,
        what: Collection[str] = (),
        workers: int | None = None,
        process: int | None = None,
        processes: int | None = None,
        first_step: int = 0,
        resume: bool = False,
        places: int = 2,
        patience: float = 120.0,
        quiet: bool = False,
        round_to_fp32: bool = False,
        name: str | None = None,
        model: str = "",
        reduction: str = "mean",
        loss_divided_by_workers: bool = False,
        roles: Roles = None,
        metadata: Mapping[str, str] | None = None,
    ):
        if every is not None and steps is not None:
            raise ValueError(
                f"every={every!r} and steps= both select the recorded steps; give one of them"
            )
        every = 100 if every is None else every
        check_arguments(**locals())
        self.path = Path(path)
        self.number = first_step  # of the current step
        self._first, self._resume, self._quiet = first_step, resume, quiet
        self._places, self._patience = places, patience
        self._every, self._steps, self._consecutive = every, steps, consecutive
        self._chosen, self._what = chooser(tensors), frozenset(what)
        #: Names that must be there.
        self._wanted = (
            ()
            if tensors is None or isinstance(tensors, str) or callable(tensors)
            else tuple(tensors)
        )
        self._workers, self._process, self._processes = workers, process, processes
        self._about: dict[str, Any] = dict(
            name=name, model=model, reduction=reduction, roles=roles, metadata=dict(metadata or {}),
            loss_divided_by_workers=loss_divided_by_workers,
        )  # fmt: skip
        self._background: Background | None = None
        self._tap: Any = None
        self._numbers: dict[str, Any] = {}  # loss and learning rate of the current step
        self._skipped: list[int] = []
        # Whether a selected step could not be recorded: the next one is recorded instead.
        self._late = False
        self._ended: str | None = None  # the reason of an early end
        self._spent = 0.0
        self._began = self._closed = 0.0
        self._round = bool(round_to_fp32)
        if self._round:
            self._about["metadata"].setdefault("rounding_to_fp32", "allowed")
        self._leaves = Leaves(self._chosen, workers, process or 0, self._round)
        # Whether a step was passed on: mistakes in the script would have shown.
        self._recorded = False
        self._home = os.getpid()  # a forked process records nothing
        self._unattached: Unattached | None = None

    def attach(
        self,
        model: Any,
        *,
        loss_scale: float | Callable[[], float] | None = None,
        first_step: int | None = None,
    ) -> Recorder:
        """Records a PyTorch model's gradients from here on; each ``optimizer.step()`` is a step.

        Plain modules, DistributedDataParallel, models under ``fully_shard`` (FSDP2) and compiled
        ones are detected, and so are uses of ``torch.amp.GradScaler``. Under DDP every process
        attaches.

        Parameters
        ----------
        model : torch.nn.Module
            As it is trained.
        loss_scale : float or callable, optional
            The factor of the loss, if it is not scaled by GradScaler; the recorded gradients are
            divided by it.
        first_step : int, optional
            Instead of the recorder's, if it is known only now.

        Returns
        -------
        Recorder
            Itself.

        Raises
        ------
        ValueError
            The model's gradients belong to no layer, or a model is already attached; `path` has a
            trace; `tensors` has a name that is not a parameter; `workers` is not the number of
            workers that are recorded.
        """
        from ._torch_tap import TorchTap

        if self._tap is not None or self._background is not None:
            raise ValueError("this recorder is already recording; make one for every model")
        tap = TorchTap(self, model, self._chosen, loss_scale, self._what)
        if unknown := [name for name in self._wanted if name not in tap.known]:
            raise ValueError(
                f"tensors has {unknown[0]!r}, which is not a parameter of the model; "
                f"{hint(str(unknown[0]), list(tap.named))}"
            )
        self._unwatch()
        if first_step is not None:
            self.number = self._first = first_step
        process, processes = (
            (tap.process, tap.processes)
            if self._process is None
            else (self._process, self._processes or 1)
        )
        self._about["model"] = self._about["model"] or tap.description
        self._about["roles"] = either(self._about["roles"], tap.roles)
        self._about["metadata"] = {**tap.metadata, **self._about["metadata"]}
        recorded = 1 if tap.joined else processes
        if self._workers not in (None, recorded):
            raise ValueError(
                f"workers is {self._workers}, but attach() records {count_of(recorded, 'worker')} "
                "here; omit workers, or pass gradients of all workers to record_pytree()"
            )
        self._open(process, processes, joined=tap.joined, stage=tap.stage)
        if self._background:
            tap.begin()
            self._tap = tap
        return self

    def _unwatch(self) -> None:
        if self._unattached is not None:
            self._unattached.end()
            self._unattached = None

    def log(self, *, loss: Any = None, learning_rate: float | None = None) -> None:
        """Sets loss and learning rate of the current step; tensors are read only at recorded steps.

        Parameters
        ----------
        loss : float or one-element array, optional
            This process's mean loss; the trace stores the mean over the processes.
        learning_rate : float, optional
            By default that of the optimizer's first group.
        """
        if self.due:
            if loss is not None:
                self._numbers["loss"] = loss.detach() if hasattr(loss, "detach") else loss
            if learning_rate is not None:
                self._numbers["learning_rate"] = learning_rate

    def step(self) -> None:
        """Ends the current step, for a loop without a ``torch.optim.Optimizer``."""
        if self._tap is not None:
            self._tap.step()

    def record_pytree(
        self, gradients: Any, *, loss: Any = None, learning_rate: float | None = None
    ) -> None:
        """Records one step's gradients: nested dicts, lists, tuples, dataclasses and arrays.

        Call it once per step with that step's gradients, before the average over the workers; steps
        that are not recorded take almost no time. Names are the keys on the path, joined by dots.
        Dicts keep their order; if all are in alphabetical order, as in JAX, the natural order (2
        before 10) is used for the layers, and replay warns if a scheme depends on the first or the
        last.

        Parameters
        ----------
        gradients : pytree of arrays
            Those of one worker, this process; if the recorder has `workers`, every array has theirs
            along its first axis. A tensor that is None or missing later is recorded as zeros.
        loss, learning_rate : float, optional
            As for :meth:`log`.

        Raises
        ------
        ValueError
            No step is recorded yet, and this one cannot be: `path` has a trace, or another process
            records into it; no array is selected; a first axis is not the workers; a dtype has
            values that a trace cannot store.
        """
        start = time.perf_counter()
        self._unwatch()
        try:
            if self._background is None and self._ended is None:
                self._open(
                    self._process or 0,
                    self._processes or 1,
                    joined=False,
                    stage="local",
                    began=start,
                )
            self.log(loss=loss, learning_rate=learning_rate)
            if (
                self.due
                and self._background
                and (buffers := self._background.buffers()) is not None
            ):
                try:
                    tensors, zeros, guessed = self._leaves.arrays(gradients, self.number)
                except BaseException:
                    self._background.give_back(buffers)
                    raise
                self._deliver(tensors, buffers, zeros=zeros, guessed=guessed)
        except ValueError as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001  # of a container's or an array's own
            self._stop(" ".join(str(error).split()) or type(error).__name__)
        self._advance()
        self._spent += time.perf_counter() - start

    @property
    def due(self) -> bool:
        """Whether the current step is recorded."""
        if self._ended is not None or self._closed or os.getpid() != self._home:
            return False
        if self._steps is None:
            return self._late or self.number % self._every < self._consecutive
        return self._late or any(self.number - i in self._steps for i in range(self._consecutive))

    @property
    def overhead(self) -> Overhead:
        """The time that recording has taken from the training until now."""
        until = self._closed or time.perf_counter()
        waited = self._background.waited if self._background else 0.0
        return Overhead(self._spent, waited, until - self._began if self._began else 0.0)

    @property
    def stopped(self) -> str | None:
        """Why the recording ended before the training; None if it did not."""
        return self._ended

    def __enter__(self) -> Recorder:
        if self._tap is None and self._background is None:
            self._unattached = Unattached(self.path, self._say)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(whole=kind is None)

    def close(self, whole: bool = True) -> None:
        """Ends the recording: waits until all is on disk, prints a line. Called at exit.

        Parameters
        ----------
        whole : bool
            False, if an exception ends the training: does not wait for other processes' steps.

        Raises
        ------
        ValueError
            Optimizers stepped within the with-block, and no model was attached.
        """
        if self._closed or os.getpid() != self._home:
            return
        if self._tap is not None:
            self._tap.remove(whole)
        self._closed = time.perf_counter()
        atexit.unregister(self._at_end)
        unattached, self._unattached = self._unattached, None
        if unattached is not None:
            unattached.end()
        if self._background is None:
            if whole and self._ended is None:
                if unattached is not None and unattached.steps:
                    unattached.say()
                logger.warning(
                    "apscope: nothing was recorded into %s: neither attach(model) nor "
                    "record_pytree(gradients) was called",
                    self.path,
                )
            return
        self._background.finish(whole)
        if not self._background.session.process:
            self._conclude(self._background.session, whole)

    def _at_end(self) -> None:
        """The program ends, and the recorder was not closed."""
        self.close(whole=not hasattr(sys, "last_type"))

    def _conclude(self, session: Session, whole: bool) -> None:
        """Prints the content of the trace."""
        # Raises nothing.
        kept = session.manifest.steps or session.manifest.outdated
        none = not kept or not os.path.exists(self.path / "manifest.json")
        if none and whole and self._ended is None:
            logger.warning(
                "apscope: %s has no trace: none of the selected steps was recorded", self.path
            )
        if not self._quiet and sys.stderr is not None:
            of = f" of {session.processes} processes" if session.processes > 1 else ""
            where = f"{self.path}{', which has no trace' if none else ''}"
            with contextlib.suppress(OSError, ValueError):  # the reader has closed it
                print(
                    f"apscope: {count_of(0 if none else session.committed, 'step')}{of} recorded "
                    f"in {where}, "
                    f"{session.bytes / 1e6:.1f} MB by this process; recording took {self.overhead}",
                    file=sys.stderr,
                )

    def _open(
        self, process: int, processes: int, *, joined: bool, stage: str, began: float | None = None
    ) -> None:
        about = (
            self._about | dict(stage=stage) | ({"workers": self._workers} if self._workers else {})
        )
        self._began = began or time.perf_counter()
        try:
            session = Session(
                self.path,
                process,
                processes,
                joined=joined,
                first_step=self._first,
                resume=self._resume,
                patience=self._patience,
                **about,
            )
            self._background = Background(
                session, self._places, self._patience, self._warn, self._round
            )
            atexit.register(self._at_end)
        except OSError as error:
            self._stop(f"{error.filename or self.path}: {error.strerror or error}")
        except (
            StopRecording,
            HeldError,
            RuntimeError,
        ) as error:  # the last if no thread can be started
            self._stop(str(error))

    def _deliver(
        self,
        tensors: dict[int, dict[str, np.ndarray]],
        buffers: dict[str, Any],
        *,
        parts: dict[str, Part] | None = None,
        others: Mapping[str, Mapping[str, np.ndarray]] | None = None,
        **facts: Any,
    ) -> None:
        """Passes the step's gradients to the thread, with facts: `Session.write` takes them."""
        facts |= {name: float(value) for name, value in self._numbers.items()}
        facts["skipped"] = self._skipped
        assert self._background is not None
        self._background.put(Step(self.number, tensors, facts, parts, buffers, others or {}))
        self._skipped, self._late, self._recorded = [], False, True

    def _skip(self) -> None:
        """The training dropped the current step: the next one is recorded instead."""
        if self.due:
            self._skipped, self._late = [*self._skipped, self.number], True
        self._advance()

    def _advance(self) -> None:
        self.number += 1
        self._numbers = {}

    def _refuse(self, mistake: ValueError) -> None:
        """A mistake in the script: raised before the first recorded step; ends later recordings."""
        if self._recorded or os.getpid() != self._home:
            self._stop(str(mistake))
            return
        self._say(str(mistake))

    def _say(self, sentence: str) -> None:
        self._ended = sentence
        if self._background is not None:
            self._background.stop(sentence, warn=False)
        raise ValueError(sentence) from None

    def _stop(self, reason: str) -> None:
        if os.getpid() != self._home:
            return
        if self._background is not None:
            self._background.stop(reason)
        elif self._ended is None:
            self._warn(reason)

    def _warn(self, reason: str) -> None:
        self._ended = reason
        logger.warning("apscope: recording ended, training continues: %s", reason)
