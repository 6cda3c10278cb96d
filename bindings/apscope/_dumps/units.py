"""The parts of a dump that are opened as one, known by content: files, shards, stores."""

from __future__ import annotations

import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from .._limits import SAFETENSORS_HEADER, SENTENCE
from .._text import clip, count_of
from .._traces.sources import File, Source
from .hdf5 import Hdf5Reader
from .numpy_files import NpyReader, NpzReader
from .patterns import compiled
from .reader import Reader
from .safetensors_file import SafetensorsReader, ShardedReader
from .te_statistics import is_te_log
from .torch_files import TorchProcess, TorchReader
from .zarr_store import ZarrReader

#: Extensions of file names, which patterns do not see.
SUFFIXES = (
    ".npz", ".npy", ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".h5", ".hdf5", ".hdf",
    ".zarr",
)  # fmt: skip
_MARKERS = ("zarr.json", ".zgroup", ".zarray")
_SHARD = re.compile(r"(.*?)[-_.]?(\d+)-of-(\d+)(\.safetensors)")
_INDEX = ".safetensors.index.json"


@dataclass(frozen=True)
class Unit:
    """One thing to open.

    Attributes
    ----------
    stem : str
        Its name below the dump, without the extension.
    label : str
        Its name in messages.
    """

    kind: str
    stem: str
    label: str
    files: Sequence[File] = field(repr=False)
    index: File | None = field(repr=False, default=None)
    place: str = field(repr=False, default="")  # of a store's folder, below the dump


class Apart:
    """The parts of a dump that are not opened, or cannot be.

    Attributes
    ----------
    left_out : list of str
        Stems that the pattern does not match.
    broken : dict of str to ValueError
        Stems of unreadable files that are not known to be selected.

    Parameters
    ----------
    pattern, tensors : str or None
        Of the user. A pattern without a tensor group applies to stems: files that do not match are
        not opened.
    """

    def __init__(self, pattern: str | None = None, tensors: str | None = None):
        self.pattern, self._tensors = pattern, tensors
        self.left_out: list[str] = []
        self.broken: dict[str, ValueError] = {}
        self._stems: re.Pattern[str] | None = None
        with suppress(re.error):  # reported when names are read
            self._stems = (
                compiled(pattern)
                if pattern is not None and "tensor" not in compiled(pattern).groupindex
                else None
            )
        self._patient = self._stems is None and (pattern is not None or tensors is not None)

    def selects(self, stem: str) -> bool:
        """Whether the file with this stem must be opened."""
        if self._stems is None or self._stems.fullmatch(stem):
            return True
        self.left_out.append(stem)
        return False

    def report(self, stem: str, error: ValueError) -> None:
        """Raises `error`, or keeps it until names can say whether it matters."""
        if not self._patient:
            raise error
        self.broken.setdefault(stem, error)

    def settle(self, used: str, keys: Iterable[str]) -> None:
        """Raises the first error of a file that would be selected if it had the others' `keys`."""
        addresses = (
            (error, f"{stem}/{key}" if key else stem)
            for stem, error in self.broken.items()
            for key in keys
        )
        for error, address in addresses:
            match = compiled(used).fullmatch(address)
            if match is None and self.pattern is not None:
                continue
            name = address if match is None else match["tensor"] or address
            # A prefix may be removed from the tensors' names.
            ends = [name, *(name[separator.end() :] for separator in re.finditer("[/.]", name))]
            ends += [re.sub("[/.]grad$", "", end) for end in ends]
            if self._tensors is None or any(re.search(self._tensors, end) for end in ends):
                raise error


def find_units(source: Source, apart: Apart) -> tuple[list[Unit], list[str]]:
    """All units that may be selected, in natural order, and the names of files without arrays.

    Raises
    ------
    ValueError
        A damaged file with the extension of an array file, a missing part of several, or no unit at
        all.
    """
    stores, rest = _stores(source)
    stores = [unit for unit in stores if apart.selects(unit.stem)]
    units_of_shards, rest = _shards(rest, apart)
    units, others = [], []
    for unit in [
        *stores,
        *units_of_shards,
        *(
            Unit("", stem_of(file.name), file.label, [file])
            for file in rest
            if apart.selects(stem_of(file.name))
        ),
    ]:
        if lost := next((file for file in unit.files if file.dangling()), None):
            apart.report(
                unit.stem,
                ValueError(
                    f"{lost.label} is a link to {lost.dangling()}, which does not exist; restore "
                    "it, or remove the link"
                ),
            )
            continue
        try:
            kind = unit.kind or _kind(unit.files[0])
        except (ValueError, OSError) as error:
            what = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else error
            apart.report(unit.stem, ValueError(f"{unit.label} {what}"))
            continue
        if kind is None:
            others.append(unit.files[0].name)
        else:
            units.append(replace(unit, kind=kind))
    if not units:
        for left in apart.broken.values():
            raise left
        if apart.left_out:
            raise ValueError(
                f"pattern {apart.pattern!r} matches none of "
                f"{count_of(len(apart.left_out), 'file')}; the first is {apart.left_out[0]!r}"
            )
        if any(map(is_te_log, others)):
            raise ValueError(
                f"{source.text} has statistics of TransformerEngine and no tensors; compare them "
                "with a trace's by apscope info TRACE --beside LOG"
            )
        seen = (
            f"; it has {others[0]}"
            + (f" and {len(others) - 1} other files" if len(others) > 1 else "")
            if others
            else ""
        )
        raise ValueError(
            f"{source.text} has no array in a torch, npz, npy, safetensors, HDF5 or zarr file{seen}"
        )
    places = {file.name: i for i, file in enumerate(source.files)}
    return sorted(units, key=lambda unit: places[unit.files[0].name]), others


def stem_of(name: str) -> str:
    """A file's name without a known extension."""
    return next(
        (
            name[: -len(suffix)]
            for suffix in SUFFIXES
            if name.lower().endswith(suffix) and not name[: -len(suffix)].endswith("/")
        ),
        name,
    )


def _stores(source: Source) -> tuple[list[Unit], list[File]]:
    """Folders that are zarr stores or torch's distributed checkpoints, and all other files."""
    kinds: dict[str, str] = {}
    for file in source.files:
        folder, _, name = file.name.rpartition("/")
        if name in _MARKERS:
            kinds[folder] = "zarr"
        elif name == ".metadata":
            kinds[folder] = "checkpoint"
    roots = {
        folder: kind
        for folder, kind in kinds.items()
        if not any(_inside(folder, other) for other in kinds)
    }
    inside: dict[str, list[File]] = {folder: [] for folder in roots}
    rest: list[File] = []
    for file in source.files:
        root = next((folder for folder in roots if _inside(file.name, folder)), None)
        (rest if root is None else inside[root]).append(file)
    base = source.text.rstrip("/")
    stem = stem_of(base.rsplit("/", 1)[-1])
    units = [
        Unit(
            kind,
            stem_of(folder) if folder else stem,
            f"{base}/{folder}" if folder else base,
            inside[folder],
            place=folder,
        )
        for folder, kind in roots.items()
    ]
    return units, rest


def _inside(name: str, folder: str) -> bool:
    return name != folder and (not folder or name.startswith(f"{folder}/"))


def _shards(files: list[File], apart: Apart) -> tuple[list[Unit], list[File]]:
    """Sets of safetensors files that are parts of one dump, and the other files."""
    groups: dict[str, list[tuple[File, int]]] = {}
    rest, indices = [], {}
    for file in files:
        folder, slash, name = file.name.rpartition("/")
        if match := _SHARD.fullmatch(name):
            group = groups.setdefault(folder + slash + match[1] or "shards", [])
            group.append((file, int(match[3])))
        elif name.endswith(_INDEX):
            indices[folder + slash + name.removesuffix(_INDEX) or "shards"] = file
        else:
            rest.append(file)
    units = []
    for stem in filter(apart.selects, dict.fromkeys([*groups, *indices])):
        index, parts = indices.get(stem), [file for file, _ in groups.get(stem, ())]
        wrong = (
            _wrong_parts(groups[stem])
            if parts
            else f"{indices[stem].label} is an index of parts that are not in its folder"
        )
        if wrong:
            apart.report(stem, ValueError(wrong))
        else:
            units.append(Unit("shards", stem, (index or parts[0]).label, parts, index))
    return units, rest


def _wrong_parts(parts: list[tuple[File, int]]) -> str:
    """The error of files that are parts of a stated number; nothing if all are there."""
    first, count = parts[0]
    for file, total in parts:
        if total != count:
            return (
                f"{file.label} is of {total} parts, {first.name} of {count}; keep the parts of "
                "one dump together"
            )
    lost = count - len(parts)
    return (
        f"{first.label} is one of {count} parts, and {lost} of them are not in its folder"
        if lost
        else ""
    )


def _kind(file: File) -> str | None:
    """The format of one file; None if it is not a dump and does not look like one."""
    head = file.head(24)
    promised = file.name.lower().endswith(SUFFIXES)
    if not head and promised:
        raise ValueError("is empty; dump it again, or remove it")
    # First: a header's length may begin like a pickle or an archive. No other kind has zeros and a
    # brace there.
    length = int.from_bytes(head[:8], "little")
    headed = head[8:9] == b"{" and 2 <= length <= SAFETENSORS_HEADER
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
            "is a pickle that torch.save did not write; it is not opened, because that can run "
            "code: save it with torch.save or numpy.savez"
        )
    if headed:
        return "safetensors"
    if file.name.lower().endswith((".tar", ".gz", ".tgz", ".zst", ".xz", ".7z")):
        raise ValueError("is an archive; unpack it first")
    if promised:
        suffix = next(suffix for suffix in SUFFIXES if file.name.lower().endswith(suffix))
        raise ValueError(
            f"is not a valid {suffix[1:]} file: it begins with {head[:8]!r}; it may be damaged: "
            "dump it again or remove it"
        )
    return None


def _kind_of_archive(file: File) -> str | None:
    try:
        with file.open() as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
    except Exception as error:  # noqa: BLE001  # zipfile raises many kinds
        raise ValueError(
            f"is a damaged npz or torch file: {str(error).rstrip('.')}; dump it again, or remove it"
        ) from None
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    if any(name.endswith("constants.pkl") for name in names):
        raise ValueError(
            "is a TorchScript program, which contains code; save its tensors with torch.save"
        )
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if file.name.lower().endswith(".npz"):
        raise ValueError("is an npz file without arrays; remove it, or dump it again")
    return None


#: Readers of single files that need nothing else.
_READERS: dict[str, Callable[[File], Reader]] = {
    "npy": NpyReader,
    "npz": NpzReader,
    "hdf5": Hdf5Reader,
    "safetensors": SafetensorsReader,
}


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
            It is damaged, or its library is missing; the sentence begins with its name.
        """
        if unit.label in self._open:
            self._open.move_to_end(unit.label)
            return self._open[unit.label]
        while len(self._open) >= self.OPEN:
            self._open.popitem(last=False)[1].close()
        with reading(unit.label):
            reader = self._make(unit)
        self._open[unit.label] = reader
        return reader

    def close(self) -> None:
        """Close all of them."""
        self._torch.close()  # first: without waiting for its reads
        while self._open:
            self._open.popitem()[1].close()

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


@contextmanager
def reading(label: str) -> Iterator[None]:
    """Turns every error of reading a file into one sentence that begins with its name."""
    try:
        yield
    except PermissionError:
        raise ValueError(f"{label} cannot be read: permission denied") from None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # readers raise many kinds
        words = clip(" ".join(str(error).split()) or type(error).__name__, SENTENCE)
        if label in words:
            raise ValueError(words) from None
        remedy = "" if "; " in words else "; it may be damaged: dump it again or remove it"
        raise ValueError(f"{label} cannot be read: {words.rstrip('.')}{remedy}") from None
