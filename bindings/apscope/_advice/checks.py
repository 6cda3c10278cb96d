"""Checks of a plan's file: kinds of values, and names that must match."""

from __future__ import annotations

from typing import Any

from .._folders.json import INTEGER, NUMBER, OBJECT, TEXT, check_keys, is_integer, is_number
from .._text import clip


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _bound(value: Any) -> bool:
    return value is None or is_integer(value)


#: Keys of every object of the file: key -> test of its value, and its description.
_PLAN = {
    "wish": OBJECT,
    "about": OBJECT,
    "layers": (_objects, "objects"),
    "gap": (lambda v: is_number(v) and v >= 0, "a number, at least 0"),
    "single": TEXT,
    "best": (_texts, "texts"),
    "not_mixed": (_texts, "texts"),
    "table": OBJECT,
    "replayed": (lambda v: v is None or isinstance(v, dict), "an object or null"),
}
_ABOUT = {
    "trace": TEXT,
    "hash": TEXT,
    "workers": INTEGER,
    "topology": TEXT,
    "groups": TEXT,
    "periods": INTEGER,
    "simplest": (lambda v: isinstance(v, bool), "true or false"),
    "elements": NUMBER,
    "replay": TEXT,
    "version": TEXT,
    "tensors": (_objects, "objects"),
    "fixed": (
        lambda v: isinstance(v, dict) and all(isinstance(one, str) for one in v.values()),
        "an object of texts",
    ),
}
_NUMBER_OR_NULL = (lambda v: v is None or is_number(v), "a number or null")
_REDUCTION = {
    "topology": TEXT,
    "scheme": TEXT,
    "error": _NUMBER_OR_NULL,
    "volume": _NUMBER_OR_NULL,
    "same_error": _NUMBER_OR_NULL,
    "same_volume": _NUMBER_OR_NULL,
}
#: Files of 0.1.0 have none.
_REDUCTIONS_USED = {"reduction": TEXT, "same_reduction": TEXT}
_TENSOR = {
    "name": TEXT,
    "role": TEXT,
    "size": (lambda v: is_integer(v) and v >= 0, "an integer, at least 0"),
}
_UNIT = {
    "name": TEXT,
    "tensors": (lambda v: _texts(v) and bool(v), "texts"),
    "begin": (_bound, "a step or null"),
    "end": (_bound, "a step or null"),
}
_TABLE = {
    "units": (_objects, "objects"),
    "candidates": (lambda v: _texts(v) and bool(v) and len(set(v)) == len(v), "different texts"),
    "counts_bits": (lambda v: isinstance(v, bool), "true or false"), "latencies": OBJECT,
    "reductions": (_texts, "texts"),
    "chosen": OBJECT, "held_out": (lambda v: v is None or isinstance(v, dict), "an object or null"),
}  # fmt: skip
_SUMS = {
    "steps": (
        lambda v: isinstance(v, list) and bool(v) and all(map(is_integer, v)),
        "step numbers",
    ),
    "losses": (lambda v: isinstance(v, list) and bool(v), "numbers"),
}


def check_plan(content: dict[str, Any]) -> None:
    """Raises a ValueError that names the first place that is wrong."""
    check_keys(content, _PLAN, "")
    about, table = content["about"], content["table"]
    check_keys(about, _ABOUT, "about.")
    if "changed" in about:
        check_keys(about, {"changed": (_texts, "texts")}, "about.")
    if "numerically_zero" in about:
        check_keys(about, {"numerically_zero": (_texts, "texts")}, "about.")
    if "not_finite" in about:
        check_keys(about, {"not_finite": TEXT}, "about.")
    if "reductions" in about:
        check_keys(about, {"reductions": (_objects, "objects")}, "about.")
    for row in about.get("reductions", ()):
        given = {name: rule for name, rule in _REDUCTIONS_USED.items() if name in row}
        check_keys(row, _REDUCTION | given, "about.reductions.")
    for tensor in about["tensors"]:
        check_keys(tensor, _TENSOR, "about.tensors.")
    _check_table(table, "table.")
    names = {tensor["name"] for tensor in about["tensors"]}
    for unit in table["units"]:
        if unknown := set(unit["tensors"]) - names:
            raise ValueError(
                f"table.units names the tensor {clip(min(unknown))}, "
                "which about.tensors does not have"
            )
    if unknown := set(about["fixed"].values()) - set(table["candidates"]):
        raise ValueError(f"about.fixed names {clip(min(unknown))}, which is not a candidate")
    for row in content["layers"]:
        check_keys(row, {"scheme": TEXT}, "layers.")
    if (replayed := content["replayed"]) is not None:
        _check_table(replayed, "replayed.")
        if (
            replayed["units"] != table["units"]
            or len(replayed["candidates"]) != 1
            or (replayed["held_out"] is None) != (table["held_out"] is None)
        ):
            raise ValueError("replayed does not match this table's units and steps")


def _check_table(table: dict[str, Any], where: str) -> None:
    check_keys(table, _TABLE, where)
    for unit in table["units"]:
        check_keys(unit, _UNIT, f"{where}units.")
    for side in ("chosen", "held_out"):
        if table[side] is not None:
            check_keys(table[side], _SUMS, f"{where}{side}.")
    latencies, count = table["latencies"], len(table["candidates"])
    if len(table["reductions"]) != count:
        raise ValueError(f"{where}reductions has not one text per candidate")
    lengths = (0,) if table["counts_bits"] else (count,)  # one worker sends no messages

    def kinds(value: Any) -> bool:
        return (
            isinstance(value, list)
            and len(value) in lengths
            and all(
                isinstance(one, dict) and all(v is None or is_number(v) for v in one.values())
                for one in value
            )
        )

    def sides(value: Any) -> bool:
        return isinstance(value, list) and len(value) in lengths and all(map(is_number, value))

    check_keys(
        latencies,
        {"message": (kinds, "an object per candidate"), "side": (sides, "a number per candidate")},
        f"{where}latencies.",
    )
