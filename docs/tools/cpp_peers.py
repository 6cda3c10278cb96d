"""Writes the C++ library's table of docs/performance.md.

python -m docs.tools.cpp_peers docs/performance.md

Runs tests/benchmarks/peers.cpp (`make benchmark` builds it), which repeats all casts in a random
order, memcpy among them, and takes the medians.
"""

import json
import os
import statistics
import subprocess
from pathlib import Path

from . import page

PROGRAM = page.ROOT / "build/release/tests/benchmarks/apscope_peer_benchmarks"


def times(program: Path, repetitions: int, longest: int) -> dict[tuple[str, ...], dict[int, float]]:
    """(cast, format, rounding) -> how many numbers -> nanoseconds a number, the medians."""
    sizes = "|".join(str(4**power) for power in range(2, 14) if 4**power <= longest)
    options = {
        "format": "json",
        "filter": f"/({sizes})/",
        "repetitions": repetitions,
        "enable_random_interleaving": "true",
        "min_time": 0.01,
    }
    words = [str(program), *(f"--benchmark_{key}={value}" for key, value in options.items())]
    runs: dict[tuple[str, ...], dict[int, list[float]]] = {}
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    all_runs = json.loads(done.stdout)["benchmarks"]
    for run in sorted(all_runs, key=lambda r: (r["family_index"], r["per_family_instance_index"])):
        if run["run_type"] != "iteration":
            continue
        cast, count = run["run_name"].split("/")[:2]
        if run.get("error_occurred"):
            raise SystemExit(f"{cast} rounds otherwise than apscope: {run['error_message']}")
        each = runs.setdefault(tuple(cast.split("|")), {}).setdefault(int(count), [])
        each.append(run["real_time"] / int(count))
    return {
        cast: {count: statistics.median(each) for count, each in sizes.items()}
        for cast, sizes in runs.items()
    }


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__)
    parser.add_argument("--program", type=Path, default=PROGRAM, help="the benchmark program")
    parser.add_argument("--repetitions", type=int, default=7, help="visits to each cast")
    parser.add_argument("--longest", type=int, default=2**26, help="numbers of the longest arrays")
    args = parser.parse_args(arguments)
    if not args.program.exists():
        raise SystemExit(f"there is no {args.program}; `make benchmark` builds it")
    load = os.getloadavg()[0]
    found = times(args.program, args.repetitions, args.longest)
    memcpy = found.pop(("memcpy", "", ""))
    heads = [f"2^{count.bit_length() - 1}" for count in memcpy]
    cells = [
        [*cast, *(page.ratio(memcpy[n] / each[n]) if n in each else "" for n in memcpy)]
        for cast, each in found.items()
    ]
    lines = [
        f"{page.machine()}; medians of {args.repetitions} visits, in a random order. Load before "
        f"them: {load:.1f} {page.QUIET}.",
        "",
        *page.table(
            ("cast", "format", "rounding", *heads),
            [["memcpy, ns a number", "", "", *(f"{each:.3g}" for each in memcpy.values())], *cells],
        ),
    ]
    page.write(args.page, {"C++": lines})


if __name__ == "__main__":
    main()
