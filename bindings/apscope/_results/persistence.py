"""The table of persistence: errors and updates summed over windows of consecutive steps.

docs/definitions.md, section 16. The core makes a summary's columns of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from .. import _core
from .._text import count_of
from .codes import coded_of

#: Steps of a window.
LENGTHS: tuple[int, ...] = _core.WINDOW_LENGTHS
_TEXTS = ("trace", "tensor", "scheme", "topology")
_SUMS = {
    optimizer: tuple(
        f"{optimizer}_{name}" for name in ("product", "squared_reference", "squared_result")
    )
    for optimizer in ("sum", "adam")
}


def windows_of(results: Any) -> _core.WindowTable:
    """The table of a Results for the core; without rows for a bare table of rows."""
    if isinstance(results, pd.DataFrame):
        return _core.WindowTable({}, {})
    table = results.persistence
    return _core.WindowTable(
        coded_of(table, list(table.columns)),
        {  # a table without its folder has no traces
            t["name"]: t["optimizer"]
            for t in results.provenance.get("traces", [])
            if "optimizer" in t
        },
    )


def wrong_windows(
    table: pd.DataFrame, rows: pd.DataFrame, provenance: dict[str, Any]
) -> Iterator[str]:
    """What is wrong with the table of a folder, as ends of sentences about it.

    Parameters
    ----------
    table : DataFrame
    rows : DataFrame
        Of the results: the names of a row, ``stage``, ``count`` and ``sum_squared_reference``.
    provenance : dict
    """
    key = [*_TEXTS, "step", "steps"]
    if twice := int(table.duplicated(key).sum()):
        yield f"has {twice} windows twice"
    steps = {trace["name"]: set(trace["steps"]) for trace in provenance["traces"]}
    for trace, step, length in (
        table[["trace", "step", "steps"]].drop_duplicates().itertuples(index=False)
    ):
        if length not in LENGTHS:
            yield f"has windows of {count_of(length, 'step')}, not {', '.join(map(str, LENGTHS))}"
            return
        if not steps[trace].issuperset(range(step, step + length)):
            yield f"has a window of the {length} steps from {step} of {trace}, which was not replayed"
            return
    if missing := _missing_windows(table, rows):
        yield f"lacks {missing} windows"
    workers = {trace["name"]: trace["workers"] for trace in provenance["traces"]}
    noise = table.loc[table["trace"].map(workers) > 1, "sum_noise"]  # of one worker it is unknown
    if not (table["sum_squared_error"] >= 0).all() or not (noise >= 0).all():
        yield "has sums of squares that are not numbers of at least 0"
    several = table[table["steps"] > 1]
    for product, reference, result in _SUMS.values():
        lengths = np.sqrt(several[reference]) * np.sqrt(several[result])
        if not (several[product].abs() <= lengths * (1 + 1e-9)).all():
            yield f"has a {product} above the product of the lengths"


def _missing_windows(table: pd.DataFrame, rows: pd.DataFrame) -> int:
    """How many windows are not there: a step of every measured row, and all that these make.

    Of the schemes that have windows: merged results may have others.
    """
    ways, with_windows = list(_TEXTS), table.drop_duplicates(["trace", "scheme"])
    measured = rows["sum_squared_reference"].notna() & (rows["count"] > 0)  # and with elements
    reduced = rows[(rows["stage"] == "reduced") & measured].merge(with_windows[["trace", "scheme"]])
    expected = set(reduced[[*ways, "step"]].itertuples(index=False, name=None))
    present: dict[int, set[tuple[Any, ...]]] = {
        length: set(windows[[*ways, "step"]].itertuples(index=False, name=None))
        for length, windows in table.groupby("steps")
    }
    missing = len(expected - present.get(1, set()))
    steps: dict[tuple[Any, ...], list[int]] = {}
    for *way, step in sorted(expected | present.get(1, set())):
        steps.setdefault(tuple(way), []).append(step)
    for way, recorded in steps.items():
        for length in LENGTHS[1:]:
            begins = {(*way, step) for step in _begins(recorded, length)}
            missing += len(begins - present.get(length, set()))
    return missing


def _begins(steps: list[int], length: int) -> Iterator[int]:
    """The first steps of the windows in ascending steps: each run is cut from its start."""
    begin = 0
    for i, step in enumerate(steps):
        if i and step != steps[i - 1] + 1:
            begin = i
        if i - begin + 1 == length:
            yield steps[begin]
            begin = i + 1
