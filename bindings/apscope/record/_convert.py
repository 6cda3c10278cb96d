"""Foreign gradient dumps (npz, npy, safetensors) into a trace."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .. import _core
from .._results.folders import check_readable
from .._traces.opening import open_trace
from .._traces.trace import Trace
from ._safetensors import storable
from ._writer import TraceWriter

SUFFIXES = (".npz", ".npy", ".safetensors")

_STEP = r"(?:step|iteration|iter)[_-]?(?P<step>\d+)"
_WORKER = r"(?:worker|rank)[_-]?(?P<worker>\d+)"
#: Tried in this order where no pattern is given; the first that fits every tensor is taken.
DEFAULT_PATTERNS = (
    rf"(?:.*/)?{_STEP}/{_WORKER}/(?P<tensor>.+)",
    rf"(?:.*/)?{_WORKER}/{_STEP}/(?P<tensor>.+)",
    rf"(?:.*/)?{_STEP}[_.-]{_WORKER}[/_.-](?P<tensor>.+)",
    rf"(?:.*/)?{_WORKER}[_.-]{_STEP}[/_.-](?P<tensor>.+)",
    rf"(?:.*/)?{_STEP}/(?P<tensor>.+)",
)


@dataclass(frozen=True)
class Conversion:
    """What :func:`convert` did."""

    trace: Trace
    pattern: str
    ignored: tuple[str, ...]  # addresses that the pattern did not fit


@dataclass(frozen=True)
class _Source:
    path: Path
    key: str | None  # None: an npy file, which holds one array
    address: str  # path without suffix, and the key: what a pattern with a tensor group sees
    stem: str  # path without suffix: what a pattern without one sees


def convert(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    *,
    reduction: str,
    pattern: str | None = None,
    stage: str = "local",
    loss_divided_by_workers: bool = False,
    name: str | None = None,
    model: str = "",
    roles: Mapping[str, str] | Callable[[str, tuple[int, ...]], str | None] | None = None,
    round_to_fp32: bool = False,
    progress: bool = False,
) -> Conversion:
    """Converts a folder of npz, npy and safetensors files (or one such file) into a trace.

    One step is in memory at a time. The trace is written beside its place and renamed, so that
    `destination` is whole or not there. Nothing that a file holds is executed.

    Parameters
    ----------
    source : path-like
        Searched through all its folders.
    destination : path-like
        The trace's folder; it must not exist.
    reduction : {"mean", "sum"}
        What training did with the workers' gradients; nothing in a dump tells.
    pattern : str, optional
        Regular expression with the named groups ``step``, ``worker`` and ``tensor``. It must fit
        the whole of ``folder/file/key``: the path below `source` without its suffix, and for npz and
        safetensors the array's key. Without a ``tensor`` group it must fit ``folder/file`` and the
        key is the tensor's name. Without ``worker`` there is one worker, without ``step`` one step.
        What it does not fit is left out and named in the result. By default the first of
        ``DEFAULT_PATTERNS`` that fits everything.
    stage, loss_divided_by_workers, name, model, roles
        As for :class:`apscope.record.TraceWriter`.
    round_to_fp32 : bool
        Round float64 values that are no fp32 values to fp32, ties to even, instead of refusing them.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Conversion
        The trace, the pattern used, and what it did not fit.

    Raises
    ------
    ValueError
        No pattern fits, two arrays have the same step, worker and tensor, a combination is missing,
        shapes differ between steps or workers, or values are no fp32 values; the sentence names them.
    """
    source, destination = Path(source), Path(destination)
    if destination.exists():
        raise ValueError(f"{destination} exists; convert into a new folder")
    sources = _scan(source)
    used, table, ignored = _assign(sources, pattern)
    steps, workers, tensors = _complete(table, source)

    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_name(f".{destination.name}.part-{os.getpid()}")
    try:
        writer = TraceWriter(
            part,
            workers=workers,
            model=model,
            name=name,
            stage=stage,
            reduction=reduction,
            loss_divided_by_workers=loss_divided_by_workers,
            roles=roles,
            metadata={"converted_from": source.name, "pattern": used},
        )
        reader = _Reader(round_to_fp32)
        with writer, tqdm(total=len(table), unit="tensor", disable=not progress, desc="convert") as bar:
            for step in steps:
                for worker in range(workers):
                    for tensor in tensors:
                        writer.add(step, worker, tensor, reader.read(table[step, worker, tensor]))
                        bar.update()
                writer.end_step(step)
        os.rename(part, destination)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Conversion(open_trace(destination), used, tuple(ignored))


def _scan(source: Path) -> list[_Source]:
    """Every array below `source`, in natural order of the paths."""
    if source.is_file():
        root, paths = source.parent, [source]
    elif source.is_dir():
        root, paths = check_readable(source), [p for p in source.rglob("*") if p.suffix in SUFFIXES and p.is_file()]
    else:
        raise ValueError(f"{source} does not exist")
    found = []
    for path in sorted(paths, key=_natural):
        stem = path.relative_to(root).with_suffix("").as_posix()
        for key in _keys(path):
            found.append(_Source(path, key, stem if key is None else f"{stem}/{key}", stem))
    if not found:
        raise ValueError(f"{source} holds no array in an npz, npy or safetensors file")
    return found


def _keys(path: Path) -> list[str | None]:
    if path.suffix == ".npy":
        return [None]
    if path.suffix == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                return [name.removesuffix(".npy") for name in archive.namelist()]
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path} is no npz file: {str(error).rstrip('.')}") from None
    if path.suffix == ".safetensors":
        return [*_core.SafetensorsFile.open(path).names]
    raise ValueError(f"{path} is no npz, npy or safetensors file")


def _natural(path: Path) -> list:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.as_posix())]


def _assign(sources: list[_Source], pattern: str | None) -> tuple[str, dict[tuple[int, int, str], _Source], list[str]]:
    """The pattern used, (step, worker, tensor) -> source, and the addresses left out."""
    if pattern is not None:
        try:
            named = re.compile(pattern).groupindex
        except re.error as error:
            raise ValueError(f"pattern {pattern!r} is no regular expression: {error}") from None
        if unknown := set(named) - {"step", "worker", "tensor"}:
            raise ValueError(f"pattern {pattern!r} has the group {min(unknown)!r}; it may have step, worker, tensor")
        candidates = [pattern]
    else:
        candidates = list(DEFAULT_PATTERNS)
    for candidate in candidates:
        regex = re.compile(candidate)
        matches = [(s, regex.fullmatch(s.address if "tensor" in regex.groupindex else s.stem)) for s in sources]
        if any(m for _, m in matches) and (pattern is not None or all(m for _, m in matches)):
            break
    else:
        what = f"pattern {pattern!r} fits none" if pattern else "no default pattern fits all"
        raise ValueError(
            f"{what} of the {len(sources)} arrays, the first being {sources[0].address!r}; give one with the named groups step, worker and tensor"
        )
    table: dict[tuple[int, int, str], _Source] = {}
    for item, match in matches:
        if match is None:
            continue
        groups = match.groupdict()
        tensor = groups.get("tensor") or item.key
        if not tensor:
            raise ValueError(f"{item.path}: the pattern has no tensor group, and an npy file has no key to name it")
        try:
            key = int(groups.get("step") or 0), int(groups.get("worker") or 0), str(tensor)
        except ValueError:
            raise ValueError(f"pattern {candidate!r} finds a step or worker in {item.address!r} that is no number") from None
        if key in table:
            raise ValueError(f"{table[key].address!r} and {item.address!r} are both step {key[0]}, worker {key[1]}, tensor {tensor!r}")
        table[key] = item
    return candidate, table, [item.address for item, match in matches if match is None]


def _complete(table: dict, source: Path) -> tuple[list[int], int, list[str]]:
    """Steps, number of workers and tensor names; refuses a table with holes, naming some."""
    steps = sorted({step for step, _, _ in table})
    workers = max(worker for _, worker, _ in table) + 1
    tensors = list(dict.fromkeys(tensor for _, _, tensor in table))
    if workers > len(table):
        raise ValueError(f"{source}: worker {workers - 1} is there, but not every worker below it")
    missing = [
        f"(step {step}, worker {worker}, {tensor})"
        for step in steps
        for worker in range(workers)
        for tensor in tensors
        if (step, worker, tensor) not in table
    ]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        total = len(steps) * workers * len(tensors)
        raise ValueError(f"{source}: {len(missing)} of {total} combinations are missing: {shown}")
    return steps, workers, tensors


class _Reader:
    """Reads arrays; keeps the last npz or safetensors file open."""

    def __init__(self, round_to_fp32: bool):
        self._round = round_to_fp32
        self._path: Path | None = None
        self._file: Any = None

    def read(self, item: _Source) -> np.ndarray:
        what = f"{item.path}" + (f": array {item.key!r}" if item.key else "")
        try:
            values = self._values(item)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            if str(item.path) in str(error):
                raise
            raise ValueError(f"{what} cannot be read: {' '.join(str(error).split())}") from None
        return storable(values, what, self._round, remedy="pass --round-to-fp32 to round such values")

    def _values(self, item: _Source) -> np.ndarray:
        if item.path.suffix == ".npy":
            return np.load(item.path, allow_pickle=False)
        if item.path != self._path:
            load = _core.SafetensorsFile.open if item.path.suffix == ".safetensors" else _load_npz
            self._file, self._path = load(item.path), item.path
        if item.path.suffix == ".npz":
            return self._file[item.key]
        if self._file.dtype(item.key) == "F64":
            return np.frombuffer(self._file.bytes(item.key), "<f8").reshape(self._file.shape(item.key))
        return self._file.read(item.key)


def _load_npz(path: Path) -> Any:
    return np.load(path, allow_pickle=False)
