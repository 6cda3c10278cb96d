"""Where the time of `apscope replay` goes: python -m docs.tools.replay_cost
docs/performance.md

Replays the bundled traces with --scheme all and the default topologies on the command line,
alternately on one thread and on two, and takes the medians of wall time, processor time and the
largest resident set. Linux's `perf` samples one such run, if it is there: the share of the samples
inside the compiled module, and by function where the module keeps its symbols (a build with
-DCMAKE_STRIP=/bin/true). Writes the lines between the markers of the page; `scheme_cost` measures
every scheme by itself.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import apscope
from apscope._schemes.lists import schemes_of

from . import page

#: Orders of rounded additions that measurements keep, so that their pages compare over time.
ORDERS = ("ring", "tree", "hierarchical:4", "sequential")
TRACES = [f"notebooks/data/{name}" for name in ("digits", "digits_w64", "characters")]
#: Heads of the columns of what `run` measures.
COSTS = ("seconds", "processor seconds", "largest resident set, MiB")


def each(option: str, values: Iterable[str]) -> list[str]:
    """An option before every value, as words of a command."""
    return [word for value in values for word in (option, value)]


def command(traces: list[str], threads: int, folder: str, schemes: list[str]) -> list[str]:
    words = [sys.executable, "-m", "apscope", "replay", *traces, *each("--scheme", schemes)]
    return [*words, "--threads", str(threads), "-o", folder, "--force"]


def run(words: list[str]) -> tuple[float, float, int]:
    """Wall seconds, processor seconds, largest resident set in bytes."""
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def parse_shares(report: str) -> list[tuple[str, float]]:
    """Names and percentages of a perf report of one column."""
    lines = [
        re.fullmatch(r"\s*([\d.]+)%\s+(?:\[[.k]\]\s+)?(.*?)\s*", line)
        for line in report.splitlines()
    ]
    return [(m.group(2), float(m.group(1))) for m in lines if m]


def sampled(
    words: list[str], folder: Path
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]] | None:
    """Shares of one run's samples by file and by function of the compiled module; None without
    perf."""
    if shutil.which("perf") is None:
        return None
    data = str(folder / "perf.data")
    recorded = subprocess.run(
        ["perf", "record", "-q", "-F", "499", "-o", data, *words], capture_output=True
    )
    if recorded.returncode != 0:
        return None
    found = []
    for sort in ("dso", "symbol"):
        report = subprocess.run(
            ["perf", "report", "-q", "-i", data, "--sort", sort],
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(parse_shares(report.stdout))
    files, functions = found
    return files, [(name, share) for name, share in functions if name.startswith("apscope::")]


def short_name(symbol: str) -> str:
    """A function's name without its namespace and arguments; of a vector kernel, the kernel's.

    >>> short_name("apscope::simd::run_avx512<apscope::(anonymous namespace)::AddRow<(apscope::RoundingMode)0, true>, double*>")
    'AddRow'
    >>> short_name("apscope::(anonymous namespace)::LevelPoints::exact_cost(unsigned long)")
    'LevelPoints::exact_cost'
    """
    plain = re.sub(r"\(anonymous namespace\)::|apscope::", "", symbol).strip()
    kernel = re.match(r"simd::run\w*<(\w+)", plain)
    return kernel[1] if kernel else re.split(r"[<(\s]", plain)[0]


def values_of(traces: list[str]) -> int:
    opened = [apscope.open_trace(t) for t in traces]
    return sum(len(t.steps) * t.workers * sum(x.size for x in t.manifest.tensors) for t in opened)


#: A process that replays its trace on so many threads whenever it is told to, and says how long it
#: took.
REPLAYS = f"""
import sys, time, apscope
asked = dict(topology={ORDERS}, threads=int(sys.argv[2]))
apscope.replay(sys.argv[1], "aps:e4m3", **asked)
print("ready", flush=True)
for _ in sys.stdin:
    begin = time.perf_counter()
    apscope.replay(sys.argv[1], "aps:e4m3", **asked)
    print(time.perf_counter() - begin, flush=True)
"""


def at_once(processes: list[subprocess.Popen]) -> float:
    """Seconds until all have replayed once."""
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return max(float(process.stdout.readline()) for process in processes)


def two_threads(elements: int, rounds: int = 15) -> tuple[float, float]:
    """How many times the work of one thread two threads do, and two processes that share nothing
    but the machine.

    Wall time of `aps:e4m3` over 16 steps of 8 workers, four orders; one, two threads, two processes
    in turn.
    """
    from .cost_against_size import write_trace

    with tempfile.TemporaryDirectory() as place:
        trace = Path(place) / "trace"
        write_trace(trace, 16, 8, elements)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        processes = [
            subprocess.Popen([sys.executable, "-c", REPLAYS, str(trace), threads], **pipes)
            for threads in ("1", "1", "2")
        ]
        for process in processes:
            process.stdout.readline()
        singles, double = processes[:2], processes[2:]
        threads, machine = [], []
        for _ in range(rounds):
            one = at_once(singles[:1])
            threads.append(one / at_once(double))
            machine.append(2 * one / at_once(singles))
        for process in processes:
            process.communicate()
        return statistics.median(threads), statistics.median(machine)


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of the command line; medians count")
    parser.add_argument("--traces", nargs="+", default=TRACES, metavar="TRACE")
    parser.add_argument(
        "--elements",
        type=int,
        default=2**20,
        help="of the tensor on which one and two threads are compared",
    )
    parser.add_argument("--schemes", nargs="+", default=["all"], metavar="SPEC")
    args = parser.parse_args(arguments)
    specs = [scheme.spec for scheme in schemes_of(args.schemes)]
    specs = list(dict.fromkeys(specs))
    with tempfile.TemporaryDirectory() as place:
        taken: dict[int, list[tuple[float, float, int]]] = {1: [], 2: []}
        for _ in range(args.runs):
            for threads, runs in taken.items():
                runs.append(run(command(args.traces, threads, place, args.schemes)))
        rows = len(apscope.Results.open(place).frame)
        samples = sampled(command(args.traces, 1, place, args.schemes), Path(place))
    threads, machine = two_threads(args.elements)
    ratio = statistics.median(one[0] / two[0] for one, two in zip(taken[1], taken[2]))
    lines = [
        f"{page.machine()}; {len(specs)} schemes, {len(apscope.replay.__kwdefaults__['topology'])} "
        f"topologies, {values_of(args.traces)} values, {rows} rows; the median of {args.runs} "
        "runs. Wall time includes starting Python and writing the results.",
        "",
        *page.table(
            ("threads", *COSTS),
            [
                (count, f"{m[0]:.2f}", f"{m[1]:.2f}", f"{m[2] / 2**20:.0f}")
                for count, m in page.medians(taken).items()
            ],
        ),
        "",
        f"Two threads are {ratio:.2f} times as fast as one; {threads:.2f} times where tables take "
        "no time: `aps:e4m3`, four topologies, 16 steps of 8 workers, one tensor of "
        f"{args.elements} elements. Two processes at once, of one thread each, do {machine:.2f} "
        "times the work of one there, the limit of the machine.",
    ]
    if samples is not None:
        files, functions = samples
        compiled = sum(share for name, share in files if name.startswith("_core"))
        others = ", ".join(
            f"{name} {share:.0f} %"
            for name, share in files
            if not name.startswith("_core") and share >= 1
        )
        lines += [
            "",
            f"Of `perf`'s samples of a run on one thread, {compiled:.0f} % lie in apscope's "
            f"compiled code. The others: {others}.",
        ]
        if functions:
            shares: dict[str, float] = {}
            for symbol, share in functions:
                shares[short_name(symbol)] = shares.get(short_name(symbol), 0.0) + share
            short = sorted(shares.items(), key=lambda pair: -pair[1])[:10]
            cells = [(f"`{name}`", f"{share:.1f} %") for name, share in short]
            lines += ["", *page.table(("function", "samples"), cells)]
    page.write(args.page, {"replay": lines})


if __name__ == "__main__":
    main()
