"""Writes a dump as a trace: one step in memory, in a hidden folder, continued after a kill."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .._folders.durable import SyncAhead
from .._folders.writing import Writing
from .._traces.manifest import step_folder
from .._traces.roles import guess_role
from .._traces.sources import File
from .._traces.writer import TraceWriter
from .layout import Layout, Place
from .sample import chosen_blocks, take_blocks
from .units import Readers, Unit, reading
from .values import stored_values
from .weights import Changes


@dataclass(frozen=True)
class Head:
    """The description of a trace."""

    arguments: Mapping[str, Any]  # of TraceWriter
    roles: Callable[[str, tuple[int, ...]], str | None]
    numbers: Mapping[int, Mapping[str, float]]  # step -> loss, learning_rate
    scales: Mapping[int, float]  # step -> the loss scale to divide by; 1 without
    accumulate: str | None  # the type in which micro-batches are added
    check_stage: bool  # whether to refuse workers with equal values


class Workshop:
    """The hidden folder beside the destination in which a conversion works; one process at a time.

    It remains after a kill. The next conversion with the same destination continues it if it is the
    same conversion of the same files, and removes it otherwise. A dry run has none.
    """

    def __init__(self, destination: Path, dry_run: bool = False):
        self.destination = destination
        self._dry_run = dry_run
        self._writing = Writing(destination, "apscope convert", into=False)
        self.sync = SyncAhead()

    def __enter__(self) -> Workshop:
        if not self._dry_run:
            self._writing.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._dry_run:
            return
        if kind is not None:
            with contextlib.suppress(OSError):
                self.sync.end()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._writing.leave()  # the same command continues
        self._writing.__exit__(kind, error, trace)

    def fetched(self) -> Path:
        """The folder for fetched files; a dry run writes nothing beside the destination."""
        return (
            Path(tempfile.mkdtemp(prefix="apscope-"))
            if self._dry_run
            else self._writing.fresh / "fetched"
        )

    @property
    def trace(self) -> Path:
        """The folder of the unfinished trace."""
        return self._writing.new

    def prepare(self, fingerprint: str) -> None:
        """Continues the same conversion, and removes the files of another one."""
        same = [path for path in self._writing.left if _fingerprint_in(path) == fingerprint]
        if same:
            self._writing.go_on_in(same[-1])
        self._writing.clear()
        if not same:
            (self._writing.fresh / "fingerprint").write_text(fingerprint, encoding="utf-8")

    def finish(self) -> None:
        """Moves the trace to its place."""
        self.sync.end()
        self._writing.put_folder(self.sync.done)


def _fingerprint_in(folder: Path) -> str:
    try:
        return (folder / "fingerprint").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def fingerprint(files: list[File], options: Mapping[str, Any]) -> str:
    """A digest of the files' names, sizes and times, and of everything that affects the result."""
    listed = [[file.name, file.size, file.stamp] for file in files]
    return hashlib.sha256(
        json.dumps([listed, options], default=str, sort_keys=True).encode()
    ).hexdigest()


def write_trace(
    layout: Layout,
    tensors: list[str],
    readers: Readers,
    workshop: Workshop,
    head: Head,
    *,
    sample: float | None,
    round_to_fp32: bool,
    progress: bool,
    tell: Callable[[str], None],
) -> list[str]:
    """Writes every missing step, and returns remarks on the values.

    Raises
    ------
    ValueError
        A file is damaged, has values that a trace cannot store, or workers have equal values and
        `head` refuses that; the sentence names the file.
    """
    shapes = layout.shapes()
    blocks = (
        {
            tensor: chosen_blocks(tensor, int(np.prod(shape, dtype=object)), sample)
            for tensor, shape in shapes.items()
        }
        if sample is not None
        else {}
    )
    last_step: dict[str, int] = {}
    for step, _, unit in layout.files():
        last_step[unit.label] = max(step, last_step.get(unit.label, step))
    used_up: dict[int, dict[str, Unit]] = {step: {} for step in layout.steps}
    for _, _, unit in layout.files():
        used_up[last_step[unit.label]][unit.label] = unit

    def read(place: Place, tensor: str) -> tuple[np.ndarray, str]:
        with reading(place.item.label):
            values = readers.open(place.item.unit).read(place.item.entry.key, place.index)
            if values.shape != place.shape:
                raise ValueError(
                    f"its shape is {list(values.shape)}, its header says {list(place.shape)}"
                )
            return (take_blocks(values, blocks[tensor]) if tensor in blocks else values), place.word

    writer = TraceWriter(
        workshop.trace,
        **head.arguments,
        workers=layout.workers,
        sampled_from={
            tensor: size
            for tensor in blocks
            if (size := int(np.prod(shapes[tensor], dtype=object)))
        },
        roles=lambda name, _: head.roles(name, shapes[name]) or guess_role(name, shapes[name]),
        resume=True,
        durable=False,  # the whole folder is synced when it is moved
    )
    done = set(writer.committed)
    if done:
        tell(f"continuing after step {max(done)}, where this conversion was interrupted")
    changes = Changes()
    unequal = not head.check_stage or layout.workers == 1
    with (
        writer,
        tqdm(
            total=len(layout.steps) * layout.workers * len(tensors),
            unit="tensor",
            disable=not progress,
            desc="convert",
        ) as bar,
    ):
        for step in layout.steps:
            if step in done:
                bar.update(layout.workers * len(tensors))
                continue
            ranks = []
            for worker in range(layout.workers):
                digest = None if unequal else hashlib.blake2b()
                for tensor in tensors:
                    place = layout.places.get((step, worker, tensor))
                    parts: list[tuple[np.ndarray, str]] = []
                    if place is None:  # missing, and zeros were asked for
                        stored = np.zeros(shapes[tensor], np.float32)
                        if tensor in blocks:
                            stored = take_blocks(stored, blocks[tensor])
                    else:
                        parts = [read(batch, tensor) for batch in place.batches]
                        with reading(place.item.label):
                            stored = stored_values(
                                parts,
                                place.item.label,
                                accumulate=head.accumulate,
                                scale=head.scales.get(step, 1.0),
                                round_to_fp32=round_to_fp32,
                            )
                    if digest is not None and any(values.any() for values, _ in parts):
                        digest.update(tensor.encode(errors="surrogatepass"))
                        digest.update(stored.tobytes())
                    writer.add(step, worker, tensor, stored)
                    if worker == 0:
                        changes.see(tensor, stored)
                    bar.update()
                ranks.append(digest)
            if not unequal and ranks[0] is not None:
                unequal = _differ(
                    {rank.digest() for rank in ranks if rank is not None}, layout, step
                )
            changes.end_step()
            writer.end_step(step, **head.numbers.get(step, {}))
            workshop.sync.begin(step_folder(writer.path, step).iterdir())
            for unit in used_up[step].values():
                for file in unit.files:
                    file.forget()
    return changes.notes


def _differ(digests: set[bytes], layout: Layout, step: int) -> bool:
    """Whether the workers' gradients at a step differ, by their digests; False if all are zeros.

    Raises
    ------
    ValueError
        They are equal, and not zeros.
    """
    if digests == {hashlib.blake2b().digest()}:
        return False
    if len(digests) == 1:
        label = next(
            place.item.unit.label for (s, _, _), place in layout.places.items() if s == step
        )
        raise ValueError(
            f"{label}: all {layout.workers} workers have the same gradients at step {step}, as "
            "after an all-reduce; pass --stage reduced or clipped, or --stage local if they are "
            "each worker's own"
        )
    return True
