"""``apscope report TRACE|RESULTS|DIR [-o FILE.html]``: an HTML file that ranks schemes."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._arrays.memory import memory_bytes
from .._excess_loss.expected import checked
from .._folders.results import check_readable
from .._replay.replay import replay
from .._report import check_destination, report
from .._results.given import is_trace
from .._results.results import Results
from .._traces.opening import is_url, open_trace
from .._training.folder import is_experiment
from ._arguments import add_gained, adder
from ._table import on_terminal, say, warn

EXAMPLE = "apscope report results"
HELP = "one HTML file of a replay's results, or of an experiment of training"
DESCRIPTION = (
    "Writes a self-contained HTML report. A trace is first replayed through --scheme main "
    "and the default topologies."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "source TRACE|RESULTS|DIR",
        "a recorded trace (a folder, or a URL), or the folder of a replay's results, or that "
        "of apscope train",
    )
    add(
        "-o, --output FILE.html",
        "the file to write; its folder must exist; by default report.html beside the results",
    )
    add(
        "--against RESULTS",
        "other results, of another seed, recording or format: a section shows the changes",
    )
    add_gained(add)
    add(
        "--memory BYTES",
        "limit on the memory of a trace's tensors, such as 4G; by default half of the machine's",
    )
    add("--force", "replace the file even if it is not a report of apscope")


def _check_common(source: str, against: Results) -> None:
    """Checks, before a long replay, that the other results are of the same trace."""
    from .._results.against import meeting

    trace = open_trace(source)
    tensors = [{"name": t.name, "shape": list(t.shape)} for t in trace.manifest.tensors]
    meeting([{"name": trace.name, "tensors": tensors}], against.provenance["traces"])


def _experiment(args: argparse.Namespace) -> int:
    """The page of an experiment of `apscope train`."""
    from .._training.page import write_page

    if args.against is not None:
        raise ValueError(f"report: {args.source} is an experiment; --against is for results")
    if args.gained is not None:
        raise ValueError(
            f"report: {args.source} is an experiment, which trained its excess; --gained is for "
            "results"
        )
    out_path = write_page(
        args.source,
        Path(args.source, "report.html") if args.output is None else args.output,
        force=args.force,
    )
    say(f"{out_path}: {out_path.stat().st_size} bytes")
    return 0


def _reserve_blas() -> None:
    """Makes OpenBLAS allocate its memory first: if none is left, it ends the process."""
    import numpy as np

    square = np.zeros((256, 256))
    square @ square


def run(args: argparse.Namespace) -> int:
    if not is_url(args.source) and is_experiment(check_readable(args.source)):
        return _experiment(args)
    _reserve_blas()
    if args.gained is not None:
        checked(args.gained)
    memory_bytes(args.memory)
    of_trace = is_url(args.source) or is_trace(check_readable(args.source))
    if of_trace and args.output is None:
        raise ValueError(
            f"report: {args.source} is a trace, and no report may be written into its folder; give "
            "-o FILE.html"
        )
    against = None if args.against is None else Results.open(args.against)
    out_path = check_destination(
        Path(args.source, "report.html") if args.output is None else args.output, force=args.force
    )
    if of_trace:
        if against is not None:
            _check_common(args.source, against)
        results = replay(
            args.source, memory=args.memory, progress=on_terminal(), limit=True,
            persistence=args.gained is not None,
        )  # fmt: skip
    else:
        results = Results.open(args.source)
    for one in (results, against):
        if one is not None:
            warn(one, ["incomplete"])
    report(results, out_path, against=against, force=args.force, gained=args.gained)
    say(f"{out_path}: {out_path.stat().st_size} bytes")
    return 0
