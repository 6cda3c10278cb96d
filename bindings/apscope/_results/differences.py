"""The differences of two schemes and their effects: a chain that changes one thing at a time."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .._arrays.float_environment import guarded
from .._schemes.scheme import Scheme, as_scheme, spec_of
from .comparison import scheme_in
from .factors import factor, step_logs
from .pooling import frame_of, headline_topology, is_own

__all__ = ["chain", "decompose", "described", "differences"]

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
    return "none" if scheme.name == "none" else f"of {scheme.name}"


def described(scheme: Scheme) -> dict[str, str]:
    """Aspect -> the scheme's value; aspects that it does not have are omitted."""
    keys = scheme.keys
    found = {"format": scheme.grid or scheme.format or "several", "scale": _scale(scheme)}
    if scheme.name == "stochastic":
        return found | {
            "rule": "ceil",
            "headroom": "one",
            "rounding": "stochastic",
            "sums": "gathered, in fp32",
            "overflow": keys["overflow"],
        }
    if "rule" in keys and (scheme.name != "loss_scaling" or keys["scale"] == "largest"):
        found["rule"] = keys["rule"]
    if "headroom" in keys:
        found["headroom"] = keys["headroom"]
    if "rounding" in keys:
        found["rounding"] = keys["rounding"]
    if "accumulate" in keys:
        wide = (
            "rounded to the format"
            if keys["accumulate"] == "format"
            else f"in {keys['accumulate']}"
        )
        found["sums"] = wide + (
            "" if keys["hop_rounding"] == "same" else f", {keys['hop_rounding']}"
        )
    if "overflow" in keys:
        found["overflow"] = keys["overflow"]
    if keys.get("divide", "after") != "after":
        found["division"] = keys["divide"]
    return found


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
    try:
        one, other = as_scheme(a), as_scheme(b)
    except ValueError:
        return (
            [] if a == b else [("scheme", str(a), str(b))]
        )  # of another process, perhaps, that knew more schemes
    if one == other:
        return []
    first, second = described(one), described(other)
    aspects = [aspect for aspect in _ASPECTS if aspect in first or aspect in second]
    found = [
        (name, first.get(name, "none"), second.get(name, "none"))
        for name in aspects
        if first.get(name) != second.get(name)
    ]
    known = all(s.name in (*_CHAINED, "none", "stochastic") for s in (one, other))
    return found if found and known else [("scheme", one.spec, other.spec), *found]


def _rung(scheme: Scheme) -> list[dict[str, str]]:
    """The keys of the scheme's scale, after those of every coarser scale before it."""
    way = [{"scale": "largest"}, {"unit": "model"}, {"unit": "tensor"}]
    if scheme.name == "loss_scaling":
        return [{"scale": scheme.keys["scale"]}]
    own = {k: scheme.keys[k] for k in ("unit", "bucket", "delay", "frozen")}
    plain = own["delay"] == "0" and own["frozen"] == "0" and own["bucket"] == "none"
    at = next((i for i, rung in enumerate(way) if rung == {"unit": own["unit"]}), None)
    if at is not None and plain:
        return way[: at + 1]
    return [*(way[:2] if own["unit"].startswith("bucket") or own["unit"] == "model" else way), own]


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
    try:
        one, other = as_scheme(a), as_scheme(b)
    except ValueError:
        return []  # made in another process
    if not all(
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
    topology : str, optional
        The order of the additions; by default the first replayed that adds in a format.

    Returns
    -------
    DataFrame
        One row per trace and change, from `b` to `a`: ``trace``, ``change`` (the aspect of
        `differences`), ``from_scheme``, ``to_scheme``, ``before``, ``after`` (the two values),
        ``factor`` (the error of ``from_scheme`` divided by that of ``to_scheme``, in a typical
        block: docs/definitions.md, section 17), ``factor_low`` and ``factor_high`` (95 % over the
        steps). NaN if the results lack one of the two. The last row of a trace is the total, with
        ``change`` ``all``. If no chain is known it is the only one.

    Raises
    ------
    ValueError
        Schemes that the results do not have.
    """
    frame = frame_of(results)
    a, b = (scheme_in(frame, s) for s in (a, b))
    links = chain(a, b)
    wanted = topology or headline_topology(frame)
    specs = [a, b, *(spec for _, spec in links)]
    rows = frame[frame["scheme"].isin(specs)]
    own = rows["topology"].map(lambda name: bool(name) and is_own(name))
    logs = step_logs(rows[(rows["topology"] == wanted) | own])
    pairs = (
        [(what, before, after) for (_, before), (what, after) in zip(links, links[1:])]
        if len(links) > 2
        else []
    )
    out = []
    for trace in dict.fromkeys(rows["trace"]):
        for what, before, after in [*pairs, ("all", b, a)]:
            there = (trace, before) in logs and (trace, after) in logs
            found = (
                factor(logs[trace, before], logs[trace, after]) if there else (float("nan"),) * 3
            )
            texts = (
                [before, after]
                if what == "all"
                else [described(as_scheme(spec)).get(what, "") for spec in (before, after)]
            )
            out.append([trace, what, before, after, *texts, *found])
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
