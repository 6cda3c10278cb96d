"""convert: makes a trace from a dump, or gives the reason in one sentence if it cannot."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._arrays.checks import shown, text
from .._folders.reading import read_limited
from .._folders.writing import clear_left, refuse_dangling
from .._limits import TEXT_LENGTH
from .._text import count_of, plain_number
from .._traces.absent import add_absent
from .._traces.loss_scale import add_divisor
from .._traces.opening import open_trace
from .._traces.order import FILES, GIVEN
from .._traces.roles import Roles, given_role
from .._traces.selection import parse_steps
from .._traces.sources import Source, is_address
from .._traces.trace import Trace
from .dtypes import raw_types
from .dump import Dump
from .layout import Layout, Options, lay_out
from .names import Named, name_all, of_caller, selecting
from .order import names_in, order_tensors
from .sample import BLOCK
from .units import Apart, Readers, find_units
from .weights import names_gradients
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
    accumulate: str | None = None,
    missing: str | None = None,
    name: str | None = None,
    model: str = "",
    roles: Roles = None,
    round_to_fp32: bool = False,
    raw_dtype: str | Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
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
        Regular expression with the named groups ``step``, ``worker``, ``tensor``, and ``micro`` if
        micro-batches are added (`accumulate`). It must match
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
        ``"recorded"`` uses the files' ``loss_scale``, or their state of a GradScaler: a step's own
        number, else one of all steps. Another number than 1 must be that of every step that has
        one. The gradients
        are divided by it, exactly: by a power of two, or where no quotient has to be rounded.
        Otherwise they are refused, unless `round_to_fp32` allows rounding. Required if the files
        have one.
    accumulation : int, optional
        Number of backward passes that each gradient is the sum of; stored in the metadata. With
        `accumulate` it can only be the number of micro-batches, which is stored without it.
    accumulate : {"fp32", "own"}, optional
        Add the arrays of one step, worker and tensor that differ in the number of the micro-batch
        (``micro_0``, or the pattern's group ``micro``), in ascending order, rounding after every
        addition: in fp32, or in the arrays' own dtype, as autograd adds to ``.grad``. float64 is
        added in float64.
    missing : {"zeros"}, optional
        A tensor that a worker lacks at a step, or that is None there, is zeros, which is what an
        all-reduce adds for it; by default it is refused. A worker without any array at a step is
        refused. The metadata lists the zeros.
    loss_divided_by_workers, name, model, roles
        As for :class:`apscope.record.TraceWriter`.
    round_to_fp32 : bool
        Round float64 values that are not fp32 values to fp32, ties to even, instead of refusing
        them. Quotients by a loss scale are rounded as GradScaler does it: a product with the
        scale's fp32 reciprocal.
    raw_dtype : str, mapping of str to str or sequence of (str, str), optional
        The type of arrays of integers or of untyped bytes: ``bfloat16``, ``float8_e4m3fn`` and so
        on. A mapping, or pairs, give types by regular expressions of ``folder/file/key``; the
        first with a match counts.
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
    worker_axis, step_axis, workers = map(_python, (worker_axis, step_axis, workers))
    accumulation, sample, loss_scale = map(_python, (accumulation, sample, loss_scale))
    arguments = SimpleNamespace(**locals())
    say = tell or (lambda _: None)
    _check(arguments)
    options = Options(
        worker_axis=worker_axis,
        step_axis=step_axis,
        workers=workers,
        steps=parse_steps(steps),
        raw=raw_types(raw_dtype),
        densify=densify,
        accumulate=accumulate,
        missing=missing,
    )
    destination = Path(destination)
    workshop = Workshop(destination, dry_run)
    if os.path.lexists(destination):
        if not dry_run:  # a kill at the end may have left files
            clear_left(destination, "apscope convert")
        if not is_address(source):  # what is wrong with the source is said first
            find_units(Source(source, workshop.fetched), Apart(pattern, tensors))
        raise ValueError(f"{destination} exists; convert into a new folder")
    with closing(Source(source, workshop.fetched)) as files, workshop:
        if not dry_run:
            workshop.prepare(
                fingerprint(
                    list(files.files),
                    {key: getattr(arguments, key) for key in _DECISIVE}
                    | {"raw": [(regex.pattern, word) for regex, word in options.raw]}
                    | {"order": _contents(order), "rules": _RULES},
                )
            )
        with closing(Readers(files, trust_pickle=trust_pickle, python=python)) as readers:
            apart = Apart(pattern, tensors)
            units, others = find_units(files, apart)
            dump = Dump(units, readers, apart, options, files.text)
            single = len(units) == 1
            used, named, ignored = name_all(
                dump.items, pattern, single, tensors, accumulate is not None
            )
            apart.settle(used, {item.entry.key for item in dump.items})
            layout = lay_out(named, options, files.text)
            _check_last(layout)
            if accumulate is not None and accumulation not in (None, layout.micro):
                raise ValueError(
                    f"accumulation is {accumulation}, but {layout.micro} micro-batches are added; "
                    "leave out --accumulation"
                )
            names, origin = order_tensors(
                layout.tensors, dump.ordered(layout), None if order is None else os.fspath(order)
            )
            numbers, scales = dump.numbers(layout, used, loss_scale)
            understood = _understood(layout, names, origin)
            notes = _assumed(options, layout, named, stage, loss_scale, accumulation)
            notes += dump.notes
            notes += _done(layout, scales, accumulate)
            notes += [
                f"{count_of(len(left_out), noun)}{which} left out, the first {left_out[0]}"
                for noun, which, left_out in (
                    ("array", "", ignored),
                    ("tensor", " without a value anywhere (None)", dump.left_out(named, used)),
                    ("file", " that the pattern does not match", apart.left_out),
                    ("file", " that cannot be read", list(apart.broken)),
                    ("file", " without arrays", others),
                )
                if left_out
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
                metadata |= _decided(options, layout, scales, accumulation, round_to_fp32)
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
                    roles=lambda tensor, shape: given_role(roles, tensor, shape),
                    numbers=numbers,
                    scales=scales,
                    accumulate=accumulate,
                    check_stage=stage is None,
                )
                remarks = write_trace(
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
                for line in remarks:
                    say(line)
                notes += remarks
                workshop.finish()
    return Conversion(
        None if dry_run else open_trace(destination),
        used,
        (*ignored, *apart.left_out, *apart.broken, *others),
        understood,
        tuple(notes),
    )


def _python(value: Any) -> Any:
    """A number of NumPy's as Python's."""
    return value.item() if isinstance(value, np.generic) else value


#: Changes when the same arguments give other values: an older, unfinished trace is not continued.
_RULES = 3
#: Arguments that decide the content of the trace.
_DECISIVE = (
    "reduction", "pattern", "worker_axis", "step_axis", "workers", "steps", "tensors", "sample",
    "stage", "loss_divided_by_workers",
    "loss_scale", "accumulation", "accumulate", "missing", "name", "model", "round_to_fp32",
    "densify",
)  # fmt: skip


def _contents(path: str | os.PathLike[str] | None) -> str:
    """The content of a file, if it can be read."""
    try:
        return "" if path is None else read_limited(path, TEXT_LENGTH).hex()
    except (OSError, ValueError):
        return ""


def _check(arguments: SimpleNamespace) -> None:
    """Checks the arguments themselves."""
    destination, sample = arguments.destination, arguments.sample
    if not destination or is_address(destination):
        raise ValueError(f"destination is {destination!r}; it must be a folder on a local disk")
    refuse_dangling(destination)
    for key, allowed in (
        ("stage", (None, "local", "reduced", "clipped")),
        ("reduction", ("sum", "mean")),
        ("accumulate", (None, "fp32", "own")),
        ("missing", (None, "zeros")),
    ):
        if (value := getattr(arguments, key)) not in allowed:
            raise ValueError(
                f"{key} is {shown(value)}; it must be {' or '.join(repr(a) for a in allowed if a)}"
            )
    for key in ("worker_axis", "step_axis"):
        axis = getattr(arguments, key)
        if not (axis is None or axis == "none" or (isinstance(axis, int) and axis >= 0)):
            raise ValueError(f"{key} is {shown(axis)}; it must be an integer, 0 or more, or none")
    for key in ("workers", "accumulation"):
        if (value := getattr(arguments, key)) is not None and value < 1:
            raise ValueError(f"{key} is {value}; it must be at least 1")
    if sample is not None and not 0 < sample <= 1:
        raise ValueError(f"sample is {sample:g}; it must be above 0 and at most 1")
    scale = arguments.loss_scale
    if not (
        scale is None
        or scale == "recorded"
        or (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0)
    ):
        raise ValueError(f"loss_scale is {shown(scale)}; it must be a number above 0, or recorded")
    if arguments.pattern is not None:
        of_caller(text("pattern", arguments.pattern), arguments.accumulate is not None)
    if arguments.tensors is not None:
        selecting(text("tensors", arguments.tensors))
    if arguments.order is not None:
        names_in(os.fspath(arguments.order))


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
    files = len({unit.label for _, _, unit in layout.files()})
    ranks = (
        f", ranks 1 to {layout.workers} as workers 0 to {layout.workers - 1}"
        if layout.first_rank
        else ""
    )
    batches = f" x {layout.micro} micro-batches" if layout.micro > 1 else ""
    words = {FILES: "the files", GIVEN: "the list given"}.get(
        origin, "the names, which is a guess; --order gives another"
    )
    return (
        f"{count_of(files, 'file')}: {count_of(len(layout.steps), 'step')} x "
        f"{count_of(layout.workers, 'worker')}{batches}, {count_of(len(names), 'tensor')}, order "
        f"from {words}{ranks}"
    )


def _assumed(
    options: Options,
    layout: Layout,
    named: Sequence[Named],
    stage: str | None,
    loss_scale: float | str | None,
    accumulation: int | None,
) -> list[str]:
    """The assumptions."""
    assumed = [] if stage else ["gradients before the all-reduce (--stage)"]
    if loss_scale is None:
        assumed.append("no loss scale in them (--loss-scale)")
    if accumulation is None and options.accumulate is None:
        assumed.append("one backward pass per step (--accumulation)")
    # Weights of several workers are equal, and so refused.
    if layout.workers == 1 and not names_gradients([n.item for n in named]):
        assumed.append("gradients, not weights: no name has the word grad")
    return [f"assumed: {', '.join(assumed)}"] if assumed else []


def _done(layout: Layout, scales: Mapping[int, float], accumulate: str | None) -> list[str]:
    """What is computed from the dump's values, as notes."""
    done = []
    if accumulate is not None:
        kind = "fp32" if accumulate == "fp32" else "the arrays' own dtype"
        done.append(f"{layout.micro} micro-batches are added in {kind}, in ascending order")
    if scales:
        first = plain_number(scales[layout.steps[0]])
        done.append(f"gradients are divided by their loss scale, {first} first")
    if layout.zeros:
        total = len(layout.steps) * layout.workers * len(layout.tensors)
        s, w, t = layout.zeros[0]
        done.append(
            f"{len(layout.zeros)} of {count_of(total, 'gradient')} are missing and become zeros, "
            f"the first {t} of step {s}, worker {w}"
        )
    return done


def _decided(
    options: Options,
    layout: Layout,
    scales: Mapping[int, float],
    accumulation: int | None,
    round_to_fp32: bool,
) -> dict[str, str]:
    """What is computed from the dump's values, as metadata."""
    metadata: dict[str, str] = {}
    if options.accumulate is not None:
        kind = "fp32" if options.accumulate == "fp32" else "their own dtype"
        metadata["micro_batches_added"] = f"{layout.micro}, ascending, in {kind}"
    if accumulation is not None or options.accumulate is not None:
        metadata["accumulation"] = str(accumulation or layout.micro)
    if round_to_fp32:
        metadata["rounding_to_fp32"] = "allowed"
    for step, scale in sorted(scales.items()):
        add_divisor(metadata, step, scale)
    absent: dict[tuple[int, str], list[int]] = {}
    for step, worker, tensor in layout.zeros:
        absent.setdefault((step, tensor), []).append(worker)
    before = dict(zip(layout.steps[1:], layout.steps))
    for (step, tensor), workers in absent.items():
        last = [before[step]] if step in before else []
        add_absent(metadata, step, tensor, workers, layout.workers, last)
    return metadata


def _sampled(sample: float | None, layout: Layout, names: list[str]) -> dict[str, str]:
    """The metadata of a sample, the only record of the original tensors."""
    if sample is None:
        return {}
    shapes = layout.shapes()
    return {
        "sample": f"{sample:g} of the blocks of {BLOCK} elements",
        "sample_of_shapes": json.dumps({name: shapes[name] for name in names}),
    }
