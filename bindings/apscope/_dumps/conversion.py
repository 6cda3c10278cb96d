"""convert: makes a trace from a dump, or gives the reason in one sentence if it cannot."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from .._arrays.casts import decode
from .._folders.reading import read_limited
from .._folders.writing import clear_left, refuse_dangling
from .._limits import TEXT_LENGTH
from .._text import count_of
from .._traces.opening import open_trace
from .._traces.order import FILES, GIVEN
from .._traces.roles import Roles
from .._traces.roles import said as said_role
from .._traces.selection import parse_steps
from .._traces.trace import Trace
from .dtypes import CODES, code_word, numpy_dtype, raw_word
from .layout import Layout, Options, lay_out
from .names import Item, name_all, number_of
from .order import order_tensors
from .sample import BLOCK
from .sources import Source, is_address
from .units import Apart, Readers, Unit, find_units, told
from .write import Head, Workshop, fingerprint, write_trace


@dataclass(frozen=True)
class Conversion:
    """The result of :func:`convert`.

    Attributes
    ----------
    trace : Trace or None
        None after a dry run.
    pattern : str
        The expression that matched the names.
    ignored : tuple of str
        Arrays and files that it did not match, unreadable files that were not selected, and files
        without arrays.
    understood : str
        Files, steps, workers, tensors, and the source of the order of layers.
    notes : tuple of str
        Assumptions, and other remarks.
    """

    trace: Trace | None
    pattern: str
    ignored: tuple[str, ...]
    understood: str = ""
    notes: tuple[str, ...] = ()


def convert(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    reduction: str,
    pattern: str | None = None,
    worker_axis: int | str | None = None,
    step_axis: int | str | None = None,
    workers: int | None = None,
    steps: str | slice | list[int] | None = None,
    tensors: str | None = None,
    order: str | os.PathLike[str] | None = None,
    sample: float | None = None,
    stage: str | None = None,
    loss_divided_by_workers: bool = False,
    loss_scale: float | str | None = None,
    accumulation: int | None = None,
    name: str | None = None,
    model: str = "",
    roles: Roles = None,
    round_to_fp32: bool = False,
    raw_dtype: str | None = None,
    densify: bool = False,
    trust_pickle: bool = False,
    python: str | None = None,
    dry_run: bool = False,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Conversion:
    """Converts a dump of gradients (torch, NumPy, safetensors, HDF5, zarr) to a trace.

    Files are recognised by their content, not by their extension. One step is in memory at a time.
    The trace is written in a hidden folder and renamed, so `destination` is complete or does not
    exist; after a kill the same call continues. Nothing in a file is executed, except, with
    `trust_pickle`, a distributed checkpoint's metadata.

    Parameters
    ----------
    source : path-like or str
        A folder, searched through all its folders, or one file; or an fsspec address, such as
        ``s3://bucket/dump``.
    destination : path-like
        The trace's folder; it must not exist.
    reduction : {"mean", "sum"}
        How training combined the workers' gradients; a dump does not say.
    pattern : str, optional
        Regular expression with the named groups ``step``, ``worker`` and ``tensor``. It must match
        the whole of ``folder/file/key``: the path below `source` without its extension, and the
        array's key if files have keys (nested ones joined by ``/``). Without a ``tensor`` group it
        must match ``folder/file`` and the key is the tensor's name. Without ``worker`` there is one
        worker, without ``step`` one step. Arrays that do not match are left out and listed in the
        result. By default the first of ``DEFAULT_PATTERNS`` that matches everything.
    worker_axis, step_axis : int or "none", optional
        The axis of every array, from 0, that counts the workers, or the steps (numbered from 0);
        ``"none"`` says that none does although arrays look stacked.
    workers : int, optional
        Number of workers; 1 also says that each array belongs to one worker.
    steps : str, slice or list of int, optional
        Step numbers to take: ``"A:B"``, half open, or ``"A,B,C"``.
    tensors : str, optional
        Regular expression; selects tensors whose name it matches somewhere.
    order : path-like, optional
        A file with the tensors' names in the order of layers, one per line. By default the
        files' own order if they have one, else the natural order of the names (``layers.9`` before
        ``layers.11``).
    sample : float, optional
        Take this fraction of every tensor, in whole blocks of 4096 elements, the same at every step
        and worker: the tensors become one-dimensional, and the trace's metadata has their shapes.
        Above 0, at most 1.
    stage : {"local", "reduced", "clipped"}, optional
        Where gradients were taken. By default local, and then a dump in which all workers have the
        same values is refused.
    loss_scale : float or "recorded", optional
        The factor that the gradients still include because the loss was scaled, 1 for none;
        ``"recorded"`` uses the files' ``loss_scale``, or their state of a GradScaler. Required if
        the files have one.
    accumulation : int, optional
        Number of backward passes that each gradient is the sum of; stored in the metadata.
    loss_divided_by_workers, name, model, roles
        As for :class:`apscope.record.TraceWriter`.
    round_to_fp32 : bool
        Round float64 values that are not fp32 values to fp32, ties to even, instead of refusing
        them.
    raw_dtype : str, optional
        The type of arrays of integers or of untyped bytes: ``bfloat16``, ``float8_e4m3fn`` and so
        on.
    densify : bool
        Fill sparse tensors with zeros instead of refusing them.
    trust_pickle : bool
        Open a torch distributed checkpoint, whose metadata is a pickle.
    python : str, optional
        The interpreter that reads torch's files; by default this one.
    dry_run : bool
        Only report how the dump is understood; nothing is written.
    progress : bool
        Show a progress bar.
    tell : callable, optional
        Receives lines of text: first how the dump was understood, then the assumptions.

    Returns
    -------
    Conversion
        The trace, the pattern used, what it did not match, how the dump was understood, and
        assumptions.

    Raises
    ------
    ValueError
        A file is damaged or unreadable, no pattern matches, two arrays have the same step, worker
        and tensor, a combination is missing, shapes differ between steps or workers, arrays look
        stacked and no axis is given, or values are not fp32 values. The sentence names the file and
        says what to do.
    """
    said = dict(locals())
    say = tell or (lambda _: None)
    _check(said)
    destination = Path(destination)
    workshop = Workshop(destination, dry_run)
    if os.path.lexists(destination):
        if not dry_run:  # a kill at the end may have left files
            clear_left(destination, "apscope convert")
        raise ValueError(f"{destination} exists; convert into a new folder")
    options = Options(
        worker_axis=worker_axis,
        step_axis=step_axis,
        workers=workers,
        steps=parse_steps(steps),
        raw=None if raw_dtype is None else code_word(raw_dtype),
        densify=densify,
    )
    with closing(Source(source, workshop.fetched)) as files, workshop:
        if not dry_run:
            workshop.prepare(
                fingerprint(
                    list(files.files),
                    {key: said[key] for key in _DECISIVE} | {"order": _contents(order)},
                )
            )
        with closing(Readers(files, trust_pickle=trust_pickle, python=python)) as readers:
            apart = Apart(pattern, tensors)
            units, others = find_units(files, apart)
            dump = _Dump(units, readers, apart, options, files.text)
            single = len(units) == 1
            used, named, ignored = name_all(dump.items, pattern, single, tensors)
            apart.settle(used, {item.entry.key for item in dump.items})
            layout = lay_out(named, options, files.text)
            _check_last(layout)
            names, origin = order_tensors(
                layout.tensors, dump.ordered(layout), None if order is None else os.fspath(order)
            )
            numbers = dump.numbers(layout, used, loss_scale)
            understood = _understood(layout, names, origin)
            notes = [*_assumed(stage, loss_scale, accumulation), *dump.notes]
            notes += [
                f"{len(found)} {what} left out, the first {found[0]}"
                for what, found in (
                    ("arrays", ignored),
                    ("files that the pattern does not match", apart.left_out),
                    ("files that cannot be read", list(apart.broken)),
                    ("files without arrays", others),
                )
                if found
            ]
            for line in (understood, *notes):
                say(line)
            if not dry_run:
                metadata = {
                    "converted_from": files.text.rstrip("/").rsplit("/", 1)[-1],
                    "pattern": used,
                    "tensor_order": origin,
                }
                metadata |= {"stage_given": "no"} if stage is None else {}
                metadata |= {"accumulation": str(accumulation)} if accumulation is not None else {}
                metadata |= _sampled(sample, layout, names)
                head = Head(
                    arguments={
                        "model": model,
                        "name": name,
                        "stage": stage or "local",
                        "reduction": reduction,
                        "loss_divided_by_workers": loss_divided_by_workers,
                        "metadata": metadata,
                    },
                    roles=lambda tensor, shape: said_role(roles, tensor, shape),
                    numbers=numbers,
                    check_stage=stage is None,
                )
                write_trace(
                    layout,
                    names,
                    readers,
                    workshop,
                    head,
                    sample=sample,
                    round_to_fp32=round_to_fp32,
                    progress=progress,
                    tell=say,
                )
                workshop.finish()
    return Conversion(
        None if dry_run else open_trace(destination),
        used,
        (*ignored, *apart.left_out, *apart.broken, *others),
        understood,
        tuple(notes),
    )


#: Arguments that decide the content of the trace.
_DECISIVE = (
    "reduction", "pattern", "worker_axis", "step_axis", "workers", "steps", "tensors", "sample",
    "stage", "loss_divided_by_workers",
    "loss_scale", "accumulation", "name", "model", "round_to_fp32", "raw_dtype", "densify",
)  # fmt: skip


def _contents(path: str | os.PathLike[str] | None) -> str:
    """The content of a file, if it can be read."""
    try:
        return "" if path is None else read_limited(path, TEXT_LENGTH).hex()
    except (OSError, ValueError):
        return ""


class _Dump:
    """All arrays of all units, and the numbers beside them."""

    def __init__(
        self, units: list[Unit], readers: Readers, apart: Apart, options: Options, source: str
    ):
        self.items: list[Item] = []
        self.notes: list[str] = []
        self._ordered: dict[str, bool] = {}
        self._numbers: list[
            tuple[Unit, str, str, float, int | None]
        ] = []  # address, kind, value, step if given by an axis
        axes = [axis for axis in (options.worker_axis, options.step_axis) if isinstance(axis, int)]
        taken: dict[str, None] = {}
        for unit in units:
            try:
                reader = readers.open(unit)
                with told(unit.label):
                    if not reader.entries:
                        raise ValueError("it has no array; remove it from the dump")
            except ValueError as error:
                apart.tell(unit.stem, error)
                continue
            with told(unit.label):
                found: list[tuple[str, str, float, int | None]] = [
                    (path, kind, value, None)
                    for path, value in reader.scalars.items()
                    if (kind := number_of(path))
                ]
                for entry in reader.entries:
                    word = raw_word(entry.dtype, options.raw)
                    shape = [length for axis, length in enumerate(entry.shape) if axis not in axes]
                    kind = number_of(entry.key or unit.stem, shape)
                    if kind is None or entry.layout != "dense" or numpy_dtype(word) is None:
                        self.items.append(Item(unit, entry))
                    else:
                        taken[re.split("[/.]", entry.key or unit.stem)[-1]] = None
                        values = _decoded(reader.read(entry.key), word)
                        found += [
                            (entry.key, kind, value, step)
                            for value, step in _by_step(values, options.step_axis)
                        ]
            for path, kind, value, step in found:
                if kind:
                    self._numbers.append(
                        (unit, f"{unit.stem}/{path}" if path else unit.stem, kind, value, step)
                    )
            self._ordered[unit.label] = reader.ordered
            self.notes += [note for note in reader.notes if note not in self.notes]
        for left in () if self.items else apart.broken.values():
            raise left
        if not self.items:
            raise ValueError(
                f"{source} has no array except {', '.join(taken)}, numbers of a step; dump the "
                "gradients beside them"
            )
        if taken:
            self.notes.append(f"treated as numbers of a step, not as tensors: {', '.join(taken)}")

    def ordered(self, layout: Layout) -> bool:
        """Whether the first step and worker have one unsorted file, in the order of layers."""
        units = {
            place.item.unit.label
            for (step, worker, _), place in layout.places.items()
            if step == layout.steps[0] and worker == 0
        }
        return len(layout.tensors) == 1 or (
            len(units) == 1 and all(self._ordered[label] for label in units)
        )

    def numbers(
        self, layout: Layout, pattern: str, loss_scale: float | str | None
    ) -> dict[int, dict[str, float]]:
        """Loss (the workers' mean), learning rate and loss scale of every step that has them."""
        regex = re.compile(pattern)
        # A file with only numbers may be of any step.
        steps: dict[str, set[int]] = {unit.label: set(layout.steps) for unit, *_ in self._numbers}
        steps |= {item.unit.label: set() for item in self.items}
        for (step, _, _), place in layout.places.items():
            steps.setdefault(place.item.unit.label, set()).add(step)
        found: dict[int, dict[str, list[float]]] = {step: {} for step in layout.steps}
        for unit, address, key, value, counted in self._numbers:
            match = regex.fullmatch(address if "tensor" in regex.groupindex else unit.stem)
            named = match.groupdict().get("step") if match else None
            own = counted if named is None else int(named)
            of = steps[unit.label] if own is None else steps[unit.label] & {own}
            if key == "loss_scale" and value != 1 and loss_scale is None and of:
                raise ValueError(
                    f"{unit.label} has the loss scale {value:g}, and nothing says whether its "
                    "gradients still include it; pass --loss-scale "
                    f"{'recorded' if len(of) == 1 else f'{value:g}'} if they do, --loss-scale 1 if "
                    "they were unscaled"
                )
            if len(of) == 1:
                found[next(iter(of))].setdefault(key, []).append(value)
        if loss_scale == "recorded" and (
            lost := [step for step, values in found.items() if "loss_scale" not in values]
        ):
            raise ValueError(
                f"loss_scale is 'recorded', but the files of step {lost[0]} have no loss_scale; "
                "give the number"
            )
        numbers: dict[int, dict[str, float]] = {}
        for step, values in found.items():
            numbers[step] = {
                key: fmean(several) for key, several in values.items() if key != "loss_scale"
            }
            if loss_scale == "recorded":
                if len(set(values["loss_scale"])) > 1:
                    raise ValueError(
                        f"the files of step {step} have several loss scales, "
                        f"{values['loss_scale'][0]:g} and others; a step has one"
                    )
                numbers[step]["loss_scale"] = values["loss_scale"][0]
            elif loss_scale is not None and loss_scale != 1:
                numbers[step]["loss_scale"] = float(loss_scale)
        return numbers


def _decoded(values: np.ndarray, word: str) -> np.ndarray:
    return np.asarray(
        decode(values.view(numpy_dtype(word)), CODES[word]) if word in CODES else values,
        dtype=np.float64,
    )


def _by_step(values: np.ndarray, step_axis: int | str | None) -> list[tuple[float, int | None]]:
    """Every value, and its step if given by an axis."""
    if not isinstance(step_axis, int) or step_axis >= values.ndim:
        return [(value, None) for value in values.ravel().tolist()]
    return [
        (value, step)
        for step, of in enumerate(np.moveaxis(values, step_axis, 0))
        for value in of.ravel().tolist()
    ]


def _check(said: Mapping[str, Any]) -> None:
    """Checks the arguments themselves."""
    if not said["destination"] or is_address(said["destination"]):
        raise ValueError(
            f"destination is {said['destination']!r}; it must be a folder on a local disk"
        )
    refuse_dangling(said["destination"])
    for key, allowed in (
        ("stage", (None, "local", "reduced", "clipped")),
        ("reduction", ("sum", "mean")),
    ):
        if said[key] not in allowed:
            raise ValueError(
                f"{key} is {said[key]!r}; it must be {' or '.join(repr(a) for a in allowed if a)}"
            )
    for key in ("worker_axis", "step_axis"):
        axis = said[key]
        if not (axis is None or axis == "none" or (isinstance(axis, int) and axis >= 0)):
            raise ValueError(f"{key} is {axis!r}; it must be an integer, 0 or more, or none")
    for key in ("workers", "accumulation"):
        if said[key] is not None and said[key] < 1:
            raise ValueError(f"{key} is {said[key]}; it must be at least 1")
    if (sample := said["sample"]) is not None and not 0 < sample <= 1:
        raise ValueError(f"sample is {sample:g}; it must be above 0 and at most 1")
    scale = said["loss_scale"]
    if not (
        scale is None
        or scale == "recorded"
        or (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0)
    ):
        raise ValueError(f"loss_scale is {scale!r}; it must be a number above 0, or recorded")


def _check_last(layout: Layout) -> None:
    """Step numbers in a trace's manifest have 64 bits."""
    if (last := layout.steps[-1]) >= 2**63:
        label = next(
            place.item.label for (step, _, _), place in layout.places.items() if step == last
        )
        raise ValueError(
            f"{label} is of step {last}, but a step's number must be below 2^63; give --pattern so "
            "that another number is the step"
        )


def _understood(layout: Layout, names: list[str], origin: str) -> str:
    """The first line: how the dump is understood."""
    files = len({place.item.unit.label for place in layout.places.values()})
    ranks = (
        f", ranks 1 to {layout.workers} as workers 0 to {layout.workers - 1}"
        if layout.first_rank
        else ""
    )
    words = {FILES: "the files", GIVEN: "the list given"}.get(
        origin, "the names, which is a guess; --order gives another"
    )
    return (
        f"{count_of(files, 'file')}: {count_of(len(layout.steps), 'step')} x "
        f"{count_of(layout.workers, 'worker')}, {count_of(len(names), 'tensor')}, order from "
        f"{words}{ranks}"
    )


def _assumed(
    stage: str | None, loss_scale: float | str | None, accumulation: int | None
) -> list[str]:
    """The assumptions."""
    taken = [] if stage else ["gradients before the all-reduce (--stage)"]
    taken += [] if loss_scale is not None else ["no loss scale in them (--loss-scale)"]
    taken += [] if accumulation is not None else ["one backward pass per step (--accumulation)"]
    return [f"assumed: {', '.join(taken)}"] if taken else []


def _sampled(sample: float | None, layout: Layout, names: list[str]) -> dict[str, str]:
    """The metadata of a sample, the only record of the original tensors."""
    if sample is None:
        return {}
    shapes = {name: list(layout.places[layout.steps[0], 0, name].shape) for name in names}
    return {
        "sample": f"{sample:g} of the blocks of {BLOCK} elements",
        "sample_of_shapes": json.dumps(shapes),
    }
