"""Whether a plan's file holds what a plan is made of: kinds of values, and names that belong to each other."""

from __future__ import annotations

import json
import math
from typing import Any

from .._text import clip

__all__ = ["check_plan"]


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _number(value: Any) -> bool:
    return _integer(value) or (isinstance(value, float) and math.isfinite(value))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _bound(value: Any) -> bool:
    return value is None or _integer(value)


#: What every object of the file holds: key -> whether its value will do, and what it must be.
_PLAN = {
    "wish": (lambda v: isinstance(v, dict), "an object"), "about": (lambda v: isinstance(v, dict), "an object"), "layers": (_objects, "objects"),
    "gap": (lambda v: _number(v) and v >= 0, "a number, at least 0"), "single": (_text, "a text"), "best": (_texts, "texts"),
    "not_mixed": (_texts, "texts"), "table": (lambda v: isinstance(v, dict), "an object"),
    "replayed": (lambda v: v is None or isinstance(v, dict), "an object or null"),
}  # fmt: skip
_ABOUT = {
    "trace": (_text, "a text"), "hash": (_text, "a text"), "workers": (_integer, "an integer"), "topology": (_text, "a text"),
    "groups": (_text, "a text"), "periods": (_integer, "an integer"), "simplest": (lambda v: isinstance(v, bool), "true or false"),
    "elements": (_number, "a number"), "replay": (_text, "a text"), "version": (_text, "a text"), "tensors": (_objects, "objects"),
    "fixed": (lambda v: isinstance(v, dict) and all(map(_text, v.values())), "an object of texts"),
}  # fmt: skip
_TENSOR = {"name": (_text, "a text"), "role": (_text, "a text"), "size": (lambda v: _integer(v) and v >= 0, "an integer, at least 0")}
_UNIT = {
    "name": (_text, "a text"),
    "tensors": (lambda v: _texts(v) and bool(v), "texts"),
    "begin": (_bound, "a step or null"),
    "end": (_bound, "a step or null"),
}
_TABLE = {
    "units": (_objects, "objects"), "candidates": (lambda v: _texts(v) and bool(v) and len(set(v)) == len(v), "different texts"),
    "counts_bits": (lambda v: isinstance(v, bool), "true or false"), "latencies": (lambda v: isinstance(v, dict), "an object"),
    "chosen": (lambda v: isinstance(v, dict), "an object"), "held_out": (lambda v: v is None or isinstance(v, dict), "an object or null"),
}  # fmt: skip
_SUMS = {
    "steps": (lambda v: isinstance(v, list) and bool(v) and all(map(_integer, v)), "step numbers"),
    "losses": (lambda v: isinstance(v, list) and bool(v), "numbers"),
}


def _hold(what: dict[str, Any], keys: dict[str, Any], where: str) -> None:
    for key, (right, must) in keys.items():
        if key not in what:
            raise ValueError(f"it has no {where}{key}")
        if not right(what[key]):
            raise ValueError(f"{where}{key} is {clip(json.dumps(what[key]))}; it must be {must}")


def check_plan(told: dict[str, Any]) -> None:
    """Raises a ValueError that names the first place that is wrong."""
    _hold(told, _PLAN, "")
    about, table = told["about"], told["table"]
    _hold(about, _ABOUT, "about.")
    if "changed" in about:
        _hold(about, {"changed": (_texts, "texts")}, "about.")
    for tensor in about["tensors"]:
        _hold(tensor, _TENSOR, "about.tensors.")
    _check_table(table, "table.")
    names = {tensor["name"] for tensor in about["tensors"]}
    for unit in table["units"]:
        if unknown := set(unit["tensors"]) - names:
            raise ValueError(f"table.units names the tensor {clip(min(unknown))}, which about.tensors does not have")
    if unknown := set(about["fixed"].values()) - set(table["candidates"]):
        raise ValueError(f"about.fixed names {clip(min(unknown))}, which is none of the candidates")
    for row in told["layers"]:
        _hold(row, {"scheme": (_text, "a text")}, "layers.")
    if (replayed := told["replayed"]) is not None:
        _check_table(replayed, "replayed.")
        if replayed["units"] != table["units"] or len(replayed["candidates"]) != 1 or (replayed["held_out"] is None) != (table["held_out"] is None):
            raise ValueError("replayed is not of this table's units and steps")


def _check_table(table: dict[str, Any], where: str) -> None:
    _hold(table, _TABLE, where)
    for unit in table["units"]:
        _hold(unit, _UNIT, f"{where}units.")
    for side in ("chosen", "held_out"):
        if table[side] is not None:
            _hold(table[side], _SUMS, f"{where}{side}.")
    latencies, count = table["latencies"], len(table["candidates"])
    lengths = (0,) if table["counts_bits"] else (count,)  # one worker sends no messages

    def kinds(value: Any) -> bool:
        return (
            isinstance(value, list) and len(value) in lengths
            and all(isinstance(one, dict) and all(v is None or _number(v) for v in one.values()) for one in value)
        )  # fmt: skip

    def sides(value: Any) -> bool:
        return isinstance(value, list) and len(value) in lengths and all(map(_number, value))

    _hold(latencies, {"message": (kinds, "an object a candidate"), "side": (sides, "a number a candidate")}, f"{where}latencies.")
