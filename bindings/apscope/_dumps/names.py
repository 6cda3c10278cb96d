"""Finds the step, worker and tensor of an array from the names of folders, files and keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .._text import count_of
from .advice import check_groups
from .patterns import BARE_PATTERN, DEFAULT_PATTERNS, MICRO_PATTERNS, PLACES, compiled
from .reader import Entry
from .units import Unit
from .weights import check_state

#: Parts that PyTorch's wrappers insert into the names of parameters.
_WRAPPERS = re.compile(
    r"(?:^|(?<=[./]))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)

#: Names of a step's numbers, and other keys of the state of a GradScaler.
_NUMBERS = {
    "loss": "loss",
    "lr": "learning_rate",
    "learning_rate": "learning_rate",
    "loss_scale": "loss_scale",
    "grad_scale": "loss_scale",
}
_SCALER = {"scale": "loss_scale"} | dict.fromkeys(
    ("growth_factor", "backoff_factor", "growth_interval", "growth_tracker"), ""
)


@dataclass(frozen=True)
class Item:
    """One array of the dump."""

    unit: Unit
    entry: Entry

    @property
    def address(self) -> str:
        """The text for a pattern with a tensor group."""
        return f"{self.unit.stem}/{self.entry.key}" if self.entry.key else self.unit.stem

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.unit.label}: array {self.entry.key!r}" if self.entry.key else self.unit.label


@dataclass(frozen=True)
class Named:
    """An array and the parts of its name; None for missing ones."""

    item: Item
    step: int | None
    worker: int | None
    tensor: str
    micro: int | None = None


def number_of(name: str, shape: Sequence[int] = ()) -> str | None:
    """The number of a step that a value is, by its name: loss, learning_rate, loss_scale, or "".

    "" is an unused number. None is a tensor: more than one element, or another name. A ``scale`` is
    a number only at the top level or below a scaler.
    """
    if len(shape) > 1 or any(length != 1 for length in shape):
        return None
    parts = [
        part
        for part in (part.strip("_-=") for part in re.split("[/.]", PLACES.sub("", name)))
        if part
    ]
    *above, last = parts or [""]
    if last in _NUMBERS:
        return _NUMBERS[last]
    return (
        _SCALER.get(last)
        if (above[-1].lower() in ("scaler", "grad_scaler", "gradscaler") if above else not shape)
        else None
    )


def list_of(name: str, shape: Sequence[int] = ()) -> str | None:
    """The name of a list of loss scales that an array is, or that a value is in; else None.

    ``loss_scale/0`` is in ``loss_scale``, which an array of several elements is.
    """
    stem = re.sub(r"/\d+$", "", name, flags=re.ASCII)
    if stem == name and not shape:
        return None
    if stem != name and any(length != 1 for length in shape):
        return None
    return stem if number_of(stem, (1,)) == "loss_scale" else None


def name_all(
    items: Sequence[Item],
    pattern: str | None,
    single: bool,
    tensors: str | None = None,
    micro: bool = False,
) -> tuple[str, list[Named], list[str]]:
    """The pattern used, every array with the parts of its name, and the addresses without a match.

    There is at least one item. `single`: whether the dump is one file; `micro`: whether names have
    the number of a micro-batch. The user's `tensors` selects those whose name, in the dump or as
    converted, it matches.

    Raises
    ------
    ValueError
        A pattern is malformed or matches nothing; none is given and no default one matches every
        array; a file has the same tensors under several keys; arrays are an optimizer's state or a
        model's.
    """
    if pattern is None and tensors is None:
        check_state(items, chosen=False)
    used, matches = _chosen(items, pattern, single, micro)
    named: list[Named] = []
    for item, match in zip(items, matches):
        if match is None:
            continue
        groups = match.groupdict()
        tensor = groups.get("tensor") or (None if "tensor" in groups else item.entry.key)
        if not tensor:
            raise ValueError(
                f"{item.label}: the pattern has no tensor group, and the file has no key to name "
                "its one array; add (?P<tensor>...)"
            )
        numbers = [groups.get("step"), groups.get("worker"), groups.get("micro")]
        if any(
            number is not None and not re.fullmatch(r"\d+", number, re.ASCII) for number in numbers
        ):
            raise ValueError(
                f"pattern {used!r} finds a step, worker or micro-batch in {item.address!r} that is "
                "not a number"
            )
        step, worker, batch = (None if number is None else int(number) for number in numbers)
        named.append(Named(item, step, worker, tensor, batch))
    # The file's name is not part of the tensors' names.
    if pattern is None and used == BARE_PATTERN and single:
        named = [replace(n, tensor=n.item.entry.key or n.tensor) for n in named]
    plain = _plain([n.tensor for n in named])
    if tensors is not None:
        named = _selected(named, plain, tensors)
        plain = _plain([n.tensor for n in named])
    check_state([n.item for n in named], chosen=pattern is not None or tensors is not None)
    if pattern is None:
        check_groups(plain, named, used)
    named = [replace(n, tensor=tensor) for n, tensor in zip(named, plain)]
    return used, named, [item.address for item, match in zip(items, matches) if match is None]


def of_caller(pattern: str, micro: bool) -> re.Pattern[str]:
    """The caller's pattern, checked; `micro`: whether micro-batches are added."""
    try:
        regex = compiled(pattern)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r} is not a regular expression: {error}") from None
    if unknown := set(regex.groupindex) - {"step", "worker", "micro", "tensor"}:
        raise ValueError(
            f"pattern {pattern!r} has the group {min(unknown)!r}; "
            "it may have step, worker, micro, tensor"
        )
    if ("micro" in regex.groupindex) != micro:
        raise ValueError(
            f"pattern {pattern!r} has {'no' if micro else 'the'} group 'micro'; "
            + (
                "add (?P<micro>...), the number of the micro-batch, or leave out --accumulate"
                if micro
                else "pass --accumulate fp32 or own, the type in which micro-batches are added"
            )
        )
    return regex


def selecting(tensors: str) -> re.Pattern[str]:
    """The caller's expression of tensors, checked."""
    try:
        return re.compile(tensors)
    except re.error as error:
        raise ValueError(f"tensors {tensors!r} is not a regular expression: {error}") from None


def _chosen(
    items: Sequence[Item], pattern: str | None, single: bool, micro: bool
) -> tuple[str, list[re.Match[str] | None]]:
    if pattern is not None:
        regex = of_caller(pattern, micro)
        of_stems = "tensor" not in regex.groupindex
        names = [item.unit.stem if of_stems else item.address for item in items]
        matches = [regex.fullmatch(name) for name in names]
        if not any(matches):
            raise ValueError(
                f"pattern {pattern!r} matches none of {count_of(len(items), 'array')}; the first "
                f"is {names[0]!r}"
            )
        return pattern, matches
    bare = [BARE_PATTERN] if single or all(not item.entry.key for item in items) else []
    most: tuple[int, str, list[re.Match[str] | None]] = 0, "", []
    for candidate in MICRO_PATTERNS if micro else [*DEFAULT_PATTERNS, *bare]:
        regex = compiled(candidate)
        matches = [regex.fullmatch(item.address) for item in items]
        if all(matches):
            return candidate, matches
        fitting = len(matches) - matches.count(None)
        most = max(most, (fitting, candidate, matches), key=lambda best: best[0])
    if micro and not most[0]:
        raise ValueError(
            f"{items[0].label} has the address {items[0].address!r}, and no name has a micro-batch "
            "such as micro_0; give --pattern with a group micro, or leave out --accumulate"
        )
    if most[0]:
        lost = items[most[2].index(None)]
        raise ValueError(
            f"{lost.label} has the address {lost.address!r}, which no default pattern matches "
            f"together with the others; to leave out it and similar ones ({len(items) - most[0]} "
            f"of {len(items)} arrays) pass --pattern '{most[1]}'"
        )
    # Where numbers differ, the sentence proposes a pattern.
    unnamed = [Named(item, None, None, item.address) for item in items]
    check_groups(_plain([n.tensor for n in unnamed]), unnamed, BARE_PATTERN, only_numbered=True)
    raise ValueError(
        f"no default pattern matches all of {count_of(len(items), 'array')}; the first is "
        f"{items[0].address!r}; give one with the named groups step, worker and tensor: --pattern "
        "'it(?P<step>\\d+)/gpu(?P<worker>\\d+)/(?P<tensor>.+)'"
    )


def _selected(named: list[Named], plain: list[str], tensors: str) -> list[Named]:
    regex = selecting(tensors)
    chosen = [
        n for n, tensor in zip(named, plain) if regex.search(tensor) or regex.search(n.tensor)
    ]
    if not chosen:
        known = list(dict.fromkeys(plain))
        raise ValueError(
            f"tensors {tensors!r} matches none of "
            f"{', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"
        )
    return chosen


def _plain(names: list[str]) -> list[str]:
    """The parameters' names, without a common prefix up to a slash and without wrappers' parts."""
    plain = [_WRAPPERS.sub("", name) for name in names]
    while (
        all("/" in name for name in plain) and len({name.partition("/")[0] for name in plain}) == 1
    ):
        plain = [name.partition("/")[2] for name in plain]
    for ending in ("/grad", ".grad"):
        if all(name.endswith(ending) and name != ending for name in plain):
            plain = [name.removesuffix(ending) for name in plain]
    while all(name.startswith("module.") for name in plain):
        plain = [name.removeprefix("module.") for name in plain]
    return plain if all(plain) else names
