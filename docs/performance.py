"""Writes the table of docs/performance.md: python docs/performance.py docs/performance.md

Runs `apscope.machine.bench` three times and takes, for every job, the run with the median ratio.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import apscope

BEGIN, END = "<!-- bench: written by docs/performance.py -->", "<!-- end of bench -->"


def main() -> None:
    page = Path(sys.argv[1])
    runs = [apscope.machine.bench() for _ in range(3)]
    by_job: dict[tuple, list[dict]] = {}
    for run in runs:
        for row in run.rows:
            by_job.setdefault((row["name"], row["where"], row["threads"]), []).append(row)
    m = runs[0].machine
    lines = [
        f"{m['processor']}, {m['processors']} processors, {m['simd']}, NumPy {m['numpy']}, {runs[0].created[:10]}; the middle one of three runs.",
        "",
        "| job | where | threads | ns an element | GB/s | ratio | of |",
        "|---|---|---|---|---|---|---|",
    ]
    for (name, where, threads), rows in by_job.items():
        r = sorted(rows, key=lambda r: r["ratio"] if r["ratio"] is not None else r["ns"])[1]
        rate = f"{r['gb_per_s']:.1f}" if r["gb_per_s"] else f"{r['ns_per_operation']:.2f} ns an operation"
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}" if r["ratio"] >= 0.1 else f"1/{1 / r['ratio']:.0f}"
        lines.append(f"| {name} | {where} | {threads} | {r['ns']:.3f} | {rate} | {ratio} | {r['floor']} |")
    text = page.read_text()
    new, count = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}", text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{page} has {count} places marked for the table; one is needed")
    page.write_text(new)


if __name__ == "__main__":
    main()
