"""The differences of two schemes and their effects: a chain that changes one thing at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._arrays.float_environment import guarded
from .._core import BlockFormat
from .._schemes.phases import is_phased, leaves_none
from .._schemes.scheme import Scheme, as_scheme, known_scheme, spec_of
from .._schemes.titles import reduction
from .comparison import side_in
from .factors import factor, step_errors
from .pooling import coded, compared_rows, headline_topology, is_own
from .row_table import frame_of

#: Aspects of schemes, in the order in which a chain changes them, and their keys.
_ASPECTS = {
    "format": (),
    "rule": ("rule",),
    "headroom": ("headroom",),
    "scale": ("scale", "unit", "bucket", "delay", "frozen"),
    "rounding": ("rounding", "random_bits"),
    "sums": ("accumulate", "hop_rounding"),
    "overflow": ("overflow",),
    "division": ("divide",),
}

#: Units of `aps`, from the coarsest to the finest; between them numbers of elements.
_UNITS = {
    "model": "one per step",
    "tensor": "one per layer and step",
    "row": "one per row and step",
}

#: Constants that are chosen in hindsight.
_CONSTANTS = {
    "largest": "one for all steps, the largest that never saturates",
    "best": "one for all steps, the best in hindsight",
}

#: Schemes that a chain is made of, and keys that they all have.
_CHAINED = ("loss_scaling", "aps")
_SHARED = (
    "headroom", "rule", "rounding", "random_bits", "overflow", "accumulate", "hop_rounding",
    "divide",
)  # fmt: skip


def _block(scheme: Scheme) -> int:
    """Elements of a block of a block format; 0 of any other grid."""
    try:
        size = BlockFormat(scheme.grid).block_size
    except ValueError:
        return 0
    return int(scheme.keys.get("block", "0")) or size


def _scale(scheme: Scheme) -> str:
    keys = scheme.keys
    if scheme.name == "aps":
        unit = keys["unit"]
        text = _UNITS.get(unit) or (
            "one per bucket and step" if unit.startswith("bucket") else f"one for {unit} elements"
        )
        return (
            text
            + (", across layers" if keys["bucket"] != "none" else "")
            + (", of the step before" if keys["delay"] == "1" else "")
            + (", frozen" if keys["frozen"] != "0" else "")
        )
    if scheme.name == "loss_scaling":
        return _CONSTANTS.get(keys["scale"]) or f"one for all steps, {keys['scale']}"
    if scheme.name == "stochastic":
        return _UNITS["tensor"]
    if size := _block(scheme):
        layer = ", and one per layer" if keys.get("tensor_scale") == "true" else ""
        return f"one for {size} elements{layer}"
    return "none" if scheme.name == "none" else f"of {scheme.name}"


def described(scheme: Scheme) -> dict[str, str]:
    """Aspect -> the scheme's value; aspects that it does not have are omitted."""
    keys = scheme.keys
    values = {"format": scheme.grid or scheme.format or "several", "scale": _scale(scheme)}
    if scheme.name == "stochastic":
        return values | {
            "rule": "ceil",
            "headroom": "one",
            "rounding": "stochastic",
            "sums": "gathered, in fp32",
            "overflow": keys["overflow"],
        }
    if "rule" in keys and (scheme.name != "loss_scaling" or keys["scale"] == "largest"):
        values["rule"] = keys["rule"]
    if "headroom" in keys:
        values["headroom"] = keys["headroom"]
    if "rounding" in keys:
        values["rounding"] = keys["rounding"]
    if "accumulate" in keys:
        wide = (
            "rounded to the format"
            if keys["accumulate"] == "format"
            else f"in {keys['accumulate']}"
        )
        values["sums"] = wide + (
            "" if keys["hop_rounding"] == "same" else f", {keys['hop_rounding']}"
        )
    if "overflow" in keys:
        values["overflow"] = keys["overflow"]
    if keys.get("divide", "after") != "after":
        values["division"] = keys["divide"]
    return values


def differences(a: Any, b: Any) -> list[tuple[str, str, str]]:
    """The differences of two schemes.

    Parameters
    ----------
    a, b : Scheme or str

    Returns
    -------
    list of tuples of three str
        An aspect (format, rule, headroom, scale, rounding, sums, overflow, division, or ``scheme``
        if they are of different kinds and no aspect distinguishes them), the value of `a` and that
        of `b`. Empty for equal schemes.
    """
    one, other = known_scheme(a), known_scheme(b)
    if not (one and other):
        return [] if a == b else [("scheme", str(a), str(b))]
    if one == other:
        return []
    first, second = described(one), described(other)
    aspects = [aspect for aspect in _ASPECTS if aspect in first or aspect in second]
    differing = [
        (name, first.get(name, "none"), second.get(name, "none"))
        for name in aspects
        if first.get(name) != second.get(name)
    ]
    known = all(s.name in (*_CHAINED, "none", "stochastic") for s in (one, other))
    return differing if differing and known else [("scheme", one.spec, other.spec), *differing]


class Sent(NamedTuple):
    """A scheme as it was reduced: a side of a comparison."""

    scheme: str
    topology: str
    volume: float


def sides_differ(a: Sent, b: Sent) -> list[tuple[str, str, str]]:
    """All differences of two sides: `differences`, after ``reduction`` and before ``volume``.

    Without ``sums`` where one of them adds no codes in an order, as at the wire. In two phases the
    headroom of messages that are encoded alone is ``one``, whatever the scheme says; where the two
    reductions differ so, it is part of ``reduction``. Volumes, of fp32's bytes, are named if they
    differ by more than 0.001 and both are known.
    """
    sides = (a, b)
    unread = {"headroom"}
    if any(not s.topology or is_phased(s.topology) or is_own(s.topology) for s in sides):
        unread.add("sums")
    pairs = [one for one in differences(a.scheme, b.scheme) if one[0] not in unread]
    (stated, rooms) = ([_headroom(side, which) for side in sides] for which in (False, True))
    told = ("", "")
    if rooms[0] != rooms[1] and stated[0] == stated[1] and a.topology != b.topology:
        told = (f" (headroom {rooms[0]})", f" (headroom {rooms[1]})")
    elif rooms[0] != rooms[1]:
        place = sum(aspect in ("scheme", "format", "rule") for aspect, _, _ in pairs)
        pairs.insert(place, ("headroom", rooms[0], rooms[1]))
    if a.topology != b.topology:
        one, other = (reduction(s.topology) + text for s, text in zip(sides, told, strict=True))
        pairs.insert(0, ("reduction", one, other))
    if abs(a.volume - b.volume) > 1e-3:
        pairs.append(("volume", f"{a.volume:.3g}", f"{b.volume:.3g}"))
    return pairs


def _headroom(side: Sent, reduced: bool) -> str:
    """The headroom that a scheme states, or that its scale leaves in the side's reduction."""
    scheme = known_scheme(side.scheme)
    stated = described(scheme).get("headroom", "none") if scheme else "none"
    return "one" if scheme and reduced and leaves_none(scheme, side.topology) else stated


def cause(differ: list[tuple[str, str, str]]) -> str:
    """The only difference of two sides, whose bytes may follow from it; "" if there are several."""
    aspects = [aspect for aspect, _, _ in differ if aspect != "volume"]
    return aspects[0] if len(aspects) == 1 else ""


def _rung(scheme: Scheme) -> list[dict[str, str]]:
    """The keys of the scheme's scale, after those of every coarser scale before it."""
    way = [{"scale": "largest"}, {"unit": "model"}, {"unit": "tensor"}]
    if scheme.name == "loss_scaling":
        return [{"scale": scheme.keys["scale"]}]
    finest = {k: scheme.keys[k] for k in ("unit", "bucket", "delay", "frozen")}
    plain = finest["delay"] == "0" and finest["frozen"] == "0" and finest["bucket"] == "none"
    at = next((i for i, rung in enumerate(way) if rung == {"unit": finest["unit"]}), None)
    if at is not None and plain:
        return way[: at + 1]
    return [
        *(way[:2] if finest["unit"].startswith("bucket") or finest["unit"] == "model" else way),
        finest,
    ]


def chain(a: Any, b: Any) -> list[tuple[str, str]]:
    """Schemes from `b` to `a`, each of which differs from the one before in one thing.

    Parameters
    ----------
    a, b : Scheme or str

    Returns
    -------
    list of tuples of two str
        The change, and the scheme; the first is `b`, without a change. Empty if one of them is
        neither `aps` nor `loss_scaling` with ``scale=largest``: then no intermediate schemes are
        known.
    """
    one, other = known_scheme(a), known_scheme(b)
    if not (one and other) or not all(
        s.name in _CHAINED and s.keys.get("scale", "largest") == "largest" for s in (one, other)
    ):
        return []
    now = {"format": other.format} | {key: other.keys[key] for key in _SHARED}
    scale, rungs = _rung(other)[-1], (_rung(one), _rung(other))
    links = [("", other.spec)]

    def add(what: str) -> None:
        name = "loss_scaling" if "scale" in scale else "aps"
        spec = as_scheme(
            spec_of(name, now["format"], scale | {k: v for k, v in now.items() if k != "format"})
        ).spec
        if spec != links[-1][1]:
            links.append((what, spec))

    for aspect, keys in _ASPECTS.items():
        if aspect == "scale":
            common = (
                next((i for i, (p, q) in enumerate(zip(*rungs)) if p != q), min(map(len, rungs)))
                - 1
            )
            for rung in [*reversed(rungs[1][max(common, 0) : -1]), *rungs[0][max(common, 0) + 1 :]]:
                scale = rung
                add("scale")
            continue
        for key in ("format",) if aspect == "format" else keys:
            value = one.format if key == "format" else one.keys[key]
            if now[key] != value:
                now[key] = value
                add(aspect)
    return links if links[-1][1] == one.spec else []


@guarded
def decompose(results: Any, a: Any, b: Any, topology: str | None = None) -> pd.DataFrame:
    """The effect of every single difference between two schemes.

    Parameters
    ----------
    results : Results or DataFrame
        A RESULTS table; `chain` lists the schemes that it should have.
    a, b : Scheme or str
        Or ``SPEC@TOPOLOGY``, as for `compare`.
    topology : str, optional
        The reduction of a scheme that names none; by default the other's, else the first replayed
        that adds in a format. A scheme without it has its own.

    Returns
    -------
    DataFrame
        One row per trace and change, from `b` to `a`: ``trace``, ``change`` (``reduction``, which
        is changed first, or an aspect of `differences`, after ``headroom and`` where in two phases
        the change also drops the room for the sum), ``from_scheme``, ``to_scheme``,
        ``before``, ``after`` (the two values), ``factor`` (the error of ``from_scheme`` divided by
        that of ``to_scheme``: docs/definitions.md, section 17), ``factor_low``
        and ``factor_high`` (95 % over the steps). NaN if the results lack one of the two. The last
        row of a trace is the total, with ``change`` ``all``. If no chain is known it is the only
        one.

    Raises
    ------
    ValueError
        Schemes that the results do not have.
    """
    frame = frame_of(results)
    schemes = list(frame["scheme"].unique())
    (a, of_a), (b, of_b) = (side_in(schemes, s) for s in (a, b))
    links = chain(a, b)
    last = of_a or topology or of_b or headline_topology(frame)
    first = of_b or topology or of_a or last
    rows = frame[frame["scheme"].isin([a, b, *(spec for _, spec in links)])]
    rows = compared_rows(coded(rows.reset_index(drop=True)))
    errors = {name: step_errors(_reduced_by(rows, name)) for name in (first, last)}
    pairs = [("reduction", (b, first), (b, last))] if first != last else []
    pairs += [
        (what, (before, last), (after, last))
        for (_, before), (what, after) in zip(links, links[1:])
    ]
    pairs = [*(pairs if len(pairs) > 1 else []), ("all", (b, first), (a, last))]
    out = []
    for trace in dict.fromkeys(rows["trace"]):
        for what, before, after in pairs:
            sides = [errors[name].get((trace, spec)) for spec, name in (before, after)]
            known = sides[0] is not None and sides[1] is not None
            factors = factor(*sides) if known else (float("nan"),) * 3
            specs = [before[0], after[0]]
            texts = (
                specs
                if what == "all"
                else [reduction(name) for _, name in (before, after)]
                if what == "reduction"
                else [described(as_scheme(spec)).get(what, "") for spec in specs]
            )
            rooms = [_headroom(Sent(*side, np.nan), True) for side in (before, after)]
            drops = what not in ("headroom", "all") and rooms[0] != rooms[1]
            if drops:
                texts = [f"{text} (headroom {room})" for text, room in zip(texts, rooms)]
            change = f"headroom and {what}" if drops and what != "reduction" else what
            out.append([trace, change, *specs, *texts, *factors])
    return pd.DataFrame(
        out,
        columns=[
            "trace",
            "change",
            "from_scheme",
            "to_scheme",
            "before",
            "after",
            "factor",
            "factor_low",
            "factor_high",
        ],
    )


def _reduced_by(rows: pd.DataFrame, topology: str) -> pd.DataFrame:
    """Of `compared_rows`, those of one reduction; of a scheme without it, its own or the wire's."""
    here = (rows["topology"] == topology).to_numpy()
    key = pd.MultiIndex.from_frame(rows[["trace", "scheme"]].astype(object))
    own = np.array([not name or is_own(name) for name in rows["topology"]], bool)
    return rows[here | (own & ~key.isin(key[here]))]
