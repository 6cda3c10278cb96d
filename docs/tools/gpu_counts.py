"""What the GPU kernels need, counted without a GPU, and the time that an H100 would take for it.

python -m docs.tools.gpu_counts docs/performance.md [--earlier FILE]

Runs build/cuda/tests/cuda/interpreter/interpreted_cuda_test --counts (`make cuda` builds it), keeps
the counts in docs/gpu_counts.csv and writes the table. --earlier FILE keeps the counts of earlier
kernels, a JSON file which that program wrote, in docs/gpu_counts_earlier.csv instead.
"""

import argparse
import csv
import json
import subprocess
import tempfile
from pathlib import Path

from . import page

DOCS = Path(__file__).parents[1]
PROGRAM = DOCS.parent / "build/cuda/tests/cuda/interpreter/interpreted_cuda_test"
COUNTS, EARLIER = DOCS / "gpu_counts.csv", DOCS / "gpu_counts_earlier.csv"
#: What the H100 of docs/gpu_measured.csv did: fp32 multiply-adds a second, each an issue slot of a
#: thread, and bytes a second that a device copy read and wrote together (1 GiB in .37 ms).
SLOTS_A_SECOND, BYTES_A_SECOND = 31.5e12, 2**30 / 0.37e-3


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    """A table's rows, by job."""
    if not path.exists():
        return {}
    with path.open() as file:
        return {row["job"]: row for row in csv.DictReader(file)}


def keep(counts: list[dict[str, float | str]], path: Path) -> None:
    """Write what --counts found."""
    with path.open("w") as file:
        writer = csv.DictWriter(file, counts[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(counts)


def predicted(row: dict[str, str]) -> float:
    """The time divided by a copy's of as many bytes, or by the multiply-adds' of as many terms."""
    slots, size = float(row["slots"]), float(row["bytes"])
    return max(1.0, slots / SLOTS_A_SECOND * BYTES_A_SECOND / size) if size else slots


def rate(row: dict[str, str]) -> str:
    """Values a second of one scheme of a replay: if caches keep nothing, and by slots alone."""
    by_slots = SLOTS_A_SECOND / float(row["slots"])
    by_bytes = BYTES_A_SECOND / (float(row["loaded"]) + float(row["stored"]))
    low = f"{by_bytes / 1e9:.2g} to " if by_bytes < by_slots else ""
    return f"{low}{by_slots / 1e9:.2g} 10^9 values a second"


def ratio(value: float) -> str:
    """As the other tables of the page print it."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def lines_of() -> list[str]:
    """The lines between the markers of the page."""
    now, earlier = rows_of(COUNTS), rows_of(EARLIER)
    measured = rows_of(DOCS / "gpu_measured.csv")
    rows = []
    for job, row in now.items():
        before, at = earlier.get(job), measured.get(job)
        moved = f"{float(row['loaded']):.1f} + {float(row['stored']):.1f}"
        fp64 = sum(float(row[key]) for key in ("fp64", "conversion"))
        rows.append((
            job, f"{float(before['slots']):.0f}" if before else "", f"{float(row['slots']):.0f}",
            f"{fp64:.1f}", f"{float(row['local']):.1f}", moved,
            ratio(float(at["of_floor"])) if at else "", ratio(predicted(before)) if before else "",
            rate(row) if job.startswith("replay") else ratio(predicted(row)),
        ))  # fmt: skip
    heads = (
        "a number's (a term's)", "slots, earlier", "slots", "fp64 and conversions", "local memory",
        "bytes read + written", "measured, earlier", "predicted, earlier", "predicted",
    )  # fmt: skip
    return page.table(heads, rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="docs/performance.md")
    parser.add_argument("--earlier", type=Path, help="counts of earlier kernels")
    args = parser.parse_args(arguments)
    if args.earlier:
        keep(json.loads(args.earlier.read_text())["counts"], EARLIER)
    else:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            subprocess.run([PROGRAM, "--counts", "--json", file.name], check=True)
            keep(json.loads(Path(file.name).read_text())["counts"], COUNTS)
    page.write(args.page, {"gpu_counts": lines_of()})


if __name__ == "__main__":
    main()
