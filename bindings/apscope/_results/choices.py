"""What each choice is worth: reduction, format, scale and room, each with everything else equal.

Of the best scheme of a width one choice is changed at a time; the factor is that of the errors. A
ring's scale leaves room for the sum, in two phases a layer's or a finer one leaves none: another
reduction, or a coarser scale, stands there with every room that was replayed. docs/definitions.md,
section 14.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._schemes.phases import leaves_none
from .._schemes.scheme import known_scheme
from .pooling import is_own
from .ranking import RANKS, UNSOUND
from .volume import same_bytes

#: The choices, in the order in which they are told.
CHOICES = ("reduction", "format", "scale", "room")
#: Units of a scale from the finest: blocks by their size, then these.
_UNITS = ("row", "tensor", "bucket", "model", "largest")


class Choices(NamedTuple):
    """A row of a summary as its choices; `rest` is everything else that its spec says."""

    reduction: str
    format: str
    scale: str
    room: str  # keys headroom and overflow; "" where the reduction leaves no room
    rest: tuple[Any, ...]


def choices_of(spec: str, topology: str) -> Choices | None:
    """The choices of a scheme and its reduction; None for a policy or an unknown scheme.

    The scale is the unit that shares one, of APS and of a loss scale by the same rule: ``largest``
    for one scale for all steps. Its room for the sum and what a sum beyond it becomes are one
    choice. In a block format the block belongs to the format.
    """
    scheme = known_scheme(spec)
    if scheme is None or scheme.body:
        return None
    keys, name, format, scale, room = dict(scheme.keys), scheme.name, scheme.format, "", ""
    if name == "aps" and (keys["delay"], keys["frozen"], keys["bucket"]) == ("0", "0", "none"):
        scale, name = keys.pop("unit"), "one rule"
        del keys["delay"], keys["frozen"], keys["bucket"]
    elif name == "loss_scaling" and keys["scale"] == "largest":
        scale, name = keys.pop("scale"), "one rule"
        del keys["by"]
    elif name == "mx":
        format = keys.pop("block_format")
    if name == "one rule":
        room = ",".join(f"{key}={keys.pop(key)}" for key in ("headroom", "overflow"))
        room = "" if leaves_none(scheme, topology) else room
    return Choices(topology, format, scale, room, (name, *sorted(keys.items())))


def coarseness(scale: str) -> tuple[int, int]:
    """For sorting scales from the finest: blocks of elements, then a row, a tensor, ..."""
    if scale.isdecimal():
        return (0, int(scale))
    kind = scale.partition(":")[0]
    return (1 + _UNITS.index(kind) if kind in _UNITS else len(_UNITS) + 1, 0)


def worth(rows: pd.DataFrame, bits: dict[str, int]) -> pd.DataFrame:
    """The best scheme of each width, and every scheme that differs from it in one choice.

    Parameters
    ----------
    rows : DataFrame
        The front of one trace, from `summary.front`.
    bits : dict
        Scheme -> bits per value, without side information.

    Returns
    -------
    DataFrame
        Ascending by `CHOICES`, most bits first: ``bits``, ``choice``, ``of`` and ``other`` (what is
        chosen, and what instead), ``scheme``, ``topology``, ``error``, ``volume`` and ``room`` of
        the best and with the prefix ``other_`` of the other, ``factor`` (the other's error over the
        best's; infinite where it overflowed), ``less`` (whether a sound row of about as many bytes,
        which has no such rows, errs less). The best of a width is the sound row with the least
        error, of equal ones the first, among those whose scheme was also replayed with another
        reduction at the same bytes; without
        any, among those with another row that differs in one choice. Baselines are left out.
    """
    candidates = rows[
        (rows["family"] != "baseline")
        & (rows["topology"] != "exact")
        & (rows[RANKS].notna() | (rows["overflowed"] > 0))
    ]
    first: dict[Choices, dict[str, Any]] = {}  # of schemes that differ in keys that are not read
    for row in candidates.to_dict("records"):
        if choices := choices_of(row["scheme"], row["topology"]):
            first.setdefault(choices, row)
    known = [(row, choices) for choices, row in first.items()]
    records: list[dict[str, Any]] = []
    for width in sorted({bits[row["scheme"]] for row, _ in known}, reverse=True):
        of_width = [(row, c) for row, c in known if bits[row["scheme"]] == width and width <= 16]
        sound = [
            (row, c, _changed(row, c, of_width))
            for row, c in of_width
            if not any(row[count] for count in UNSOUND) and row[RANKS] > 0
        ]
        both = [s for s in sound if any(choice == "reduction" for choice, _, _ in s[2])]
        if not (eligible := both or [s for s in sound if s[2]]):
            continue
        best, chosen, changed = min(eligible, key=lambda s: s[0][RANKS])
        less = any(
            row[RANKS] < best[RANKS] and same_bytes(row["volume"], best["volume"])
            for row, _, _ in sound
        )
        for choice, row, c in sorted(changed, key=_order):
            other = np.inf if row["overflowed"] else row[RANKS]
            records.append(
                {
                    "bits": width,
                    "choice": choice,
                    "of": getattr(chosen, choice),
                    "other": getattr(c, choice),
                    **{name: best[name] for name in ("scheme", "topology", "volume")},
                    "error": best[RANKS],
                    **{f"other_{name}": row[name] for name in ("scheme", "topology", "volume")},
                    "room": chosen.room,
                    "other_room": c.room,
                    "other_error": other,
                    "factor": other / best[RANKS],
                    "less": less,
                }
            )
    return pd.DataFrame(records)


def _changed(
    row: dict[str, Any], chosen: Choices, rows: list[tuple[dict[str, Any], Choices]]
) -> list[tuple[str, dict[str, Any], Choices]]:
    """The rows that differ in one choice: which, the row, its choices.

    A reduction, or a scale of several layers, that leaves room where the other leaves none is one
    choice together with it.
    """
    out = []
    for other, c in rows:
        differ = [name for name in CHOICES if getattr(chosen, name) != getattr(c, name)]
        if len(differ) == 2 and differ[1] == "room" and not (chosen.room and c.room):
            del differ[1]
        if c.rest != chosen.rest or len(differ) != 1 or other["skipped"] or other["gaps"]:
            continue
        if differ == ["room"] and other[RANKS] == row[RANKS]:  # as of one worker
            continue
        own = is_own(row["topology"]) or is_own(other["topology"])
        if differ == ["reduction"] and (own or not same_bytes(row["volume"], other["volume"])):
            continue
        out.append((differ[0], other, c))
    return out


def _order(changed: tuple[str, dict[str, Any], Choices]) -> tuple[Any, ...]:
    """Sorts choices in their order, formats and reductions by error, scales from the finest."""
    choice, row, c = changed
    place = coarseness(c.scale) if choice == "scale" else (0, 0)
    return (CHOICES.index(choice), place, bool(row["overflowed"]), row[RANKS])
