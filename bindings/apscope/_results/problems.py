"""Finds all errors in a RESULTS folder."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from .._folders.durable import digest_of
from .._folders.results import AGAIN, CSV, MARK, TABLES, differs
from .._rate_limit.known import known_limits
from .._text import count_of, printable
from .opening import check_there, opened, read_provenance
from .persistence import wrong_windows
from .pooling import is_own
from .row_groups import csv_from

#: The columns that name an item, and those that name its rows.
_ITEM, _WAY = ["trace", "step", "tensor", "scheme"], ["stage", "topology"]


def problems(folder: Path) -> Iterator[str]:
    """Sentences on differences from provenance.json, wrong CSV, missing and double rows."""
    damaged = False
    try:
        check_there(folder, [MARK])
        _, files = read_provenance(folder)
        for name, about in files.items():
            if name in TABLES and (folder / name).exists():
                actual = digest_of(folder / name)
                for key in ("bytes", "sha256"):
                    if actual[key] != about[key]:
                        damaged = True
                        yield differs(folder / name, key, actual[key], about[key])
        if damaged:
            return
        tables, provenance = opened(folder)
    except (ValueError, OSError) as error:
        yield str(error)
        return
    if CSV not in files:
        if (folder / CSV).exists():
            yield f"{folder / CSV} is not a file of these results: {MARK} does not list it"
    else:
        hashed = _Hashed()
        csv_from(folder / "results.parquet", hashed)  # type: ignore[arg-type]  # a file for Arrow
        if (digest := hashed.sum.hexdigest()) != files[CSV]["sha256"]:
            yield (
                f"{folder / CSV} is not the table of results.parquet: its SHA-256 would be {digest}"
            )
    if "limit" in tables:
        try:
            known_limits(tables["limit"].whole())
        except ValueError as error:
            yield f"{folder / 'limit.parquet'}: {error}; {AGAIN}"
    if "persistence" in tables:
        rows = tables["frame"].frame([*_ITEM, *_WAY, "count", "sum_squared_reference"])
        for wrong in wrong_windows(tables["persistence"].whole(), rows, provenance):
            yield f"{folder / 'persistence.parquet'} {wrong}; {AGAIN}"
    yield from _of_rows(folder, tables["frame"].frame(_ITEM + _WAY), provenance)


class _Hashed(io.RawIOBase):
    """A file that only computes its digest."""

    def __init__(self) -> None:
        self.sum = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sum.update(data)
        return len(memoryview(data))


def _of_topologies(folder: Path, frame: pd.DataFrame, listed: list[str]) -> Iterator[str]:
    """Topologies that only the rows have, or only provenance.json."""
    reduced = frame.loc[frame["stage"] == "reduced", [*_ITEM, "topology"]]
    is_own_reduction = reduced["topology"].map(is_own).astype(bool)
    path, replayed = folder / "results.parquet", set(reduced.loc[~is_own_reduction, "topology"])
    for topology in sorted(replayed - {*listed, "exact"}):
        yield (
            f"{path} has rows of the topology '{printable(topology, 60)}', which {MARK} does not "
            f"list; {AGAIN}"
        )
    # Schemes with their own reduction have no rows of the listed ones.
    items = pd.MultiIndex.from_frame(reduced[_ITEM])
    if not items.isin(items[is_own_reduction]).all():
        for topology in (name for name in listed if name not in replayed):
            yield (
                f"{path} has no rows of the topology '{printable(topology, 60)}', which {MARK} "
                f"lists; {AGAIN}"
            )


def _of_rows(folder: Path, frame: pd.DataFrame, provenance: dict[str, Any]) -> Iterator[str]:
    twice = int(frame.duplicated(_ITEM + _WAY).sum())
    if twice:
        yield (
            f"{folder / 'results.parquet'} has {count_of(twice, 'row')} "
            "twice; replay the trace again"
        )
    yield from _of_topologies(folder, frame, provenance["topologies"])
    if provenance["shard"][1] > 1:
        return  # only its own replay has the list of a shard's items
    expected = sum(
        len(trace["steps"]) * len(trace["tensors"]) for trace in provenance["traces"]
    ) * len(provenance["schemes"])
    actual = len(frame[_ITEM].drop_duplicates())
    if actual != expected:
        yield (
            f"{folder / 'results.parquet'} has rows of {actual} of {expected} layers, steps and "
            f"schemes that {MARK} lists: it is a part of a replay, or damaged"
        )
