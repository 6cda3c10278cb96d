"""The tables of docs/conformance.md over all inputs, made from the record."""

from typing import Any

from docs.tools import page

from .reasons import reason
from .record import intervals


def render(record: dict[str, Any]) -> str:
    """The Markdown between the marks."""
    return "\n\n".join(
        [_head(record), _casts(record), _differences(record), _nans(record), _float64(record)]
    )


def _head(record: dict[str, Any]) -> str:
    differing = [e for e in record["float32"] if e["differing"]]
    against = sum(
        e["example"]["apscope"] != e["example"]["mpfr"] for p in differing for e in p["intervals"]
    )
    judged = sum(len(p["intervals"]) for p in differing)
    dates = sorted({e["date"] for e in record["float32"]})
    minutes = sum(e["seconds"] for e in record["float32"]) / 60
    return (
        f"{' to '.join(sorted({dates[0], dates[-1]}))}, apscope {record['apscope']}, "
        f"{record['processes']} processes on one {record['processor']}: {len(record['float32'])} "
        f"casts, {record['inputs']} inputs each, {minutes:.0f} minutes. "
        f"{len(record['float32']) - len(differing)} casts agree at every input, {len(differing)} "
        f"differ, in {judged} intervals of inputs; at their examples MPFR agrees with apscope in "
        f"{judged - against} of {judged}."
    )


def _table(head: str, rows: list[str]) -> str:
    return "\n".join(page.table(head.split(" | "), (row.split(" | ") for row in rows)))


def _casts(record: dict[str, Any]) -> str:
    rows = [
        f"`{e['name']}` | {e['version']} | {e['format']} | {e['rounding']} | {e['overflow']} | "
        f"{e['inputs']} | {e['differing']} | {e['seconds']:.0f} s"
        for e in record["float32"]
    ]
    return _table("cast | version | format | rounding | overflow | inputs | differing | time", rows)


def _differences(record: dict[str, Any]) -> str:
    rows = []
    for e in record["float32"]:
        for found, interval in zip(e["intervals"], intervals(e)):
            x = found["example"]
            rows.append(
                f"`{e['name']}` | {found['first']} to {found['last']} | {found['inputs']} | "
                f"{x['input']} ({x['value']}) | {x['peer']} | {x['apscope']} | {x['mpfr']} | "
                f"{reason(e['name'], interval) or 'unknown'}"
            )
    return _table(
        "cast | interval of fp32 patterns | inputs | example | cast gives | apscope | MPFR | why",
        rows,
    )


def _nans(record: dict[str, Any]) -> str:
    rows = []
    for e in record["float32"]:
        n = e["nan_inputs"]
        if not n["inputs"]:
            continue
        codes = n["codes"]
        which = (
            ", ".join(codes["first"])
            if codes["different"] <= len(codes["first"])
            else f"{codes['different']} codes"
        )
        # With one code a sign, some inputs have that code's sign or payload anyway: nothing is
        # kept.
        sign = _how_many(n["sign"], n["inputs"]) if codes["different"] > 1 else "no"
        payload = _how_many(n["payload"], n["inputs"]) if codes["different"] > 4 else "no"
        quiet = _how_many(n["quiet"], n["inputs"]) if codes["different"] > 4 else "-"
        rows.append(f"`{e['name']}` | {which} | {n['other_code']} | {sign} | {payload} | {quiet}")
    return (
        "What NaN inputs become, in formats that have NaN (any NaN counts as equal above):\n\n"
        + _table(
            "cast | NaN codes it gives | other code than apscope's | "
            "sign kept | payload kept | made quiet",
            rows,
        )
    )


def _how_many(count: int, of: int) -> str:
    return "yes" if count == of else "no" if count == 0 else f"{count} of {of}"


def _float64(record: dict[str, Any]) -> str:
    rows = [
        f"`{e['name']}` | {e['version']} | {e['inputs']} | {e['zeros']} | {e['negative']} | "
        f"{e['others']}"
        for e in record["float64"]
    ]
    return (
        "Casts from double, on a sample: every value and midpoint of the format and its two double "
        "neighbours, "
        "exponents over the whole range, both signs. Zeros and negative numbers differ into E8M0, "
        "for the reasons above.\n\n"
    ) + _table("cast | version | inputs | differing: zeros | negative | others", rows)
