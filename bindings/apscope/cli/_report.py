"""``apscope report TRACE|RESULTS -o FILE.html``: one HTML file that says which scheme lost least, where and why."""

from __future__ import annotations

import argparse

from .._replay.replay import replay
from .._report import check_destination, report
from .._results.folders import check_readable, what_is
from .._results.results import Results
from .._traces.opening import is_url, open_trace
from ._table import on_terminal, warn


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "report",
        help="one HTML file of a replay's results",
        allow_abbrev=False,
        description="Writes a self-contained HTML report. A trace is first replayed through --scheme main and the default topologies.",
    )
    parser.add_argument("source", metavar="TRACE|RESULTS", help="a recorded trace (a folder, or a URL), or the folder of a replay's results")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.html", help="the file to write; its folder must exist")
    parser.add_argument("--against", metavar="RESULTS", help="other results, of another seed, recording or format: a section says what changed")
    parser.add_argument("--memory", metavar="BYTES", help="what a trace's tensors may take at once, such as 4G; by default half of the machine's")
    parser.add_argument("--force", action="store_true", help="replace the file even if it is no report of apscope")
    parser.set_defaults(run=run)


def _check_common(source: str, against: Results) -> None:
    """Before a trace is replayed, which takes long: whether the other results are of such a trace."""
    from .._report.against import meeting

    trace = open_trace(source)
    tensors = [{"name": t.name, "shape": list(t.shape)} for t in trace.manifest.tensors]
    meeting([{"name": trace.name, "tensors": tensors}], against.provenance["traces"])


def run(args: argparse.Namespace) -> int:
    out_path = check_destination(args.output, force=args.force)
    source = None if is_url(args.source) else check_readable(args.source)
    against = None if args.against is None else Results.open(args.against)
    if source is None or (source / "manifest.json").is_file():
        if against is not None:
            _check_common(args.source, against)
        results = replay(args.source, memory=args.memory, progress=on_terminal())
    elif (source / "provenance.json").is_file():
        results = Results.open(source)
    else:
        raise ValueError(f"{source} is neither a trace nor a RESULTS folder: {what_is(source, 'manifest.json and no provenance.json')}")
    for one in (results, against):
        if one is not None:
            warn(one, ["incomplete"])
    report(results, out_path, against=against, force=args.force)
    print(f"{out_path}: {out_path.stat().st_size} bytes")
    return 0
