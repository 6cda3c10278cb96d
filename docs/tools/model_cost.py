"""The cost of replaying a model of real size: python -m docs.tools.model_cost
docs/performance.md TRACE

Every scheme of the list `all` in one replay, on one thread and on all that the machine has, within
a budget of memory (--memory) and within the default one. Four orders of rounded additions; files
are not compared with their digests. Writes the table between the markers of the page; `scheme_cost`
measures every scheme by itself. For a machine with nothing else to do: some minutes with the trace
of ResNet-18 that `python notebooks/record/record_resnet.py resnet18 TRACE` records.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import apscope
from apscope._schemes.lists import schemes_of

from . import page
from .replay_cost import ORDERS


def measure(trace: str, specs: list[str], threads: int, memory: str | None) -> dict[str, float]:
    """One replay: wall, user and system seconds; the most that was resident beyond mapped files and
    what there was before it, seen every 5 ms."""
    opened, done = apscope.open_trace(trace), threading.Event()
    before = most = page.proc("self/status", "RssAnon")  # bytes that belong to no file

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, page.proc("self/status", "RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    used, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    apscope.replay(opened, specs, topology=ORDERS, threads=threads, memory=memory, check=False)
    wall, now = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    done.set()
    watcher.join()
    return {
        "wall": wall,
        "user": now.ru_utime - used.ru_utime,
        "system": now.ru_stime - used.ru_stime,
        "memory": float(most - before),
    }


def in_a_process(
    trace: str, specs: list[str], threads: int, memory: str | None
) -> dict[str, float]:
    measured = json.dumps([trace, specs, threads, memory])
    words = [sys.executable, "-m", "docs.tools.model_cost", "--measure", measured]
    found: dict[str, float] = json.loads(
        subprocess.run(words, check=True, capture_output=True, text=True).stdout
    )
    print(
        f"{threads} thread{'s' * (threads > 1)}, --memory {memory}: {found}",
        file=sys.stderr,
    )
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, nargs="?", help="where the figures go")
    parser.add_argument("trace", nargs="?")
    parser.add_argument(
        "--memory",
        default="1G",
        help="budget of memory beside the default one; default %(default)s",
    )
    parser.add_argument("--schemes", nargs="+", default=["all"], metavar="SPEC")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.measure:
        print(json.dumps(measure(*json.loads(args.measure))))
        return
    if args.page is None or args.trace is None:
        parser.error("a page and a trace are needed")
    load, trace = os.getloadavg()[0], apscope.open_trace(args.trace)
    parameters = sum(math.prod(tensor.shape) for tensor in trace.manifest.tensors)
    values = parameters * trace.workers * len(trace.manifest.steps)
    specs = [scheme.spec for scheme in schemes_of(args.schemes)]
    counts = sorted({1, os.cpu_count() or 1})
    together = {
        (threads, memory): in_a_process(args.trace, specs, threads, memory)
        for memory in (args.memory, None)
        for threads in counts
    }
    jobs = f"{len(specs)} schemes, four topologies"
    lines = [
        f"{page.machine()}; load before it {load:.1f} {page.QUIET}. "
        f"{Path(args.trace).name}: {parameters} parameters, {trace.workers} workers, "
        f"{len(trace.manifest.steps)} steps, {values} values. Memory is the resident set "
        "without mapped files and Python.",
        "",
        *page.table(
            (jobs, "budget", "seconds", "user seconds", "system seconds", "MiB"),
            [
                (
                    f"{threads} thread{'s' * (threads > 1)}",
                    f"`--memory {memory}`" if memory else "half of the machine, the default",
                    *(f"{m[name]:.1f}" for name in ("wall", "user", "system")),
                    f"{m['memory'] / 2**20:.0f}",
                )
                for (threads, memory), m in together.items()
            ],
        ),
    ]
    page.write(args.page, {"model": lines})


if __name__ == "__main__":
    main()
