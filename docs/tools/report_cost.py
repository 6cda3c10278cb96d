"""The cost of a large trace's results, summary and report: python -m docs.tools.report_cost
docs/performance.md TRACE ...

Replays each trace through 25 schemes in four orders of rounded additions on the command line,
summarises it and writes its report, each in a process of its own; then Chromium, if it is there,
opens the report, and a box of its filters is ticked in front of every part. Writes the figures
between the markers of the page. notebooks/record/record_resnet.py records such a trace.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet

import apscope
from tests.python.browser import CHROMIUM, READY, Browser

from . import page
from .replay_cost import COSTS, ORDERS, each, run

SCHEMES = [
    "none:fp16",
    "none:bf16",
    *(
        f"{name}:{f}{keys}"
        for f in ("e5m2", "e4m3", "e3m4")
        for name, keys in (
            ("none", ""),
            ("loss_scaling", ",scale=largest"),
            ("aps", ""),
            ("stochastic", ""),
        )
    ),
    "aps:e4m3,rounding=stochastic",
    "aps:e3m0",
    "fp8_allreduce:e4m3fn",
    "delayed_scaling:e4m3fn",
    "qsgd",
    "qsgd:levels=127",
    "sign",
    "error_feedback(sign)",
    "terngrad",
    "natural",
    "hybrid(last=none:fp16;else=aps:e4m3)",
]
CLICK = "document.querySelector('#filters input[value=stochastic]').click()"


def measure(trace: str, folder: Path, schemes: list[str]) -> dict[str, Any]:
    """Wall seconds, processor seconds and bytes of memory of every command, what it wrote, and
    milliseconds in the browser."""
    results, report = folder / "results", folder / "report.html"
    words = [*each("--scheme", schemes), *each("--topology", ORDERS)]
    commands = {"replay": ["replay", trace, *words, "-o", str(results)],
                "summary": ["summary", str(results)],
                "report": ["report", str(results), "-o", str(report)]}  # fmt: skip
    found: dict[str, Any] = {
        name: run([sys.executable, "-m", "apscope", *command]) for name, command in commands.items()
    }
    # Not from the table itself: what this process holds counts as resident in the programs that it
    # starts.
    found["rows"] = pyarrow.parquet.read_metadata(results / "results.parquet").num_rows
    found["bytes"] = {
        path.name: path.stat().st_size
        for path in (results / "results.csv", results / "results.parquet", report)
        if path.exists()  # a large table has no CSV
    }
    found["browser"] = answers(report) if CHROMIUM else None
    return found


def answers(report: Path) -> dict[str, Any]:
    """Seconds until the page is there, and of every part the milliseconds in which it answers a box
    of a filter while it is in sight, five times."""
    browser = Browser()
    try:
        found = {"open": browser.open(report.as_uri(), READY, timeout=180)}
        for part in ("frontier", "versus", "underflow", "order", "schemes"):
            browser.run(f"document.getElementById('{part}').scrollIntoView()")
            browser.wait(f"document.querySelector('#{part} svg, #{part} tbody tr')")
            # Until the page has observed which parts are visible.
            browser.run("new Promise((done) => setTimeout(done, 300))")
            found[part] = []
            for _ in range(5):
                browser.run(CLICK)
                found[part].append(browser.run("apscopePage.took"))
        if browser.messages:
            raise SystemExit(f"the page says {browser.messages}")
        return found
    finally:
        browser.close()


def commands_table(found: dict[str, tuple[float, float, int]]) -> list[str]:
    """What every command of apscope took."""
    return page.table(
        ("command", *COSTS),
        [
            (f"`apscope {name}`", f"{wall:.1f}", f"{processor:.1f}", f"{memory / 2**20:.0f}")
            for name, (wall, processor, memory) in found.items()
        ],
    )


def lines_of(trace: apscope.Trace, schemes: int, found: dict[str, Any]) -> list[str]:
    elements = sum(t.size for t in trace.manifest.tensors)
    mb = {name: size / 1e6 for name, size in found["bytes"].items()}
    lines = [
        "",
        f"{trace.manifest.model}: {len(trace.tensors)} tensors, {elements} elements of each "
        f"worker, {trace.workers} workers, {len(trace.steps)} steps; {schemes} schemes, "
        f"{found['rows']} rows. "
        + ", ".join(f"{name} {size:.1f} MB" for name, size in mb.items())
        + ".",
        "",
        *commands_table({name: found[name] for name in ("replay", "summary", "report")}),
    ]
    if found["browser"]:
        parts = {
            name: statistics.median(took)
            for name, took in found["browser"].items()
            if name != "open"
        }
        lines += [
            "",
            f"The page is ready in Chromium after {found['browser']['open']:.1f} s. A "
            f"filter takes {statistics.median(parts.values()):.0f} ms, the median of the "
            "parts: " + ", ".join(f"{name} {took:.0f}" for name, took in parts.items()) + ".",
        ]
    return lines


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = page.options(__doc__)
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    args = parser.parse_args(arguments)
    lines = [f"{page.machine()}; load before it {os.getloadavg()[0]:.1f} {page.QUIET}."]
    found = []
    for trace in args.traces:
        with tempfile.TemporaryDirectory() as place:
            found.append(measure(trace, Path(place), SCHEMES))
        lines += lines_of(apscope.open_trace(trace), len(SCHEMES), found[-1])
    page.write(args.page, {"report": lines})
    return found


if __name__ == "__main__":
    main()
