"""Time and memory of every scheme per value, for three sizes of a tensor: python -m
docs.tools.scheme_cost docs

Each scheme of the list `all` replays a trace of one tensor of 10^4, 10^6 and 10^8 elements
(--elements), four workers (--workers), on one thread, each in a process of its own. Small tensors
have as many steps as make a million values. Writes scheme_cost.json and scheme_cost.png into the
folder, and the lines between the markers of its performance.md. A scheme that would hold more than
half of the machine's free memory, by what it holds at the size before or by the budget of a replay,
is left out at that size. For a machine with nothing else to do: some ten minutes.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import apscope
from apscope._charts.colours import COLOURS
from apscope._schemes.lists import schemes_of
from apscope._text import raised

from . import page
from .cost_against_size import TOPOLOGY, measured, write_trace

VALUES = 1_000_000  # that a trace of small tensors has at least
# values of a step from which on bytes are shown: below, a thread's blocks and noise dominate
HELD = 250_000
SLOW = 40  # ns a value; what takes longer is named
SHAPES = ("o", "s", "^")  # of the sizes


def costs(
    trace: Path,
    specs: list[str],
    values: int,
    held: int,
    before: dict[str, dict[str, float]],
    seconds: float,
) -> dict[str, dict[str, float]]:
    """Scheme -> ns of processor time a value and, of `HELD` values of a step on, bytes held a value
    of it beyond a small replay's; too large ones are left out."""
    found = {}
    for spec in specs:
        if before.get(spec, {}).get("bytes", 0.0) * held > page.proc("meminfo", "MemAvailable") / 2:
            continue
        try:
            cost = measured(trace, ["--seconds", str(seconds), "--spec", spec])
        except RuntimeError as error:
            # The budget of memory that a replay has by default.
            if "is too little: tensor" in str(error):
                continue
            raise
        found[spec] = {"ns": cost["seconds"] / values * 1e9} | (
            {"bytes": cost["memory"] / held} if held >= HELD else {}
        )
        print(
            f"{held:>11} values a step, {spec}: "
            f"{', '.join(f'{v:.1f} {k}' for k, v in found[spec].items())}",
            file=sys.stderr,
        )
    return found


def measure(
    specs: list[str], elements: list[int], workers: int, seconds: float
) -> dict[int, dict[str, dict[str, float]]]:
    """Elements -> scheme -> its costs; sizes ascend."""
    found: dict[int, dict[str, dict[str, float]]] = {}
    last: dict[str, dict[str, float]] = {}
    for n in elements:
        steps = max(1, VALUES // (n * workers))
        with tempfile.TemporaryDirectory() as place:
            write_trace(Path(place) / "trace", steps, workers, n)
            found[n] = costs(
                Path(place) / "trace",
                [s for s in specs if not last or s in last],
                n * workers * steps,
                n * workers,
                last,
                seconds,
            )
        last = found[n]
    return found


def draw(found: dict[int, dict[str, dict[str, float]]], path: Path) -> None:
    """A row per scheme, the slowest first: a mark per size for its time, one for its memory."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    largest = list(found)[::-1]
    order = sorted(
        found[largest[-1]],
        key=lambda spec: next(found[n][spec]["ns"] for n in largest if spec in found[n]),
    )
    height = 1.2 + 0.17 * len(order)
    figure, axes = pyplot.subplots(
        1, 2, figsize=(9, height), layout="constrained", sharey=True, width_ratios=(2, 1)
    )
    kinds = (("ns", "ns of processor time a value"), ("bytes", "bytes held a value of one step"))
    for axis, (key, label) in zip(axes, kinds, strict=True):
        for place, (n, costs) in enumerate(found.items()):
            held = [
                (costs[spec][key], row)
                for row, spec in enumerate(order)
                if key in costs.get(spec, {})
            ]
            if held:
                label_of_size = f"10{raised(len(str(n)) - 1)} elements"
                axis.plot(
                    *zip(*held),
                    SHAPES[place % 3],
                    ms=4.5,
                    color=COLOURS[place],
                    label=label_of_size,
                )
        axis.set(xscale="log", xlabel=label, ylim=(-1, len(order)))
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.xaxis.set_minor_locator(NullLocator())
        axis.tick_params(axis="x", labeltop=True, labelsize=8)
        axis.tick_params(axis="y", length=0)
        axis.grid(color="#e6e6e6", lw=0.7)
        axis.set_axisbelow(True)
        axis.spines[:].set_visible(False)
    axes[0].set_yticks(range(len(order)), order, fontsize=8, parse_math=False)
    axes[0].axvline(SLOW, color="#888888", lw=1)
    axes[0].annotate(
        f"{SLOW} ns",
        (SLOW, 0),
        xytext=(-3, 0),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color="#555555",
    )
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper right",
        ncols=len(found),
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def lines_of(
    found: dict[int, dict[str, dict[str, float]]], workers: int, machine: str, load: float
) -> list[str]:
    sizes, largest = list(found), max(found)
    slow = [spec for spec, cost in found[largest].items() if cost["ns"] > SLOW]

    columns = [("ns", n) for n in sizes] + [("bytes", n) for n in sizes if n * workers >= HELD]
    cells = [
        (f"`{spec}`", *(f"{found[n][spec][key]:.1f}" if spec in found[n] else "too large"
                        for key, n in columns))
        for spec in found[sizes[0]]
    ]  # fmt: skip

    return [
        f"{machine}, apscope {apscope.__version__}; load before it {load:.1f} (0 is a quiet "
        f"machine); one thread, {workers} workers, topology {TOPOLOGY}; the processor time of "
        "`apscope.replay` over the values, statistics and tables included, and its largest "
        "resident set beyond a small replay's over the values of one step, 4 bytes of which are "
        "the mapped file's.",
        "",
        "![ns and bytes a value of every scheme](scheme_cost.png)",
        "",
        *page.table(("scheme", *(f"{key} at {n:.0e}" for key, n in columns)), cells),
        "",
        f"Above {SLOW} ns a value at {largest:.0e} elements: "
        f"{', '.join(f'`{spec}`' for spec in slow) or 'none'}.",
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the figures go")
    parser.add_argument(
        "--elements",
        type=float,
        nargs="+",
        default=[1e4, 1e6, 1e8],
        metavar="N",
        help="of the tensor, ascending; default 1e4 1e6 1e8",
    )
    parser.add_argument("--schemes", nargs="+", default=["all"], metavar="SPEC")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="a point's, where one run does not take longer"
    )
    args = parser.parse_args(arguments)
    load, machine = os.getloadavg()[0], page.machine()
    found = measure(
        [scheme.spec for scheme in schemes_of(args.schemes)],
        [int(n) for n in args.elements],
        args.workers,
        args.seconds,
    )
    (args.folder / "scheme_cost.json").write_text(
        json.dumps(
            {"machine": machine, "load": load, "workers": args.workers, "elements": found}, indent=1
        )
        + "\n"
    )
    draw(found, args.folder / "scheme_cost.png")
    lines = lines_of(found, args.workers, machine, load)
    page.write(args.folder / "performance.md", {"schemes": lines})


if __name__ == "__main__":
    main()
