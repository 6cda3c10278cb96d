"""Why a scheme overflowed although its scale is chosen to fit: in words."""

from __future__ import annotations

import pandas as pd

from .._schemes.scheme import known_scheme
from .._text import count_of
from .pooling import is_own

#: Rows that are named.
_NAMED = 4


def tight_overflows(rows: pd.DataFrame) -> str:
    """A sentence on the rows of a summary that overflowed with ``rule=tight`` in an order, or "".

    That rule fits the largest possible sum of the values; a partial sum that is rounded up at a hop
    may still pass the format's largest number (docs/definitions.md, section 17).
    """
    steps_of: dict[str, int] = {}
    several = rows["trace"].nunique() > 1
    for row in rows.itertuples():
        if row.overflowed and _adds_tight(row.scheme, row.topology):
            name = f"{row.scheme} in {row.topology}" + (f" of {row.trace}" if several else "")
            steps_of[name] = steps_of.get(name, 0) + int(row.overflowed)
    if not steps_of:
        return ""
    named = [f"{name} ({count_of(steps, 'step')})" for name, steps in steps_of.items()]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return (
        f"overflow, so ranked last: {', '.join(named[:_NAMED])}{more}; rule=tight fits the largest "
        "sum but leaves no room for partial sums that are rounded up; rule=ceil mostly "
        "leaves some, two_phase needs none"
    )


def _adds_tight(spec: str, topology: str) -> bool:
    if topology in ("", "exact") or is_own(topology) or topology.startswith("two_phase"):
        return False
    scheme = known_scheme(spec)
    keys = scheme.keys if scheme else {}
    return keys.get("rule") == "tight" and keys.get("accumulate", "format") == "format"
