"""The page's first results: the ladder of scales, the best of each family, pairs of schemes.

Every number comes from `Results.summary` or `compare`; this module only selects.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._page.numbers import gap
from .._replay.ladder import ladder
from .._results.comparison import USED, compare
from .._results.differences import Sent, cause, sides_differ
from .._results.pooling import headline_topology, is_own
from .._results.ranking import RANKS
from .._results.summary import family_of, front, headline
from .._results.volume import same_bytes
from .._results.winners import bits_of
from .._schemes.scheme import as_scheme
from .._schemes.titles import reduction

__all__ = [
    "LEVEL", "best_of_families", "bits_of", "duels", "front", "headline", "ladder_of",
    "pairs", "sided",
]  # fmt: skip

#: Two schemes are called level if their errors differ by less than this.
LEVEL = 0.05
#: Number of schemes up to which a table has all.
ALL_SCHEMES = 15
#: Families that the first table names; all others are "others".
FAMILIES = ("APS", "loss scaling", "stochastic", "others")


def ladder_of(results: Any) -> dict[str, pd.DataFrame]:
    """The table of `apscope.ladder` for every trace with errors and two rungs of rule ``tight``."""
    try:
        table = ladder(results)
    except ValueError:
        return {}  # fewer than two rungs
    known = table.groupby("trace", sort=False)["step_nmse"].transform("count") > 0
    return dict(iter(table[known].groupby("trace", sort=False)))


def shows_all(rows: pd.DataFrame) -> bool:
    """Whether a trace's table has every scheme, because there are few."""
    return rows["scheme"].nunique() <= ALL_SCHEMES


def best_of_families(rows: pd.DataFrame, bits: dict[str, int]) -> pd.DataFrame:
    """The baselines, then the best of each family at each width, for one trace.

    Of up to `ALL_SCHEMES` schemes all, each in its best reduction, those without a rank last. The
    best of all reductions is the first in the order of the summary, if possible among those that no
    baseline beats: a scheme that sends as much as fp32, because it gathers or adds in fp32, does
    not answer which narrow format to send.

    Returns
    -------
    DataFrame
        The rows with ``bits``, ``band`` (minus the same; -64 of a baseline), ``scheme_format`` (of
        the values, where the spec does not name it), ``group``
        (``baseline`` or one of `FAMILIES`) and ``beaten_by``: a baseline that loses no more at no
        more volume, with its reduction if they have several, or
        "". Schemes of 32 bits that are not baselines send as much as fp32 and are
        left out.
    """
    rows = rows.assign(bits=rows["scheme"].map(bits))
    rows["group"] = [
        "baseline" if f == "baseline" else f if f in FAMILIES else "others" for f in rows["family"]
    ]
    baselines = rows[rows["group"] == "baseline"].sort_values(
        "bits", ascending=False, kind="stable"
    )
    all_of_them = shows_all(rows)
    ranked = rows[RANKS].notna() & (rows["gaps"] == 0) & (rows["lost_layers"] == 0)
    others = rows[(rows["group"] != "baseline") & (all_of_them | (rows["bits"] < 32) & ranked)]
    others = others.assign(beaten_by=[_beaten_by(row, baselines) for row in others.itertuples()])
    best = others.sort_values(
        "beaten_by", key=lambda names: names != "", kind="stable"
    ).drop_duplicates(["scheme"] if all_of_them else ["bits", "group"])
    best = best.sort_values(
        "group", key=lambda g: g.map(FAMILIES.index), kind="stable"
    ).sort_values("bits", ascending=False, kind="stable")
    out = pd.concat([baselines.assign(beaten_by=""), best], ignore_index=True)
    out["scheme_format"] = [
        f if f not in s and "(" not in s else "" for s, f in zip(out["scheme"], out["format"])
    ]
    out["band"] = -np.where(out["group"] == "baseline", 64, out["bits"])
    return out


def _beaten_by(row: Any, baselines: pd.DataFrame) -> str:
    if not row.volume > 0:
        return ""
    better = baselines[
        (baselines[RANKS] <= getattr(row, RANKS))
        & (baselines["volume"] <= row.volume)
        & (baselines["overflowed"] == 0)
    ]
    if not len(better):
        return ""
    best = better.sort_values("volume", kind="stable").iloc[0]
    several = baselines["topology"].nunique() > 1
    return best["scheme"] + (f", {reduction(best['topology'])}" if several else "")


def follows_amax(spec: str) -> bool:
    """Whether the scheme can take its scale from an amax, by keys `headroom` and `rule`."""
    return family_of(spec) != "other" and {"headroom", "rule"} <= set(as_scheme(spec).keys)


def one_scale(spec: str) -> bool:
    """Whether it has one loss scale for all tensors, constant or by that rule."""
    return family_of(spec) == "loss scaling" and follows_amax(spec)


def pairs(schemes: list[str], rows: pd.DataFrame, bits: dict[str, int]) -> list[tuple[str, str]]:
    """Pairs of schemes that differ in their scaling, not in format or in a key that both have.

    APS is compared with loss scaling of the same keys, `rule` included; APS with default keys also
    with every stochastic scheme and every dynamic loss scale of its format. Without any APS, the
    best scheme is compared with the best of each other family of its width.

    Parameters
    ----------
    schemes : list of str
        Specs of the results, in the order they were asked for.
    rows : DataFrame
        From `front`.
    bits : dict
        From `bits_of`.
    """
    matches = []
    for one in (s for s in schemes if family_of(s) == "APS" and follows_amax(s)):
        a = as_scheme(one)
        if a.keys.get("unit", "tensor") != "tensor":
            continue  # shown by the ladder of scales
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
                matches.append((one, other))
    if matches:
        return sorted(
            matches, key=lambda pair: (family_of(pair[1]) == "stochastic", not one_scale(pair[1]))
        )
    rest = rows[(rows["family"] != "baseline") & rows[RANKS].notna()]
    if not len(rest):
        return []
    best = rest["scheme"].iloc[0]
    rivals = rest[
        (rest["family"] != rest["family"].iloc[0]) & (rest["scheme"].map(bits) == bits[best])
    ]
    return [(best, s) for s in dict.fromkeys(rivals.drop_duplicates(["trace", "family"])["scheme"])]


#: A scheme and its reduction.
Side = tuple[str, str]


def sided(
    pairs: list[tuple[str, str]], rows: pd.DataFrame, topology: str, best: list[str]
) -> list[tuple[Side, Side]]:
    """Comparisons of schemes with their reductions, those that differ in the reduction first.

    Parameters
    ----------
    pairs : list of pairs of str
        From `pairs`: each is compared in every reduction of the front that both have; schemes
        without a common one, each in its own or its first.
    rows : DataFrame
        From `front`.
    topology : str
        The headline: every other reduction with as many bytes is compared with it.
    best : list of str
        Specs that are compared with themselves in another reduction, before those of `pairs`.
    """
    volumes_of: dict[str, dict[str, float]] = {}
    for row in rows.itertuples():
        volumes_of.setdefault(row.scheme, {}).setdefault(row.topology, row.volume)
    sides: list[tuple[Side, Side]] = []
    for scheme in dict.fromkeys([*best, *(a for a, _ in pairs)]):
        volumes = volumes_of.get(scheme, {})
        sides += [
            ((scheme, name), (scheme, topology))
            for name, volume in volumes.items()
            if name != topology in volumes
            and not is_own(name)
            and same_bytes(volume, volumes[topology])
        ]
    for a, b in pairs:
        of_a, of_b = (sorted(volumes_of.get(s, ()), key=lambda t: t != topology) for s in (a, b))
        common = [name for name in of_a if name in of_b]
        if not common and of_a and of_b:
            common = [""]
        sides += [((a, name or of_a[0]), (b, name or of_b[0])) for name in common]
    return list(dict.fromkeys(sides))


def _side(scheme: str, topology: str) -> str:
    """A side as `compare` takes it."""
    return f"{scheme}@{topology}" if topology else scheme


def duels(frame: pd.DataFrame, sides: list[tuple[Side, Side]], rows: pd.DataFrame) -> pd.DataFrame:
    """Each pair on each trace, with the numbers of `compare`.

    Parameters
    ----------
    frame : DataFrame
        The rows of the results.
    sides : list
        From `sided`.
    rows : DataFrame
        From `front`, for the volumes.

    Returns
    -------
    DataFrame
        Of every trace that has both: ``trace``, ``a``, ``b``, the columns of `compare`
        of all layers together, ``volume_a``, ``volume_b``, ``differ`` (`sides_differ` of the two),
        ``cause`` (the only difference, or ""), ``ratio`` (of the two
        errors over noise, or step NMSE where the noise is not known), ``cells``, ``cells_won``,
        ``cells_lost`` (pairs of a layer and a step), ``verdict``: ``less``, ``more`` or ``level``.
    """
    records = []
    # Only the columns and rows that `compare` reads, because it is called often.
    used = {"", "exact", *(name for pair in sides for _, name in pair)}
    others = [t for t in frame["topology"].unique() if t not in used and not is_own(t)]
    read = frame.loc[~frame["topology"].isin(others), [c for c in USED if c in frame]]
    by_scheme = dict(iter(read.groupby("scheme", sort=False, observed=True)))
    volumes = {(r.trace, r.scheme, r.topology): r.volume for r in rows.itertuples()}
    for (a, of_a), (b, of_b) in sides:
        two = by_scheme[a] if a == b else pd.concat([by_scheme[a], by_scheme[b]])
        try:
            table = compare(two, _side(a, of_a), _side(b, of_b))
        except ValueError:
            continue  # no trace has both sides
        for trace, part in table.groupby("trace", sort=False):
            total, layers = part.iloc[0], part.iloc[1:]
            if not total["steps"]:
                continue
            ratio = ratio_of(total[f"{RANKS}_a"], total[f"{RANKS}_b"])
            one, other = (
                Sent(s, t, volumes.get((trace, s, t), float("nan")))
                for s, t in ((a, total["topology_a"]), (b, total["topology_b"]))
            )
            differ = sides_differ(one, other)
            records.append(
                {
                    **total,
                    "a": a,
                    "b": b,
                    "volume_a": one.volume,
                    "volume_b": other.volume,
                    "ratio": ratio,
                    "differ": differ,
                    "cause": cause(differ),
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
    """The reduction that the page ranks by: `headline_topology`, or "" if nothing was reduced."""
    return headline_topology(frame) if (frame["stage"] == "reduced").any() else ""
