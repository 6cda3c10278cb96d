"""Sentences of the first part of the page, each out of one row of a table of answer.py.

Names stand in backquotes; the template sets them as code.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from .. import _core
from .._results.results import Results
from .._results.summary import family_of
from .._results.volume import at_most
from .._schemes.scheme import as_scheme
from .._text import clip, count_of
from .answer import LEVEL
from .text import figure, gap, listed, percent, times


def code(name: str) -> str:
    """A name between backquotes, short enough to read and without any of its own."""
    return f"`{clip(name).replace('`', 'ˋ')}`"


#: Shares of fp32's bytes at which a scheme is named, and what they are called.
_SHARES = ((0.25, "a quarter"), (0.5, "half"))


def best(rows: pd.DataFrame, bits: dict[str, int]) -> str:
    """Which scheme loses least at a quarter of fp32's bytes, and at half, of those that overflowed at no step and skipped none.

    Parameters
    ----------
    rows : DataFrame
        One trace, from `answer.headline`.
    bits : dict
        From `answer.bits_of`: what counts where nothing was reduced, so that there is no volume.
    """
    measured = rows["volume"].notna().any()
    share, what = (rows["volume"], "bytes") if measured else (rows["scheme"].map(bits) / 32, "bits on the wire")
    sound = (rows["overflowed"] == 0) & (rows["skipped"] == 0) & rows["step_nmse"].notna()
    parts: list[str] = []
    last, of_fp32 = "", f" of fp32's {what}"
    for limit, called in _SHARES:
        ranked = rows[sound & at_most(share, limit)].sort_values("step_nmse", kind="stable")
        if not len(ranked):
            parts.append(f"at {called}{'' if parts else of_fp32} no scheme here keeps every step without overflow")
            continue
        first = ranked.iloc[0]
        if first["scheme"] == last:
            parts.append(f"at {called} none loses less")
            continue
        last = first["scheme"]
        text = f"at {called}{'' if parts else of_fp32} {code(last)} loses least: step NMSE {figure(first['step_nmse'])}"
        text += f", modelled speed-up {figure(first['speedup'])}" if first["speedup"] > 0 else ""
        level = [code(r.scheme) for r in ranked.iloc[1:].itertuples() if r.step_nmse < first["step_nmse"] * (1 + LEVEL)]
        text += f" ({listed(level[:3])} {'is' if len(level) == 1 else 'are'} level)" if level else ""
        parts.append(text)
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def duels(table: pd.DataFrame, volumes: dict[str, float], beaten: dict[str, str]) -> list[str]:
    """What the comparisons of one trace came to: decided ones one by one, the widest gap first, level ones together, then stochastic rivals.

    Parameters
    ----------
    table : DataFrame
        One trace, from `answer.duels`.
    volumes, beaten : dict
        Scheme -> its volume; the baseline that beats it, or "".
    """
    if not len(table):
        return []
    stochastic = table["b"].map(family_of) == "stochastic"
    won: list[tuple[float, str]] = []
    level = []
    for _, group in table[~stochastic].groupby("format", sort=False):
        first = group.iloc[0]
        other_rule = [row for _, row in group.iloc[1:].iterrows() if row["a"] == first["a"] and _differ_in_rule(row["b"], first["b"])]
        if first["verdict"] == "level":
            level.append(first)
        else:
            won.append((gap(first["ratio"]), decided(first, other_rule)))
    out = [sentence for _, sentence in sorted(won, key=lambda pair: -pair[0])]
    if level:
        out.append(f"{'; '.join(_level(row) for row in level)}.")
    rivals = table[stochastic].sort_values("step_nmse_b", kind="stable")
    return out + [_gathered(rivals.iloc[0], volumes, beaten)] if len(rivals) else out


def decided(row: pd.Series, other_rule: list[pd.Series]) -> str:
    """One comparison that one side wins: by how much, in which layers and steps, what pooling says, and why; then the other rule."""
    text = f"{code(row['a'])} loses {times(row['ratio'])} than {code(row['b'])} ({_values(row)}): {_places(row)}.{_overflow(row)}"
    if (pooled := _pooled(row)) is not None:
        text += f" Pooled over everything {pooled}."
    text += f" Sent as 0: {percent(row['underflow_wire_a'])} of the nonzero values, against {percent(row['underflow_wire_b'])}."
    for other in other_rule:
        key = as_scheme(other["b"]).keys["rule"]
        if other["verdict"] == "level":
            text += f" Under `rule={key}` of loss scaling the two are level ({_values(other)})."
            continue
        text += f" Under `rule={key}` of loss scaling it loses {times(other['ratio'])} ({_values(other)}): {_places(other)}"
        text += f", although pooled over everything {pooled}." if (pooled := _pooled(other)) is not None else "."
    return text


def _values(row: pd.Series) -> str:
    return f"step NMSE {figure(row['step_nmse_a'])} against {figure(row['step_nmse_b'])}"


def _places(row: pd.Series) -> str:
    """In which steps and layers a loses less."""
    text = f"less in {row['wins']} of {count_of(row['steps'], 'step')}"
    if row["since"] is not None and not math.isnan(row["since"]) and row["wins"] < row["steps"]:
        text += f", in all from step {int(row['since'])} on"
    text += f", in {row['cells_won']} of {row['cells']} layer-steps (more in {row['cells_lost']}) and {row['layers_won']} of {count_of(row['layers'], 'layer')}"
    return text + (f", most in {code(row['best_layer'])} ({times(row['best_ratio'])})" if row["best_ratio"] < 1 / (1 + LEVEL) else "")


def _pooled(row: pd.Series) -> str | None:
    """What pooling over everything says, where it is not what the steps say; nothing with overflow, of which no pooled error is finite."""
    if row["overflowed_a"] or row["overflowed_b"]:
        return None
    if gap(row["pooled_ratio"]) < math.log1p(LEVEL):
        return "they are level: the few largest gradients outweigh all others"
    if (row["pooled_ratio"] < 1) != (row["ratio"] < 1):
        return f"it loses {times(row['pooled_ratio'])}, the opposite: the few largest gradients outweigh all others"
    return None


def _overflow(row: pd.Series) -> str:
    """Who overflowed, and what that does to the numbers."""
    who = [f"{code(row[s])} overflowed in {row[f'overflowed_{s}']} of {count_of(row['steps'], 'step')}" for s in "ab" if row[f"overflowed_{s}"]]
    return f" {' and '.join(who)}: such a step counts at least 1, and has no finite pooled NMSE." if who else ""


#: What two schemes with level step NMSE may still differ in: name, columns of `compare`, how it is written.
_OTHER_SUMMARIES = (
    ("underflow on the wire", "underflow_wire_a", "underflow_wire_b", percent),
    ("underflow of the sums", "underflow_reduced_a", "underflow_reduced_b", percent),
    ("pooled NMSE", "nmse_a", "nmse_b", figure),
)


def _level(row: pd.Series) -> str:
    apart = [
        f"{name} ({write(row[a])} against {write(row[b])})"
        for name, a, b, write in _OTHER_SUMMARIES
        if max(row[a], row[b]) < math.inf
        and abs(row[a] - row[b]) > LEVEL * max(row[a], row[b])
        and (write is not percent or abs(row[a] - row[b]) > 1e-3)
    ]
    if gap(row["geometric_ratio"]) >= math.log1p(LEVEL):
        apart.insert(
            0,
            f"the geometric mean over layers and steps ({times(row['geometric_ratio'])}; less in {row['cells_won']} of {row['cells']}, more in {row['cells_lost']})",
        )
    text = f"{code(row['a'])} and {code(row['b'])} are level on step NMSE ({figure(row['step_nmse_a'])} and {figure(row['step_nmse_b'])})"
    if row["overflowed_a"] or row["overflowed_b"]:
        return text + (f", not on {listed(apart)}" if apart else "") + _overflow(row).rstrip(".").replace(" ", "; ", 1)
    return text + (f", not on {listed(apart)}" if apart else " and on all else")


def _gathered(row: pd.Series, volumes: dict[str, float], beaten: dict[str, str]) -> str:
    text = f"{code(row['b'])} loses {times(1 / row['ratio'] if row['ratio'] else math.inf)} than {code(row['a'])}"
    one, other = volumes.get(row["a"], math.nan), volumes.get(row["b"], math.nan)
    if one > 0 and other > 0:
        text += f" at {figure(other / one, 2)} times its volume ({figure(other)} of fp32's)"
    return text + (f"; {code(beaten[row['b']])} loses less and sends no more." if beaten.get(row["b"]) else ".") + _overflow(row)


def _differ_in_rule(one: str, other: str) -> bool:
    a, b = as_scheme(one), as_scheme(other)
    return a.name == b.name and "rule" in a.keys and {k for k in a.keys if a.keys[k] != b.keys.get(k)} == {"rule"}


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
