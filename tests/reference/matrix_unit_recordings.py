"""What matrix units answered, as they were recorded, and which unit of matrix_units.py each was.

    python -m tests.reference.matrix_unit_recordings FOLDER [--sample FILE]

compares every result of the published recordings with the reference: FOLDER is the folder
model_validation of MATLAB-tensor-core (tests/data/README.md). --sample writes the cases that
tests/data keeps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .matrix_units import DTYPES, RESULTS, UNITS, values

DATA = Path(__file__).parents[1] / "data"
H100 = DATA / "matrix_units_h100.npz"
PUBLISHED = DATA / "matrix_units_published.npz"

#: Names of formats in file names.
FORMATS = {
    "f16": "fp16",
    "fp16": "fp16",
    "bf16": "bf16",
    "tf32": "tf32",
    "e4m3": "e4m3fn",
    "E4M3": "e4m3fn",
    "e5m2": "e5m2",
    "E5M2": "e5m2",
}
#: The published recordings' devices, and the unit of each; its FP8 with fp32 and fp16 results.
DEVICES = {
    "V100": ("v100", "", ""),
    "A100": ("a100", "", ""),
    "A2": ("a100", "", ""),
    "Ada": ("ada", "ada:fp8", "ada:fp8_fp16"),
    "L40S": ("ada", "ada:fp8", ""),
    "H100": ("h100", "h100:fp8", "h100:mma_fp8_fp16"),
    "H200": ("h100", "h100:fp8", "h100:mma_fp8_fp16"),
    "B200": ("b200", "h100:mma_fp8", "h100:mma_fp8_fp16"),
}
SAMPLED = 20  # every so many cases of the published recordings are in the sample


@dataclass(frozen=True)
class Recording:
    """`a`, `b`: float64 values (cases, K); `c`: (cases); `d`: the results' bits (cases)."""

    name: str
    unit: str
    form: str
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray

    def differing(self, unit: object = None) -> int:
        """How many of the results are not the unit's."""
        d = (unit or UNITS[self.unit]).dot(self.a, self.b, self.c, self.form)
        return int(np.count_nonzero(d.view(self.d.dtype) != self.d))


def unit_of_tile(instruction: str, form: str) -> str:
    """Which unit of an H100 an instruction is: mma or wgmma."""
    if form in ("e4m3fn", "e5m2"):
        return "h100:fp8" if instruction == "wgmma" else "h100:mma_fp8"
    return "h100:tf32" if form == "tf32" else "h100"


def tiles(arrays: Mapping[str, np.ndarray], name: str, unit: str, form: str) -> Recording:
    """Each result of tiles a (cases, m, k), b (cases, k, n), c and d (cases, m, n) with its row and
    its column. The bits of d say whether results, and C, are fp32 or fp16."""
    a, b = (values(arrays[f"{name}_{part}"], form) for part in "ab")
    d = arrays[f"{name}_d"]
    shape = (*d.shape, a.shape[-1])
    result = "fp32" if d.itemsize == 4 else "fp16"
    return Recording(
        name,
        unit,
        form,
        np.broadcast_to(a[:, :, None, :], shape).reshape(-1, shape[-1]),
        np.broadcast_to(b.transpose(0, 2, 1)[:, None], shape).reshape(-1, shape[-1]),
        values(arrays[f"{name}_c"], result).reshape(-1),
        d.reshape(-1),
    )


def of_h100() -> Iterator[Recording]:
    """The recordings of one H100, whole."""
    with np.load(H100) as arrays:
        for name in sorted({key.rpartition("_")[0] for key in arrays}):
            instruction, kind = name.split("_")
            form = FORMATS[kind]
            yield tiles(arrays, name, unit_of_tile(instruction, form), form)


def published(
    device: str, kind: str, result: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> Recording:
    """Of fp32 values of the operands and C, and of the results."""
    form, (half, fp8, fp8_fp16) = FORMATS[kind], DEVICES[device]
    if kind.isupper():
        unit = fp8 if result == "fp32" else fp8_fp16
    else:
        unit = half + (":tf32" if form == "tf32" else ":fp16" if result == "fp16" else "")
    if unit == "h100:fp8":
        c = np.zeros_like(c)  # the authors recorded wgmma with a C of zero
    a, b, c = (v.astype(np.float64) for v in (a, b, c))
    dtype = RESULTS[result][0]
    name = f"{device} {kind} {result}"
    return Recording(name, unit, form, a, b, c, d.astype(dtype).view(f"u{dtype().itemsize}"))


def of_sample() -> Iterator[Recording]:
    """Every 20th case of the published recordings."""
    with np.load(PUBLISHED) as arrays:
        for key in sorted(key for key in arrays if "_d_" in key):
            device, kind, _, result = key.split("_")
            k = arrays[f"{device}_{kind}_k"].item()
            a, b = (values(arrays[f"{kind}_{k}_{part}"], FORMATS[kind]) for part in "ab")
            yield published(device, kind, result, a, b, arrays[f"{device}_{kind}_c"], arrays[key])


def read_text(path: Path) -> np.ndarray:
    """fp32 numbers, as 8 hexadecimal or 32 binary digits each; the rows of the file."""
    rows = [line.split() for line in path.read_text().splitlines() if line.strip()]
    base = 2 if len(rows[0][0]) == 32 else 16
    return np.array([[int(word, base) for word in row] for row in rows], np.uint32).view(np.float32)


def of_folder(folder: Path) -> Iterator[Recording]:
    """All published recordings."""
    for device in DEVICES:
        for inner in sorted((folder / device).iterdir()):
            kind = inner.name
            a, b = (read_text(inner / f"{part}_{device}_{kind}.txt") for part in "ab")
            c = read_text(inner / f"c_{device}_fp32.txt")[:, 0]
            for result in ("fp32", "fp16"):
                path = inner / f"d_{device}_{result}.txt"
                if path.exists():
                    yield published(device, kind, result, a, b, c, read_text(path)[:, 0])


def sample(recordings: list[Recording], path: Path) -> None:
    """The file of of_sample(): operands as codes, once for the devices that share them."""
    arrays: dict[str, np.ndarray] = {}
    for recording in recordings:
        device, kind, result = recording.name.split()
        k = recording.a.shape[-1]
        for part, value in (("a", recording.a), ("b", recording.b)):
            dtype = DTYPES[recording.form]
            codes = value[::SAMPLED].astype(dtype)
            codes = codes.view(f"u{codes.itemsize}")
            if not np.array_equal(arrays.setdefault(f"{kind}_{k}_{part}", codes), codes):
                raise ValueError(f"{recording.name} has operands of its own")
        arrays[f"{device}_{kind}_k"] = np.array(k, np.uint8)
        # The last result's C: wgmma's, which is zero, comes before mma.sync's.
        arrays[f"{device}_{kind}_c"] = recording.c[::SAMPLED].astype(np.float32)
        d = recording.d[::SAMPLED].view(RESULTS[result][0])
        arrays[f"{device}_{kind}_d_{result}"] = d
    np.savez_compressed(path, **arrays)


def main() -> int:
    """Prints a line for each file of results; exit status 1 if one differs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=Path)
    options = parser.parse_args()
    recordings = list(of_folder(options.folder))
    differing = 0
    for recording in recordings:
        count = recording.differing()
        differing += count
        equal = len(recording.d) - count
        print(f"{recording.name:16} {recording.unit:18} {equal} of {len(recording.d)} equal")
    print(f"{sum(len(r.d) for r in recordings)} results, {differing} differ")
    if options.sample:
        sample(recordings, options.sample)
    return int(differing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
