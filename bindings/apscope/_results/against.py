"""Compares two results: every scheme with itself, on common layers and steps; lists the rest."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .. import _core
from .._arrays.float_environment import guarded
from .._text import clip
from .comparison import COLUMNS as COMPARED
from .comparison import USED, met
from .row_table import frame_of, rows_of

#: Which results have a scheme of a trace.
HELD = ("both", "first", "second")
#: Columns of `against`, in order.
COLUMNS = (
    "trace",
    "scheme",
    "held_by",
    *(c for c in COMPARED if c not in ("trace", "layer", "whole", "scheme_a", "scheme_b")),
)


@guarded
def against(first: Any, second: Any, topology: str | None = None) -> pd.DataFrame:
    """`Results.against`, also of tables of rows."""
    core = _core.Pairing(*(rows_of(results, USED).core for results in (first, second)))
    rows = [
        {name: values[0] for name, values in row.pop("figures", {}).items()} | row
        for row in core.against(topology)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def only(first: Any, second: Any) -> list[tuple[str, str, list[Any]]]:
    """The parts of two results that only one has.

    Returns
    -------
    list of tuples
        ``first`` or ``second``; the kind (``trace``, ``layer``, ``step``, ``scheme``, ``topology``;
        layers and steps of matching traces); and which, in order.
    """
    tables = [frame_of(results) for results in (first, second)]
    meet = met(*(list(table["trace"].unique()) for table in tables))
    sides: list[dict[str, list[Any]]] = []
    for table, names in zip(tables, (meet, {there: here for here, there in meet.items()})):
        shared = table[table["trace"].isin(list(names))]
        sides.append({
            "trace": [t for t in table["trace"].unique() if t not in names],
            "layer": list(shared["tensor"].unique()), "step": shared["step"].unique().tolist(),
            "scheme": list(table["scheme"].unique()),
            "topology": [t for t in table["topology"].unique() if t],
        })  # fmt: skip
    out = []
    for held_by, mine, others in (("first", sides[0], sides[1]), ("second", sides[1], sides[0])):
        for what, found in mine.items():
            if alone := [
                name for name in found if what == "trace" or name not in set(others[what])
            ]:
                out.append((held_by, what, alone))
    return out


def meeting(here: list[dict[str, Any]], there: list[dict[str, Any]]) -> dict[str, str]:
    """Pairs of traces of both sides: equal names, or the only ones, if they share a tensor.

    Parameters
    ----------
    here, there : list of dict
        As provenances describe traces: ``name``, ``tensors`` with ``name`` and ``shape``.

    Raises
    ------
    ValueError
        There is no pair, so nothing can be compared.
    """
    sides = [
        {t["name"]: {(x["name"], tuple(x["shape"])) for x in t.get("tensors", ())} for t in side}
        for side in (here, there)
    ]
    pairs = {
        n: m
        for n, m in met(*map(list, sides)).items()
        if sides[0][n] & sides[1][m] or not (sides[0][n] and sides[1][m])
    }
    if not pairs:
        names = [clip(", ".join(side), 80) or "none" for side in sides]
        raise ValueError(
            f"the other results are of another trace ({names[1]}, here {names[0]}) and have no "
            "tensor in common with these; give results of the same model"
        )
    return pairs


def settings(first: Any, second: Any) -> list[tuple[str, str, str]]:
    """The settings in which two `Results` differ, with both values."""
    facts = []
    for p in (first.provenance, second.provenance):
        about = {
            name: str(p.get(name)) for name in ("version", "seed", "draws", "selection", "shard")
        }
        about["topologies"] = ", ".join(p.get("topologies", ()))
        for trace in p.get("traces", ()):
            for name in ("hash", "workers", "reduction", "stage", "model"):
                about[f"{name} of {trace['name']}"] = str(trace.get(name, ""))
            about[f"steps of {trace['name']}"] = (
                f"{len(trace['steps'])}, {trace['steps'][0]} to {trace['steps'][-1]}"
            )
        facts.append(about)
    return [
        (name, facts[0].get(name, "–"), facts[1].get(name, "–"))
        for name in facts[0] | facts[1]
        if facts[0].get(name) != facts[1].get(name)
    ]
