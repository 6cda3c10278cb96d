"""``apscope recommend TRACE|RESULTS -o plan.json``: an exact choice of a scheme for every layer."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._advice.candidates import DEFAULT, WORDS
from .._advice.file import check_destination
from .._advice.objective import LIMITS, MINIMIZE
from .._advice.plan import Plan
from .._advice.recommend import recommend
from .._advice.translate import TOOLS
from .._advice.units import GROUPS
from .._folders.writing import refuse_dangling
from .._schemes.scheme import LISTS
from ..cost import Network
from ._arguments import (
    add_elements,
    add_network,
    add_part_of_trace,
    add_threads,
    adder,
    network_of,
    open_results,
)
from ._output import exactly
from ._table import on_terminal, say, warn

if TYPE_CHECKING:
    from .._results.results import Results

EXAMPLE = """\
apscope recommend notebooks/data/digits -o plan.json --max-volume 0.2
apscope replay notebooks/data/digits --scheme plan.json -o run"""
HELP = "a reduction, and a scheme for every layer: the least error for a volume, or the reverse"
DESCRIPTION = (
    "Replays a trace through candidates in every reduction, chooses a reduction, and a candidate "
    "for every layer, so that a figure is "
    "least within limits, says what reduction, grid and scale are worth, all else equal, replays "
    "that choice and writes it as plan.json, which is "
    "accepted wherever a spec is. Errors of layers add up, so the choice is exact; it is "
    "evaluated on held-out steps. docs/advice.md."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "source TRACE|RESULTS|PLAN.json",
        "a trace, which is replayed; results of the candidates; or a plan, for other limits",
    )
    add("-o, --output PLAN.json", "the file to write", required=True)
    add(
        "--minimize FIGURE",
        f"one of {', '.join(MINIMIZE)}; by default step_nmse, or volume if only errors are "
        "limited; for a plan its own",
    )
    for name, figure in LIMITS.items():
        sign = "at least" if name.startswith("min") else "at most"
        add(
            f"--{name.replace('_', '-')} X",
            f"{figure} {sign} X; apscope summary has the figures",
            type=float,
        )
    add("--max-layer-error X", "the minimized error of each layer at most X", type=float)
    add(
        "--candidates SPEC",
        f"a scheme, or a list: {', '.join((*LISTS, *WORDS))}; repeatable; by default "
        f"{' and '.join(DEFAULT)}, for results all that they have",
        action="append",
    )
    add(
        "--groups G",
        f"tensors that share a choice: {', '.join(GROUPS)}, bucket:25MB, or a REGEX of names",
        default="layer",
    )
    add("--periods N", "number of ranges of steps, each with its own choice", default=1)
    add("--fix REGEX=SPEC", "layers with a given scheme; repeatable", action="append", default=[])
    add(
        "--holdout A:B",
        "steps that are not used for the choice; by default every second one; none: all are used",
    )
    add(
        "--any-schemes", "the optimum, even if a plan with fewer schemes is not significantly worse"
    )
    add_part_of_trace(add)
    add("--trace NAME", "the trace, for results of several")
    add_elements(add, "time is")
    add_network(add)
    add_threads(add)
    add(
        "--as TOOL",
        f"print the layers in the syntax of {', '.join(TOOLS)}, not as a table",
        dest="tool",
    )
    add("--force", "replace the file even if it is not a plan of apscope")


def run(args: argparse.Namespace) -> int:
    if not args.output.endswith(".json"):
        raise ValueError(
            f"-o {args.output} does not end in .json, which distinguishes a plan from a spec; give "
            "such a name"
        )
    if args.tool is not None and args.tool not in TOOLS:
        raise ValueError(
            f"--as {args.tool}: plans cannot be written for it; use one of {', '.join(TOOLS)}"
        )
    results = None if args.source.endswith(".json") else open_results(args.source)
    if not Path(args.output).absolute().parent.is_dir():
        raise ValueError(f"-o {args.output}: its folder does not exist; make it first")
    refuse_dangling(args.output)
    check_destination(args.output, args.force)
    limits = {name: getattr(args, name) for name in (*LIMITS, "max_layer_error")}
    plan = (
        _solved(args, limits)
        if args.source.endswith(".json")
        else _recommended(args, results, limits)
    )
    translated = None if args.tool is None else plan.written_as(args.tool)
    plan.save(args.output, force=args.force)
    if translated is not None:
        with exactly():
            print(translated, end="")
        return 0
    say(str(plan))
    if not args.source.endswith(".json"):
        say(f"\ntime: modelled, {args.elements:g} parameters; {network_of(args) or Network()}")
    say(f"\nagain: {shlex.join(['apscope', *args.words])}")
    reduction = plan.about["topology"]
    within = f" --topology {shlex.quote(reduction)}" if reduction else ""
    say(
        f"{args.output}: accepted wherever a spec is, as in apscope replay TRACE --scheme "
        f"{shlex.quote(args.output)}{within} -o RESULTS"
    )
    return 0


def _solved(args: argparse.Namespace, limits: dict[str, float | None]) -> Plan:
    """Makes another choice from a plan's table."""
    changed = {"--candidates": args.candidates, "--fix": args.fix, "--holdout": args.holdout,
             "--topology": args.topology, "--steps": args.steps,
             "--workers": args.workers, "--trace": args.trace, "--periods": args.periods != 1,
             "--nodes": args.nodes is not None, "--links": args.links,
                 "--groups": args.groups != "layer"}  # fmt: skip
    if wrong := [option for option, value in changed.items() if value]:
        raise ValueError(
            f"{wrong[0]} changes the table in the plan {args.source}; "
            "give the trace, or results, instead"
        )
    return Plan.open(args.source).solve(args.minimize, simplest=not args.any_schemes, **limits)


def _recommended(args: argparse.Namespace, results: Results | None, limits: dict[str, Any]) -> Plan:
    if results is not None:
        warn(results)
    return recommend(
        args.source if results is None else results, args.candidates, minimize=args.minimize, **limits,
        groups=args.groups, periods=args.periods,
        fixed=_fixed(args.fix), holdout={None: True, "none": False}.get(args.holdout, args.holdout),
        simplest=not args.any_schemes,
        topology=args.topology, trace=args.trace, steps=args.steps, workers=args.workers,
        elements=args.elements, network=network_of(args), threads=args.threads,
        progress=on_terminal(),
    )  # fmt: skip


def _fixed(given: list[str]) -> dict[str, str]:
    schemes = {}
    for text in given:
        pattern, sign, spec = text.partition("=")
        if not sign or not pattern or not spec:
            raise ValueError(f"--fix {text} is not REGEX=SPEC, such as head=none:fp16")
        schemes[pattern] = spec
    return schemes
