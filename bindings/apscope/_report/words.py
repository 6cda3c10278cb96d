"""Sentences of the first part of the page: what loses least, and what must be known before.

Names stand in backquotes; the template sets them as code.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from .. import _core
from .._results.results import Results
from .._results.volume import at_most
from .._text import clip
from .answer import LEVEL, measure
from .text import figure, listed


def code(name: str) -> str:
    """A name between backquotes, short enough to read and without any of its own."""
    return f"`{clip(name).replace('`', 'ˋ')}`"


#: Shares of fp32's bytes at which a scheme is named, and what they are called.
_SHARES = ((0.25, "a quarter"), (0.5, "half"))


def errors(row: pd.Series) -> str:
    """The error of a row of a summary, in units of the noise where that is known."""
    over = row["error_over_noise"]
    nmse = f"step NMSE {figure(row['step_nmse'])}"
    return nmse if pd.isna(over) else f"a typical error of {figure(over)} of the batch's noise ({nmse})"


def best(rows: pd.DataFrame, bits: dict[str, int]) -> str:
    """Which scheme loses least at a quarter of fp32's bytes, and at half, of those that overflowed at no step and skipped none.

    Parameters
    ----------
    rows : DataFrame
        One trace, from `answer.headline`.
    bits : dict
        From `answer.bits_of`: what counts where nothing was reduced, so that there is no volume.
    """
    measured, error = rows["volume"].notna().any(), measure(rows)
    share, what = (rows["volume"], "bytes") if measured else (rows["scheme"].map(bits) / 32, "bits on the wire")
    sound = (rows["overflowed"] == 0) & (rows["skipped"] == 0) & rows[error].notna()
    parts: list[str] = []
    last, of_fp32 = "", f" of fp32's {what}"
    for limit, called in _SHARES:
        ranked = rows[sound & at_most(share, limit)].sort_values(error, kind="stable")
        if not len(ranked):
            parts.append(f"at {called}{'' if parts else of_fp32} no scheme here keeps every step without overflow")
            continue
        first = ranked.iloc[0]
        if first["scheme"] == last:
            parts.append(f"at {called} none loses less")
            continue
        last = first["scheme"]
        text = f"at {called}{'' if parts else of_fp32} {code(last)} loses least: {errors(first)}"
        level = [code(r.scheme) for r in ranked.iloc[1:].itertuples() if getattr(r, error) < first[error] * (1 + LEVEL)]
        text += f" ({listed(level[:3])} {'is' if len(level) == 1 else 'are'} level)" if level else ""
        parts.append(text)
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def warnings(provenance: dict[str, Any], frame: pd.DataFrame, left_out: list[str]) -> list[str]:
    """What must be known before anything else is read."""
    out = []
    shard, count = provenance.get("shard", [0, 1])
    if count > 1:
        out.append(
            f"This is shard {shard} of {count}, not the whole replay: about {count - 1} of {count} parts of the layers and steps are missing from every number here. `apscope merge` joins the shards."
        )
    results = Results(frame, frame.iloc[:0], provenance)
    out += [sentence[0].upper() + sentence[1:] for sentence in (results.not_finite, results.all_zero) if sentence]
    notes = frame.loc[frame["note"].astype(str).str.startswith(_core.NOT_MEASURABLE), ["scheme", "note"]].drop_duplicates()
    out += [f"{code(r.scheme)}: {r.note}." for r in notes.itertuples()]
    return out + left_out
