"""Observed uses as results of a replay: the trace's tensors are uses, the scheme is the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._results.columns import frame_of
from ..._results.results import Results
from ..._traces.roles import guess_role

_TEXTS = ("tensor", "role", "scheme", "format", "topology")
#: Columns of whole numbers, which may be empty.
_WHOLE = {
    "count", "counted", "nonzero", "underflow", "subnormal", "saturated", "overflow", "nan",
    "infinite",
    "block_count", "block_saturated", "block_scale_spread", "block_range_max", "noise_blocks",
    "wire_bits", "side_bits", "scale_exponent",
}  # fmt: skip


def results_of(
    rows: Sequence[tuple[int, str, tuple[int, ...], dict[str, Any]]], label: str, seed: int
) -> Results:
    """A wire row and an `exact` one of every use: with one worker they are the same.

    `rows` have step, use, shape, and the value of every column; `label` is the scheme's name in the
    table.
    """
    if not rows:
        raise ValueError("nothing was observed; call observe(), and train a step that it observes")
    places = {use: i for i, use in enumerate(dict.fromkeys(use for _, use, *_ in rows))}
    shapes = {use: shape for _, use, shape, _ in rows}
    roles = {
        use: str(guess_role(use.rpartition(".")[0] + ".weight", shapes[use])) for use in places
    }
    complete: list[dict[str, Any]] = []
    for step, use, _, values in sorted(rows, key=lambda row: (row[0], places[row[1]])):
        head = {
            "trace": "operands", "step": step, "tensor": use, "role": roles[use], "scheme": label,
            "format": values["format"], "workers": 1, "skipped": False, "note": "",
        }  # fmt: skip
        complete += [
            {**values, **head, "topology": topology, "stage": stage}
            for topology, stage in (("", "wire"), ("exact", "reduced"))
        ]
    columns: dict[str, Any] = {
        "trace": _column(complete, "trace"),
        "step": _column(complete, "step"),
    }
    columns |= {name: _column(complete, name) for name in (*_TEXTS, "workers", "stage")}
    columns |= {name: _column(complete, name) for name, *_ in _core.COLUMNS}
    columns |= {"skipped": np.zeros(len(complete), bool), "note": _column(complete, "note")}
    steps = sorted({step for step, *_ in rows})
    command = "apscope.train: QuantizedModel.results()"

    trace = {
        "name": "operands", "hash": "", "model": "operands of a quantized model", "stage": "local",
        "reduction": "mean", "workers": 1, "steps": steps, "loss": [None] * len(steps),
        "learning_rate": [None] * len(steps),
        "tensors": [{"name": use, "role": roles[use], "shape": list(shapes[use])} for use in places],
    }  # fmt: skip
    provenance = {
        "command": command, "command_of_whole": command, "version": _core.__version__, "seed": seed,
        "draws": 1,
        "schemes": [label], "topologies": ["exact"], "selection": [], "shard": [0, 1],
        "traces": [trace],
    }  # fmt: skip
    return Results(frame_of(columns), _no_histograms(), provenance)


def _column(rows: list[dict[str, Any]], name: str) -> Any:
    """An array: objects, floats with NaN for missing values, or integers with a mask."""
    values = [row.get(name) for row in rows]
    if name in ("trace", "stage", "note", *_TEXTS):
        return np.array(values, object)
    if name in _WHOLE or name in ("step", "workers"):
        empty = np.array([v is None for v in values])
        return np.array([0 if v is None else v for v in values], np.int64), empty
    return np.array([np.nan if v is None else v for v in values], np.float64)


def _no_histograms() -> dict[str, Any]:
    texts = ("trace", "tensor", "role", "kind")
    order = ("trace", "step", "tensor", "role", "kind", "exponent", "count")
    return {name: np.zeros(0, object if name in texts else np.int64) for name in order}
