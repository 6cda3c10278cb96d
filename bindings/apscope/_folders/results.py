"""Checks folders before reading and writing; files of other programs are never replaced."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from .._text import clip, count_of
from .json import read_json
from .reading import refuse_special
from .writing import Writing, clear_left, halves, refuse_dangling

__all__ = [
    "AGAIN",
    "CSV",
    "CSV_ROWS",
    "FILES",
    "MARK",
    "OPTIONAL",
    "TABLES",
    "check_readable",
    "check_results_folder",
    "differs",
    "half_written",
    "what_is",
    "writing_results",
]

#: The tables of a RESULTS folder: the file and its table; the largest first.
TABLES = {
    "results.csv": "frame",
    "results.parquet": "frame",
    "histograms.parquet": "histograms",
    "noise.parquet": "noise",
    "limit.parquet": "limit",
    "persistence.parquet": "persistence",
}
#: The file that makes the tables valid: written last, it describes the others.
MARK = "provenance.json"
FILES = [*TABLES, MARK]
#: A file that a folder may lack: it is written where the table has at most so many rows, or where
#: it is asked for.
CSV, CSV_ROWS = "results.csv", 200_000
#: Files that a folder may lack; the last two are written where they are asked for and known.
OPTIONAL = (CSV, "limit.parquet", "persistence.parquet")
#: The remedy for a damaged file.
AGAIN = "replay the trace again"

#: Extensions of a dump's files, and names of files in stores.
_DUMPS = (
    ".pt",
    ".pth",
    ".npz",
    ".npy",
    ".safetensors",
    ".h5",
    ".hdf5",
    ".zgroup",
    ".zarray",
    "zarr.json",
    ".metadata",
)
_CONVERT = "apscope convert makes a trace of a dump of gradients"


def check_readable(folder: str | os.PathLike[str]) -> Path:
    """The path of a folder whose files can be looked at.

    Raises
    ------
    ValueError
        It exists and cannot be read, or is a file, a pipe or a device.
    """
    folder = Path(folder)
    try:
        os.scandir(folder).close()
        (folder / "manifest.json").exists()
    except PermissionError:
        raise ValueError(f"{folder} cannot be read: permission denied") from None
    except NotADirectoryError:
        refuse_special(folder, "a folder")
        remedy = _CONVERT if folder.name.lower().endswith(_DUMPS) else "give a folder"
        raise ValueError(f"{folder} is a file; {remedy}") from None
    except OSError:
        pass  # missing: its reader reports that
    return folder


def what_is(folder: Path, missing: str) -> str:
    """Why a folder is not of the expected kind: its actual kind, else that `missing` is missing."""
    if not folder.exists():
        siblings = (
            [p.name for p in folder.parent.iterdir() if p.is_dir()]
            if folder.parent.is_dir()
            else []
        )
        near = difflib.get_close_matches(folder.name, siblings, n=1)
        return "it does not exist" + (f"; did you mean {folder.parent / near[0]}?" if near else "")
    if (folder / "manifest.json").exists():
        return "it is a trace; apscope replay makes results of it"
    if (folder / "experiment.json").exists():
        return (
            "it is an experiment of apscope train, which apscope report reads; "
            f"{folder / 'traces'} "
            "has its recorded gradients"
        )
    if half := half_written(folder):
        return f"it {half}"
    if _is_ours(folder):
        return (
            f"its {missing} is missing"
            if missing in FILES
            else "it is a RESULTS folder, which apscope summary, compare and report read"
        )
    for name, what in (("manifest.json", "traces"), ("provenance.json", "RESULTS folders")):
        inside = sorted(p.parent.name for p in folder.glob(f"*/{name}"))
        if inside:
            return f"it contains {what}: {', '.join(inside[:6])}{', ...' if len(inside) > 6 else ''}; name them"
    return f"it has no {missing}" + (f"; {_CONVERT}" if _may_be_a_dump(folder) else "")


def half_written(folder: Path) -> str:
    """The description of a folder with an interrupted write; else nothing."""
    left = halves(folder, MARK)
    return (
        f"has the remains of an interrupted write ({left.name}); run the command again"
        if left
        else ""
    )


def _may_be_a_dump(folder: Path) -> bool:
    return any(
        name.lower().endswith(_DUMPS)
        for _, _, names in islice(os.walk(folder), 1000)
        for name in names
    )


def check_results_folder(folder: str | os.PathLike[str], force: bool = False) -> Path:
    """The path of a folder that results can be written to.

    Parameters
    ----------
    folder : path
        A new folder, or one without files of these names.
    force : bool
        Whether files of these names, earlier results or not from apscope, may be replaced.

    Raises
    ------
    ValueError
        It is a file, a trace, or not writable; a folder has the name of a file of the results;
        without `force`, it has results, or a file of the same name that is not from apscope.
    """
    if not os.fspath(folder):
        raise ValueError("the results folder's name is empty; give -o a folder")
    folder = Path(folder)
    place = folder.absolute()
    try:
        place.exists()
    except PermissionError:
        raise ValueError(
            f"the results folder {folder} cannot be written: permission denied"
        ) from None
    if place.exists() and not place.is_dir():
        refuse_special(folder, "a folder for the results")
        raise ValueError(f"{folder} is a file; give a folder for the results")
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise ValueError(f"{folder} cannot be made: {place} is a file")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"the results folder {folder} cannot be written: {place} is not writable")
    refuse_dangling(folder)
    if (folder / "manifest.json").exists():
        raise ValueError(f"{folder} is a trace; give another folder for the results")
    for name in FILES:
        if (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a folder, but results need a file of this name")
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if there and not force:
        if half_written(folder):
            return folder  # the remains of a killed write
        if not (ours := _provenance(folder)):
            raise ValueError(
                f"{folder / there[0]} exists and is not from a replay; give another folder, or "
                "--force to replace it"
            )
        raise ValueError(
            f"{folder} has results that would be replaced, of {_in_short(ours)}; give another folder, "
            "or --force (force=True in Python) to replace them"
        )
    return folder


def differs(path: Path, what: str, value: object, expected: object) -> str:
    """The message about a file that differs from provenance.json."""
    return (
        f"{path} is damaged or from another run: its {what} is "
        f"{value}, but {MARK} says {expected}; {AGAIN}"
    )


@contextlib.contextmanager
def writing_results(folder: str | os.PathLike[str], force: bool = False) -> Iterator[Writing]:
    """Checks and locks a RESULTS folder for `Results`, so a second writer fails at once.

    Raises
    ------
    ValueError
        As :func:`check_results_folder`; or another process writes it.
    """
    try:
        check_results_folder(folder, force)
    except ValueError:
        clear_left(folder, "apscope")
        raise
    with Writing(folder, "apscope") as writing:
        check_results_folder(folder, force)
        yield writing


def _is_ours(folder: Path) -> bool:
    return bool(_provenance(folder))


def _provenance(folder: Path) -> dict[str, Any]:
    """The provenance of a RESULTS folder; empty if it is not one."""
    try:
        provenance = read_json(folder / "provenance.json")
    except (OSError, ValueError):
        return {}
    ours = isinstance(provenance, dict) and {"command", "version", "schemes", "traces"} <= set(
        provenance
    )
    return provenance if ours else {}


def _in_short(provenance: dict[str, Any]) -> str:
    """A short description of results."""
    schemes, traces = provenance["schemes"], [str(t.get("name", "")) for t in provenance["traces"]]
    shard, count = provenance.get("shard", [0, 1])
    first = clip(str(schemes[0]), 60) if schemes else "no scheme"
    more = f" and {count_of(len(schemes) - 1, 'more scheme')}" if len(schemes) > 1 else ""
    return f"{first}{more} on {clip(', '.join(traces), 60)}" + (
        f" (shard {shard}/{count})" if count > 1 else ""
    )
