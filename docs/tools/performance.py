"""Writes the table of docs/performance.md: python -m docs.tools.performance docs/performance.md

Runs `apscope.machine.bench` three times and takes, for every job, the run with the median ratio.
"""

import apscope

from . import page


def main(arguments: list[str] | None = None) -> None:
    parser = page.options(__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="visits to each job in one run")
    parser.add_argument(
        "--elements",
        type=int,
        default=2**25,
        help="numbers of the arrays that stand for main memory",
    )
    args = parser.parse_args(arguments)
    runs = [apscope.machine.bench(rounds=args.rounds, elements=args.elements) for _ in range(3)]
    by_job: dict[tuple, list[dict]] = {}
    for run in runs:
        for row in run.rows:
            by_job.setdefault((row["name"], row["where"], row["threads"]), []).append(row)
    m = runs[0].machine
    cells = []
    for job, rows in by_job.items():
        r = sorted(rows, key=lambda r: r["ratio"] if r["ratio"] is not None else r["ns"])[1]
        rate = (
            f"{r['gb_per_s']:.1f}"
            if r["gb_per_s"]
            else f"{r['ns_per_operation']:.2f} ns an operation"
        )
        ratio = "" if r["ratio"] is None else page.ratio(r["ratio"])
        cells.append((*job, f"{r['ns']:.3f}", rate, ratio, r["floor"]))
    head = (
        f"{m['processor']}, {m['processors']} processors, {m['simd']}, NumPy {m['numpy']}, "
        f"{runs[0].created[:10]}; the median of three runs."
    )
    heads = ("job", "where", "threads", "ns an element", "GB/s", "ratio", "of")
    page.write(args.page, {"bench": [head, "", *page.table(heads, cells)]})


if __name__ == "__main__":
    main()
