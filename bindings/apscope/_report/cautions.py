"""Sentences at the head of the page: facts that a reader needs first.

Names are in backquotes; the template sets them as code.
"""

from __future__ import annotations

from .. import _core
from .._results.results import Results
from .._results.show import remarks


def code(name: str) -> str:
    """A name in backquotes, without backquotes inside."""
    return f"`{name.replace('`', 'ˋ')}`"


def warnings(results: Results, left_out: list[str]) -> list[str]:
    """Facts that a reader of the page needs first."""
    out, frame = [], results.frame
    shard, count = results.provenance.get("shard", [0, 1])
    if count > 1:
        out.append(
            f"This is shard {shard} of {count}, not the whole replay: about {count - 1} of {count} "
            "parts of the layers and steps are missing from every number here. `apscope merge` "
            "joins the shards."
        )
    out += [sentence[0].upper() + sentence[1:] for sentence in remarks(results)]
    notes = frame.loc[
        frame["note"].astype(str).str.startswith(_core.NOT_MEASURABLE), ["scheme", "note"]
    ].drop_duplicates()
    out += [f"{code(r.scheme)}: {r.note}." for r in notes.itertuples()]
    return out + left_out
