"""plan.json: the choice and its reasons, in readable lines, and the table behind it."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._folders.reading import open_regular
from .._folders.writing import write_file
from .._schemes.plan_file import MARK, SCHEMA, SUFFIX, read_plan_file
from .._schemes.scheme import as_scheme
from .._text import clip
from .checks import check_plan
from .objective import Wish
from .seconds import Latencies
from .spec import spec_of_plan
from .table import Sums, Table
from .units import Unit

if TYPE_CHECKING:
    import pandas as pd

    from .plan import Plan

#: Dimensions of the arrays of `Sums`: units, candidates, blocks of steps, steps with overflow.
_SHAPES = {
    "interval": "2", "losses": "B", "noise_blocks": "UB", "log2": "UKB", "nmse": "UKB",
    "volume": "UK", "cosine": "UK", "underflow": "UK",
    "nonzero": "UK", "seconds": "UK", "elements": "U", "layers": "U", "overflow": "UK",
    "lost": "UK3V", "rest": "UK", "gain": "UK",
    "parts": "UKP",
}  # fmt: skip


def check_destination(path: str | os.PathLike[str], force: bool = False) -> Path:
    """The path, after checks that a plan can be written there.

    Raises
    ------
    ValueError
        It does not end in `SUFFIX`, or would replace a folder, or, without `force`, a file that is
        not a plan.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(
            f"the plan's file {path} does not end in {SUFFIX}, which distinguishes a plan from a "
            "spec; give such a name"
        )
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file for the plan")
    if path.exists() and not force:
        with open_regular(path) as stream:
            if f'"{MARK}"'.encode() not in stream.read(4096):
                raise ValueError(
                    f"{path} exists and is not a plan of apscope; give another name, or --force "
                    "(force=True in Python) to replace it"
                )
    return path


def write_plan(plan: Plan, path: str | os.PathLike[str], force: bool = False) -> Path:
    """Writes the file in one step."""
    path = check_destination(path, force)
    write_file(path, text_of(plan_dict(plan)), "apscope recommend")
    return path


def text_of(content: dict[str, Any]) -> str:
    """JSON with one line per row of a readable table; the large table has one line per part."""
    return (
        "{\n"
        + ",\n".join(f' "{key}": {_value(value, 1)}' for key, value in content.items())
        + "\n}\n"
    )


def _value(value: Any, depth: int) -> str:
    inner, outer = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return (
            f"[{inner}"
            + f",{inner}".join(json.dumps(row, allow_nan=False) for row in value)
            + f"{outer}]"
        )
    if (
        isinstance(value, dict)
        and depth < 3
        and any(isinstance(v, (list, dict)) for v in value.values())
    ):
        return (
            f"{{{inner}"
            + f",{inner}".join(f'"{k}": {_value(v, depth + 1)}' for k, v in value.items())
            + f"{outer}}}"
        )
    return json.dumps(value, allow_nan=False)


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The content of the file."""
    table = plan._table
    layers = _rows(plan.layers)
    for row, unit in zip(layers, table.units):
        row["tensors"] = list(unit.tensors)
    return {
        MARK: SCHEMA,
        "version": _core.__version__,
        "verdict": plan.verdict(),
        "scheme": plan.spec,
        "wish": plan.wish.to_dict(),
        "about": plan.about,
        "layers": layers,
        "figures": _rows(plan.figures),
        "front": _rows(plan.front),
        "gap": plan._gap,
        "single": plan.single,
        "best": [table.candidates[k] for k in plan._best],
        "not_mixed": [table.candidates[k] for k in sorted(plan._banned)],
        "table": _table_dict(table),
        "replayed": None if plan._replayed is None else _table_dict(plan._replayed),
    }


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {name: _number(value) for name, value in row.items()} for row in frame.to_dict("records")
    ]


def _number(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _table_dict(table: Table) -> dict[str, Any]:
    return {
        "units": [
            {"name": u.name, "tensors": list(u.tensors), "begin": u.begin, "end": u.end}
            for u in table.units
        ],
        "candidates": table.candidates,
        "counts_bits": table.counts_bits,
        "reductions": table.reductions,
        "latencies": {
            "message": [
                {kind: _number(v) for kind, v in kinds.items()} for kinds in table.latencies.message
            ],
            "side": table.latencies.side,
        },
        "chosen": _sums_dict(table.chosen),
        "held_out": None if table.held_out is None else _sums_dict(table.held_out),
    }


def _sums_dict(sums: Sums) -> dict[str, Any]:
    return {"steps": sums.steps} | {name: _lists(getattr(sums, name)) for name in _SHAPES}


def _lists(values: np.ndarray) -> Any:
    """Nested lists, with None for numbers that are not finite."""
    objects = values.astype(object)
    objects[~np.isfinite(values)] = None
    return objects.tolist()


def read_parts(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of `Plan` from a file.

    Raises
    ------
    ValueError
        The file is missing or damaged, or its scheme does not follow from its layers.
    """
    content = read_plan_file(path)
    try:
        check_plan(content)
        table = _table(content["table"])
        places = {spec: k for k, spec in enumerate(table.candidates)}
        options, best = (
            np.array([places[spec] for spec in specs])
            for specs in ([row["scheme"] for row in content["layers"]], content["best"])
        )
        if len(options) != len(table.units) or len(best) != len(table.units):
            raise ValueError(f"it has {len(options)} layers, but its table {len(table.units)}")
        parts = {
            "table": table, "wish": Wish(**content["wish"]), "options": options, "best": best,
            "single": places[content["single"]] if content["single"] else None,
            "gap": float(content["gap"]), "about": content["about"],
            "replayed": None if content["replayed"] is None else _table(content["replayed"]),
            "banned": frozenset(places[spec] for spec in content["not_mixed"]),
        }  # fmt: skip
        sizes = {t["name"]: t["size"] for t in content["about"]["tensors"]}
        made = spec_of_plan(
            table.units,
            [table.candidates[k] for k in options],
            sizes,
            content["about"]["groups"] == "role",
        )
        if as_scheme(made).spec != content["scheme"]:
            raise ValueError(
                f"its layers make the scheme {clip(made)}, but scheme is "
                f"{clip(content['scheme'])}; change both, or neither"
            )
    except KeyError as error:
        raise ValueError(f"{path} is not a complete plan: it has no {error}") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"{path} is not a complete plan: {error}") from None
    return parts


def _table(content: dict[str, Any]) -> Table:
    units = [Unit(u["name"], tuple(u["tensors"]), u["begin"], u["end"]) for u in content["units"]]
    message = [
        {kind: np.nan if v is None else v for kind, v in kinds.items()}
        for kinds in content["latencies"]["message"]
    ]
    latencies = Latencies(message, content["latencies"]["side"])
    sizes = {"U": len(units), "K": len(content["candidates"]), "P": 5, "2": 2, "3": 3}
    sums = [
        None if content[side] is None else _sums(content[side], sizes)
        for side in ("chosen", "held_out")
    ]
    candidates, counts_bits = list(content["candidates"]), bool(content["counts_bits"])
    reductions = list(content["reductions"])
    return Table(units, candidates, sums[0], sums[1], latencies, counts_bits, reductions)  # type: ignore[arg-type]


def _sums(content: dict[str, Any], sizes: dict[str, int]) -> Sums:
    cells = (sizes["U"], sizes["K"])
    content = {  # files of 0.1.0 have none
        "gain": np.full(cells, np.nan), "lost": np.zeros((*cells, 3, 0)),
        "rest": np.full(cells, np.inf),
    } | content  # fmt: skip
    sizes = sizes | {"B": len(content["losses"]), "V": len(content["lost"][0][0][0])}
    arrays = {
        f.name: np.array(content[f.name], dtype=float) for f in fields(Sums) if f.name != "steps"
    }
    for name, letters in _SHAPES.items():
        if arrays[name].shape != (shape := tuple(sizes[letter] for letter in letters)):
            raise ValueError(f"{name} has the shape {arrays[name].shape}; it must be {shape}")
    return Sums(steps=[int(step) for step in content["steps"]], **arrays)
