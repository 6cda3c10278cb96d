"""What each choice is worth: bars of the factor by which the error grows without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .._results.choices import CHOICES
from .._schemes.titles import reduction, room, scale
from .._text import count_of
from .colours import COLOURS
from .describe import Bar, Bars, number

#: Colours of the choices: none is that of a family.
_COLOUR = dict(zip(CHOICES, (COLOURS[7], COLOURS[8], COLOURS[9], COLOURS[6])))
#: Widths that are drawn, and alternatives of one choice.
_WIDTHS, _EACH = 2, 2
_BYTES = " of fp32's bytes"


def named(choice: str, value: str) -> str:
    """What is chosen, for people."""
    return {"reduction": reduction, "scale": scale, "room": room}.get(choice, str)(value)


def instead(row: Mapping[str, Any]) -> str:
    """What is chosen instead; a reduction with its room, where the best leaves none."""
    and_room = f", {room(row['other_room'])}" if row["other_room"] and not row["room"] else ""
    return named(row["choice"], row["other"]) + and_room


def _alone(choice: str, name: str) -> str:
    """A name where no heading says which choice it is."""
    return f"a scale for {name}" if choice == "scale" else name


def choices_chart(table: pd.DataFrame, unit: str) -> Bars:
    """Rows of `choices.worth`, at most 8 bits wide, as bars.

    Parameters
    ----------
    table : DataFrame
    unit : str
        What the errors are: "error over noise" or "step NMSE".
    """
    groups, sentences = [], []
    shown = table[table["bits"] <= 8] if (table["bits"] <= 8).any() else table
    for bits, rows in list(shown.groupby("bits", sort=False))[:_WIDTHS]:
        best = rows.iloc[0]
        chosen = {c: _alone(c, named(c, of)) for c, of in zip(rows["choice"], rows["of"])}
        chosen.setdefault("reduction", reduction(best["topology"]))
        # Another scheme errs less, whose codes no ring can add.
        apart = best["less"] and best["topology"] != "ring"
        choices_named = [
            chosen[c] for c in _COLOUR if chosen.get(c) and not (apart and c == "reduction")
        ]
        width = count_of(int(bits), "bit") + (" a ring can add" if apart else "")
        heading = ": ".join([width, ", ".join(choices_named)]) if choices_named else width
        bars = [
            Bar(
                f"{_alone(r['choice'], instead(r))}, not {named(r['choice'], r['of'])}",
                r["factor"],
                _COLOUR[r["choice"]],
                f"{r['other_scheme']}, {reduction(r['other_topology'])}\n{unit} "
                f"{_finite(r['other_error'])}{_sent(r['other_volume'], _BYTES)}\n"
                f"{r['scheme']}, {reduction(r['topology'])}\n{unit} "
                f"{_finite(r['error'])}{_sent(r['volume'])}",
            )
            for _, part in rows.groupby("choice", sort=False)
            for r in part.head(_EACH).to_dict("records")
        ]
        groups.append((heading, bars))
        sentences.append(
            f"{heading}, {unit} {number(best['error'])}; "
            + "; ".join(f"{b.name}: {_finite(b.factor, '× ')}" for b in bars)
        )
    return Bars(
        "What each choice is worth",
        "The best scheme that was replayed"
        + (
            " with both reductions"
            if (shown["choice"] == "reduction").any()
            else " and differs from another in one choice"
        )
        + ", and its error with one choice changed. "
        + (
            "Room for W: the scale leaves room for the sum of W workers. "
            if "room for" in " ".join(sentences)
            else ""
        )
        + ". ".join(sentences)
        + ".",
        groups,
        [
            (choice, colour)
            for choice, colour in _COLOUR.items()
            if (shown["choice"] == choice).any()
        ],
    )


def _sent(volume: float, unit: str = "") -> str:
    """The bytes; nothing where they are unknown, as with one worker."""
    return "" if math.isnan(volume) else f" at {number(volume)}{unit}"


def _finite(value: float, sign: str = "") -> str:
    return "overflow" if math.isinf(value) else sign + number(value)
