"""The cost of a replay on a Dask cluster: python -m docs.tools.cluster_cost
docs/performance.md

Makes a trace in a temporary folder and replays it by the schemes of the list `main` here, on one
thread, and on one and two Dask workers of one thread each on this machine, by its folder and by a
URL, each once per round; every result is compared with the local one. Beside them the same with a
task per step, placed by Dask's scheduler, instead of a part per worker. Writes the medians, and the
most that a worker's temporary folder held, between the markers of the page.
"""

import contextlib
import operator
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import apscope
from apscope._replay import cluster as division
from apscope._replay.parts import Part
from apscope._replay.tasks import OpenTrace, read_part, run_part
from apscope._traces.opening import is_url

from . import page
from .check_cost import WORKERS, write_trace
from .replay_cost import ORDERS

CLUSTERS = (1, 2)  # Dask workers
A_TASK_A_STEP = "a task a step, placed by Dask"
# Wall and processor seconds, bytes that the fullest temporary folder of a Dask worker held.
Figures = tuple[float, float, int]


def log_removed_folders(log: str) -> None:
    """Has the process that runs it write down the bytes of every folder that it removes: a trace's
    files go when its part is done."""
    remove = shutil.rmtree

    def logged(folder: str, *others: Any, **keys: Any) -> None:
        with open(log, "a") as lines:
            lines.write(
                f"{sum(path.stat().st_size for path in Path(folder).rglob('*') if path.is_file())}\n"
            )
        remove(folder, *others, **keys)

    shutil.rmtree = logged


def step_by_step(
    client: Any,
    trace: Any,
    job: Any,
    items: list,
    topic: str | None,
    anywhere: bool,  # noqa: ARG001
) -> tuple[list[bytes], list[dict], list[dict], list[dict], dict]:
    """In place of `cluster._on_workers`: a task a step for each pass, where Dask's scheduler puts it."""
    parts: dict[int | None, Part] = {}
    for item in items:
        parts.setdefault(item.step, Part(1)).add(item)
    path = trace.source if is_url(trace.source) else str(trace.path.absolute())
    steps = len(job.arguments[2])
    traces = [
        client.submit(
            OpenTrace.opened,
            OpenTrace(path, apscope.__version__, trace.hash, job, part.steps(steps)),
            pure=False,
        )
        for part in parts.values()
    ]
    each = list(zip(traces, parts.values(), strict=True))
    reads = [
        client.submit(read_part, opened, i, np.array(part.pairs, np.intp), topic, pure=False)
        for i, (opened, part) in enumerate(each)
    ]
    statistics = [client.submit(operator.itemgetter(0), read) for read in reads]
    runs = [
        client.submit(
            run_part, opened, i, np.array(part.places, np.intp), statistics, {}, topic, pure=False
        )
        for i, (opened, part) in enumerate(each)
    ]
    found = client.gather(runs)
    histograms = [read[1] for read in client.gather(reads)]
    rows, noises, windows, _ = zip(*found)
    return list(rows), histograms, list(noises), list(windows), {}


@contextlib.contextmanager
def divided_by(division_of_work: Any) -> Any:
    """The division of a replay among the workers, for the time of a measurement."""
    own = division._on_workers
    division._on_workers = division_of_work
    try:
        yield
    finally:
        division._on_workers = own


def measure(
    source: str, schemes: list[str], client: Any, log: Path
) -> tuple[apscope.Results, Figures]:
    """One replay; processor seconds are the workers' and this process's."""

    def used() -> float:
        return time.process_time() + sum(client.run(time.process_time).values() if client else [])

    log.write_text("")
    before, begin = used(), time.perf_counter()
    results = apscope.replay(source, schemes, topology=ORDERS, threads=1, client=client)
    wall, processor = time.perf_counter() - begin, used() - before
    folders = len(client.nthreads()) if client and "://" in source else 0
    deadline = time.monotonic() + 60
    # Workers are told that they no longer need the trace, and remove its files.
    while len(log.read_text().split()) < folders:
        if time.monotonic() > deadline:
            raise SystemExit(
                "a Dask worker has kept the trace's files for a minute after the replay"
            )
        time.sleep(0.05)
    return results, (wall, processor, max(map(int, log.read_text().split()), default=0))


def main(arguments: list[str] | None = None) -> None:
    import dask
    from distributed import Client, LocalCluster

    parser = page.options(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="of all replays alternately; the medians are reported"
    )
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--elements", type=int, default=250_000, help="of a gradient")
    parser.add_argument("--schemes", nargs="+", default=["main"], metavar="SPEC")
    args = parser.parse_args(arguments)
    load, taken = os.getloadavg()[0], dict[tuple[str, str], list[Figures]]()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        trace, small, log = (Path(place) / name for name in ("trace", "small", "log"))
        size = write_trace(trace, args.elements, args.steps)
        write_trace(small, 10, args.steps)
        jobs: list[tuple[str, str, str, Any]] = [("here", "folder", str(trace), None)]
        # A part each, however late a worker begins.
        stack.enter_context(dask.config.set({"distributed.scheduler.work-stealing": False}))
        for count in CLUSTERS:
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",
                )
            )
            client, name = (
                stack.enter_context(Client(cluster)),
                f"{count} Dask worker{'s' * (count > 1)}",
            )
            client.run(log_removed_folders, str(log))
            jobs += [(name, "folder", str(trace), client), (name, "URL", trace.as_uri(), client)]
            jobs.append((f"{name}, {A_TASK_A_STEP}", "folder", str(trace), client))
        for _, _, _, client in jobs:
            measure(str(small), args.schemes, client, log)  # what a first call imports
        for _ in range(args.rounds):
            for name, by, source, client in jobs:
                whose = step_by_step if name.endswith(A_TASK_A_STEP) else division._on_workers
                with divided_by(whose):
                    results, figures = measure(source, args.schemes, client, log)
                if client is None:
                    here = results
                elif not (
                    results.frame.equals(here.frame) and results.histograms.equals(here.histograms)
                ):
                    raise SystemExit(
                        f"{name}, trace by its {by}: the rows are not those of the replay here"
                    )
                taken.setdefault((name, by), []).append(figures)
                print(f"{name}, {by}: {figures}", file=sys.stderr)
    heads = ["replay on one thread each", "trace by its", "seconds", "shortest"]
    lines = [
        f"{page.machine()}; load before it {load:.1f} {page.QUIET}. {size:.1f} MB of "
        f"gradients, {args.steps} steps of {WORKERS} workers; "
        f"{len(here.provenance['schemes'])} schemes, four topologies; the median of "
        f"{args.rounds} rounds. All gave the same rows.",
        "",
        *page.table(
            [*heads, "processor seconds", "temporary files of each Dask worker, MB"],
            [
                (
                    *job, f"{wall:.1f}", f"{min(run[0] for run in taken[job]):.1f}",
                    f"{processor:.1f}", f"{disk / 1e6:.1f}",
                )
                for job, (wall, processor, disk) in page.medians(taken).items()
            ],
        ),
    ]  # fmt: skip
    page.write(args.page, {"cluster": lines})


if __name__ == "__main__":
    main()
