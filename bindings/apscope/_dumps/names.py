"""Finds the step, worker and tensor of an array from the names of folders, files and keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .reader import Entry
from .units import Unit

_STEP = r"(?i:global_step|step|iteration|iter|it)[_.=-]?(?P<step>\d+)"
_WORKER = r"(?i:worker|rank|gpu|device|process|proc|replica)[_.=-]?(?P<worker>\d+)"
_BEFORE = r"(?:.*?[/_.-])?"
_TENSOR = r"(?P<tensor>.+)"
_SEPARATOR = "[/_.-]"

#: Tried in this order if no pattern is given; the first that matches every array is used.
DEFAULT_PATTERNS = (
    # TransformerEngine's: rank_0/LAYER_wgrad_iter_000100.pt or rank_0/iter_000100/LAYER_wgrad.pt,
    # under the key high_precision
    rf"(?:.*/)?{_WORKER}/(?P<tensor>[^/]+)_{_STEP}/high_precision",
    rf"(?:.*/)?{_WORKER}/{_STEP}/(?P<tensor>[^/]+)/high_precision",
    rf"{_BEFORE}{_STEP}{_SEPARATOR}{_BEFORE}{_WORKER}{_SEPARATOR}{_TENSOR}",
    rf"{_BEFORE}{_WORKER}{_SEPARATOR}{_BEFORE}{_STEP}{_SEPARATOR}{_TENSOR}",
    rf"(?:.*/)?{_STEP}/(?P<tensor>[^/]+?)[_.-]{_WORKER}",
    rf"(?:.*/)?{_WORKER}/(?P<tensor>[^/]+?)[_.-]{_STEP}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_STEP}[_.-]{_WORKER}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_WORKER}[_.-]{_STEP}",
    rf"{_BEFORE}{_STEP}{_SEPARATOR}{_TENSOR}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_STEP}",
    rf"{_BEFORE}{_WORKER}{_SEPARATOR}{_TENSOR}",
    rf"(?:.*/)?(?P<tensor>[^/]+?)[_.-]{_WORKER}",
)
#: If names contain neither step nor worker: one file, or one array per file.
BARE_PATTERN = r"(?P<tensor>.+)"

#: Parts that PyTorch's wrappers insert into the names of parameters.
_WRAPPERS = re.compile(
    r"(?:^|(?<=[./]))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)

#: A part of a name that is only a step or a worker.
_PLACES = re.compile(
    rf"(?:^|(?<=[/_.-]))(?:{_STEP}|{_WORKER})".replace("P<step>", ":").replace("P<worker>", ":")
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


def number_of(name: str, shape: Sequence[int] = ()) -> str | None:
    """The number of a step that a value is, by its name: loss, learning_rate, loss_scale, or "".

    "" is an unused number. None is a tensor: more than one element, or another name. A ``scale`` is
    a number only at the top level or below a scaler.
    """
    if len(shape) > 1 or any(length != 1 for length in shape):
        return None
    parts = [
        part
        for part in (part.strip("_-=") for part in re.split("[/.]", _PLACES.sub("", name)))
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


#: Optimizers' state of every parameter.
_OPTIMIZER = re.compile(
    r"(?:.*[/.])?(?:exp_avg|exp_avg_sq|max_exp_avg_sq|exp_inf|momentum_buffer|square_avg|grad_avg|acc_delta|state[/.][^/]+[/.](?:step|sum|prev))"
)


def name_all(
    items: Sequence[Item], pattern: str | None, single: bool, tensors: str | None = None
) -> tuple[str, list[Named], list[str]]:
    """The pattern used, every array with the parts of its name, and the addresses without a match.

    Parameters
    ----------
    items : sequence of Item
        At least one.
    pattern : str or None
        Of the user.
    single : bool
        Whether the dump is one file.
    tensors : str or None
        Regular expression; selects tensors whose name, in the dump or as converted, it matches.

    Raises
    ------
    ValueError
        A pattern is malformed or matches nothing; none is given and no default one matches every
        array; a file has the same tensors under several keys; arrays are an optimizer's state.
    """
    if pattern is None and tensors is None:
        _check_optimizer(items)
    used, matches = _chosen(items, pattern, single)
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
        numbers = [groups.get("step"), groups.get("worker")]
        if any(
            number is not None and not re.fullmatch(r"\d+", number, re.ASCII) for number in numbers
        ):
            raise ValueError(
                f"pattern {used!r} finds a step or worker in {item.address!r} that is not a number"
            )
        step, worker = (None if number is None else int(number) for number in numbers)
        named.append(Named(item, step, worker, tensor))
    # The file's name is not part of the tensors' names.
    if pattern is None and used == BARE_PATTERN and single:
        named = [Named(n.item, None, None, n.item.entry.key or n.tensor) for n in named]
    plain = _plain([n.tensor for n in named])
    if tensors is not None:
        named = _selected(named, plain, tensors)
        plain = _plain([n.tensor for n in named])
    _check_optimizer([n.item for n in named])
    if pattern is None:
        _check_groups(plain, named, used)
    named = [Named(n.item, n.step, n.worker, tensor) for n, tensor in zip(named, plain)]
    return used, named, [item.address for item, match in zip(items, matches) if match is None]


def _chosen(
    items: Sequence[Item], pattern: str | None, single: bool
) -> tuple[str, list[re.Match[str] | None]]:
    if pattern is not None:
        try:
            regex = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"pattern {pattern!r} is not a regular expression: {error}") from None
        if unknown := set(regex.groupindex) - {"step", "worker", "tensor"}:
            raise ValueError(
                f"pattern {pattern!r} has the group {min(unknown)!r}; "
                "it may have step, worker, tensor"
            )
        whole = "tensor" in regex.groupindex
        matches = [regex.fullmatch(item.address if whole else item.unit.stem) for item in items]
        if not any(matches):
            raise ValueError(
                f"pattern {pattern!r} matches none of the {len(items)} arrays; the first is "
                f"{_first(items[0], whole)}"
            )
        return pattern, matches
    bare = [BARE_PATTERN] if single or all(not item.entry.key for item in items) else []
    most: tuple[int, str, list[re.Match[str] | None]] = 0, "", []
    for candidate in [*DEFAULT_PATTERNS, *bare]:
        regex = re.compile(candidate)
        matches = [regex.fullmatch(item.address) for item in items]
        if all(matches):
            return candidate, matches
        fitting = len(matches) - matches.count(None)
        most = max(most, (fitting, candidate, matches), key=lambda found: found[0])
    if most[0]:
        lost = items[most[2].index(None)]
        raise ValueError(
            f"{lost.label} has the address {lost.address!r}, which no default pattern matches "
            f"together with the others; to leave out it and similar ones ({len(items) - most[0]} "
            f"of {len(items)} arrays) pass --pattern '{most[1]}'"
        )
    raise ValueError(
        f"no default pattern matches all of the {len(items)} arrays; the first is "
        f"{items[0].address!r}; give one with the named groups step, worker and tensor: --pattern "
        "'it(?P<step>\\d+)/gpu(?P<worker>\\d+)/(?P<tensor>.+)'"
    )


def _selected(named: list[Named], plain: list[str], tensors: str) -> list[Named]:
    try:
        regex = re.compile(tensors)
    except re.error as error:
        raise ValueError(f"tensors {tensors!r} is not a regular expression: {error}") from None
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


def _check_optimizer(items: Sequence[Item]) -> None:
    for item in items:
        if _OPTIMIZER.fullmatch(item.entry.key):
            raise ValueError(
                f"{item.label} is an optimizer's state, as in a checkpoint of weights, and not a "
                "gradient; save p.grad of every parameter, or, if the gradients are among the "
                "arrays, select them with --tensors or --pattern"
            )


def _check_groups(names: list[str], named: list[Named], used: str) -> None:
    """Refuses a dump with the same names twice, such as weights as well as gradients."""
    groups: dict[str, set[str]] = {}
    for name in names:
        group, slash, rest = name.partition("/")
        if not slash:
            return
        groups.setdefault(group, set()).add(rest)
    if len(groups) > 1 and len({frozenset(rest) for rest in groups.values()}) == 1:
        found = list(groups)
        if remedy := _numbered(names, named, used):
            raise ValueError(
                f"{named[0].item.label}: the same tensors are under "
                f"{', '.join(map(repr, found[:4]))}; {remedy}"
            )
        raise ValueError(
            f"{named[0].item.label}: the same tensors are under {', '.join(map(repr, found[:4]))}; "
            f"one of them may be the gradients; select with --tensors '^{found[-1]}/', or give "
            "--pattern"
        )


def _numbered(names: list[str], named: list[Named], used: str) -> str:
    """The --pattern for names that begin with numbers, maybe steps or workers; "" for others."""
    levels = 2 if all(re.match(r"\d+/\d+/", name) for name in names) else 1
    groups = [group for group in ("step", "worker") if f"(?P<{group}>" not in used][:levels]
    if not groups or not all(re.match(r"\d+/", name) for name in names):
        return ""
    numbers = "".join(rf"(?P<{group}>\d+)/" for group in groups) + BARE_PATTERN
    seen = named[0].item.address if used == BARE_PATTERN else named[0].tensor
    before = re.escape(seen.removesuffix(names[0])) if seen.endswith(names[0]) else "(?:.*?/)?"
    pattern = (
        before + numbers if used == BARE_PATTERN else used.replace(BARE_PATTERN, before + numbers)
    )
    swap = (
        ""
        if len(groups) == 1 and used != BARE_PATTERN
        else "; swap the groups' names if they are the other way round"
    )
    return (
        f"if they are {' and '.join(f'{group}s' for group in groups)}, pass --pattern "
        f"'{pattern}'{swap}"
    )


def _first(item: Item, whole: bool) -> str:
    return repr(item.address if whole else item.unit.stem)


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
