"""cut: makes a small trace of a large one, of whole rows at random places."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .._arrays.checks import integer
from .._dumps.sample import at_random
from .._folders.writing import Writing, refuse_dangling
from .._replay.memory import number_of_bytes
from .._text import count_of
from .._traces.opening import open_trace
from .._traces.trace import Trace
from ._safetensors import BFLOAT16
from ._writer import TraceWriter

KINDS = ("gradient", "weights", "full_batch")
LONGEST = 1024


@dataclass
class Pieces:
    """A tensor as pieces of equal length: its rows, or runs of elements where rows are long."""

    name: str
    shape: tuple[int, ...]
    length: int  # elements of a piece
    count: int
    width: int = 2  # bytes of a stored element: 2 if all are bfloat16 numbers, else 4
    peaks: frozenset[int] = frozenset()  # pieces with the largest magnitude of a step

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], longest: int) -> Pieces:
        size = math.prod(shape)
        row = size // shape[0] if len(shape) > 1 and size else size
        length = max(1, min(row, longest))
        return cls(name, shape, length, math.ceil(size / length))

    @property
    def are_rows(self) -> bool:
        return len(self.shape) > 1 and self.count == self.shape[0]

    @property
    def cut_shape(self) -> tuple[int, ...]:
        """Of the pieces that stay: rows keep their axes, and a tensor of one axis has one."""
        if len(self.shape) < 2:
            return (-1,)
        return (-1, *self.shape[1:]) if self.are_rows else (-1, self.length)

    def take(self, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The pieces of these numbers; the last one ends where the tensor ends."""
        flat = values.reshape(-1)
        starts = np.minimum(numbers * self.length, flat.size - self.length)
        return flat[starts[:, None] + np.arange(self.length)].reshape(self.cut_shape)

    def chosen(self, wanted: int) -> np.ndarray:
        """`wanted` pieces at random and those with the largest magnitudes."""
        return np.union1d(
            at_random(self.name, self.count, wanted),
            np.array(sorted(self.peaks), dtype=np.int64),
        )

    def look(self, values: list[np.ndarray]) -> int:
        """The piece with the largest magnitude; notes whether all values are bfloat16 numbers."""
        best, at = -1.0, 0
        for row in values:
            flat = row.reshape(-1)
            for begin in range(0, flat.size, 2**20):  # copies little of a large tensor
                part = flat[begin : begin + 2**20]
                if self.width == 2 and not _is_bfloat16(part):
                    self.width = 4
                magnitudes = np.nan_to_num(np.abs(part), nan=np.inf)
                if (peak := float(magnitudes.max())) > best:
                    best, at = peak, begin + int(magnitudes.argmax())
        return at // self.length


def cut(
    trace: str | os.PathLike[str] | Trace,
    destination: str | os.PathLike[str],
    *,
    size: int | str,
    longest: int = LONGEST,
    name: str | None = None,
    progress: bool = False,
) -> Trace:
    """Makes a small trace of a large one.

    Of every tensor of two or more axes stay whole rows (slices along its first axis): the same
    share of each tensor's at random places, at least one, and of every recorded step the row with
    the largest magnitude of all workers, from which a layer's scale follows. A row of more than
    `longest` elements, and a tensor of one axis, is in runs of that many consecutive elements
    instead, so that blocks of 32 elements stay whole; a tensor of at most a run stays whole.
    Gradients, weights and the full batch's gradient are cut alike; layers' inputs and activation
    gradients are left out. Values that are bfloat16 numbers in the whole tensor are stored so.

    What depends on other rows changes: blocks and units across rows, low rank, Fourier transforms,
    a top-k of a tensor. Each tensor's ``sampled_from`` makes a replay's counts and sums those of
    the whole. The metadata say what was cut: ``cut`` in words, ``cut_from`` the whole trace's
    hash, and as JSON ``cut_shapes`` (tensor -> shape before) and ``cut_pieces`` (tensor ->
    elements of a piece and the pieces' numbers). The random places depend on names and sizes
    alone, and a larger cut contains a smaller one's rows.

    Parameters
    ----------
    trace : path-like, URL or Trace
    destination : path-like
        The trace's folder; must not exist. It is written whole or not at all.
    size : int or str
        The most bytes that its files have together, or a text such as ``6MB``.
    longest : int
        The longest row that stays whole, in elements; 1 or more.
    name : str, optional
        What reports call it; by default the trace's name.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    Trace
        The new one. Memory is bounded by one tensor of one worker and a step of the result.

    Raises
    ------
    ValueError
        `size` is too small, with the least that is enough; the trace is a cut already; the
        destination exists; a file of the trace is damaged.
    """
    most = number_of_bytes("size", size)
    longest = integer("longest", longest, 1, 2**31 - 1)
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name is {name!r}; it must be a string")
    refuse_dangling(destination)
    if os.path.lexists(destination):
        raise ValueError(f"{os.fspath(destination)} exists; give a folder that does not")
    source = trace if isinstance(trace, Trace) else open_trace(trace)
    if "cut_from" in source.manifest.metadata:
        raise ValueError(f"{source.source} is a cut already; cut the whole trace again")
    source.require(kinds=KINDS)
    with tqdm(
        total=2 * len(list(_records(source))) * len(source.tensors),
        unit="tensor", disable=not progress, desc="cut",
    ) as bar:  # fmt: skip
        kept = _choose(source, most, longest, bar)
        with Writing(destination, "apscope cut", into=False) as writing:
            _write(source, writing.new, kept, name, bar)
            source.check_unchanged()
            writing.put_folder()
            writing.clear()
    return open_trace(destination)


def _records(trace: Trace) -> Iterator[tuple[int, str, int]]:
    """Step, kind and rank of every file that is cut."""
    recorded = trace.recorded()
    for step in trace.steps:
        for kind in KINDS:
            if step in recorded[kind]:
                yield from (
                    (step, kind, rank) for rank in range(trace.workers if kind == "gradient" else 1)
                )


def _choose(
    trace: Trace, size: int, longest: int, bar: tqdm[Any]
) -> dict[str, tuple[Pieces, np.ndarray]]:
    """Tensor -> its pieces and the numbers of those that stay, of tensors that do not stay whole."""
    tensors = [Pieces.of(name, shape, longest) for name, shape in trace.shapes.items()]
    files = list(_records(trace))
    for step, kind in dict.fromkeys(record[:2] for record in files):
        ranks = range(trace.workers if kind == "gradient" else 1)
        for tensor in tensors:
            if tensor.count:
                peak = tensor.look([trace.read(step, tensor.name, w, kind) for w in ranks])
                tensor.peaks |= {peak} if kind == "gradient" else set()
            bar.update(len(ranks))
    # Headers of the files and the manifest: names, shapes, offsets, the lists of pieces.
    fixed = (len(files) + 3) * (200 + sum(len(json.dumps(t.name)) + 120 for t in tensors))
    fixed += (trace.path / "manifest.json").stat().st_size

    def chosen(share: float) -> dict[str, tuple[Pieces, np.ndarray]]:
        found = {
            t.name: (t, t.chosen(max(1, math.floor(t.count * share)))) for t in tensors if t.count
        }
        return {name: kept for name, kept in found.items() if len(kept[1]) < kept[0].count}

    def needed(kept: dict[str, tuple[Pieces, np.ndarray]]) -> int:
        counts = [len(kept[t.name][1]) if t.name in kept else t.count for t in tensors]
        each = sum(t.width * t.length * count for t, count in zip(tensors, counts))
        return fixed + 12 * sum(counts) + len(files) * each

    if (least := needed(chosen(0.0))) > size:
        widest = max(tensors, key=lambda tensor: tensor.length)
        raise ValueError(
            f"{size} bytes may be too few for a row of each of the "
            f"{count_of(len(tensors), 'tensor')}, the longest of which has {widest.length} elements "
            f"({widest.name}); give {least} or more, or a smaller longest"
        )
    low, high = 0.0, 1.0
    if needed(chosen(1.0)) <= size:
        return chosen(1.0)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(chosen(middle)) <= size else (low, middle)
    return chosen(low)


def _write(
    trace: Trace,
    folder: os.PathLike[str],
    kept: dict[str, tuple[Pieces, np.ndarray]],
    name: str | None,
    bar: tqdm[Any],
) -> None:
    manifest = trace.manifest
    whole = sum(tensor.size for tensor in manifest.tensors)
    stay = sum(
        len(kept[t.name][1]) * kept[t.name][0].length if t.name in kept else t.size
        for t in manifest.tensors
    )
    in_runs = [tensor for tensor, (pieces, _) in kept.items() if not pieces.are_rows]
    words = f"rows at random and those with the largest magnitudes, {stay} of {whole} elements"
    if in_runs:
        length = kept[in_runs[0]][0].length
        words += (
            f"; runs of {length} elements of {count_of(len(in_runs), 'tensor')} with longer rows"
        )
    about = {
        "cut": words,
        "cut_from": trace.hash,
        "cut_shapes": json.dumps({tensor: trace.shapes[tensor] for tensor in kept}),
        "cut_pieces": json.dumps(
            {
                tensor: {"elements": pieces.length, "numbers": numbers.tolist()}
                for tensor, (pieces, numbers) in kept.items()
            }
        ),
    }
    if not kept:  # all of it has the size
        about = {}
    ends = {step.number: step for step in manifest.steps}
    with TraceWriter(
        folder,
        workers=trace.workers,
        model=manifest.model,
        name=name or trace.name,
        stage=manifest.stage,
        reduction=manifest.reduction,
        loss_divided_by_workers=manifest.loss_divided_by_workers,
        roles=trace.roles,
        metadata={**manifest.metadata, **about},
        sampled_from={
            t.name: t.sampled_from or t.size
            for t in manifest.tensors
            if t.name in kept or t.sampled_from
        },
        durable=False,  # the whole folder is synced when it is moved
    ) as writer:
        records = list(_records(trace))
        for i, (step, kind, rank) in enumerate(records):
            for tensor in trace.tensors:
                values = trace.read(step, tensor, rank, kind)
                if tensor in kept:
                    pieces, numbers = kept[tensor]
                    values = pieces.take(values, numbers)
                writer.add(step, rank, tensor, _narrow(values), kind)
                bar.update()
            if i + 1 == len(records) or records[i + 1][0] != step:
                end = ends[step]
                writer.end_step(
                    step, loss=end.loss, learning_rate=end.learning_rate, loss_scale=end.loss_scale
                )


def _narrow(values: np.ndarray) -> np.ndarray:
    """bfloat16 where that has every value."""
    if not _is_bfloat16(values):
        return values
    bits = np.ascontiguousarray(values).view(np.uint32)
    return (bits >> 16).astype("<u2").view(BFLOAT16)


def _is_bfloat16(values: np.ndarray) -> bool:
    return not (np.ascontiguousarray(values).view(np.uint32) & 0xFFFF).any()
