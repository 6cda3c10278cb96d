"""Folders that are read and written: what is wrong with one is told before the work, and nothing of others is replaced."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from .._folders.writing import Writing, clear_left, halves, refuse_dangling
from .._text import clip, count_of

__all__ = ["CSV", "CSV_ROWS", "FILES", "MARK", "TABLES", "check_readable", "check_results_folder", "half_written", "what_is", "writing_results"]

#: The tables of a RESULTS folder: the file, and which table it holds; the largest first.
TABLES = {"results.csv": "frame", "results.parquet": "frame", "histograms.parquet": "histograms", "noise.parquet": "noise"}
#: What makes the tables results: it comes last and says what the others are.
MARK = "provenance.json"
FILES = [*TABLES, MARK]
#: The one file that a folder may lack: it is written where the table has at most so many rows, or where it is asked for.
CSV, CSV_ROWS = "results.csv", 200_000


#: Endings of files, and names of those in stores, that a dump of gradients has.
_DUMPS = (".pt", ".pth", ".npz", ".npy", ".safetensors", ".h5", ".hdf5", ".zgroup", ".zarray", "zarr.json", ".metadata")
_CONVERT = "apscope convert makes a trace of a dump of gradients"


def check_readable(folder: str | os.PathLike[str]) -> Path:
    """The path of a folder whose files can be looked at.

    Raises
    ------
    ValueError
        It is there and cannot be read, or is a file.
    """
    folder = Path(folder)
    try:
        os.scandir(folder).close()
        (folder / "manifest.json").exists()
    except PermissionError:
        raise ValueError(f"{folder} cannot be read: permission denied") from None
    except NotADirectoryError:
        remedy = _CONVERT if folder.name.lower().endswith(_DUMPS) else "give a folder"
        raise ValueError(f"{folder} is a file; {remedy}") from None
    except OSError:
        pass  # not there: who opens it knows what was looked for
    return folder


def what_is(folder: Path, missing: str) -> str:
    """Why a folder is not what was asked for: what it is instead, else that it has no file `missing`."""
    if not folder.exists():
        siblings = [p.name for p in folder.parent.iterdir() if p.is_dir()] if folder.parent.is_dir() else []
        near = difflib.get_close_matches(folder.name, siblings, n=1)
        return "it does not exist" + (f"; did you mean {folder.parent / near[0]}?" if near else "")
    if (folder / "manifest.json").exists():
        return "it is a trace; apscope replay makes results of it"
    if half := half_written(folder):
        return f"it {half}"
    if _is_ours(folder):
        return f"its {missing} is missing" if missing in FILES else "it is a RESULTS folder, which apscope summary, compare and report read"
    for name, what in (("manifest.json", "traces"), ("provenance.json", "RESULTS folders")):
        inside = sorted(p.parent.name for p in folder.glob(f"*/{name}"))
        if inside:
            return f"it holds {what}: {', '.join(inside[:6])}{', ...' if len(inside) > 6 else ''}; name them"
    return f"it has no {missing}" + (f"; {_CONVERT}" if _may_be_a_dump(folder) else "")


def half_written(folder: Path) -> str:
    """What a folder is in which a write was interrupted; nothing where none was."""
    left = halves(folder, MARK)
    return f"holds the halves of a write that was interrupted ({left.name}); run the command again" if left else ""


def _may_be_a_dump(folder: Path) -> bool:
    return any(name.lower().endswith(_DUMPS) for _, _, names in islice(os.walk(folder), 1000) for name in names)


def check_results_folder(folder: str | os.PathLike[str], force: bool = False) -> Path:
    """The path of a folder that results can be written to.

    Parameters
    ----------
    folder : path
        A new folder, or one without files of these names.
    force : bool
        Whether files of these names, earlier results or none of apscope's, may be replaced.

    Raises
    ------
    ValueError
        It is a file, a trace, or not writable; a folder stands where a file of the results belongs; without `force`, it
        holds results, or a file that is of the same name and none of apscope's.
    """
    if not os.fspath(folder):
        raise ValueError("the results folder's name is empty; give -o a folder")
    folder = Path(folder)
    place = folder.absolute()
    try:
        place.exists()
    except PermissionError:
        raise ValueError(f"the results folder {folder} cannot be written: permission denied") from None
    if place.exists() and not place.is_dir():
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
            raise ValueError(f"{folder / name} is a folder; a file of the results belongs there")
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if there and not force:
        if half_written(folder):
            return folder  # the halves of a write that a kill ended
        if not (ours := _provenance(folder)):
            raise ValueError(f"{folder / there[0]} is there already and is not of a replay; give another folder, or --force to replace it")
        raise ValueError(
            f"{folder} holds results that would be replaced, of {_held(ours)}; give another folder, or --force (force=True in Python) to replace them"
        )
    return folder


@contextlib.contextmanager
def writing_results(folder: str | os.PathLike[str], force: bool = False) -> Iterator[Writing]:
    """What `Results` writes a RESULTS folder by: checked and locked, so that a second writer is told before its work.

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
    """Of a RESULTS folder; empty where it is none."""
    try:
        provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(provenance, dict) and {"command", "version", "schemes", "traces"} <= set(provenance)
    return provenance if ours else {}


def _held(provenance: dict[str, Any]) -> str:
    """What results are of, in a few words."""
    schemes, traces = provenance["schemes"], [str(t.get("name", "")) for t in provenance["traces"]]
    shard, count = provenance.get("shard", [0, 1])
    first = clip(str(schemes[0]), 60) if schemes else "no scheme"
    more = f" and {count_of(len(schemes) - 1, 'more scheme')}" if len(schemes) > 1 else ""
    return f"{first}{more} on {clip(', '.join(traces), 60)}" + (f" (shard {shard}/{count})" if count > 1 else "")
