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
    found_at: dict[tuple[int, int, str], dict[int, Place]] = {}
    for n in named:
        for step, worker, place in _parts(n, worker_axis, step_axis, options):
            before = found_at.setdefault((step, worker, n.tensor), {}).setdefault(
                n.micro or 0, place
            )
            if before is not place:
                batch = "" if n.micro is None else f", micro-batch {n.micro}"
                raise ValueError(
                    f"{before.item.label} and {n.item.label} are both step {step}, worker "
                    f"{worker}, tensor {n.tensor!r}{batch}; give --pattern with groups that "
                    "distinguish them"
                )
    steps = _chosen_steps(sorted({step for step, _, _ in found_at}), options.steps, source)
    chosen = set(steps)
    found_at = {key: batches for key, batches in found_at.items() if key[0] in chosen}
    micro = _check_micro(found_at, options) if options.accumulate else 1
    places = {key: _joined(batches) for key, batches in found_at.items()}
    tensors = _merged(places)
    found = sorted({worker for _, worker, _ in places})
    first_rank = int(found == list(range(1, len(found) + 1)))
    if first_rank:  # counted from 1
        places = {
            (step, worker - 1, tensor): place for (step, worker, tensor), place in places.items()
        }
    workers = _workers(places, options, source)
    zeros = _missing(places, steps, workers, tensors)
    if zeros:
        _check_missing(zeros, places, steps, workers, tensors, options, source)
    _check_shapes(places)
    return Layout(steps, workers, tensors, places, first_rank, micro, zeros)


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


def _check_micro(found_at: dict[tuple[int, int, str], dict[int, Place]], options: Options) -> int:
    """The number of micro-batches, which every worker must have at every step."""
    of_worker: dict[tuple[int, int], set[int]] = {}
    for (step, worker, _), batches in found_at.items():
        of_worker.setdefault((step, worker), set()).update(batches)
    expected = next(iter(of_worker.values()))
    for (step, worker, tensor), batches in found_at.items():
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
            f"{source} has {count_of(len(found), 'worker')}, not {options.workers}; give "
            "--worker-axis or --pattern so that all are found, or another --workers"
        )
    return len(found)


def _missing(
    places: dict[tuple[int, int, str], Place], steps: list[int], workers: int, tensors: list[str]
) -> list[tuple[int, int, str]]:
    if len(places) == len(steps) * workers * len(tensors):
        return []
    return [
        (s, w, t) for s in steps for w in range(workers) for t in tensors if (s, w, t) not in places
    ]


def _check_missing(
    missing: list[tuple[int, int, str]],
    places: dict[tuple[int, int, str], Place],
    steps: list[int],
    workers: int,
    tensors: list[str],
    options: Options,
    source: str,
) -> None:
    """Refuses missing arrays, unless they may be zeros and their worker has others at the step."""
    total = len(steps) * workers * len(tensors)
    there = {(s, w) for s, w, _ in places}
    whole_lost = [(s, w) for s in steps for w in range(workers) if (s, w) not in there]
    if options.missing == "zeros":
        if not whole_lost:
            return
        raise ValueError(
            f"{source}: worker {whole_lost[0][1]} has no array at all at step {whole_lost[0][0]}, "
            "so its file may be lost, and --missing zeros does not fill it; find it, or select "
            "other steps with --steps"
        )
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
            f"select the {count_of(len(whole), 'complete step')} with --steps "
            f"{range_of(whole, steps)}"
        )
    if len(lost) < len(tensors):
        remedies.append("leave tensors out with --tensors")
    if not whole_lost:
        remedies.append("pass --missing zeros if they got no gradient there")
    remedy = ", or ".join(remedies) or "dump them again"
    raise ValueError(
        f"{source}: {len(missing)} of {total} combinations are "
        f"missing: {shown}, beside {near}; {remedy}"
    )


def range_of(whole: Sequence[int], steps: Sequence[int]) -> str:
    """The value of ``--steps`` that selects `whole` from `steps`."""
    between = [s for s in steps if whole[0] <= s <= whole[-1]]
    if between == list(whole):
        return f"{whole[0]}:{whole[-1] + 1}"
    return ",".join(map(str, whole[:8])) + (",..." if len(whole) > 8 else "")


def _check_shapes(places: dict[tuple[int, int, str], Place]) -> None:
    first: dict[str, Place] = {}
    for step, worker, tensor, place in (
        (*key, batch) for key, found in places.items() for batch in found.batches
    ):
        before = first.setdefault(tensor, place)
        if place.shape != before.shape:
            raise ValueError(
                f"{place.item.label} is worker {worker} at step {step}: tensor {tensor!r} has "
                f"shape {list(place.shape)}, in {before.item.unit.label} it is "
                f"{list(before.shape)}; leave it out with --tensors, or select steps with equal "
                "shapes with --steps"
            )
