"""Results: the table of a replay, its exponent histograms and where they came from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Results", "merge"]

TEXT_COLUMNS = ["trace", "tensor", "role", "scheme", "format", "topology", "stage", "note"]
HISTOGRAM_COLUMNS = ["trace", "step", "tensor", "role", "kind", "exponent", "count"]
FILES = ["results.parquet", "results.csv", "histograms.parquet", "provenance.json"]


class Results:
    """What a replay found.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row per trace, step, tensor, scheme, stage and topology; the columns of
        docs/definitions.md, section 3, in that order. Empty integers are ``<NA>``, empty floats NaN.
    histograms : pandas.DataFrame
        Exponent histograms: trace, step, tensor, role, kind, exponent, count.
    provenance : dict
        Command, seed, version, schemes, topologies, traces with their hashes, shard.
    states : dict
        What stateful schemes remember after the last step: by trace, then by scheme (and tensor), arrays by
        name; `replay(..., states=)` goes on from there. Not saved, and empty in results that were read.
    """

    def __init__(self, frame: pd.DataFrame, histograms: pd.DataFrame, provenance: dict[str, Any]) -> None:
        self.frame = frame
        self.histograms = histograms
        self.provenance = provenance
        self.states: dict[str, dict[str, dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"<Results: {len(self.frame)} rows of {', '.join(t['name'] for t in self.provenance['traces'])}>"

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the RESULTS folder: results.parquet, results.csv, histograms.parquet, provenance.json.

        Every file is written under another name first; all are renamed at the end, so an error
        leaves nothing half-written. Other files in the folder stay.

        Raises
        ------
        OSError
            The folder cannot be written.
        ValueError
            `folder` is a file, or a folder stands where one of its files belongs.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; give a folder for the results")
        for name in FILES:
            if (folder / name).is_dir():
                raise ValueError(f"{folder / name} is a folder; a file of the results belongs there")
        made = [p for p in [folder, *folder.parents] if not p.exists()]
        parts = {name: folder / f".{name}.part" for name in FILES}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.frame.to_parquet(parts["results.parquet"], index=False)
            self.frame.to_csv(parts["results.csv"], index=False, lineterminator="\n")
            self.histograms.to_parquet(parts["histograms.parquet"], index=False)
            parts["provenance.json"].write_text(json.dumps(self.provenance, indent=1, allow_nan=False) + "\n")
            for name in FILES:
                parts[name].rename(folder / name)
        except BaseException as error:
            for part in parts.values():
                part.unlink(missing_ok=True) if os.access(folder, os.W_OK) else None
            for empty in made:
                if empty.is_dir() and not any(empty.iterdir()):
                    empty.rmdir()
            if isinstance(error, OSError):
                raise OSError(f"the results folder {folder} cannot be written: {error.strerror or error}") from None
            raise
        return folder

    @staticmethod
    def open(folder: str | os.PathLike[str]) -> "Results":
        """Read a RESULTS folder.

        Raises
        ------
        ValueError
            A file of the folder is missing or is not what it should be.
        """
        folder = Path(folder)
        for name in FILES:
            if not (folder / name).is_file():
                raise ValueError(f"{folder} is no RESULTS folder: it has no {name}")
        try:
            frame = pd.read_parquet(folder / "results.parquet")
            histograms = pd.read_parquet(folder / "histograms.parquet")
            provenance = json.loads((folder / "provenance.json").read_text())
        except Exception as error:
            raise ValueError(f"{folder} holds a damaged file: {str(error).splitlines()[0]}") from None
        # Parquet gives text a dtype of its own; in memory it is object, read back or not.
        for table in (frame, histograms):
            for name in [c for c in TEXT_COLUMNS + ["kind"] if c in table]:
                table[name] = table[name].astype(object)
        return Results(frame, histograms, provenance)


def frame_of(columns: dict[str, Any], trace: str) -> pd.DataFrame:
    """The C++ columns as a frame: text, nullable integers, floats, bool."""
    data: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, tuple):
            values, empty = column
            data[name] = pd.arrays.IntegerArray(values.copy(), empty.copy())
        elif isinstance(column, list):
            data[name] = pd.Series(column, dtype=object)
        else:
            data[name] = column
    frame = pd.DataFrame(data)
    frame.insert(0, "trace", pd.Series([trace] * len(frame), dtype=object, index=frame.index))
    return frame


def histogram_frame(rows: list[tuple], trace: str) -> pd.DataFrame:
    """The C++ histogram rows as a frame."""
    frame = pd.DataFrame([(trace, *row) for row in rows], columns=HISTOGRAM_COLUMNS)
    for name in ("trace", "tensor", "role", "kind"):
        frame[name] = frame[name].astype(object)
    frame["step"] = frame["step"].astype(np.int64)
    frame["exponent"] = frame["exponent"].astype("Int64")
    frame["count"] = frame["count"].astype(np.int64)
    return frame


def _sorted(frame: pd.DataFrame, provenance: dict[str, Any], histogram: bool) -> pd.DataFrame:
    """Rows in the order one whole run writes them."""
    rank_trace = {t["name"]: i for i, t in enumerate(provenance["traces"])}
    rank_tensor = {
        (t["name"], tensor["name"]): i for t in provenance["traces"] for i, tensor in enumerate(t["tensors"])
    }
    keys = pd.DataFrame(
        {
            "trace": frame["trace"].map(rank_trace),
            "step": frame["step"].astype(np.int64),
            "tensor": [rank_tensor[pair] for pair in zip(frame["trace"], frame["tensor"])],
        },
        index=frame.index,
    )
    # Inside an item the rows are in order already: a stable sort keeps them.
    if not histogram:
        keys["scheme"] = frame["scheme"].map({s: i for i, s in enumerate(provenance["schemes"])})
    order = keys.sort_values(list(keys.columns), kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def concatenate(parts: list[Results], provenance: dict[str, Any]) -> Results:
    """Rows of several results, sorted as one run would have written them."""
    frame = pd.concat([p.frame for p in parts], ignore_index=True)
    histograms = pd.concat([p.histograms for p in parts], ignore_index=True)
    return Results(_sorted(frame, provenance, False), _sorted(histograms, provenance, True), provenance)


def merge(results: list[Results | str | os.PathLike[str]]) -> Results:
    """Join shards of one replay, or replays of different traces.

    Parameters
    ----------
    results : list of Results or folders
        All N shards of a replay, in any order; or whole replays of different traces with the same
        schemes, topologies, seed and draws. Their selections may differ: `command` tells each.

    Returns
    -------
    Results
        The rows of all, in the order of one run; from shards, the very rows of one run.

    Raises
    ------
    ValueError
        Overlapping or missing shards, replays that differ in their settings, a trace given twice.
    """
    if isinstance(results, (str, os.PathLike, Results)):
        results = [results]
    parts = [r if isinstance(r, Results) else Results.open(r) for r in results]
    if not parts:
        raise ValueError("there is nothing to merge; give at least one RESULTS folder")
    groups: dict[str, list[Results]] = {}
    for part in parts:
        p = part.provenance
        settings = {k: p[k] for k in ("schemes", "topologies", "seed", "draws", "version")}
        first = {k: parts[0].provenance[k] for k in settings}
        if settings != first:
            wrong = next(k for k in settings if settings[k] != first[k])
            raise ValueError(f"the results differ in their {wrong} ({settings[wrong]} and {first[wrong]}) and cannot be merged")
        groups.setdefault(json.dumps([p["traces"], p["selection"]]), []).append(part)
    whole = [_join_shards(group) for group in groups.values()]
    names: list[str] = [t["name"] for part in whole for t in part.provenance["traces"]]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"trace '{name}' is in more than one of the results, with overlapping rows")
    provenance = dict(whole[0].provenance)
    provenance["traces"] = [t for part in whole for t in part.provenance["traces"]]
    if len(whole) > 1:
        provenance["command"] = " && ".join(dict.fromkeys(part.provenance["command"] for part in whole))
        provenance["command_of_whole"] = provenance["command"]
    return concatenate(whole, provenance)


def _join_shards(group: list[Results]) -> Results:
    of = {part.provenance["shard"][1] for part in group}
    if len(of) > 1:
        raise ValueError(f"the results are shards of different splits ({sorted(of)}); merge the shards of one split")
    (count,) = of
    seen = sorted(part.provenance["shard"][0] for part in group)
    for shard in range(count):
        if seen.count(shard) > 1:
            raise ValueError(f"shard {shard}/{count} is given {seen.count(shard)} times, so its rows overlap")
        if shard not in seen:
            raise ValueError(f"shard {shard}/{count} is missing; the results hold shards {', '.join(map(str, seen))}")
    provenance = dict(group[0].provenance)
    provenance["shard"] = [0, 1]
    provenance["command"] = provenance["command_of_whole"]
    return concatenate(group, provenance)
