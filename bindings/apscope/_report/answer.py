"""What the page says first: the ladder of scales, the best scheme of each family, and schemes against rivals with what they differ in.

Every number is one of `Results.summary` or of `compare`; here they are only chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._results.comparison import compare
from .._results.differences import differences
from .._results.ladder import ladder
from .._results.pooling import PARTS, headline_topology, is_own
from .._results.summary import family_of, headline
from .._schemes.scheme import as_scheme
from .text import gap

__all__ = ["LEVEL", "best_of_families", "bits_of", "duels", "headline", "ladder_of", "measure"]

#: Two schemes are called level where their errors differ by less than this.
LEVEL = 0.05
#: With fewer steps than this an interval over the steps says nothing.
ENOUGH_STEPS = 6
#: Widths of a value, without side information, that are compared with each other.
CLASSES = (1, 2, 4, 8, 16, 32)
#: Families by which the first table is told; all others are "others".
FAMILIES = ("APS", "loss scaling", "stochastic", "others")


def measure(table: pd.DataFrame) -> str:
    """The column of a summary that ranks: ``error_over_noise``, or ``step_nmse`` where the noise is not known."""
    return "error_over_noise" if table["error_over_noise"].notna().any() else "step_nmse"


def ladder_of(results: Any, topology: str) -> dict[str, pd.DataFrame]:
    """Of every trace whose results hold rungs of the ladder of scales (rule ``tight``): the table of `apscope.ladder`."""
    if not topology or is_own(topology):
        return {}
    try:
        table = ladder(results, topology=topology)
    except ValueError:
        return {}  # no two rungs
    return dict(iter(table.groupby("trace", sort=False)))


def bits_of(frame: pd.DataFrame) -> dict[str, int]:
    """Scheme -> the smallest of `CLASSES` that holds the bits it sends for a value, side information left out.

    From rows at the wire: ``wire_bits`` of one worker over its number of elements.
    """
    wire = frame[frame["stage"] == "wire"]
    bits = wire["wire_bits"].to_numpy(float, na_value=np.nan)
    sums = pd.DataFrame(
        {
            "scheme": wire["scheme"],
            "bits": bits,
            "elements": wire["count"].to_numpy(float) / wire["workers"].to_numpy(float),
        }
    )
    sums = sums.dropna().groupby("scheme", sort=False, observed=True)[["bits", "elements"]].sum()
    # 1 % above a width is padding of a bucket, not another width.
    widths = {
        scheme: next((c for c in CLASSES if row.bits <= 1.01 * c * row.elements), CLASSES[-1])
        for scheme, row in zip(sums.index, sums.itertuples(), strict=True)
    }
    return {scheme: widths.get(scheme, CLASSES[-1]) for scheme in frame["scheme"].unique()}


def best_of_families(rows: pd.DataFrame, bits: dict[str, int]) -> pd.DataFrame:
    """The baselines, then the best of each family at each width: rows of `headline` of one trace.

    Best is the first in the order of the summary among those that no baseline beats, where a family
    has one: a scheme that sends as much as fp32, because it gathers or adds in fp32, is no answer
    to which narrow format to send.

    Returns
    -------
    DataFrame
        The rows with ``bits``, ``band`` (minus the same; -64 of a baseline), ``group``
        (``baseline`` or one of `FAMILIES`) and ``beaten_by``: a baseline that loses no more at no
        more volume, or "". Schemes of 32 bits that are no baselines send as much as fp32 and are
        left out.
    """
    rows = rows.assign(bits=rows["scheme"].map(bits))
    rows["group"] = [
        "baseline" if f == "baseline" else f if f in FAMILIES else "others" for f in rows["family"]
    ]
    baselines = rows[rows["group"] == "baseline"].sort_values(
        "bits", ascending=False, kind="stable"
    )
    error = measure(rows)
    others = rows[(rows["group"] != "baseline") & (rows["bits"] < 32) & rows[error].notna()]
    others = others.assign(
        beaten_by=[_beaten_by(row, baselines, error) for row in others.itertuples()]
    )
    best = others.sort_values(
        "beaten_by", key=lambda names: names != "", kind="stable"
    ).drop_duplicates(["bits", "group"])
    best = best.sort_values(
        "group", key=lambda g: g.map(FAMILIES.index), kind="stable"
    ).sort_values("bits", ascending=False, kind="stable")
    out = pd.concat([baselines.assign(beaten_by=""), best], ignore_index=True)
    out["band"] = -np.where(out["group"] == "baseline", 64, out["bits"])
    return out


def _beaten_by(row: Any, baselines: pd.DataFrame, error: str) -> str:
    if not row.volume > 0:
        return ""
    better = baselines[
        (baselines[error] <= getattr(row, error))
        & (baselines["volume"] <= row.volume)
        & (baselines["overflowed"] == 0)
    ]
    return better.sort_values("volume", kind="stable")["scheme"].iloc[0] if len(better) else ""


def follows_amax(spec: str) -> bool:
    """Whether the scheme can take its power of two from an amax, by the rule that `headroom` and `rule` are the keys of."""
    return family_of(spec) != "other" and {"headroom", "rule"} <= set(as_scheme(spec).keys)


def one_scale(spec: str) -> bool:
    """Whether it is one loss scale for all tensors, constant or by that rule."""
    return family_of(spec) == "loss scaling" and follows_amax(spec)


def pairs(schemes: list[str], rows: pd.DataFrame, bits: dict[str, int]) -> list[tuple[str, str]]:
    """Which schemes meet: those that differ in how they scale, not in format, rounding, headroom or sums.

    APS meets loss scaling with the same keys, the rule among them, and at its defaults every
    stochastic scheme and every dynamic loss scale of its format. Where there is no APS, the best
    scheme meets the best of each other family of its width.

    Parameters
    ----------
    schemes : list of str
        Specs of the results, in the order they were asked for.
    rows : DataFrame
        From `headline`.
    bits : dict
        From `bits_of`.
    """
    found = []
    for one in (s for s in schemes if family_of(s) == "APS" and follows_amax(s)):
        a = as_scheme(one)
        if a.keys.get("unit", "tensor") != "tensor":
            continue  # the ladder of scales has it
        plain = one == f"{a.name}:{a.format}"
        for other in schemes:
            family = family_of(other)
            if (
                family not in ("loss scaling", "stochastic")
                or (b := as_scheme(other)).format != a.format
            ):
                continue
            shared = set(a.keys) & set(b.keys)
            if all(a.keys[k] == b.keys[k] for k in shared) if one_scale(other) else plain:
                found.append((one, other))
    if found:
        return sorted(
            found, key=lambda pair: (family_of(pair[1]) == "stochastic", not one_scale(pair[1]))
        )
    rest = rows[(rows["family"] != "baseline") & rows[measure(rows)].notna()]
    if not len(rest):
        return []
    best = rest["scheme"].iloc[0]
    rivals = rest[
        (rest["family"] != rest["family"].iloc[0]) & (rest["scheme"].map(bits) == bits[best])
    ]
    return [(best, s) for s in dict.fromkeys(rivals.drop_duplicates(["trace", "family"])["scheme"])]


#: Columns that `compare` reads.
_READ = (
    "trace", "step", "tensor", "scheme", "topology", "stage", "skipped", "nonzero", "underflow",
    "overflow", "cosine", "sum_squared_error",
    "sum_squared_reference", "sum_signed_error", "sum_absolute_reference", "sum_noise",
    "noise_blocks", "sum_log2_error_over_noise", *PARTS,
)  # fmt: skip


def duels(frame: pd.DataFrame, pairs: list[tuple[str, str]], topology: str) -> pd.DataFrame:
    """Each pair on each trace, in numbers of `compare`.

    Returns
    -------
    DataFrame
        Of every trace that has both: ``trace``, ``a``, ``b``, ``format``, the columns of `compare`
        of all layers together, and ``differ`` (`differences` of a and b), ``ratio`` (of the two
        errors over noise, or step NMSE where the noise is not known), ``cells``, ``cells_won``,
        ``cells_lost`` (pairs of a layer and a step), ``verdict``: ``less``, ``more`` or ``level``.
    """
    records = []
    # What `compare` reads and no more: it is called often.
    others = [
        t for t in frame["topology"].unique() if t not in ("", "exact", topology) and not is_own(t)
    ]
    read = (
        frame.loc[~frame["topology"].isin(others), [c for c in _READ if c in frame]]
        if topology
        else frame
    )
    held = dict(iter(read.groupby("scheme", sort=False, observed=True)))
    for a, b in pairs:
        two = pd.concat([held[a], held[b]])
        wanted = topology if topology in set(two["topology"]) and not is_own(topology) else None
        try:
            table = compare(two, a, b, wanted)
        except ValueError:
            continue  # no trace has both, or they have no reduction in common
        for _, rows in table.groupby("trace", sort=False):
            whole, layers = rows.iloc[0], rows.iloc[1:]
            if not whole["steps"]:
                continue
            unit = "error_over_noise" if not np.isnan(whole["error_over_noise_a"]) else "step_nmse"
            ratio = ratio_of(whole[f"{unit}_a"], whole[f"{unit}_b"])
            records.append(
                {
                    **whole,
                    "a": a,
                    "b": b,
                    "format": as_scheme(a).format,
                    "ratio": ratio,
                    "differ": differences(a, b),
                    "cells": layers["steps"].sum(),
                    "cells_won": layers["wins"].sum(),
                    "cells_lost": layers["losses"].sum(),
                    "verdict": "level"
                    if gap(ratio) < np.log1p(LEVEL)
                    else "less"
                    if ratio < 1
                    else "more",
                }
            )
    return pd.DataFrame(records)


def ratio_of(one: float, other: float) -> float:
    return 1.0 if one == other else one / other if other else float("inf")


def topology_of(frame: pd.DataFrame) -> str:
    """The reduction by which the page judges: `headline_topology`, or "" where nothing was reduced."""
    return headline_topology(frame) if (frame["stage"] == "reduced").any() else ""
