"""The units of a choice: a layer, or several that share it, in a range of steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Values of `--groups`, besides bucket:SIZE and a regular expression.
GROUPS = {
    "layer": "every tensor separately",
    "module": "the tensors of a module: the name up to its last dot",
    "role": "the tensors of a role",
    "model": "all tensors",
}
_FIRST_BUCKET = 2**20  # bytes: DDP's first bucket is small
_SIZES = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


@dataclass(frozen=True)
class Tensor:
    """The data of a layer of the trace that a plan needs."""

    name: str
    role: str
    size: int


@dataclass(frozen=True)
class Unit:
    """The tensors and steps of one choice: steps `begin` <= step < `end`, None for no bound."""

    name: str
    tensors: tuple[str, ...]
    begin: int | None = None
    end: int | None = None

    @property
    def steps(self) -> str:
        """The range as specs write it; empty for all."""
        return (
            ""
            if self.begin is None and self.end is None
            else ":".join("" if b is None else str(b) for b in (self.begin, self.end))
        )

    def contains(self, step: int) -> bool:
        """Whether a step is in the range."""
        return (self.begin is None or step >= self.begin) and (self.end is None or step < self.end)


def units_of(
    tensors: Sequence[Tensor],
    steps: Sequence[int],
    groups: str,
    periods: int,
    fixed: Iterable[str] = (),
) -> list[Unit]:
    """The units of a trace: groups in the order of their first tensors, each in every period.

    Parameters
    ----------
    tensors : sequence of Tensor
        In the trace's order.
    steps : sequence of int
        Recorded step numbers, ascending; the periods divide them into ranges of about equal length.
    groups : str
        One of `GROUPS`, ``bucket:SIZE``, or a regular expression: its first capture group, or else
        the whole match, names the group; a tensor without a match is a separate group.
    periods : int
    fixed : iterable of str
        Tensors that are separate units, whatever the groups.

    Raises
    ------
    ValueError
        Unknown groups; more periods than steps.
    """
    if not 1 <= periods <= len(steps):
        raise ValueError(
            f"periods={periods} is not in 1..{len(steps)}, the number of steps used for the choice"
        )
    starts = [steps[len(steps) * p // periods] for p in range(periods)]
    bounds = list(zip([None, *starts[1:]], [*starts[1:], None]))
    alone = set(fixed)
    names = _group_names(tensors, groups)
    members: dict[str, list[str]] = {}
    for tensor, name in zip(tensors, names):
        members.setdefault(tensor.name if tensor.name in alone else name, []).append(tensor.name)
    return [
        Unit(name, tuple(inside), *bound) for name, inside in members.items() for bound in bounds
    ]


def _group_names(tensors: Sequence[Tensor], groups: str) -> list[str]:
    if groups == "layer":
        return [t.name for t in tensors]
    if groups == "module":
        return [t.name.rpartition(".")[0] or t.name for t in tensors]
    if groups == "role":
        return [t.role for t in tensors]
    if groups == "model":
        return ["model"] * len(tensors)
    if groups.startswith("bucket:"):
        return _buckets(tensors, _bytes_of(groups))
    try:
        pattern = re.compile(groups)
    except re.error as error:
        raise ValueError(
            f"groups '{groups}' is not one of {', '.join(GROUPS)}, bucket:SIZE or a regular "
            f"expression: {error}"
        ) from None
    found = [pattern.search(t.name) for t in tensors]
    if not any(found):
        raise ValueError(
            f"groups '{groups}' matches no layer's name; use one of {', '.join(GROUPS)}, "
            "bucket:SIZE or a regular expression"
        )
    return [
        (next((g for g in m.groups() if g), m[0]) or t.name) if m else t.name
        for m, t in zip(found, tensors)
    ]


def _bytes_of(groups: str) -> int:
    match = re.fullmatch(r"bucket:(\d+)([KMG]?B?)", groups)
    if not match or match[2] not in _SIZES or int(match[1]) == 0:
        raise ValueError(
            f"groups '{groups}' has no bucket size; give bytes, KB, MB or GB, as in bucket:25MB"
        )
    return int(match[1]) * _SIZES[match[2]]


def _buckets(tensors: Sequence[Tensor], limit: int) -> list[str]:
    """As in DDP (definitions, section 8): layers in reverse order until a bucket is full."""
    names, filled, number = [], 0, 0
    for tensor in reversed(tensors):
        if filled >= (min(limit, _FIRST_BUCKET) if number == 0 else limit):
            number, filled = number + 1, 0
        names.append(f"bucket {number}")
        filled += 4 * tensor.size
    return names[::-1]


def pinned(tensors: Sequence[Tensor], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Tensor -> its fixed scheme, by the first regular expression that matches its name.

    Raises
    ------
    ValueError
        An invalid expression, or one that matches no name.
    """
    scheme_of: dict[str, Any] = {}
    for pattern, value in fixed.items():
        try:
            hits = [t.name for t in tensors if re.search(pattern, t.name)]
        except re.error as error:
            raise ValueError(f"fixed '{pattern}' is not a regular expression: {error}") from None
        if not hits:
            raise ValueError(
                f"fixed '{pattern}' matches none of the layers' names: "
                f"{', '.join(t.name for t in tensors[:6])}{', ...' * (len(tensors) > 6)}"
            )
        for name in hits:
            scheme_of.setdefault(name, value)
    return scheme_of
