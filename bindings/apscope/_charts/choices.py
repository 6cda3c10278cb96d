"""What each choice is worth: bars of the factor by which the error grows without it."""

from __future__ import annotations

import math

import pandas as pd

from .._schemes.titles import reduction, scale
from .._text import count_of
from .colours import COLOURS
from .describe import Bar, Bars, number

#: Colours of the choices: none is that of a family.
_COLOUR = dict(zip(("reduction", "format", "scale"), (COLOURS[7], COLOURS[8], COLOURS[9])))
#: Widths that are drawn, and alternatives of one choice.
_WIDTHS, _EACH = 2, 2
_BYTES = " of fp32's bytes"


def named(choice: str, value: str) -> str:
    """What is chosen, for people."""
    return {"reduction": reduction, "scale": scale}.get(choice, str)(value)


def _alone(choice: str, value: str) -> str:
    """The same where no heading says which choice it is."""
    return ("a scale for " if choice == "scale" else "") + named(choice, value)


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
        chosen = {r.choice: _alone(r.choice, r.of) for r in rows.itertuples()}
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
                f"{_alone(r.choice, r.other)}, not {named(r.choice, r.of)}",
                r.factor,
                _COLOUR[r.choice],
                f"{r.other_scheme}, {reduction(r.other_topology)}\n{unit} "
                f"{_finite(r.other_error)}{_sent(r.other_volume, _BYTES)}\n"
                f"{r.scheme}, {reduction(r.topology)}\n{unit} "
                f"{_finite(r.error)}{_sent(r.volume)}",
            )
            for _, part in rows.groupby("choice", sort=False)
            for r in part.head(_EACH).itertuples()
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
            "A ring's scale leaves room for the sum, in two phases a layer's or a finer one leaves none. "
            if {*shown["topology"], *shown["other_topology"]} >= {"ring", "two_phase"}
            else ""
        )
        + ". ".join(sentences)
        + ".",
        groups,
        list(_COLOUR.items()),
    )


def _sent(volume: float, unit: str = "") -> str:
    """The bytes; nothing where they are unknown, as with one worker."""
    return "" if math.isnan(volume) else f" at {number(volume)}{unit}"


def _finite(value: float, sign: str = "") -> str:
    return "overflow" if math.isinf(value) else sign + number(value)
