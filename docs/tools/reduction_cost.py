"""What a replay's reductions cost, by scheme: python -m docs.tools.reduction_cost docs/performance.md

One tensor of 4 million elements, four workers, one thread: the processor time of `apscope.replay`
over the values with each reduction alone, all in turn, the median of five rounds. Writes the lines
between the markers of the page.
"""

import statistics
import tempfile
import time
from pathlib import Path

import apscope

from . import page
from .cost_against_size import write_trace

ELEMENTS, WORKERS, ROUNDS = 4_000_000, 4, 5
TOPOLOGIES = ("ring", "two_phase", "hierarchical:2(ring,two_phase)")
#: From `stochastic` on, workers share no scale, so a ring cannot add their codes.
SCHEMES = (
    "none:e5m2", "aps:e4m3fn,rule=tight", "aps:e4m3fn,rule=tight,rounding=stochastic",
    "aps:e4m3fn,rule=tight,unit=32", "stochastic:e4m3fn", "mx", "nvfp4", "qsgd",
)  # fmt: skip


def seconds(trace: apscope.Trace, spec: str, topology: str) -> float | None:
    """Of processor time; None where the scheme has no such reduction."""
    begin = time.process_time()
    try:
        made = apscope.replay(trace, spec, topology=topology, threads=1)
    except ValueError:
        return None
    took = time.process_time() - begin
    return took if topology in set(made.frame["topology"]) else None


def table(found: dict[tuple[str, str], list[float | None]]) -> list[str]:
    def cell(spec: str, topology: str) -> str:
        took = [value for value in found[spec, topology] if value is not None]
        return f"{statistics.median(took) / (ELEMENTS * WORKERS) * 1e9:.1f}" if took else "–"

    return [
        f"{page.machine()}; one thread, {WORKERS} workers, a tensor of {ELEMENTS} elements; ns of "
        "processor time a value, the scheme's own rows among them.",
        "",
        *page.table(
            ("scheme", *(f"`{name}`" for name in TOPOLOGIES)),
            [(f"`{spec}`", *(cell(spec, name) for name in TOPOLOGIES)) for spec in SCHEMES],
        ),
    ]


def main(arguments: list[str] | None = None) -> None:
    place = page.options(__doc__).parse_args(arguments).page
    found: dict[tuple[str, str], list[float | None]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_trace(Path(folder), steps=1, workers=WORKERS, elements=ELEMENTS)
        trace = apscope.open_trace(folder)
        for _ in range(ROUNDS):
            for spec in SCHEMES:
                for topology in TOPOLOGIES:
                    found.setdefault((spec, topology), []).append(seconds(trace, spec, topology))
    page.write(place, {"reductions": table(found)})


if __name__ == "__main__":
    main()
