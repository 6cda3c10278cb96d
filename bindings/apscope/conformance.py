"""The conformance pack: inputs and results, with digests, to test any implementation of a cast."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from . import _core
from ._arrays.casts import decode, quantize
from ._arrays.dtypes import is_dtype
from ._arrays.inputs import FormatLike, as_format
from ._arrays.options import Options, RoundingOptions
from ._core import FloatFormat
from ._folders.json import read_json
from ._folders.reading import read_limited
from ._folders.writing import Writing, clear_left, halves, is_hidden, refuse_dangling
from ._formats.blackbox import cast_of, name_of, run_cast, same
from ._formats.formats import named_formats
from ._formats.identify import identify
from ._limits import JSON_LENGTH, MANIFEST_LENGTH
from ._text import printable

__all__ = ["OVERFLOWS", "ROUNDINGS", "Check", "check", "inputs_of", "pack_formats", "write"]
__dir__ = __all__.copy

ROUNDINGS = tuple(name for name in _core.rounding_modes() if not name.startswith("stochastic"))
OVERFLOWS = ("ieee", "saturate")
KIND = "apscope conformance pack"
VERSION = 1
NAN = 0x7FC00000
STRIDE = 8  # of the codes of a 16-bit format, away from its limits

CHECK = Options(RoundingOptions, without=("random_bits", "seed", "threads"))

# fp32 patterns for every format: zeros, infinities, fp32's own limits, patterns that casts have
# rounded wrongly.
EDGES = (
    0x00000000, 0x00000001, 0x00000002, 0x000116C2, 0x003FFFFF, 0x00400000, 0x00400001, 0x00600000,
    0x007FFFFF, 0x00800000,
    0x00800001, 0x37000000, 0x37000001, 0x3A800000, 0x3A800001, 0x3F7FFFFF, 0x3F800000, 0x3F800001,
    0x3FC00000, 0x41400000,
    0x43780000, 0x437FFD71, 0x43E80000, 0x43E80001, 0x43FA0000, 0x47700000, 0x477FF000, 0x477FF001,
    0x47800000, 0x47FFFFFF,
    0x7F000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FA00000, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001,
    0x7FFFE000, 0x7FFFFFFF,
)  # fmt: skip


def pack_formats() -> list[str]:
    """The named formats of a pack: those of at most 16 bits.

    Returns
    -------
    list of str
        Canonical names.
    """
    return [name for name, f in named_formats().items() if f.storage_bits <= 16]


def inputs_of(format: FormatLike) -> np.ndarray:
    """The pack's inputs for a format of at most 16 bits.

    Parameters
    ----------
    format : FloatFormat, str or dtype

    Returns
    -------
    uint32 array, ascending, without repetition
        fp32 patterns: `EDGES`, every power of two, and for chosen finite magnitudes v of the format
        v itself, the midpoint to the next magnitude and the fp32 neighbours of both; above the
        largest magnitude the midpoint to the value that would follow. All of them with both signs.
        For a format of up to 8 bits all magnitudes are chosen; for a wider one those next to a
        power of two, the lowest and the highest 64, and every eighth of the others.

    Raises
    ------
    ValueError
        An unknown format, or one of more than 16 bits.
    """
    f = as_format(format)
    if f.storage_bits > 16:
        raise ValueError(
            f"{f.name} has {f.storage_bits} bits; the conformance pack covers formats of at most 16"
        )
    codes = np.arange(2 ** (f.storage_bits - f.is_signed), dtype=np.uint16)
    values = decode(codes, f).astype(np.float64)
    values = values[np.isfinite(values)]
    # One quantum beyond the largest value: where the next one would be if the format went on.
    beyond = values[-1] + 2.0 ** (np.frexp(values[-1])[1] - f.precision)
    after = np.append(values[1:], beyond)
    if f.storage_bits > 8:
        k = np.arange(len(values))
        field = k & ((1 << f.mantissa_bits) - 1)
        edge = (k < 64) | (k >= len(values) - 64) | (field <= 1) | (field == field.max())
        chosen = edge | (k % STRIDE == 0)
        values, after = values[chosen], after[chosen]
    points = np.concatenate([values, (values + after) / 2, [beyond], 2.0 ** np.arange(-149, 128)])
    with np.errstate(over="ignore"):
        bits = points.astype(np.float32).view(np.uint32).astype(np.int64)  # exact, or beyond fp32
    bits = np.concatenate([bits - 1, bits, bits + 1])
    bits = np.concatenate([bits[(bits >= 0) & (bits <= 0x7F800000)], np.array(EDGES)])
    return np.unique(np.concatenate([bits, bits | 0x80000000])).astype("<u4")


def expected(inputs: np.ndarray, format: FormatLike, rounding: str, overflow: str) -> np.ndarray:
    """The fp32 patterns of the results; every NaN is 0x7FC00000."""
    y = quantize(
        inputs.astype(np.uint32).view(np.float32), format, rounding=rounding, overflow=overflow
    )
    bits = y.view(np.uint32).copy()
    bits[np.isnan(y)] = NAN
    return bits.astype("<u4")


def write(directory: str | Path, formats: Sequence[str] | None = None) -> dict[str, Any]:
    """Write a conformance pack.

    Parameters
    ----------
    directory : str or Path
        Made if needed; must be empty. The manifest is written last: a folder without one is not a
        pack.
    formats : sequence of str, optional
        Names or aliases; by default every named format of at most 16 bits (about 20 MB).

    Returns
    -------
    dict
        The manifest, as docs/conformance.md describes it. The same formats give the same bytes.

    Raises
    ------
    ValueError
        A directory that is not empty, an unknown format, or one of more than 16 bits.
    """
    chosen = [FloatFormat(name) for name in formats or pack_formats()]
    for f in chosen:
        if f.storage_bits > 16:
            raise ValueError(
                f"{f.name} has {f.storage_bits} bits; the conformance "
                "pack covers formats of at most 16"
            )
    directory = Path(directory)
    refuse_dangling(directory)
    try:
        _refuse_used(directory)
    except ValueError:
        clear_left(directory, "apscope conformance write")
        raise
    with Writing(directory, "apscope conformance write") as writing:
        _refuse_used(directory)  # another process may have written it before the lock was held
        manifest = _write_pack(writing.new, chosen)
        writing.put_files(
            [path.name for path in writing.new.iterdir()], mark="manifest.json"
        ) if writing.into else writing.put_folder()
        writing.clear()
    return manifest


def _refuse_used(directory: Path) -> None:
    if directory.exists() and not _is_free(directory):
        raise ValueError(f"{directory} is not an empty folder; give a new one")


def _is_free(directory: Path) -> bool:
    """Whether it is an empty folder, or has the remains of a killed write of a pack."""
    names = (
        {path.name for path in directory.iterdir() if not is_hidden(path)}
        if directory.is_dir()
        else {""}
    )
    return not names or bool(
        halves(directory, "manifest.json") and all(name.endswith(".bin") for name in names)
    )


def _write_pack(directory: Path, chosen: Sequence[FloatFormat]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for f in dict.fromkeys(chosen):
        inputs = inputs_of(f)
        files = {"inputs": _store(directory, f"{f.name}.inputs.bin", inputs)}
        codes = decode(np.arange(2**f.storage_bits, dtype=np.uint16), f)
        table = codes.view(np.uint32).copy()
        table[np.isnan(codes)] = NAN
        files["table"] = _store(directory, f"{f.name}.table.bin", table.astype("<u4"))
        results = {}
        for overflow in OVERFLOWS:
            for rounding in ROUNDINGS:
                name = f"{f.name}.{rounding}.{overflow}.bin"
                results[f"{rounding}.{overflow}"] = _store(
                    directory, name, expected(inputs, f, rounding, overflow)
                )
        entries[f.name] = {
            "descriptor": f.to_dict(),
            "count": len(inputs),
            **files,
            "results": results,
        }
    manifest = {
        "kind": KIND,
        "version": VERSION,
        "word": "uint32, little-endian",
        "nan": f"{NAN:#x}",
        "formats": entries,
    }
    (directory / "manifest.json").write_text(
        json.dumps(manifest, indent=1) + "\n", encoding="utf-8"
    )
    return manifest


def _store(directory: Path, name: str, words: np.ndarray) -> dict[str, str]:
    data = words.tobytes()
    (directory / name).write_bytes(data)
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest()}


def read_manifest(directory: str | Path) -> dict[str, Any]:
    """The manifest of a pack; ValueError if it is not one."""
    path = Path(directory) / "manifest.json"
    if not path.is_file():
        raise ValueError(f"{directory} is not a conformance pack: it has no manifest.json")
    try:
        manifest = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error}; write the pack again") from None
    if (
        not isinstance(manifest, dict)
        or manifest.get("kind") != KIND
        or manifest.get("version") != VERSION
    ):
        raise ValueError(f"{path} is not a manifest of a conformance pack of version {VERSION}")
    if not isinstance(formats := manifest.get("formats"), dict):
        raise ValueError(f"{path}: formats is missing or not an object; write the pack again")
    for name, entry in formats.items():
        results = entry.get("results") if isinstance(entry, dict) else None
        if not isinstance(results, dict) or not all(
            map(_is_file, (entry.get("inputs"), entry.get("table"), *results.values()))
        ):
            raise ValueError(
                f"{path}: formats.{printable(name)} must have inputs, table and results, each with "
                "file, a name in this folder, and sha256; write the pack again"
            )
    return manifest


def _is_file(about: object) -> bool:
    """Whether it names a file of the pack's folder, with its digest."""
    if (
        not isinstance(about, dict)
        or not isinstance(about.get("sha256"), str)
        or not isinstance(name := about.get("file"), str)
    ):
        return False
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def is_pack(directory: Path) -> bool:
    """Whether the manifest.json of a folder is that of a pack, even a damaged one."""
    try:
        manifest = read_json(directory / "manifest.json", MANIFEST_LENGTH)
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def pack_problems(directory: Path) -> Iterator[str]:
    """A sentence for every file of a pack that is missing or differs from its manifest."""
    manifest = read_manifest(directory)
    for entry in manifest["formats"].values():
        for about in (entry["inputs"], entry["table"], *entry["results"].values()):
            try:
                _read(directory, about)
            except (ValueError, OSError) as error:
                yield str(error)


def _read(directory: Path, entry: dict[str, str]) -> np.ndarray:
    path = directory / entry["file"]
    data = read_limited(path, JSON_LENGTH)
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise ValueError(
            f"{path} does not have the SHA-256 that manifest.json gives; write the pack again"
        )
    return np.frombuffer(data, "<u4").astype(np.uint32)


@dataclasses.dataclass(frozen=True)
class Check:
    """One cast against one list of results.

    Attributes
    ----------
    format, rounding, overflow : str
        The rule that the cast was compared with.
    inputs, differing : int
        Cases, and those with a different result: any NaN equals any NaN, -0 is not +0.
    first : str
        The first differing input as fp32 pattern and value, the cast's result, the correct result;
        empty if none differs.
    """

    format: str
    rounding: str
    overflow: str
    inputs: int
    differing: int
    first: str


@CHECK
def check(
    directory: str | Path,
    cast: Any,
    *,
    format: FormatLike | None = None,
    **options: Unpack[RoundingOptions],
) -> Check:
    """Run a cast on a pack.

    Parameters
    ----------
    directory : str or Path
        A folder made by `write`. The SHA-256 of the files that are read (inputs, codes, these
        results) is checked.
    cast : callable or dtype
        Takes a float32 array and returns one of the same shape: values, or integers, which are
        codes of the format. Or a dtype of NumPy, ml_dtypes or torch, whose conversion from float32
        is used.
    format : FloatFormat, str or dtype, optional
        A format of the pack. By default that of `identify` for a dtype; required for a callable.
    **options
        Which results: a rounding of `ROUNDINGS` and a rule of `OVERFLOWS`.

    Returns
    -------
    Check

    Raises
    ------
    ValueError
        No pack, a file that was changed, a format, rounding or overflow the pack does not have, a
        cast that does not return one number per input.
    """
    s = CHECK.settings(options)
    manifest = read_manifest(directory)
    if format is None:
        if not is_dtype(cast):
            raise ValueError(f"the format of {name_of(cast)} is unknown; name it (--format NAME)")
        format = identify(cast)[0].name
    name = as_format(format).name
    entry = manifest["formats"].get(name)
    if entry is None:
        raise ValueError(
            f"the pack {directory} has no format '{name}'; it has "
            f"{', '.join(map(printable, manifest['formats']))}"
        )
    rounding, overflow = s.projection.rounding, s.projection.overflow
    if rounding not in ROUNDINGS:
        raise ValueError(f"the pack has no rounding '{rounding}'; it has {', '.join(ROUNDINGS)}")
    if overflow not in OVERFLOWS:
        raise ValueError(f"the pack has no overflow '{overflow}'; it has {', '.join(OVERFLOWS)}")
    if (which := f"{rounding}.{overflow}") not in entry["results"]:
        raise ValueError(
            f"the pack {directory} has no results of {which} for {name}; write the pack again"
        )
    directory = Path(directory)
    inputs = _read(directory, entry["inputs"]).view(np.float32)
    right = _read(directory, entry["results"][which]).view(np.float32).astype(np.float64)
    got = _as_values(run_cast(cast_of(cast), inputs), _read(directory, entry["table"]))
    wrong = np.flatnonzero(~same(got, right))
    first = describe(inputs[wrong[0]], got[wrong[0]], right[wrong[0]]) if wrong.size else ""
    return Check(name, rounding, overflow, len(inputs), int(wrong.size), first)


def _as_values(got: np.ndarray, table: np.ndarray) -> np.ndarray:
    if got.dtype.kind != "i":
        return got
    if got.size and not 0 <= got.min() <= got.max() < len(table):
        bad = got.min() if got.min() < 0 else got.max()
        raise ValueError(
            f"the cast returned the integer {bad}; codes of this format are 0 to {len(table) - 1}"
        )
    return table.view(np.float32)[got].astype(np.float64)


def describe(x: np.float32, got: float, right: float) -> str:
    """An input with the actual and the correct result."""
    return (
        f"{int(np.float32(x).view(np.uint32)):#010x} ({float(x):.9g}) gives {got:.9g}, correct "
        f"is {right:.9g}"
    )
