"""What of a dump is opened as one: a file, the shards of one, or a folder that is a store. Known by content, not by ending."""

from __future__ import annotations

import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .hdf5 import Hdf5Reader
from .numpy_files import NpyReader, NpzReader
from .reader import Reader
from .safetensors_file import MAX_HEADER, SafetensorsReader, ShardedReader
from .sources import File, Source
from .te_statistics import is_te_log
from .torch_files import TorchProcess, TorchReader
from .zarr_store import ZarrReader

#: What file names may end with; it is no part of what patterns see.
SUFFIXES = (".npz", ".npy", ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".h5", ".hdf5", ".hdf", ".zarr")
#: Kinds that are folders.
STORES = ("zarr", "checkpoint")
_MARKERS = ("zarr.json", ".zgroup", ".zarray")
_SHARD = re.compile(r"(.*?)[-_.]?(\d+)-of-(\d+)(\.safetensors)")
_INDEX = ".safetensors.index.json"


@dataclass(frozen=True)
class Unit:
    """One thing to open.

    Attributes
    ----------
    stem : str
        Its name below the dump, without the ending.
    label : str
        What messages call it.
    """

    kind: str
    stem: str
    label: str
    files: Sequence[File] = field(repr=False)
    index: File | None = field(repr=False, default=None)
    place: str = field(repr=False, default="")  # of a store's folder, below the dump


def find_units(source: Source) -> tuple[list[Unit], list[str]]:
    """All units, in natural order, and the names of files that hold no array.

    Raises
    ------
    ValueError
        A file whose name promises arrays and that is damaged, a part of several that is missing, or no unit at all.
    """
    units, rest = _stores(source)
    units_of_shards, rest = _shards(rest)
    units += units_of_shards
    for file in [file for unit in units for file in unit.files] + rest:
        if target := file.dangling():
            raise ValueError(f"{file.label} is a link to {target}, which is not there; bring it back, or take the link away")
    others = []
    for file in rest:
        try:
            kind = _kind(file)
        except ValueError as error:
            raise ValueError(f"{file.label} {error}") from None
        if kind is None:
            others.append(file.name)
        else:
            units.append(Unit(kind, stem_of(file.name), file.label, [file]))
    if not units:
        if any(map(is_te_log, others)):
            raise ValueError(
                f"{source.text} holds statistics of TransformerEngine and no tensors; they stand beside a trace's with apscope info TRACE --beside LOG"
            )
        seen = f"; it holds {others[0]}" + (f" and {len(others) - 1} other files" if len(others) > 1 else "") if others else ""
        raise ValueError(f"{source.text} holds no array in a torch, npz, npy, safetensors, HDF5 or zarr file{seen}")
    places = {file.name: i for i, file in enumerate(source.files)}
    return sorted(units, key=lambda unit: places[unit.files[0].name]), others


def stem_of(name: str) -> str:
    """A file's name without an ending that is a known one."""
    return next((name[: -len(suffix)] for suffix in SUFFIXES if name.lower().endswith(suffix) and not name[: -len(suffix)].endswith("/")), name)


def _stores(source: Source) -> tuple[list[Unit], list[File]]:
    """Folders that are zarr stores or torch's distributed checkpoints, and the files outside of them."""
    kinds: dict[str, str] = {}
    for file in source.files:
        folder, _, name = file.name.rpartition("/")
        if name in _MARKERS:
            kinds[folder] = "zarr"
        elif name == ".metadata":
            kinds[folder] = "checkpoint"
    roots = {folder: kind for folder, kind in kinds.items() if not any(_inside(folder, other) for other in kinds)}
    inside: dict[str, list[File]] = {folder: [] for folder in roots}
    rest: list[File] = []
    for file in source.files:
        root = next((folder for folder in roots if _inside(file.name, folder)), None)
        (rest if root is None else inside[root]).append(file)
    base = source.text.rstrip("/")
    own = stem_of(base.rsplit("/", 1)[-1])
    found = [
        Unit(kind, stem_of(folder) if folder else own, f"{base}/{folder}" if folder else base, inside[folder], place=folder)
        for folder, kind in roots.items()
    ]
    return found, rest


def _inside(name: str, folder: str) -> bool:
    return name != folder and (not folder or name.startswith(f"{folder}/"))


def _shards(files: list[File]) -> tuple[list[Unit], list[File]]:
    """Sets of safetensors files that are one dump's parts, and the other files."""
    groups: dict[str, list[File]] = {}
    counts: dict[str, int] = {}
    rest, indices = [], {}
    for file in files:
        folder, slash, name = file.name.rpartition("/")
        if found := _SHARD.fullmatch(name):
            stem = folder + slash + found[1]
            groups.setdefault(stem, []).append(file)
            if counts.setdefault(stem, int(found[3])) != int(found[3]):
                raise ValueError(
                    f"{file.label} is of {int(found[3])} parts, {groups[stem][0].name} of {counts[stem]}; keep the parts of one dump together"
                )
        elif name.endswith(_INDEX):
            indices[folder + slash + name.removesuffix(_INDEX)] = file
        else:
            rest.append(file)
    for stem, parts in groups.items():
        if len(parts) != counts[stem]:
            raise ValueError(f"{parts[0].label} is one of {counts[stem]} parts, and {counts[stem] - len(parts)} of them are not beside it")
    for stem, index in indices.items():
        if stem not in groups:
            raise ValueError(f"{index.label} is an index of parts that are not beside it")
    return [Unit("shards", stem or "shards", (indices.get(stem) or parts[0]).label, parts, indices.get(stem)) for stem, parts in groups.items()], rest


def _kind(file: File) -> str | None:
    """The format of one file; None for what is no dump and does not look like one."""
    head = file.head(24)
    promised = file.name.lower().endswith(SUFFIXES)
    if not head and promised:
        raise ValueError("is empty; dump it again, or take it away")
    # First: the length of a header may begin as a pickle or an archive does. None of the other kinds has zeros and a brace there.
    length = int.from_bytes(head[:8], "little")
    headed = head[8:9] == b"{" and 2 <= length <= MAX_HEADER
    if headed and (length <= file.size - 8 or file.name.lower().endswith(".safetensors")):
        return "safetensors"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return "hdf5"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _kind_of_archive(file)
    if head.startswith(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."):
        return "torch"
    if head[:1] == b"\x80" and (promised or file.name.endswith((".pkl", ".pickle"))):
        raise ValueError(
            "is a pickle that torch.save did not write; it is not opened, because that can run code: save it with torch.save or numpy.savez"
        )
    if headed:
        return "safetensors"
    if file.name.lower().endswith((".tar", ".gz", ".tgz", ".zst", ".xz", ".7z")):
        raise ValueError("is an archive; unpack it first")
    if promised:
        suffix = next(suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix))
        raise ValueError(f"is no {suffix[1:]} file: it begins with {head[:8]!r}; it may be damaged, so dump it again or take it away")
    return None


def _kind_of_archive(file: File) -> str | None:
    try:
        with file.open() as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
    except Exception as error:  # noqa: BLE001  # zipfile raises many kinds
        raise ValueError(f"is a damaged npz or torch file: {str(error).rstrip('.')}; dump it again, or take it away") from None
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    if any(name.endswith("constants.pkl") for name in names):
        raise ValueError("is a TorchScript program, which holds code; save its tensors with torch.save")
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if file.name.lower().endswith(".npz"):
        raise ValueError("is an npz file without arrays; take it away, or dump it again")
    return None


#: Readers of what is one file and needs nothing else.
_READERS: dict[str, Callable[[File], Reader]] = {"npy": NpyReader, "npz": NpzReader, "hdf5": Hdf5Reader, "safetensors": SafetensorsReader}


class Readers:
    """Opens units, and keeps the last few open.

    Parameters
    ----------
    source : Source
    trust_pickle : bool
        Whether the pickles of distributed checkpoints may be opened.
    python : str, optional
        The interpreter that has torch.
    """

    OPEN = 16

    def __init__(self, source: Source, *, trust_pickle: bool = False, python: str | None = None):
        self._source, self._trust = source, trust_pickle
        self._torch = TorchProcess(python)
        self._open: OrderedDict[str, Reader] = OrderedDict()

    def open(self, unit: Unit) -> Reader:
        """The unit's reader.

        Raises
        ------
        ValueError
            It is damaged, or the library that reads it is missing; the sentence begins with its name.
        """
        if unit.label in self._open:
            self._open.move_to_end(unit.label)
            return self._open[unit.label]
        while len(self._open) >= self.OPEN:
            self._open.popitem(last=False)[1].close()
        with told(unit.label):
            reader = self._make(unit)
        self._open[unit.label] = reader
        return reader

    def close(self) -> None:
        """Close all of them."""
        while self._open:
            try:
                self._open.popitem()[1].close()
            except ValueError:
                continue  # of torch's process, which ended before
        self._torch.close()

    def _make(self, unit: Unit) -> Reader:
        file = unit.files[0]
        if unit.kind == "zarr":
            root = str(file.place)[: len(str(file.place)) - len(file.name)] + unit.place
            return ZarrReader(root.rstrip("/"), self._source)
        if unit.kind == "shards":
            return ShardedReader(list(unit.files), unit.index)
        if unit.kind == "checkpoint":
            paths = [part.local() for part in unit.files]
            folder = next(path for path in paths if path.name == ".metadata").parent
            return TorchReader(folder, self._torch, checkpoint=True, trusted=self._trust)
        if unit.kind == "torch":
            return TorchReader(file.local(), self._torch)
        return _READERS[unit.kind](file)


class told:  # noqa: N801  # used as a word of a with statement
    """Whatever goes wrong while a file is read becomes one sentence that begins with its name."""

    def __init__(self, label: str):
        self._label = label

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PermissionError):
            raise ValueError(f"{self._label} cannot be read: permission denied") from None
        if isinstance(error, Exception) and not isinstance(error, MemoryError):
            words = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(words if self._label in words else f"{self._label} cannot be read: {words}") from None
