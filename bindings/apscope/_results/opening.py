"""A RESULTS folder read: its files are the ones that provenance.json lists, and hold what such files hold."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._folders.writing import halves
from .._json import read_json
from .._text import clip, printable
from .columns import TEXT_COLUMNS
from .folders import FILES, MARK, TABLES, what_is

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["differs", "opened", "read_provenance"]

_AGAIN = "replay the trace again"
_INTEGER, _TEXT, _LIST, _OBJECT = "an integer", "a text", "a list", "an object"
_TYPES = {_INTEGER: int, _TEXT: str, _LIST: list, _OBJECT: dict}
#: What provenance.json holds, and of every trace.
_KEYS = {
    "command": _TEXT, "command_of_whole": _TEXT, "version": _TEXT, "seed": _INTEGER, "draws": _INTEGER, "schemes": _LIST, "topologies": _LIST,
    "selection": _LIST, "shard": _LIST, "traces": _LIST,
}  # fmt: skip
_OF_TRACE = {
    "name": _TEXT, "hash": _TEXT, "model": _TEXT, "loss": _LIST, "learning_rate": _LIST, "stage": _TEXT, "reduction": _TEXT, "workers": _INTEGER, "steps": _LIST, "tensors": _LIST,
}  # fmt: skip
#: Columns without which a table is none of ours.
_COLUMNS = {
    "results.parquet": "step workers count counted nonzero underflow overflow nan nmse sum_signed_error sum_squared_reference volume sum_noise skipped",
    "histograms.parquet": "step exponent count",
    "noise.parquet": "step workers elements blocks sum_squared_reference sum_noise sum_log2_ratio",
}
_TEXTS = {"results.parquet": TEXT_COLUMNS, "histograms.parquet": ["trace", "tensor", "role", "kind"], "noise.parquet": ["trace", "tensor", "role"]}


def opened(folder: Path) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The tables of a RESULTS folder by name, and its provenance.

    Raises
    ------
    ValueError
        A file is missing, is not what provenance.json says, or does not hold what it should; the sentence names it.
    """
    if left := halves(folder, MARK):
        raise ValueError(f"{folder} holds the halves of a write that was interrupted ({left.name}); run the command again")
    for name in FILES:
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is no RESULTS folder: {what_is(folder, name)}")
    try:
        provenance, files = read_provenance(folder)
        tables = {kind: _table(folder / name, files[name]) for name, kind in TABLES.items() if name.endswith(".parquet")}
        size = (folder / "results.csv").stat().st_size  # what it holds is not read here; apscope check does
        if size != files["results.csv"]["bytes"]:
            raise ValueError(differs(folder / "results.csv", "bytes", size, files["results.csv"]["bytes"]))
    except PermissionError:
        raise ValueError(f"a file of {folder} cannot be read: permission denied") from None
    for name, kind in TABLES.items():
        for column, listed in (("trace", [t["name"] for t in provenance["traces"]]), ("scheme", provenance["schemes"])):
            if column in tables[kind] and (others := set(tables[kind][column].unique()) - set(listed)):
                raise ValueError(f"{folder / name} has rows of {column} '{printable(min(others), 60)}', which {MARK} does not list; {_AGAIN}")
    return tables, provenance


def read_provenance(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What provenance.json says, and the sizes, digests and rows of the files, which stand in it under ``files``.

    Raises
    ------
    ValueError
        It is no provenance.
    """
    path = folder / MARK
    told = read_json(path)
    if not isinstance(told, dict):
        raise ValueError(f"{path} is no provenance: it holds {clip(json.dumps(told))} where an object belongs")
    if "files" not in told and _KEYS.keys() <= told.keys():
        raise ValueError(f"{folder} was written by an older apscope, without digests of its files; {_AGAIN}")
    _check(path, "", told, {**_KEYS, "files": _OBJECT})
    shard = told["shard"]
    if len(shard) != 2 or not all(map(_is_integer, shard)) or not 0 <= shard[0] < shard[1]:
        raise ValueError(f"{path}: shard is {shard}; it must be two integers, I and N, 0 <= I < N")
    for key in ("schemes", "topologies"):
        if not all(isinstance(text, str) for text in told[key]):
            raise ValueError(f"{path}: {key} is {clip(json.dumps(told[key]))}; it must be a list of texts")
    for i, trace in enumerate(told["traces"]):
        where = f"traces[{i}]."
        if not isinstance(trace, dict):
            raise ValueError(f"{path}: traces[{i}] is {clip(json.dumps(trace))}; it must be an object")
        _check(path, where, trace, _OF_TRACE)
        for tensor in trace["tensors"]:
            texts = isinstance(tensor, dict) and isinstance(tensor.get("name"), str) and isinstance(tensor.get("role"), str)
            if not texts or not isinstance(tensor.get("shape"), list) or not all(map(_is_integer, tensor["shape"])):
                raise ValueError(f"{path}: {where}tensors holds {clip(json.dumps(tensor))}; it must be objects with name, role and shape")
        if not trace["steps"] or not all(map(_is_integer, trace["steps"])):
            raise ValueError(f"{path}: {where}steps is {clip(json.dumps(trace['steps']))}; it must be a list of step numbers")
    for name in TABLES:
        about = told["files"].get(name)
        if not isinstance(about, dict) or not isinstance(about.get("sha256"), str) or not all(_is_integer(about.get(k)) for k in ("bytes", "rows")):
            raise ValueError(f"{path}: files.{name} is {clip(json.dumps(about))}; it must be an object with bytes, sha256 and rows")
    return told, told.pop("files")


def differs(path: Path, what: str, found: object, said: object) -> str:
    """The sentence about a file that is not the one that provenance.json lists."""
    return f"{path} is damaged or of another run: its {what} is {found}, but {MARK} says {said}; {_AGAIN}"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _check(path: Path, where: str, told: dict[str, Any], keys: dict[str, str]) -> None:
    for key, what in keys.items():
        if key not in told:
            raise ValueError(f"{path} has no {where}{key}")
        if isinstance(told[key], bool) or not isinstance(told[key], _TYPES[what]):
            raise ValueError(f"{path}: {where}{key} is {clip(json.dumps(told[key]))}; it must be {what}")


def _table(path: Path, about: dict[str, Any]) -> pd.DataFrame:
    """One parquet file, as its digest says it was written."""
    import pyarrow.dataset  # noqa: F401  # which read_table needs: it would do without, and fail in its own words
    import pyarrow.parquet as pq

    data = path.read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != about["sha256"]:
        raise ValueError(differs(path, "SHA-256", found, about["sha256"]))
    try:
        # As codes of a few texts, of which every cell then is one: an object a cell would take gigabytes of a large table, and time to compare.
        # On this thread alone: where none can be started pyarrow waits for it forever.
        read = pq.read_table(io.BytesIO(data), read_dictionary=[*TEXT_COLUMNS, "kind"], use_threads=False, pre_buffer=False)
        lacking = [c for c in [*_COLUMNS[path.name].split(), *_TEXTS[path.name]] if read.column_names.count(c) != 1]
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever the readers of damaged files raise
        if "launch worker thread" in str(error):
            raise MemoryError(str(error)) from None
        raise ValueError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    if read.num_rows != about["rows"]:
        raise ValueError(differs(path, "number of rows", read.num_rows, about["rows"]))
    if lacking:
        raise ValueError(f"{path.parent} was written by an older apscope, without the column {lacking[0]}; {_AGAIN}")
    texts = _TEXTS[path.name]
    _check_columns(path, read, texts)
    try:
        table = read.to_pandas(use_threads=False)
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:  # of what the file tells pandas beside its columns
        raise ValueError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    for name in texts:
        # Parquet gives text a dtype of its own; in memory it is object, read back or not.
        table[name] = table[name].astype(object)
    return table


def _check_columns(path: Path, read: pa.Table, texts: Collection[str]) -> None:
    import pyarrow as pa

    for field, column in zip(read.schema, read.columns):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in texts:
            if column.null_count or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise ValueError(f"{path}: the column {field.name} holds values that are no texts; {_AGAIN}")
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(f"{path}: the column {printable(field.name, 60)} is of {clip(str(kind))}; it must be of numbers; {_AGAIN}")
