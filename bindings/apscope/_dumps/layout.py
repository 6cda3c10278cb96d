"""A dump as steps x workers x tensors: the source of every array. Refuses incomplete dumps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .dtypes import check_word, raw_word
from .names import Item, Named
from .reader import Index


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
    raw : str or None
        The dtype name of arrays of untyped codes.
    densify : bool
        Whether sparse tensors are filled with zeros.
    """

    worker_axis: int | str | None = None
    step_axis: int | str | None = None
    workers: int | None = None
    steps: slice | list[int] | None = None
    raw: str | None = None
    densify: bool = False


@dataclass(frozen=True)
class Place:
    """Where the values of one step, worker and tensor are."""

    item: Item
    word: str
    index: Index
    shape: tuple[int, ...]  # of the part


@dataclass(frozen=True)
class Layout:
    """A complete dump."""

    steps: list[int]
    workers: int
    tensors: list[str]  # in the order of their first occurrence
    places: dict[tuple[int, int, str], Place] = field(repr=False)
    first_rank: int = 0  # the rank of worker 0 in the names


def lay_out(named: Sequence[Named], options: Options, source: str) -> Layout:
    """Assigns every array to its step, worker and tensor.

    Parameters
    ----------
    named : sequence of Named
    options : Options
    source : str
        The dump's name in messages.

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
    places: dict[tuple[int, int, str], Place] = {}
    for n in named:
        for step, worker, place in _parts(n, worker_axis, step_axis, options):
            before = places.setdefault((step, worker, n.tensor), place)
            if before is not place:
                raise ValueError(
                    f"{before.item.label} and {n.item.label} are both step {step}, worker "
                    f"{worker}, tensor {n.tensor!r}; give --pattern with groups that distinguish "
                    "them"
                )
    steps = _chosen_steps(sorted({step for step, _, _ in places}), options.steps, source)
    chosen = set(steps)
    places = {key: place for key, place in places.items() if key[0] in chosen}
    tensors = list(dict.fromkeys(tensor for _, _, tensor in places))
    found = sorted({worker for _, worker, _ in places})
    first_rank = int(found == list(range(1, len(found) + 1)))
    if first_rank:  # counted from 1
        places = {
            (step, worker - 1, tensor): place for (step, worker, tensor), place in places.items()
        }
    workers = _workers(places, options, source)
    _check_whole(places, steps, workers, tensors, source)
    _check_shapes(places)
    return Layout(steps, workers, tensors, places, first_rank)


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
        if not says_worker and axes["worker"] is None:
            raise ValueError(
                f"{first.label} has shape {shape}, every array begins with the same {length}, and "
                "no name contains a worker, so they look stacked; pass --worker-axis N if an axis "
                f"counts the {length} workers, --workers 1 if each array belongs to one worker"
            )
        if not says_step and axes["step"] is None:
            raise ValueError(
                f"{first.label} has shape {shape}, every array begins with the same {length}, and "
                "no name contains a step, so they look stacked; pass --step-axis N if an axis "
                f"counts the {length} steps, --step-axis none if all are of one step"
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


def _shared_length(named: Sequence[Named], taken: list[int]) -> int | None:
    """The length, 2 or more, of the first unused axis, if it is the same in all arrays."""
    lengths = set()
    for n in named:
        rest = [length for axis, length in enumerate(n.item.entry.shape) if axis not in taken]
        lengths.add(rest[0] if rest else 1)
    length = lengths.pop()
    return length if not lengths and length >= 2 else None


def _check(item: Item, options: Options) -> None:
    if item.entry.layout != "dense" and not options.densify:
        raise ValueError(
            f"{item.label} is a {item.entry.layout} tensor; pass --densify to fill it with zeros, "
            "or leave it out with --tensors"
        )
    check_word(raw_word(item.entry.dtype, options.raw), item.label)


def _parts(
    n: Named, worker_axis: int | None, step_axis: int | None, options: Options
) -> list[tuple[int, int, Place]]:
    shape = n.item.entry.shape
    word = raw_word(n.item.entry.dtype, options.raw)
    taken = [axis for axis in (worker_axis, step_axis) if axis is not None]
    rest = tuple(length for axis, length in enumerate(shape) if axis not in taken)
    workers = range(shape[worker_axis]) if worker_axis is not None else [n.worker or 0]
    steps = range(shape[step_axis]) if step_axis is not None else [n.step or 0]
    found = []
    for step in steps:
        for worker in workers:
            index: list[int | slice] = [slice(None)] * (max(taken) + 1 if taken else 0)
            if worker_axis is not None:
                index[worker_axis] = worker
            if step_axis is not None:
                index[step_axis] = step
            found.append((step, worker, Place(n.item, word, tuple(index), rest)))
    return found


def _chosen_steps(steps: list[int], wanted: slice | list[int] | None, source: str) -> list[int]:
    if wanted is None:
        return steps
    if isinstance(wanted, slice):
        chosen = [
            n
            for n in steps
            if (wanted.start is None or n >= wanted.start)
            and (wanted.stop is None or n < wanted.stop)
        ]
        if not chosen:
            raise ValueError(
                f"{source} has no step in the range that --steps gives; it has steps {steps[0]} to "
                f"{steps[-1]}"
            )
        return chosen
    if lost := [n for n in wanted if n not in set(steps)]:
        raise ValueError(f"{source} has no step {lost[0]}; it has steps {steps[0]} to {steps[-1]}")
    return sorted(wanted)


def _workers(places: dict[tuple[int, int, str], Place], options: Options, source: str) -> int:
    found = sorted({worker for _, worker, _ in places})
    if found != list(range(len(found))):
        lost = next(i for i, worker in enumerate(found) if i != worker)
        label = next(place.item.label for (_, worker, _), place in places.items() if worker > lost)
        raise ValueError(
            f"{label} is of a worker above {lost}, and no array is of worker {lost}; ranks count "
            "from 0, or all from 1, without gaps: find the missing files"
        )
    if options.workers is not None and options.workers != len(found):
        raise ValueError(
            f"{source} has {len(found)} workers, not {options.workers}; give --worker-axis or "
            "--pattern so that all are found, or another --workers"
        )
    return len(found)


def _check_whole(
    places: dict[tuple[int, int, str], Place],
    steps: list[int],
    workers: int,
    tensors: list[str],
    source: str,
) -> None:
    total = len(steps) * workers * len(tensors)
    if len(places) == total:
        return
    missing = [
        (s, w, t) for s in steps for w in range(workers) for t in tensors if (s, w, t) not in places
    ]
    shown = ", ".join(f"(step {s}, worker {w}, {t})" for s, w, t in missing[:5]) + (
        ", ..." if len(missing) > 5 else ""
    )
    broken = {s for s, _, _ in missing}
    whole = [s for s in steps if s not in broken]
    lost = {t for _, _, t in missing}
    step = missing[0][0]
    near = next((place.item.unit.label for (s, _, _), place in places.items() if s == step), source)
    remedies = []
    if whole:
        remedies.append(
            f"select the {len(whole)} complete steps with --steps {_range(whole, steps)}"
        )
    if len(lost) < len(tensors):
        remedies.append("leave tensors out with --tensors")
    remedy = " or ".join(remedies) or "dump them again"
    raise ValueError(
        f"{source}: {len(missing)} of {total} combinations are "
        f"missing: {shown}, beside {near}; {remedy}"
    )


def _range(whole: list[int], steps: list[int]) -> str:
    """The value of ``--steps`` that selects `whole` from `steps`."""
    between = [s for s in steps if whole[0] <= s <= whole[-1]]
    if between == whole:
        return f"{whole[0]}:{whole[-1] + 1}"
    return ",".join(map(str, whole[:8])) + (",..." if len(whole) > 8 else "")


def _check_shapes(places: dict[tuple[int, int, str], Place]) -> None:
    first: dict[str, Place] = {}
    for (step, worker, tensor), place in places.items():
        before = first.setdefault(tensor, place)
        if place.shape != before.shape:
            raise ValueError(
                f"{place.item.label} is worker {worker} at step {step}: tensor {tensor!r} has "
                f"shape {list(place.shape)}, in {before.item.unit.label} it is "
                f"{list(before.shape)}; leave it out with --tensors, or select steps with equal "
                "shapes with --steps"
            )
