"""Reads a RESULTS folder and checks its files against provenance.json."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._core import OPTIMIZERS
from .._folders.json import INTEGER, LIST, OBJECT, TEXT, Rule, check_keys, is_integer, read_json
from .._folders.results import (
    AGAIN,
    CSV,
    FILES,
    MARK,
    OPTIONAL,
    TABLES,
    differs,
    half_written,
    what_is,
)
from .._text import printable
from .stored import Stored, stored

#: Keys of provenance.json, and of its entry for every trace.
_KEYS = {
    "command": TEXT, "command_of_whole": TEXT, "version": TEXT, "seed": INTEGER, "draws": INTEGER,
    "schemes": LIST, "topologies": LIST,
    "selection": LIST, "shard": LIST, "traces": LIST,
}  # fmt: skip
_OF_TRACE = {
    "name": TEXT, "hash": TEXT, "model": TEXT, "stage": TEXT, "reduction": TEXT, "workers": INTEGER,
    "steps": LIST, "loss": LIST,
    "learning_rate": LIST, "tensors": LIST,
}  # fmt: skip
_TEXT_LIST: Rule = (lambda v: all(isinstance(one, str) for one in v), "a list of texts")
_INTEGERS: Rule = (lambda v: isinstance(v, list) and all(map(is_integer, v)), "a list of integers")
_OPTIMIZER: Rule = (lambda v: v in OPTIMIZERS, f"one of {', '.join(OPTIMIZERS)}")
_SHARD: Rule = (
    lambda v: len(v) == 2 and all(map(is_integer, v)) and 0 <= v[0] < v[1],
    "two integers, I and N, 0 <= I < N",
)
_STEPS: Rule = (lambda v: bool(v) and all(map(is_integer, v)), "a list of step numbers")


def opened(folder: Path) -> tuple[dict[str, Stored], dict[str, Any]]:
    """The tables of a RESULTS folder by name, and its provenance.

    Raises
    ------
    ValueError
        A file is missing, differs from provenance.json, or has wrong content; the sentence names
        it.
    """
    check_there(folder, [name for name in FILES if name not in OPTIONAL])
    try:
        provenance, files = read_provenance(folder)
        check_there(folder, files)
        tables = {
            kind: stored(folder / name, files[name])
            for name, kind in TABLES.items()
            if name.endswith(".parquet") and name in files
        }
        if CSV in files:  # its content is not read here; apscope check does
            size = (folder / CSV).stat().st_size
            if size != files[CSV]["bytes"]:
                raise ValueError(differs(folder / CSV, "bytes", size, files[CSV]["bytes"]))
    except PermissionError:
        raise ValueError(f"a file of {folder} cannot be read: permission denied") from None
    for name, kind in TABLES.items():
        if kind not in tables:
            continue
        for column, listed in (
            ("trace", [t["name"] for t in provenance["traces"]]),
            ("scheme", provenance["schemes"]),
        ):
            if column in tables[kind].columns and (
                others := set(tables[kind].frame([column])[column].cat.categories) - set(listed)
            ):
                raise ValueError(
                    f"{folder / name} has rows of {column} '{printable(min(others), 60)}', which "
                    f"{MARK} does not list; {AGAIN}"
                )
    return tables, provenance


def check_there(folder: Path, names: Iterable[str]) -> None:
    """Raises ValueError if a write was interrupted, or one of these files is missing."""
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
    content = read_json(path)
    if isinstance(content, dict) and "files" not in content and _KEYS.keys() <= content.keys():
        raise ValueError(
            f"{folder} was written by an older apscope, without digests of its files; {AGAIN}"
        )
    try:
        _check_provenance(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return content, content.pop("files")


def _check_provenance(provenance: Any) -> None:
    check_keys({"it": provenance}, {"it": OBJECT}, "")
    check_keys(provenance, {**_KEYS, "files": OBJECT}, "")
    check_keys(
        provenance,
        {
            "shard": _SHARD,
            "schemes": _TEXT_LIST,
            "topologies": _TEXT_LIST,
        },
        "",
    )
    for i, trace in enumerate(provenance["traces"]):
        check_keys({f"traces[{i}]": trace}, {f"traces[{i}]": OBJECT}, "")
        check_keys(trace, _OF_TRACE, f"traces[{i}].")
        check_keys(trace, {"steps": _STEPS}, f"traces[{i}].")
        if "optimizer" in trace:
            check_keys(trace, {"optimizer": _OPTIMIZER}, f"traces[{i}].")
        for tensor in trace["tensors"]:
            check_keys({"tensor": tensor}, {"tensor": OBJECT}, f"traces[{i}].")
            rules = {"name": TEXT, "role": TEXT, "shape": _INTEGERS}
            rules |= {"sampled_from": INTEGER} if "sampled_from" in tensor else {}
            check_keys(tensor, rules, f"traces[{i}].tensor.")
    for name in [name for name in TABLES if name not in OPTIONAL or name in provenance["files"]]:
        check_keys(provenance["files"], {name: OBJECT}, "files.")
        check_keys(
            provenance["files"][name],
            {"bytes": INTEGER, "sha256": TEXT, "rows": INTEGER},
            f"files.{name}.",
        )
