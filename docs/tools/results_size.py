"""The cost of a large replay's table: python -m docs.tools.results_size docs/performance.md

Makes a synthetic trace of ResNet-50's 161 layers, each of a few elements, at 100 steps of 4
workers, replays it through the 25 schemes of `report_cost` on the command line, and then
summarises, checks and merges the results, each in a process of its own. The arrays are small, so
the time and the memory are those of the table. Writes the figures between the markers of the page,
in a column named by ``--label``: run it at two commits to compare them.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet

from apscope.record import TraceWriter

from . import page
from .replay_cost import ORDERS, each, run
from .report_cost import SCHEMES, commands_table

WORKERS, STEPS = 4, 100


def resnet50() -> Iterator[tuple[str, int]]:
    """Names and numbers of elements of ResNet-50's parameters."""
    yield "conv1.weight", 64 * 3 * 7 * 7
    yield from (("bn1.weight", 64), ("bn1.bias", 64))
    before = 64
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        width = 32 << stage
        for block in range(blocks):
            convolutions = [
                (f"conv{i}", f"bn{i}", come, go, size)
                for i, (come, go, size) in enumerate(
                    [(before, width, 1), (width, width, 3), (width, 4 * width, 1)], 1
                )
            ]
            convolutions += (
                [("downsample.0", "downsample.1", before, 4 * width, 1)] if block == 0 else []
            )
            for convolution, norm, come, go, size in convolutions:
                yield f"layer{stage}.{block}.{convolution}.weight", come * go * size**2
                yield from (
                    (f"layer{stage}.{block}.{norm}.{part}", go) for part in ("weight", "bias")
                )
            before = 4 * width
    yield from (("fc.weight", 1000 * before), ("fc.bias", 1000))


def write_trace(folder: Path, steps: int = STEPS, workers: int = WORKERS) -> None:
    """A trace of these layers, of every 8192 elements one."""
    layers, generator = list(resnet50()), np.random.default_rng(7)
    with TraceWriter(folder, workers=workers, reduction="mean") as writer:
        for step in range(steps):
            for worker in range(workers):
                for i, (name, size) in enumerate(layers):
                    values = generator.standard_normal(1 + size // 8192, dtype=np.float32)
                    writer.add(step, worker, name, values * np.float32(10 ** (-2 - i % 5)))
            writer.end_step(step)


def measure(place: Path, steps: int = STEPS) -> dict[str, tuple[float, float, int]]:
    """Wall seconds, processor seconds and bytes of memory of every command; what it wrote is in
    `place`."""
    write_trace(place / "trace", steps)
    words = [*each("--scheme", SCHEMES), *each("--topology", ORDERS)]
    halves = [f"{place}/half{i}" for i in range(2)]
    commands = {
        "replay": ["replay", f"{place}/trace", *words, "-o", f"{place}/results"],
        "summary": ["summary", f"{place}/results"],
        "check": ["check", f"{place}/results"],
        **{
            f"replay --shard {i}/2": [
                "replay", f"{place}/trace", *words, "--shard", f"{i}/2", "-o", half
            ]
            for i, half in enumerate(halves)
        },
        "merge": ["merge", *halves, "-o", f"{place}/merged"],
    }  # fmt: skip
    return {
        name: run([sys.executable, "-m", "apscope", *command]) for name, command in commands.items()
    }


def lines_of(place: Path, found: dict[str, tuple[float, float, int]], label: str) -> list[str]:
    rows = pyarrow.parquet.read_metadata(place / "results/results.parquet").num_rows
    files = ", ".join(
        f"{path.name} {path.stat().st_size / 1e6:.0f} MB"
        for path in sorted((place / "results").iterdir())
        if path.suffix != ".json"
    )
    return [
        "",
        f"{label}: {len(SCHEMES)} schemes, {rows} rows; {files}.",
        "",
        *commands_table(found),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__)
    parser.add_argument("--label", default="This version", help="title of the table")
    parser.add_argument("--also", type=Path, help="a file of lines of another run, put before")
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args(arguments)
    lines = [f"{page.machine()}; load before it {os.getloadavg()[0]:.1f} {page.QUIET}."]
    with tempfile.TemporaryDirectory() as folder:
        lines += lines_of(Path(folder), measure(Path(folder), args.steps), args.label)
    if args.page.suffix != ".md":
        args.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    before = args.also.read_text(encoding="utf-8").splitlines() + [""] if args.also else []
    page.write(args.page, {"table": before + lines})


if __name__ == "__main__":
    main()
