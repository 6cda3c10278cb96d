"""The cost of a replay against the size of the job: python -m docs.tools.cost_against_size
docs

Measures `apscope.replay` on one thread over synthetic traces, each point in a process of its own:
10^3 to 10^9 values (elements times workers times steps), 1 to 32 schemes, 2 to 256 workers. Writes
cost_against_size.json and cost_against_size.png into the folder, and the lines between the markers
of its performance.md. A trace is one tensor, written once: other workers and steps are hard links
to its file, so that 10^9 values take half a megabyte of disk, and no disk is waited for.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import apscope
from tests.python.argv import argv

from . import page

TENSOR = 125_000  # elements of the tensor of large traces: 8 workers make 10^6 values per step
# 32 schemes that cost the same.
FORMATS = [f"aps:e{e}m{m}" for m in range(1, 9) for e in range(3, 7)]
TOPOLOGY = "ring"


def write_trace(folder: Path, steps: int, workers: int, elements: int) -> None:
    """A trace of one tensor whose files are all the same one."""
    values = np.random.default_rng(1).standard_normal(elements, dtype=np.float32) * np.float32(1e-3)
    header = json.dumps(
        {"g": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}}
    ).encode()
    header += b" " * (-len(header) % 8)
    contents = len(header).to_bytes(8, "little") + header + values.tobytes()
    first = folder / "step_00000000" / "worker_0000.safetensors"
    first.parent.mkdir(parents=True)
    first.write_bytes(contents)
    files = {}
    for worker in range(workers):
        files[f"worker_{worker:04d}.safetensors"] = {
            "bytes": len(contents),
            "sha256": hashlib.sha256(contents).hexdigest(),
        }
    for step in range(steps):
        place = folder / f"step_{step:08d}"
        place.mkdir(exist_ok=True)
        for name in files:
            if not (place / name).exists():
                os.link(first, place / name)
    manifest = {"schema_version": 1, "stage": "local", "reduction": "mean", "workers": workers,
                "tensors": [{"name": "g", "shape": [elements]}],
                "steps": [{"number": s, "files": files} for s in range(steps)]}  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))


def largest_resident_set() -> int:
    """Bytes; Linux counts pages per processor and adds the counts up in batches: true to some
    hundred KiB."""
    return page.proc("self/status", "VmHWM")


def measure(folder: str, schemes: list[str], seconds: float) -> dict:
    """Medians over at least three replays, or one replay if it takes longer than `seconds`.

    Processor time is what is drawn: on one thread it is the wall time of a machine with nothing
    else to do.
    """
    with tempfile.TemporaryDirectory() as place:  # what the first call imports
        write_trace(Path(place) / "small", 1, 2, 10)
        apscope.replay(Path(place) / "small", schemes[:1], topology=TOPOLOGY, threads=1)
    before, times, wall = largest_resident_set(), [], []
    while not times or (sum(times) < seconds and (len(times) < 3 or sum(times) < seconds / 3)):
        begin, begin_wall = time.process_time(), time.perf_counter()
        apscope.replay(folder, schemes, topology=TOPOLOGY, threads=1)
        times.append(time.process_time() - begin)
        wall.append(time.perf_counter() - begin_wall)
    return {
        "seconds": statistics.median(times),
        "wall_seconds": statistics.median(wall),
        "runs": len(times),
        "memory": max(
            0, largest_resident_set() - before
        ),  # a later reading can be less than an earlier one
    }


def measured(trace: Path, words: list[str]) -> dict:
    """`measure` in a process of its own."""
    command = argv("{} -m docs.tools.cost_against_size --measure {}", sys.executable, trace)
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def point(values: int, workers: int, schemes: int, seconds: float) -> dict:
    """One job, in its own process: `values` are elements times workers times steps."""
    elements = max(1, min(TENSOR, values // workers))
    steps = max(1, values // (workers * elements))
    with tempfile.TemporaryDirectory() as place:
        write_trace(Path(place) / "trace", steps, workers, elements)
        found = measured(Path(place) / "trace", argv("--seconds {} --schemes {}", seconds, schemes))
    made = {
        "values": steps * workers * elements,
        "workers": workers,
        "steps": steps,
        "elements": elements,
        "schemes": schemes,
    } | found
    print(
        f"{made['values']:>11} values, {workers:>3} workers, {schemes:>2} schemes: "
        f"{found['seconds']:9.4f} s, {found['memory'] / 2**20:7.1f} MiB",
        file=sys.stderr,
    )
    return made


def powers(least: int, most: int, base: int) -> list[int]:
    made = [least]
    while made[-1] * base <= most:
        made.append(made[-1] * base)
    return made


def draw(found: dict[str, list[dict]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
    panels = [
        ("elements", "values", "values (elements x workers x steps)"),
        ("schemes", "schemes", "schemes"),
        ("workers", "workers", "workers"),
    ]
    for axis, (name, key, label) in zip(axes, panels):
        x, y = [p[key] for p in found[name]], [p["seconds"] for p in found[name]]
        axis.loglog(x, y, "o-", label="measured")
        axis.loglog(x, [y[-1] * v / x[-1] for v in x], ":", color="grey", label="linear")
        axis.set(xlabel=label, ylabel="processor seconds")
        axis.legend(frameon=False)
    axes[3].semilogx(
        [p["values"] for p in found["elements"]],
        [p["memory"] / 2**20 for p in found["elements"]],
        "o-",
    )
    axes[3].set(xlabel=panels[0][2], ylabel="MiB beyond a small replay's", ylim=(0, None))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def lines_of(found: dict[str, list[dict]], machine: str) -> list[str]:
    def visit(p: dict) -> float:
        return p["seconds"] / p["values"] / p["schemes"] * 1e9

    largest = found["elements"][-1]
    return [
        f"{machine}, apscope {apscope.__version__}; one thread; `aps` in formats of 5 to 15 bits, "
        f"topology {TOPOLOGY}.",
        "",
        "![Seconds against values, schemes and workers, and memory](cost_against_size.png)",
        "",
        *page.table(
            ("against", "from", "to", "ns of processor time a value and scheme, at each point"),
            [
                (key, *(found[name][i][key] for i in (0, -1)),
                 ", ".join(f"{visit(p):.3g}" for p in found[name]))
                for name, key in (("elements", "values"), ("schemes",) * 2, ("workers",) * 2)
            ],
        ),
        "",
        f"At {largest['values']} values, {largest['seconds']:.1f} s of processor time, "
        f"{largest['wall_seconds']:.1f} s of wall time, and "
        f"{largest['memory'] / 2**20:.0f} MiB more than a small replay; the trace's "
        "largest tensor times the workers is "
        f"{4 * largest['elements'] * largest['workers'] / 2**20:.1f} MiB of it.",
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where the figures go")
    parser.add_argument("--largest", type=float, default=1e9, help="values of the largest trace")
    parser.add_argument("--schemes", type=int, default=32, help="the most schemes, 32 at most")
    parser.add_argument("--workers", type=int, default=256, help="the most workers")
    parser.add_argument(
        "--values", type=float, default=2e6, help="values where schemes are counted"
    )
    parser.add_argument(
        "--elements", type=int, default=16384, help="elements a worker where workers are counted"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="a point's, where one run does not take longer"
    )
    parser.add_argument("--spec", help="with --measure: this scheme")
    parser.add_argument("--measure", metavar="TRACE", help="one point on this trace, as JSON")
    args = parser.parse_args(arguments)
    if args.measure:
        print(
            json.dumps(
                measure(
                    args.measure,
                    [args.spec] if args.spec else FORMATS[: args.schemes],
                    args.seconds,
                )
            )
        )
        return
    found = {
        "elements": [point(v, 8, 1, args.seconds) for v in powers(1000, int(args.largest), 10)],
        "schemes": [
            point(int(args.values), 8, s, args.seconds) for s in powers(1, args.schemes, 2)
        ],
        "workers": [
            point(w * args.elements, w, 1, args.seconds) for w in powers(2, args.workers, 2)
        ],
    }
    where = page.machine()
    (args.folder / "cost_against_size.json").write_text(
        json.dumps({"machine": where, "points": found}, indent=1) + "\n"
    )
    draw(found, args.folder / "cost_against_size.png")
    page.write(args.folder / "performance.md", {"cost": lines_of(found, where)})


if __name__ == "__main__":
    main()
