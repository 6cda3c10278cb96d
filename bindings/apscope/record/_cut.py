"""cut: makes a small trace of a large one, of runs of elements at random places."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .._arrays.checks import integer
from .._arrays.memory import number_of_bytes
from .._folders.writing import Writing, refuse_dangling
from .._text import count_of
from .._traces.opening import TraceLike, as_trace, open_trace
from .._traces.safetensors import as_bfloat16
from .._traces.trace import Trace
from .._traces.writer import TraceWriter
from ._cut_choice import LEAST, Pieces

KINDS = ("gradient", "weights", "full_batch")
LONGEST = 64


@dataclass
class Kept:
    """What stays of a tensor that does not stay whole."""

    pieces: Pieces
    numbers: np.ndarray  # of the pieces, ascending
    singles: np.ndarray  # elements

    def take(self, values: np.ndarray) -> np.ndarray:
        return self.pieces.take(values, self.numbers, self.singles)

    @property
    def elements(self) -> int:
        return self.pieces.kept(len(self.numbers), self.singles.size)


def cut(
    trace: TraceLike,
    destination: str | os.PathLike[str],
    *,
    size: int | str,
    longest: int = LONGEST,
    name: str | None = None,
    progress: bool = False,
) -> Trace:
    """Makes a small trace of a large one.

    Of every tensor stay rows (slices along its first axis), or runs of `longest` consecutive
    elements of longer rows, of 32 of a tensor of one axis: at random places, and so that their
    energies are the whole's. Half of the room goes by the tensors' elements, half by their energies
    (the squares of the workers' sum). For the scale of a layer the element with the largest
    magnitude of all workers stays of every recorded step: after the runs, as single elements, with
    others at random that fill up a row. Gradients, weights and the full batch's gradient are cut
    alike; layers' inputs and activation gradients are left out. Values that are bfloat16 numbers in
    the whole tensor are stored so.

    Energies: a tensor's pieces in the order of theirs are in groups of equal size, and one of each
    group is drawn; of 500 such choices that one stays whose energies are nearest to the whole's at
    the recorded steps (the least sum of squares of the binades between them).

    What depends on other rows changes: the scales of workers and shards in two phases, blocks and
    units across rows, low rank, Fourier transforms, a top-k of a tensor. Each tensor's
    ``sampled_from`` makes a replay's counts and sums those of the whole. The metadata say what was
    cut: ``cut`` in words, ``cut_from`` the whole trace's hash, and as JSON ``cut_shapes`` (tensor
    -> shape before) and ``cut_pieces`` (tensor -> elements of a piece, the pieces' numbers, the
    single elements). The choice depends on the trace and the size alone.

    Parameters
    ----------
    trace : path-like, URL, Trace or gradients
        Gradients in memory as for `from_arrays`.
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
        The new one. Memory is bounded by one tensor of all workers, a step of the result, and eight
        bytes per piece and step.

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
    source = as_trace(trace)
    if "cut_from" in source.manifest.metadata:
        raise ValueError(f"{source.source} is a cut already; cut the whole trace again")
    refuse_dangling(destination)
    if os.path.lexists(destination):
        raise ValueError(f"{os.fspath(destination)} exists; give a folder that does not")
    source.require(kinds=KINDS)
    with tqdm(
        total=3 * len(list(_records(source))) * len(source.tensors),
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


def _choose(trace: Trace, size: int, longest: int, bar: tqdm[Any]) -> dict[str, Kept]:
    """What stays of the tensors that do not stay whole."""
    steps = list(trace.recorded()["gradient"])
    tensors = [Pieces.of(name, shape, longest, len(steps)) for name, shape in trace.shapes.items()]
    filled = [tensor for tensor in tensors if tensor.count]
    files = list(_records(trace))
    for step, kind in dict.fromkeys(record[:2] for record in files):
        ranks = range(trace.workers if kind == "gradient" else 1)
        for tensor in filled:
            rows = [trace.read(step, tensor.name, w, kind) for w in ranks]
            if kind == "gradient":
                tensor.look(steps.index(step), rows)
            else:
                tensor.see(rows[0])
            bar.update(len(ranks))
    singles = {tensor.name: tensor.singles() for tensor in filled}
    room = _room(filled)
    # Headers of the files and the manifest: names, shapes, offsets, the lists of pieces.
    fixed = (len(files) + 3) * (200 + sum(len(json.dumps(t.name)) + 90 for t in tensors))
    fixed += (trace.path / "manifest.json").stat().st_size

    def counts(share: float) -> dict[str, int]:
        """Pieces of the tensors that do not stay whole."""
        drawn = {
            t.name: t.drawn(share * part, trace.workers, singles[t.name].size)
            for t, part in zip(filled, room)
        }
        return {
            t.name: drawn[t.name]
            for t in filled
            if t.kept(drawn[t.name], singles[t.name].size) < t.size
        }

    def needed(count: dict[str, int]) -> int:
        each = 0
        lists = 0
        for t in filled:
            alone = singles[t.name].size if t.name in count else 0
            each += t.width * (t.kept(count[t.name], alone) if t.name in count else t.size)
            lists += count.get(t.name, 0) + alone
        return fixed + 12 * lists + len(files) * each

    elements = float(sum(tensor.size for tensor in filled))
    low, high = 0.0, 2 * elements
    if (least := needed(counts(low))) > size:
        widest = max(tensors, key=lambda tensor: tensor.length)
        raise ValueError(
            f"{size} bytes may be too few for {LEAST} rows of each of the "
            f"{count_of(len(tensors), 'tensor')}, the longest of which has {widest.length} "
            f"elements ({widest.name}); give {least} or more, or a smaller longest"
        )
    if needed({}) <= size:
        return {}
    while high - low > 1e-6 * elements:
        middle = (low + high) / 2
        low, high = (middle, high) if needed(counts(middle)) <= size else (low, middle)
    drawn = counts(low)
    return {
        t.name: Kept(t, t.choose(drawn[t.name], singles[t.name], energies), singles[t.name])
        for t in filled
        if t.name in drawn
        for energies in [_energies(trace, steps, t.name, singles[t.name], bar)]
    }


def _room(tensors: list[Pieces]) -> list[float]:
    """Each tensor's part of the elements that stay: half by its elements, half by its energies."""
    sizes = np.array([tensor.size for tensor in tensors], dtype=float)
    totals = np.array([tensor.energy.sum(axis=1) for tensor in tensors])
    of_steps = totals.sum(axis=0)
    used = of_steps > 0
    by_size = sizes / max(1.0, sizes.sum())
    if not used.any():
        return by_size.tolist()
    by_energy = (totals[:, used] / of_steps[used]).mean(axis=1)
    return ((by_size + by_energy) / 2).tolist()


def _energies(
    trace: Trace, steps: list[int], tensor: str, singles: np.ndarray, bar: tqdm[Any]
) -> np.ndarray:
    """(steps,): the squares of the workers' sums of these elements, added."""
    energies = np.zeros(len(steps))
    for i, step in enumerate(steps):
        total = np.zeros(singles.size)
        for rank in range(trace.workers):
            values = trace.read(step, tensor, rank).reshape(-1)[singles]
            total += np.where(np.isfinite(values), values, 0)
            bar.update()
        energies[i] = np.square(total).sum()
    return energies


def _write(
    trace: Trace,
    folder: os.PathLike[str],
    kept: dict[str, Kept],
    name: str | None,
    bar: tqdm[Any],
) -> None:
    manifest = trace.manifest
    elements = sum(tensor.size for tensor in manifest.tensors)
    stay = sum(kept[t.name].elements if t.name in kept else t.size for t in manifest.tensors)
    longest = max((k.pieces.length for k in kept.values()), default=0)
    words = (
        f"runs of at most {count_of(longest, 'element')} at random and the largest magnitudes, "
        f"{stay} of {elements} elements"
    )
    about = {
        "cut": words,
        "cut_from": trace.hash,
        "cut_shapes": json.dumps({tensor: trace.shapes[tensor] for tensor in kept}),
        "cut_pieces": json.dumps(
            {
                tensor: {
                    "elements": k.pieces.length,
                    "numbers": k.numbers.tolist(),
                    "singles": k.singles.tolist(),
                }
                for tensor, k in kept.items()
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
                    values = kept[tensor].take(values)
                writer.add(step, rank, tensor, as_bfloat16(values), kind)
                bar.update()
            if i + 1 == len(records) or records[i + 1][0] != step:
                end = ends[step]
                writer.end_step(
                    step, loss=end.loss, learning_rate=end.learning_rate, loss_scale=end.loss_scale
                )
