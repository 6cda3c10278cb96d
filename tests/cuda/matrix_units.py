"""What record_matrix_units wrote, as one .npz, and which units of tests/reference/matrix_units.py it is.

python -m tests.cuda.matrix_units FOLDER [--save FILE]. For each instruction a line: the units that
give every result, or the nearest one with how many results of each kind of cases it does not give.
Exit status 1 if no unit gives an instruction's results.
"""

import argparse
from pathlib import Path

import numpy as np

from tests.reference.matrix_unit_recordings import FORMATS, Recording, tiles
from tests.reference.matrix_units import UNITS, Unit

#: The recorder's kinds of cases, in its order.
CASES = [
    *(f"within 2^{n}" for n in (0, 1, 2, 4, 6, 10, 14)),
    "ones",
    "all exponents",
    "smallest exponents",
    "zeros beside large numbers",
    "not finite",
    "largest exponents",
    "lowest bits",
]


def read(path: Path) -> dict[str, np.ndarray]:
    """A file's arrays: NAME_a (cases, m, k), NAME_b (cases, k, n), NAME_c and NAME_d (cases, m, n),
    codes and bits."""
    data = path.read_bytes()
    m, n, k, code_bytes, result_bytes, cases, kinds = np.frombuffer(data, np.int32, 7).tolist()
    if kinds != len(CASES):
        raise ValueError(f"{path} has {kinds} kinds of cases; {len(CASES)} are known.")
    at, arrays = 28, {}
    for part, shape, size in (
        ("a", (cases, m, k), code_bytes),
        ("b", (cases, n, k), code_bytes),
        ("c", (cases, m, n), result_bytes),
        ("d", (cases, m, n), result_bytes),
    ):
        count = int(np.prod(shape))
        array = np.frombuffer(data, f"u{size}", count, at).reshape(shape)
        arrays[f"{path.stem}_{part}"] = array.transpose(0, 2, 1) if part == "b" else array
        at += count * size
    return arrays


def differences(recording: Recording, unit: Unit, cases: int) -> np.ndarray:
    """How many results of each kind of cases, of so many tiles, are not the unit's."""
    d = unit.dot(recording.a, recording.b, recording.c, recording.form)
    differ = (d.view(recording.d.dtype) != recording.d).reshape(cases, -1).sum(1)
    return np.bincount(np.arange(cases) % len(CASES), differ, len(CASES)).astype(int)


def candidates(recording: Recording) -> list[str]:
    """The units of NVIDIA with the recording's operands and results."""
    result = "fp32" if recording.d.itemsize == 4 else "fp16"
    return [
        name
        for name, unit in UNITS.items()
        if recording.form in unit.formats and unit.result == result and not name.startswith("mi")
    ]


def main() -> int:
    """The script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    arrays: dict[str, np.ndarray] = {}
    for path in sorted(options.folder.glob("*.bin")):
        arrays.update(read(path))
    if not arrays:
        parser.error(f"{options.folder} has no .bin file of record_matrix_units")
    if options.save:
        np.savez_compressed(options.save, **arrays)
    unknown = 0
    for name in sorted({key.rpartition("_")[0] for key in arrays}):
        recording = tiles(arrays, name, "", FORMATS[name.split("_")[1]])
        cases = len(arrays[f"{name}_d"])
        counts = {
            unit: differences(recording, UNITS[unit], cases) for unit in candidates(recording)
        }
        equal = [unit for unit, count in counts.items() if not count.any()]
        print(f"{name:15} {len(recording.d)} results: ", end="")
        if equal:
            print("equal to " + ", ".join(equal))
            continue
        unknown += 1
        nearest = min(counts, key=lambda unit: counts[unit].sum())
        lost = [f"{n} of {kind}" for kind, n in zip(CASES, counts[nearest], strict=True) if n]
        print(f"none; {nearest} does not give " + ", ".join(lost))
    return int(unknown > 0)


if __name__ == "__main__":
    raise SystemExit(main())
