"""Sentences made from the numbers of `measure`: which scheme lost least, where and why.

Names of schemes stand in backquotes; the template sets them as code.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ..cost import Network
from .measure import COMPLETE, OVERFLOWED, SKIPPED, UNMEASURED, level, on_kept_steps

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figure(value: float | None, digits: int = 3) -> str:
    """A number for reading: `digits` significant digits, powers of ten written out, a dash for none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 < power < 6:
        text = f"{value:.{max(digits - 1 - power, 0)}f}"
    else:
        text = f"{mantissa}\u00a0×\u00a010{str(power).translate(_SUPERSCRIPTS)}"
    return text.replace("-", "−")


def time(seconds: float | None) -> str:
    """Seconds for reading, in s, ms or µs."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{figure(seconds / size)}\u00a0{unit}"
    return f"{figure(seconds / 1e-6)}\u00a0µs"


def decibel(value: float | None) -> str:
    return "no error" if value == math.inf else f"{value:.1f}\u00a0dB".replace("-", "−")


def percent(rate: float | None) -> str:
    """A share in percent; a share that is not 0 never reads as 0, one that is not all never as 100."""
    if rate is None:
        return "–"
    p = 100 * rate
    if p == 0:
        return "0\u00a0%"
    if 99.5 <= p < 100:
        return ("above 99.99" if p >= 99.995 else f"{p:.2f}") + "\u00a0%"
    return ("below 0.01" if p < 0.005 else f"{p:.2f}" if p < 1 else f"{p:.1f}" if p < 10 else f"{p:.0f}") + "\u00a0%"


def _names(entries: list[dict[str, Any]]) -> str:
    return _list([f"`{e['label']}`" for e in entries])


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _loss(entry: dict[str, Any]) -> str:
    return f"NMSE {figure(entry['headline']['nmse'])} ({decibel(entry['headline']['sqnr_db'])})"


def _steps(numbers: list[int]) -> str:
    """1, 2, 3, 7 as 1–3, 7; at most six pieces."""
    pieces: list[list[int]] = []
    for n in numbers:
        if pieces and n == pieces[-1][-1] + 1:
            pieces[-1][1:] = [n]
        else:
            pieces.append([n])
    shown = ["–".join(map(str, p)) for p in pieces[:6]]
    return ", ".join(shown) + (", …" if len(pieces) > 6 else "")


def leaders(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of the best group within `LEVEL` of its least NMSE, best first; empty where nothing was measured."""
    ranked = sorted((e for e in entries if e["headline"]["nmse"] is not None), key=lambda e: e["rank"])
    return [e for e in ranked if e["status"] == ranked[0]["status"] and level(e["headline"]["nmse"], ranked[0]["headline"]["nmse"])]


def which(m: dict[str, Any]) -> list[str]:
    """The answer for one trace: who lost least, pooled and layer by layer."""
    best = leaders(m["schemes"])
    if not best:
        return ["No scheme left anything to compare: every step was skipped, or no gradient is finite and nonzero."]
    where = f"after the all-reduce over {count_of(m['workers'], 'worker')}" if m["headline_topology"] else "at the wire (the trace holds no local gradients to reduce)"
    who = _names(best)
    verb = "lost least" if len(best) == 1 else "are level, and lost least"
    out = [f"{who} {verb} {where}: {_loss(best[0])}, pooled over {count_of(m['layers'], 'layer')} and {count_of(m['steps'], 'step')}."]
    if best[0]["status"] == SKIPPED:
        out[0] += " No scheme kept every step without overflow; this counts the steps it kept."
    elif best[0]["status"] == OVERFLOWED:
        out[0] += " Every measured scheme overflowed somewhere; this counts the values that stayed finite."
    rest = [e for e in m["schemes"] if e not in best]
    gathered = [e for e in best if e["gathered"]]
    if gathered and m["workers"] > 1:
        out.append(
            f"{_names(gathered)} {_is(gathered)} gathered: no sum is rounded to the format, but every worker "
            f"receives the codes of all the others, so its link carries {m['workers'] - 1} times one worker's payload; "
            f"a ring's carries {figure(2 * (m['workers'] - 1) / m['workers'])} times."
        )
    wide = [e for e in best if e["wide_sums"] and not e["gathered"]]
    if wide and m["workers"] > 1:
        out.append(f"{_names(wide)} {_is(wide)} summed in a wider format than {'it sends' if len(wide) == 1 else 'they send'}: partial sums that travel take its bits.")
    adding = leaders([e for e in m["schemes"] if e["adds_in_format"]])
    if (gathered or wide) and adding and adding[0]["status"] == best[0]["status"]:
        out.append(
            f"Of the schemes whose sums are rounded to the format they send at every addition ({m['headline_topology']}), "
            f"{_names(adding)} {'lost least' if len(adding) == 1 else 'are level'}: {_loss(adding[0])}."
        )
    elif following := leaders([e for e in rest if e["status"] == best[0]["status"]]):
        ratio = following[0]["headline"]["nmse"] / best[0]["headline"]["nmse"] if best[0]["headline"]["nmse"] else math.inf
        times = f", {figure(ratio, 2)} times as much" if math.isfinite(ratio) else ""
        out.append(f"Next: {_names(following)} with {_loss(following[0])}{times}.")
    if len(adding) > 1 and m["cells"] > 1:
        counts = _list([f"{e['least_in_among_adding']} for `{e['label']}`" for e in sorted(adding, key=lambda e: -e["least_in_among_adding"])])
        out.append(f"Pooled they are level; of the {m['cells']} pairs of a layer and a step, each counted alike, the least error among the adding schemes stands in {counts}.")
    most = max(e["least_in"] for e in m["schemes"])
    if most and m["cells"] > 1:
        often = [e for e in m["schemes"] if e["least_in"] == most]
        out.append(
            f"Pooling lets large gradients speak loudest; layer by layer and step by step {_names(often)} "
            f"{_is(often)} best, or level with the best, in {most} of {m['cells']} pairs."
        )
    out += _narrower(m, best)
    return out


def _narrower(m: dict[str, Any], best: list[dict[str, Any]]) -> list[str]:
    """The best of the schemes that send fewer bits than the winner, width by width."""
    peers = [e for e in m["schemes"] if e["status"] == best[0]["status"] and e["bits_per_value"] is not None]
    width = min((e["bits_per_value"] for e in best if e["bits_per_value"] is not None), default=0.0)
    limits = sorted({math.ceil(e["bits_per_value"]) for e in peers if math.ceil(e["bits_per_value"]) < math.floor(width)}, reverse=True)
    found = [(limit, leaders([e for e in peers if e["bits_per_value"] <= limit])) for limit in limits]
    out = []
    for i, (limit, first) in enumerate(found):
        # Said once, at the fewest bits where it holds.
        if not first or (i + 1 < len(found) and found[i + 1][1] == first):
            continue
        verb = "loses" if len(first) == 1 else "lose"
        out.append(f"With {limit} bit{'' if limit == 1 else 's'} a value or fewer {_names(first)} {verb} least: {_loss(first[0])}.")
    return out


def where(m: dict[str, Any]) -> list[str]:
    """Layers and steps of the leaders' error."""
    out, seen = [], set()
    for e in [*leaders(m["schemes"])[:3], *leaders([s for s in m["schemes"] if s["adds_in_format"]])[:3]]:
        if e["scheme"] in seen or not e["heaviest"]:
            continue
        seen.add(e["scheme"])
        out.append(
            f"`{e['label']}`: {percent(e['heaviest']['share'])} of its squared error is in {e['heaviest']['tensor']}; relative to the "
            f"gradient it is worst in {e['worst']['tensor']} at step {e['worst']['step']} (NMSE {figure(e['worst']['nmse'])})."
        )
    return out


def why(frame: pd.DataFrame, m: dict[str, Any]) -> list[dict[str, str]]:
    """One line a scheme, best first: where its error comes from."""
    best = leaders(m["schemes"])
    return [
        {"label": e["label"], "text": _reason(frame, e, best[0] if best else None)}
        for e in sorted(m["schemes"], key=lambda e: e["rank"])
    ]


def _reason(frame: pd.DataFrame, e: dict[str, Any], best: dict[str, Any] | None) -> str:
    parts = []
    if best and e["bits_per_value"] and best["bits_per_value"] and abs(e["bits_per_value"] - best["bits_per_value"]) >= 0.5:
        parts.append(f"sends {figure(e['bits_per_value'])} bits a value")
    if e["skipped"]:
        if len(e["skipped"]) == e["steps"]:
            return f"skipped all {count_of(e['steps'], 'step')}, so nothing is left to compare."
        text = f"skipped {len(e['skipped'])} of {count_of(e['steps'], 'step')} ({_steps(e['skipped'])})"
        other = on_kept_steps(frame, e["scheme"], best["scheme"]) if best and best is not e else None
        if other is not None:
            text += f"; on the steps it kept its NMSE is {figure(e['headline']['nmse'])}, where `{best['label']}` has {figure(other)}"
        parts.append(text)
    if e["status"] == UNMEASURED:
        return "nothing to measure: no nonzero gradient, or no number."
    if e["status"] == OVERFLOWED:
        wire, head = e["wire"]["overflow"] or 0, e["headline"]["overflow"] or 0
        places = ([f"{count_of(wire, 'value')} at the wire"] if wire else []) + ([f"{count_of(head, 'value')} in the {e['topology']} sums"] if head and e["topology"] else [])
        first = f" (first in {e['first_overflow']['tensor']} at step {e['first_overflow']['step']})" if e["first_overflow"] else ""
        parts.append(f"ranks last, for {' and '.join(places)} overflowed{first}")
    exact, head = e["reduced"].get("exact", {}).get("nmse"), e["headline"]["nmse"]
    if exact is not None and not e["gathered"] and e["status"] != OVERFLOWED and head:
        share = (head - exact) / head
        adding = f"reduction ({e['topology']}) adds" if e["own_reduction"] else f"additions ({e['topology']}) add"
        if share > 0.5:
            parts.append(f"{percent(share)} of its NMSE comes from the {adding.rsplit(' ', 1)[0]}; encoding alone costs {figure(exact)}")
        elif share == 0:
            parts.append(f"all of its error comes from encoding, the {adding} none")
        elif e["topology"] != "exact":
            parts.append(f"encoding alone costs NMSE {figure(exact)}, with the {adding.rsplit(' ', 1)[0]} it is {figure(head)}")
    elif e["gathered"] and e["status"] != OVERFLOWED:
        parts.append(f"all of its error comes from encoding (NMSE {figure(e['wire']['nmse'])} at the wire, {figure(head)} once added up)")
    parts.append(_underflow(frame, e))
    return "; ".join(p for p in parts if p) + "."


def _underflow(frame: pd.DataFrame, e: dict[str, Any]) -> str:
    rate = e["wire"]["underflow_rate"]
    if rate is None:
        return ""
    text = f"{percent(rate)} of the nonzero values are sent as 0"
    rows = frame[(frame["scheme"] == e["scheme"]) & (frame["stage"] == "wire") & frame["underflow_rate"].notna()]
    if len(rows) > 1 and rate > 0:
        worst = rows.loc[rows["underflow_rate"].idxmax()]
        text += f", most in {worst['tensor']} at step {int(worst['step'])} ({percent(worst['underflow_rate'])})"
    return text


def across(measures: list[dict[str, Any]]) -> list[str]:
    """One sentence a question over all traces; none for one trace."""
    if len(measures) < 2:
        return []
    out = [_across(measures, "", lambda e: True)]
    if any(e["gathered"] for m in measures for e in leaders(m["schemes"])):
        out[0] += " Schemes that gather load each link with the codes of every worker, and round no sum."
    if any(e["wide_sums"] and not e["gathered"] for m in measures for e in leaders(m["schemes"])):
        out[0] += " Sums in a wider format than is sent take its bits where they travel."
    if any(not e["adds_in_format"] for m in measures for e in m["schemes"]):
        out.append(_across(measures, "Among the schemes that round every addition to the format they send: ", lambda e: e["adds_in_format"]))
    return out


def _across(measures: list[dict[str, Any]], opening: str, kept: Any) -> str:
    answers = {m["trace"]: _leading(m, kept) for m in measures}
    first = next(iter(answers.values()))
    if first and all(sorted(a) == sorted(first) for a in answers.values()):
        verb = "lost least" if len(first) == 1 else "are level, and lost least"
        return f"{opening}{_list(first)} {verb} in all {len(answers)} traces."
    return opening + "; ".join(
        f"{trace} {_list(a) if a else 'nothing to compare'}{' (level)' if len(a) > 1 else ''}" for trace, a in answers.items()
    ) + "."


def _leading(m: dict[str, Any], kept: Any) -> list[str]:
    return [f"`{e['label']}`" for e in leaders([e for e in m["schemes"] if kept(e)])]


def caveats(frame: pd.DataFrame, measures: list[dict[str, Any]]) -> list[str]:
    """What a reader must know before quoting a number; only what applies to these results."""
    entries = [e for m in measures for e in m["schemes"]]
    out = [
        "Layers and steps are pooled: NMSE is the sum of squared errors over the sum of squared references, rates are counts over "
        "counts, so large gradients weigh more. Two NMSEs within 1 % are called level.",
        "Ranking compares "
        + _list(sorted({f"reduced gradients of {m['headline_topology']} sums" if m["headline_topology"] else "what is sent, where the trace has nothing to reduce" for m in measures}))
        + ("; schemes with a reduction of their own are taken by that." if any(m["headline_topology"] for m in measures) else "."),
    ]
    if any(e["status"] == OVERFLOWED for e in entries):
        out.append("A scheme with overflow ranks last whatever its NMSE: sums leave out the pairs that are not finite.")
    if any(e["skipped"] for e in entries):
        out.append("A skipped step loses its whole gradient. The table counts only the steps a scheme kept, so its numbers cover other "
                   "steps than its neighbours'; such a scheme ranks after all that kept every step.")
    out += _not_finite(frame)
    if any("scale=best" in e["scheme"] for e in entries):
        out.append("loss_scaling with scale=best is no algorithm: its scale is chosen in hindsight, from all the steps of the trace, so that "
                   "the others meet the strongest single scale.")
    if any("lower bound" in e["notes"] for e in entries):
        out.append("Loss scaling is a lower bound here: it fights underflow of activation gradients inside backpropagation, and on weight "
                   "gradients only the last part of what it does can be seen.")
    stateful = list(dict.fromkeys(e["label"] for e in entries if e["stateful"]))
    if stateful:
        out.append(f"Schemes with a state ({_list([f'`{name}`' for name in stateful])}) take the recorded steps as consecutive; a trace with gaps "
                   "gives them less time to adapt than training would.")
    if any("dynamic_loss_scaling" in e["scheme"] for e in entries):
        out.append("Dynamic loss scaling skips a step by the workers' own values; an overflow born in a sum is counted, but skips nothing.")
    if any(e["model_seconds"] is not None for e in entries):
        out.append(f"Times are a model's ({Network()}), no measurement: they know no congestion and no overlap with computation. On small "
                   "tensors latencies decide them, so that fewer messages beat fewer bits.")
    if any(e["gathered"] for e in entries):
        out.append("Schemes that gather send the codes of every worker to every worker: with W workers a link carries W - 1 times the "
                   "payload of one worker, a ring's less than twice, which bits a value do not show.")
    wider = list(dict.fromkeys(e["label"] for e in entries if "accumulate=" in e["scheme"]))
    if wider:
        out.append(f"{_list([f'`{name}`' for name in wider])} {'rounds' if len(wider) == 1 else 'round'} sums to the wider format that accumulate= names: where partial sums "
                   "travel, as in a ring or a tree, they take that format's bits, which bits a value do not show.")
    others = sorted({n for e in entries for n in e["notes"] if n != "lower bound"})
    out += [f"Note in the table: {n}." for n in others]
    return out


def _not_finite(frame: pd.DataFrame) -> list[str]:
    """How many recorded values are NaN or infinite, if any; a scheme that skipped a step has not counted it."""
    if not {"nan", "infinite"} <= set(frame.columns):
        return []
    wire = frame[frame["stage"] == "wire"]
    counts = (wire["nan"].fillna(0) + wire["infinite"].fillna(0)).groupby([wire["trace"], wire["step"], wire["tensor"]]).max()
    return [
        f"Of the values recorded in {trace}, {count_of(int(n), 'is', 'are')} NaN or infinite; errors leave out every pair they reach."
        for trace, n in counts.groupby(level=0, sort=False).sum().items() if n
    ]


def count_of(n: int, word: str, words: str = "") -> str:
    return f"{n} {word}" if n == 1 else f"{n} {words or word + 's'}"


def _is(entries: list[dict[str, Any]]) -> str:
    return "is" if len(entries) == 1 else "are"
