"""Reads a RESULTS folder and checks its files against provenance.json."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._json import INTEGER, LIST, OBJECT, TEXT, Rule, check_keys, is_integer, read_json
from .._limits import check_fits, is_of_memory
from .._text import clip, printable
from .columns import TEXT_COLUMNS
from .folders import CSV, FILES, MARK, TABLES, half_written, what_is

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["check_there", "differs", "opened", "read_provenance"]

_AGAIN = "replay the trace again"
#: Keys of provenance.json, and of its entry for every trace.
_KEYS = {
    "command": TEXT, "command_of_whole": TEXT, "version": TEXT, "seed": INTEGER, "draws": INTEGER, "schemes": LIST, "topologies": LIST,
    "selection": LIST, "shard": LIST, "traces": LIST,
}  # fmt: skip
_OF_TRACE = {
    "name": TEXT, "hash": TEXT, "model": TEXT, "stage": TEXT, "reduction": TEXT, "workers": INTEGER, "steps": LIST, "loss": LIST,
    "learning_rate": LIST, "tensors": LIST,
}  # fmt: skip
_TEXT_LIST: Rule = (lambda v: all(isinstance(one, str) for one in v), "a list of texts")
_INTEGERS: Rule = (lambda v: isinstance(v, list) and all(map(is_integer, v)), "a list of integers")
_STEPS: Rule = (lambda v: bool(v) and all(map(is_integer, v)), "a list of step numbers")
#: Required columns.
_COLUMNS = {
    "results.parquet": "step workers count counted nonzero underflow overflow nan nmse sum_signed_error sum_squared_reference volume sum_noise skipped",
    "histograms.parquet": "step exponent count",
    "noise.parquet": "step workers elements blocks sum_squared_reference sum_noise sum_log2_ratio",
}
_TEXTS = {
    "results.parquet": TEXT_COLUMNS,
    "histograms.parquet": ["trace", "tensor", "role", "kind"],
    "noise.parquet": ["trace", "tensor", "role"],
}


def _is_shard(value: Any) -> bool:
    return len(value) == 2 and all(map(is_integer, value)) and 0 <= value[0] < value[1]


def opened(folder: Path) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The tables of a RESULTS folder by name, and its provenance.

    Raises
    ------
    ValueError
        A file is missing, differs from provenance.json, or has wrong content; the sentence names
        it.
    """
    check_there(folder, [name for name in FILES if name != CSV])
    try:
        provenance, files = read_provenance(folder)
        check_there(folder, files)
        tables = {
            kind: _table(folder / name, files[name])
            for name, kind in TABLES.items()
            if name.endswith(".parquet")
        }
        if CSV in files:  # its content is not read here; apscope check does
            size = (folder / CSV).stat().st_size
            if size != files[CSV]["bytes"]:
                raise ValueError(differs(folder / CSV, "bytes", size, files[CSV]["bytes"]))
    except PermissionError:
        raise ValueError(f"a file of {folder} cannot be read: permission denied") from None
    for name, kind in TABLES.items():
        for column, listed in (
            ("trace", [t["name"] for t in provenance["traces"]]),
            ("scheme", provenance["schemes"]),
        ):
            if column in tables[kind] and (
                others := set(tables[kind][column].unique()) - set(listed)
            ):
                raise ValueError(
                    f"{folder / name} has rows of {column} '{printable(min(others), 60)}', which {MARK} does not list; {_AGAIN}"
                )
    return tables, provenance


def check_there(folder: Path, names: Iterable[str]) -> None:
    """Raises ValueError if a write into the folder was interrupted, or one of these files is missing."""
    if half := half_written(folder):
        raise ValueError(f"{folder} {half}")
    for name in names:
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is not a RESULTS folder: {what_is(folder, name)}")


def read_provenance(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content of provenance.json, and its ``files``: sizes, digests and rows.

    Raises
    ------
    ValueError
        It is not a provenance.
    """
    path = folder / MARK
    told = read_json(path)
    if isinstance(told, dict) and "files" not in told and _KEYS.keys() <= told.keys():
        raise ValueError(
            f"{folder} was written by an older apscope, without digests of its files; {_AGAIN}"
        )
    try:
        _check_provenance(told)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return told, told.pop("files")


def _check_provenance(told: Any) -> None:
    check_keys({"it": told}, {"it": OBJECT}, "")
    check_keys(told, {**_KEYS, "files": OBJECT}, "")
    check_keys(
        told,
        {
            "shard": (_is_shard, "two integers, I and N, 0 <= I < N"),
            "schemes": _TEXT_LIST,
            "topologies": _TEXT_LIST,
        },
        "",
    )
    for i, trace in enumerate(told["traces"]):
        check_keys({f"traces[{i}]": trace}, {f"traces[{i}]": OBJECT}, "")
        check_keys(trace, _OF_TRACE, f"traces[{i}].")
        check_keys(trace, {"steps": _STEPS}, f"traces[{i}].")
        for tensor in trace["tensors"]:
            check_keys({"tensor": tensor}, {"tensor": OBJECT}, f"traces[{i}].")
            check_keys(
                tensor, {"name": TEXT, "role": TEXT, "shape": _INTEGERS}, f"traces[{i}].tensor."
            )
    for name in [name for name in TABLES if name != CSV or name in told["files"]]:
        check_keys(told["files"], {name: OBJECT}, "files.")
        check_keys(
            told["files"][name],
            {"bytes": INTEGER, "sha256": TEXT, "rows": INTEGER},
            f"files.{name}.",
        )


def differs(path: Path, what: str, found: object, said: object) -> str:
    """The message about a file that differs from provenance.json."""
    return f"{path} is damaged or from another run: its {what} is {found}, but {MARK} says {said}; {_AGAIN}"


def _table(path: Path, about: dict[str, Any]) -> pd.DataFrame:
    """One parquet file, checked against its digest."""
    import pyarrow.parquet as pq

    data = path.read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != about["sha256"]:
        raise ValueError(differs(path, "SHA-256", found, about["sha256"]))
    with _told(path):
        metadata = pq.read_metadata(io.BytesIO(data))
        schema = metadata.schema.to_arrow_schema()
    texts = _TEXTS[path.name]
    if lacking := [c for c in [*_COLUMNS[path.name].split(), *texts] if schema.names.count(c) != 1]:
        raise ValueError(
            f"{path.parent} was written by an older apscope, without the column {lacking[0]}; {_AGAIN}"
        )
    _check_columns(path, schema, texts)
    if metadata.num_rows != about["rows"]:
        raise ValueError(differs(path, "number of rows", metadata.num_rows, about["rows"]))
    check_fits(
        (metadata.num_rows, metadata.num_columns), 8, "replay the trace again, or a part of it"
    )
    with _told(path):
        # As codes of a few texts: one object per cell would take gigabytes for a large table, and
        # time to compare. Only on this thread: if none can be started pyarrow waits for it forever.
        read = pq.ParquetFile(
            io.BytesIO(data), metadata=metadata, read_dictionary=texts, pre_buffer=False
        ).read(use_threads=False)
    if empty := [c for c in texts if read[c].null_count]:
        raise ValueError(_not_texts(path, empty[0]))
    with _told(path):  # the file also has dtypes for pandas
        table = read.to_pandas(use_threads=False)
    for name in texts:
        # Parquet's text has its own dtype; in memory it is always object.
        table[name] = table[name].astype(object)
    return table


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns every error of reading a damaged file into one sentence."""
    try:
        yield
    except Exception as error:  # of many types
        if is_of_memory(error):
            raise
        raise ValueError(
            f"{path} is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from None


def _check_columns(path: Path, schema: pa.Schema, texts: Collection[str]) -> None:
    import pyarrow as pa

    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in texts:
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise ValueError(_not_texts(path, field.name))
        elif not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            raise ValueError(
                f"{path}: the column {printable(field.name, 60)} has type {clip(str(kind))}; it must have numbers; {_AGAIN}"
            )


def _not_texts(path: Path, column: str) -> str:
    return f"{path}: the column {column} has values that are not texts; {_AGAIN}"
