"""A replay of ResNet-18's size on the GPU beside the CPU: equal rows, and the time of each.

python tests/cuda/replay.py --device cuda --json FILE. Makes the trace itself: ResNet-18's 62
gradients (11,689,512 numbers), 8 workers, 2 steps, normal numbers whose size differs from layer to
layer, in a temporary folder (750 MB). Exit status 1 if a row differs. --device cpu: a dry run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import apscope
from apscope.record import TraceWriter

WORKERS, STEPS, RUNS = 8, 2, 3
#: Schemes of every kind that a GPU runs: nearest and stochastic, scaled and not, wider sums.
SCHEMES = [
    "none:fp16", "none:e5m2", "aps:e4m3", "aps:e5m2,rounding=stochastic",
    "aps:e4m3,accumulate=fp32", "loss_scaling:e4m3,scale=best",
]  # fmt: skip


def resnet18(part: int = 1) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of ResNet-18's parameters; `part`: with that many times fewer channels."""

    def norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from ((f"{name}.weight", (width,)), (f"{name}.bias", (width,)))

    before = 64 // part
    yield "conv1.weight", (before, 3, 7, 7)
    yield from norm("bn1", before)
    for stage in range(1, 5):
        width = (32 << stage) // part
        for block in range(2):
            name = f"layer{stage}.{block}"
            yield f"{name}.conv1.weight", (width, before, 3, 3)
            yield from norm(f"{name}.bn1", width)
            yield f"{name}.conv2.weight", (width, width, 3, 3)
            yield from norm(f"{name}.bn2", width)
            if before != width:
                yield f"{name}.downsample.0.weight", (width, before, 1, 1)
                yield from norm(f"{name}.downsample.1", width)
            before = width
    yield from (("fc.weight", (1000 // part, before)), ("fc.bias", (1000 // part,)))


def write_trace(folder: Path, part: int) -> int:
    """Write the trace; the number of its values."""
    layers, count = list(resnet18(part)), 0

    def gradients(seed: tuple[int, int]) -> list[np.ndarray]:
        generator = np.random.default_rng(seed)
        return [
            generator.standard_normal(shape, dtype=np.float32) * np.float32(10.0 ** (-2 - i % 5))
            for i, (_, shape) in enumerate(layers)
        ]

    with (
        TraceWriter(folder, workers=WORKERS, reduction="mean") as writer,
        ThreadPoolExecutor(WORKERS) as pool,
    ):
        for step in range(STEPS):
            ranks = pool.map(gradients, [(step, worker) for worker in range(WORKERS)])
            for worker, values in enumerate(ranks):
                for (name, _), gradient in zip(layers, values, strict=True):
                    writer.add(step, worker, name, gradient)
                    count += gradient.size
            writer.end_step(step)
    return count


def same(a: Any, b: Any) -> bool:
    """Whether two columns are equal, bit by bit."""
    if isinstance(a, tuple):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    if a.dtype == object:
        return list(a) == list(b)
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, required=True, help="the file for the result")
    parser.add_argument("--part", type=int, default=1, help="that many times fewer channels")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "trace"
        begin = time.perf_counter()
        values = write_trace(folder, args.part)
        print(f"{values} values written in {time.perf_counter() - begin:.1f} s", flush=True)
        seconds: dict[str, list[float]] = {"expected": [], "found": []}
        tables: dict[str, dict[str, Any]] = {}
        for run in range(RUNS):
            # The last is the GPU, or the second turn of a dry run on the CPU.
            for name, device in (("expected", "cpu"), ("found", args.device)):
                trace = apscope.open_trace(folder)
                begin = time.perf_counter()
                results = apscope.replay(trace, SCHEMES, device=device, check=False)
                seconds[name].append(time.perf_counter() - begin)
                print(f"{device}, run {run + 1}: {seconds[name][-1]:.2f} s", flush=True)
                tables[name] = dict(results.as_columns("frame"))
        differing = [
            column
            for column in tables["expected"]
            if not same(tables["expected"][column], tables["found"][column])
        ]
    result = {
        "values": values, "workers": WORKERS, "steps": STEPS, "schemes": SCHEMES,
        "topologies": 4, "processors": os.cpu_count(), "rows": len(tables["found"]["tensor"]),
        "device": args.device, "differing_columns": differing,
        "cpu_seconds": float(np.median(seconds["expected"])),
        "device_seconds": float(np.median(seconds["found"])),
    }  # fmt: skip
    args.json.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{result['rows']} rows; columns that differ: {', '.join(differing) or 'none'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
