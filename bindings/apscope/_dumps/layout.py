"""A dump as steps x workers x tensors: the source of every array. Refuses incomplete dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .._text import count_of
from .dtypes import check_word, raw_word
from .names import Item, Named
from .reader import Index
from .units import Unit


@dataclass(frozen=True)
class Options:
    """Information from the user that a dump does not contain.

    Attributes
    ----------
    worker_axis, step_axis : int, "none" or None
        The axis of every array that counts workers or steps; "none": there is none; None: not
        given.
    workers : int or None
        Number of workers; 1 also says that no axis counts them.
    steps : slice, list of int or None
        Step numbers to take.
    raw : sequence of (Pattern, str)
        The dtype names of arrays of untyped codes, each for the addresses with a match; the first
        match wins.
    densify : bool
        Whether sparse tensors are filled with zeros.
    accumulate : "fp32", "own" or None
        The type in which micro-batches are added; None if names have none.
    missing : "zeros" or None
        What a tensor is that a worker lacks at a step; None refuses it.
    """

    worker_axis: int | str | None = None
    step_axis: int | str | None = None
    workers: int | None = None
    steps: slice | list[int] | None = None
    raw: Sequence[tuple[re.Pattern[str], str]] = ()
    densify: bool = False
    accumulate: str | None = None
    missing: str | None = None

    def word(self, item: Item) -> str:
        """The dtype's name of an array, with the given one for untyped codes."""
        raw = next((name for regex, name in self.raw if regex.search(item.address)), None)
        return raw_word(item.entry.dtype, raw)


@dataclass(frozen=True)
class Place:
    """Where the values of one step, worker and tensor are."""

    item: Item
    word: str
    index: Index
    shape: tuple[int, ...]  # of the part
    later: tuple[Place, ...] = ()  # the other micro-batches, ascending

    @property
    def batches(self) -> tuple[Place, ...]:
        """All micro-batches."""
        return (self, *self.later)


@dataclass(frozen=True)
class Layout:
    """A complete dump."""

    steps: list[int]
    workers: int
    tensors: list[str]  # in the order of the first worker, those that it lacks at their places
    places: dict[tuple[int, int, str], Place] = field(repr=False)
    first_rank: int = 0  # the rank of worker 0 in the names
    micro: int = 1  # micro-batches of every worker and step
    zeros: list[tuple[int, int, str]] = field(repr=False, default_factory=list)  # not in places

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor's shape, equal at all steps and workers."""
        return {tensor: place.shape for (_, _, tensor), place in self.places.items()}

    def files(self) -> Iterator[tuple[int, int, Unit]]:
        """Step, worker and file of every array."""
        for (step, worker, _), place in self.places.items():
            yield from ((step, worker, batch.item.unit) for batch in place.batches)


def lay_out(named: Sequence[Named], options: Options, source: str) -> Layout:
    """Assigns every array to its step, worker and tensor; `source`: the dump's name in messages.

    Raises
    ------
    ValueError
        Two arrays for one place, a missing array, shapes that differ, an axis that not every array
        has, an unexplained common leading axis, dtypes that are not a gradient's, sparse tensors.
        The sentence names the file and says what to do.
    """
    for n in named:
        _check(n.item, options)
    worker_axis, step_axis = _axes(named, options)
    batches_at: dict[tuple[int, int, str], dict[int, Place]] = {}
    for n in named:
        for step, worker, place in _parts(n, worker_axis, step_axis, options):
            batches = batches_at.setdefault((step, worker, n.tensor), {})
            first = batches.setdefault(n.micro or 0, place)
            if first is not place:
                batch = "" if n.micro is None else f", micro-batch {n.micro}"
                raise ValueError(
                    f"{first.item.label} and {n.item.label} are both step {step}, worker "
                    f"{worker}, tensor {n.tensor!r}{batch}; give --pattern with groups that "
                    "distinguish them"
                )
    steps = _chosen_steps(sorted({step for step, _, _ in batches_at}), options.steps, source)
    chosen = set(steps)
    batches_at = {key: batches for key, batches in batches_at.items() if key[0] in chosen}
    micro = _check_micro(batches_at, options) if options.accumulate else 1
    places = {key: _joined(batches) for key, batches in batches_at.items()}
    tensors = _merged(places)
    ranks = sorted({worker for _, worker, _ in places})
    first_rank = int(ranks == list(range(1, len(ranks) + 1)))
    if first_rank:  # counted from 1
        places = {
            (step, worker - 1, tensor): place for (step, worker, tensor), place in places.items()
        }
    workers = _workers(places, options, source)
    layout = Layout(steps, workers, tensors, places, first_rank, micro)
    if len(places) < len(steps) * workers * len(tensors):
        layout = replace(layout, zeros=_missing(layout, options, source))
    _check_shapes(places)
    return layout


def _merged(keys: Iterable[tuple[int, int, str]]) -> list[str]:
    """All tensors, in the order of the first worker; one that it lacks follows the one before it.

    "Before it" is in the order of the worker that has it, so that a rank's experts stay in their
    layer.
    """
    tensors: list[str] = []
    known: set[str] = set()
    before: dict[tuple[int, int], str] = {}
    for step, worker, tensor in keys:
        if tensor not in known:
            known.add(tensor)
            last = before.get((step, worker))
            tensors.insert(0 if last is None else tensors.index(last) + 1, tensor)
        before[step, worker] = tensor
    return tensors


def _joined(batches: dict[int, Place]) -> Place:
    """The places of micro-batches as one, ascending."""
    first, *later = (batches[number] for number in sorted(batches))
    return replace(first, later=tuple(later))


def _check_micro(batches_at: dict[tuple[int, int, str], dict[int, Place]], options: Options) -> int:
    """The number of micro-batches, which every worker must have at every step."""
    of_worker: dict[tuple[int, int], set[int]] = {}
    for (step, worker, _), batches in batches_at.items():
        of_worker.setdefault((step, worker), set()).update(batches)
    expected = next(iter(of_worker.values()))
    for (step, worker, tensor), batches in batches_at.items():
        of_file = of_worker[step, worker] ^ expected
        lost = of_file or (set() if options.missing else expected - set(batches))
        if lost:
            remedy = (
                "find the missing files, or select complete steps with --steps"
                if of_file
                else "pass --missing zeros if it got no gradient there"
            )
            raise ValueError(
                f"{next(iter(batches.values())).item.label} is tensor {tensor!r} of step {step}, "
                f"worker {worker}: not every worker and step has the micro-batch {min(lost)}; "
                f"{remedy}"
            )
    return len(expected)


def _axes(named: Sequence[Named], options: Options) -> tuple[int | None, int | None]:
    """The axes that count workers and steps; raises if an axis looks like one."""
    says_worker, says_step = (
        any(getattr(n, what) is not None for n in named) for what in ("worker", "step")
    )
    axes = {"worker": options.worker_axis, "step": options.step_axis}
    if options.workers == 1 and options.worker_axis is None:
        axes["worker"] = "none"
    for what, says in (("worker", says_worker), ("step", says_step)):
        if isinstance(axes[what], int) and says:
            raise ValueError(
                f"{what}_axis is {axes[what]}, but the names already contain the {what}, as in "
                f"{named[0].item.address!r}; give only one of them"
            )
    if axes["worker"] == axes["step"] and isinstance(axes["worker"], int):
        raise ValueError(
            f"worker_axis and step_axis are both {axes['worker']}; an axis counts one of them"
        )
    for what, axis in axes.items():
        if isinstance(axis, int):
            _check_axis(named, what, axis)
    length = _shared_length(named, [axis for axis in axes.values() if isinstance(axis, int)])
    if length is not None:
        first = named[0].item
        shape = list(first.entry.shape)
        if not says_worker and axes["worker"] is None and not says_step and axes["step"] is None:
            remedy = (
                f"--worker-axis or --step-axis N if an axis counts the {length} workers or "
                "steps, --workers 1 --step-axis none if none does"
            )
            raise ValueError(
                f"{first.label} has shape {shape}, and every array begins with the same {length}, "
                f"so they look stacked; pass {remedy}"
            )
        for what, says, otherwise in (
            ("worker", says_worker, "--workers 1 if each array belongs to one worker"),
            ("step", says_step, "--step-axis none if all are of one step"),
        ):
            if not says and axes[what] is None:
                raise ValueError(
                    f"{first.label} has shape {shape}, every array begins with the same {length}, "
                    f"and no name contains a {what}, so they look stacked; pass --{what}-axis N if "
                    f"an axis counts the {length} {what}s, {otherwise}"
                )
    worker, step = (axis if isinstance(axis, int) else None for axis in axes.values())
    return worker, step


def _check_axis(named: Sequence[Named], what: str, axis: int) -> None:
    first = named[0].item
    for n in named:
        shape = n.item.entry.shape
        if axis >= len(shape):
            raise ValueError(
                f"{n.item.label} has shape {list(shape)}, which has no axis {axis} to count the "
                f"{what}s; leave it out with --tensors"
            )
        if shape[axis] != first.entry.shape[axis]:
            raise ValueError(
                f"{n.item.label} has {shape[axis]} {what}s on axis {axis}, but {first.label} has "
                f"{first.entry.shape[axis]}; give another --{what}-axis"
            )
        if shape[axis] == 0:
            raise ValueError(
                f"{n.item.label} has shape {list(shape)}, so no {what} on axis {axis}; dump it "
                f"again, or give another --{what}-axis"
            )


def _shared_length(named: Sequence[Named], counted: list[int]) -> int | None:
    """The length, 2 or more, of the first unused axis, if it is the same in all arrays."""
    lengths = set()
    for n in named:
        rest = [length for axis, length in enumerate(n.item.entry.shape) if axis not in counted]
        lengths.add(rest[0] if rest else 1)
    length = lengths.pop()
    return length if not lengths and length >= 2 else None


def _check(item: Item, options: Options) -> None:
    if item.entry.refusal:
        raise ValueError(f"{item.label} {item.entry.refusal}")
    if item.entry.layout != "dense" and not options.densify:
        raise ValueError(
            f"{item.label} is a {item.entry.layout} tensor; pass --densify to fill it with zeros, "
            "or leave it out with --tensors"
        )
    check_word(options.word(item), item.label)


def _parts(
    n: Named, worker_axis: int | None, step_axis: int | None, options: Options
) -> list[tuple[int, int, Place]]:
    shape = n.item.entry.shape
    word = options.word(n.item)
    counted = [axis for axis in (worker_axis, step_axis) if axis is not None]
    rest = tuple(length for axis, length in enumerate(shape) if axis not in counted)
    workers = range(shape[worker_axis]) if worker_axis is not None else [n.worker or 0]
    steps = range(shape[step_axis]) if step_axis is not None else [n.step or 0]
    parts = []
    for step in steps:
        for worker in workers:
            index: list[int | slice] = [slice(None)] * (max(counted) + 1 if counted else 0)
            if worker_axis is not None:
                index[worker_axis] = worker
            if step_axis is not None:
                index[step_axis] = step
            parts.append((step, worker, Place(n.item, word, tuple(index), rest)))
    return parts


def _its(steps: list[int]) -> str:
    if len(steps) == 1:
        return f"it has step {steps[0]} alone"
    return f"it has {len(steps)} steps from {steps[0]} to {steps[-1]}"


def _chosen_steps(steps: list[int], selection: slice | list[int] | None, source: str) -> list[int]:
    if selection is None:
        return steps
    if isinstance(selection, slice):
        chosen = [
            n
            for n in steps
            if (selection.start is None or n >= selection.start)
            and (selection.stop is None or n < selection.stop)
        ]
        if not chosen:
            raise ValueError(f"{source} has no step in the range that --steps gives; {_its(steps)}")
        return chosen
    if lost := [n for n in selection if n not in set(steps)]:
        raise ValueError(f"{source} has no step {lost[0]}; {_its(steps)}")
    return sorted(selection)


def _workers(places: dict[tuple[int, int, str], Place], options: Options, source: str) -> int:
    ranks = sorted({worker for _, worker, _ in places})
    if ranks != list(range(len(ranks))):
        lost = next(i for i, worker in enumerate(ranks) if i != worker)
        label = next(place.item.label for (_, worker, _), place in places.items() if worker > lost)
        raise ValueError(
            f"{label} is of a worker above {lost}, and no array is of worker {lost}; ranks count "
            "from 0, or all from 1, without gaps: find the missing files"
        )
    if options.workers is not None and options.workers != len(ranks):
        raise ValueError(
            f"{source} has {count_of(len(ranks), 'worker')}, not {options.workers}; give "
            "--worker-axis or --pattern so that all are found, or another --workers"
        )
    return len(ranks)


def _missing(layout: Layout, options: Options, source: str) -> list[tuple[int, int, str]]:
    """Missing arrays that may be zeros, and whose worker has others at the step; else raises."""
    steps, tensors, places = layout.steps, layout.tensors, layout.places
    workers = range(layout.workers)
    total = len(steps) * len(workers) * len(tensors)
    missing = [
        (s, w, t) for s in steps for w in workers for t in tensors if (s, w, t) not in places
    ]
    with_arrays = {(s, w) for s, w, _ in places}
    empty = [(s, w) for s in steps for w in workers if (s, w) not in with_arrays]
    if options.missing == "zeros":
        if not empty:
            return missing
        raise ValueError(
            f"{source}: worker {empty[0][1]} has no array at all at step {empty[0][0]}, "
            "so its file may be lost, and --missing zeros does not fill it; find it, or select "
            "other steps with --steps"
        )
    shown = ", ".join(f"(step {s}, worker {w}, {t})" for s, w, t in missing[:5]) + (
        ", ..." if len(missing) > 5 else ""
    )
    incomplete = {s for s, _, _ in missing}
    complete = [s for s in steps if s not in incomplete]
    lost = {t for _, _, t in missing}
    step = missing[0][0]
    near = next((place.item.unit.label for (s, _, _), place in places.items() if s == step), source)
    remedies = []
    if complete:
        remedies.append(
            f"select the {count_of(len(complete), 'complete step')} with --steps "
            f"{range_of(complete, steps)}"
        )
    if len(lost) < len(tensors):
        remedies.append("leave tensors out with --tensors")
    if not empty:
        remedies.append("pass --missing zeros if they got no gradient there")
    remedy = ", or ".join(remedies) or "dump them again"
    raise ValueError(
        f"{source}: {len(missing)} of {total} combinations are "
        f"missing: {shown}, beside {near}; {remedy}"
    )


def range_of(chosen: Sequence[int], steps: Sequence[int]) -> str:
    """The value of ``--steps`` that selects `chosen` from `steps`."""
    between = [s for s in steps if chosen[0] <= s <= chosen[-1]]
    if between == list(chosen):
        return f"{chosen[0]}:{chosen[-1] + 1}"
    return ",".join(map(str, chosen[:8])) + (",..." if len(chosen) > 8 else "")


def _check_shapes(places: dict[tuple[int, int, str], Place]) -> None:
    first: dict[str, Place] = {}
    for step, worker, tensor, place in (
        (*key, batch) for key, first_batch in places.items() for batch in first_batch.batches
    ):
        before = first.setdefault(tensor, place)
        if place.shape != before.shape:
            raise ValueError(
                f"{place.item.label} is worker {worker} at step {step}: tensor {tensor!r} has "
                f"shape {list(place.shape)}, in {before.item.unit.label} it is "
                f"{list(before.shape)}; leave it out with --tensors, or select steps with equal "
                "shapes with --steps"
            )
