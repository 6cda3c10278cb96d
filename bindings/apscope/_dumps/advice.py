"""Refuses a dump whose arrays are several of one name, with the pattern that keeps them all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .patterns import BARE_PATTERN
from .weights import GRADIENT

if TYPE_CHECKING:
    from .names import Named

#: What the word before a number says that it counts; the first match wins.
_KINDS = (
    ("micro", r"(?:micro|mb)[a-z_-]*"),
    # Ranks of a part of the model: nothing is reduced over them.
    (
        "part",
        r"(?:mp|tp|pp|cp|ep)(?:[_-]?rank)?"
        r"|(?:model|tensor|pipeline|expert)(?:[_-]?(?:parallel|rank))+",
    ),
    ("step", r"(?:.*[_-])?(?:step|iteration|iter|it|s)"),
    ("worker", r"(?:.*[_-])?(?:worker|rank|gpu|device|process|proc|replica|dp|w)"),
)
_GROUPS = ("step", "worker", "micro")
_PLURAL = {"step": "steps", "worker": "workers", "micro": "micro-batches"}
#: Names of a list of gradients, which is not a parameter.
_LISTS = re.compile(r"(?i:.*grad.*|dw|deltas?|tensors?|arrays?)")


def check_groups(
    names: Sequence[str], named: Sequence[Named], used: str, only_numbered: bool = False
) -> None:
    """Refuses a dump with the same names several times: steps, ranks, micro-batches, weights.

    `only_numbered`: only where a pattern can be proposed.

    Raises
    ------
    ValueError
        The sentence proposes a pattern that keeps every array, if their numbers allow one.
    """
    _check_lists(named, used)
    groups: dict[str, set[str]] = {}
    for name in names:
        group, slash, rest = name.partition("/")
        if not slash:
            return
        groups.setdefault(group, set()).add(rest)
    if len(groups) < 2:
        return
    same = len({frozenset(rest) for rest in groups.values()}) == 1
    remedy = _proposal(names, named, used, known=not same)
    if not remedy and (only_numbered or not same):
        return
    labels = list(groups)
    likely = next((label for label in labels if GRADIENT.search(label)), labels[-1])
    which = (
        f"{'the same tensors' if same else 'tensors'} are under {', '.join(map(repr, labels[:4]))}"
    )
    raise ValueError(
        f"{named[0].item.label}: {which}; "
        + (
            remedy
            or f"one of them may be the gradients; select with --tensors '^{likely}/', or give "
            "--pattern"
        )
    )


def _check_lists(named: Sequence[Named], used: str) -> None:
    """Refuses lists of arrays of one shape under every name: {"w": [step 0, step 1]}."""
    if used != BARE_PATTERN:
        return
    lists: dict[str, list[Named]] = {}
    for n in named:
        above, slash, last = n.item.address.rpartition("/")
        if not slash or not last.isdecimal():
            return
        lists.setdefault(above, []).append(n)
    parents = [text.rpartition("/")[2] for text in lists]
    if any(word.isdecimal() or _LISTS.fullmatch(word) for word in parents):
        return
    counts = {tuple(n.item.address.rpartition("/")[2] for n in of) for of in lists.values()}
    if (
        len(counts) != 1
        or len(lists) == len(named)
        or any(len({n.item.entry.shape for n in of}) > 1 for of in lists.values())
        or not all("/" in text for text in lists)
    ):
        return
    count = len(next(iter(counts)))
    begin = {text.rpartition("/")[0] for text in lists}
    before = re.escape(begin.pop()) if len(begin) == 1 else ".*"
    pattern = f"{before}/(?P<tensor>[^/]+)/(?P<step>\\d+)"
    raise ValueError(
        f"{named[0].item.label} is one of {count} arrays of the same shape under {parents[0]!r}; "
        f"if they are steps, pass --pattern {shlex.quote(pattern)}; replace step by worker if they "
        f"are workers, or pass --pattern {shlex.quote(BARE_PATTERN)} if they are tensors"
    )


def _proposal(names: Sequence[str], named: Sequence[Named], used: str, known: bool) -> str:
    """The --pattern that distinguishes the groups by their numbers; "" if there is none.

    `known`: only if words say what the numbers count.
    """
    in_pattern = [group for group in _GROUPS if f"(?P<{group}>" in used]
    deep = len(in_pattern) == 0 and all(re.match(r"\d+/\d+/", name) for name in names)
    heads = []
    for name, n in zip(names, named, strict=True):
        rest = name.split("/", 2 if deep else 1)[-1]
        address = next(
            (a for end in ("", "/grad", ".grad") if (a := n.item.address).endswith(rest + end)), ""
        )
        end = address.rfind(rest)
        if end < 0 or not address:
            return ""
        heads.append(re.split(r"(\d+)", address[:end], flags=re.ASCII))
    first = heads[0]
    if any(head[::2] != first[::2] for head in heads):
        return ""
    texts, numbers = first[::2], list(zip(*(head[1::2] for head in heads)))
    kinds = [_kind(text, letters=not known) for text in texts[:-1]]
    varying = [len(set(column)) > 1 for column in numbers]
    if known and not any(kind and vary for kind, vary in zip(kinds, varying)):
        return ""
    free = [
        group
        for group in ("step", "worker")
        if group not in [kind for kind, vary in zip(kinds, varying) if vary or kind == "step"]
        and not (group in in_pattern and group not in kinds)
    ]
    guessed, pieces, used_groups, part = [], [], [], ""
    for i, (kind, vary) in enumerate(zip(kinds, varying)):
        group = kind
        if vary and not kind:
            if not free:
                return ""
            group = free.pop(0)
            guessed.append(group)
        if kind == "part" and vary:
            part = re.split("[/.]", texts[i])[-1] + numbers[i][0]
        if group in _GROUPS and group not in used_groups and (vary or group == "step"):
            used_groups.append(group)
            pieces.append(rf"(?P<{group}>\d+)")
        elif vary and kind != "part":
            return ""  # two numbers count the same
        else:
            pieces.append(numbers[i][0] if vary or not kind or kind == "part" else r"\d+")
    if not any(vary and kind != "part" for kind, vary in zip(kinds, varying)) and not part:
        return ""
    pattern = (
        "".join(re.escape(text) + piece for text, piece in zip(texts, [*pieces, ""])) + BARE_PATTERN
    )
    command = f"pass --pattern {shlex.quote(pattern)}"
    if "micro" in used_groups:
        command += " and --accumulate fp32 or own, which adds the micro-batches"
    if part:
        command += (
            f", for the part {part} of the model alone: nothing is reduced over its parts, so each "
            "becomes a trace"
        )
    if guessed:
        swap = (
            ""
            if len(guessed) == 1 and not free
            else ("; swap the groups' names if they are the other way round")
        )
        return f"if they are {' and '.join(_PLURAL[group] for group in guessed)}, {command}{swap}"
    return command


def _kind(text: str, letters: bool) -> str | None:
    """What a number after this text counts: step, worker, micro, part, or None.

    `letters`: whether s and w alone are such words.
    """
    word = re.sub(r"[_.=-]$", "", text)
    word = re.split(r"[/.]|(?<=\d)_", word)[-1].lstrip("_-").lower()
    if len(word) == 1 and not letters:
        return None
    return next((kind for kind, words in _KINDS if re.fullmatch(words, word)), None)
