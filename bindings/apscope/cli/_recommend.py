"""``apscope recommend TRACE|RESULTS -o plan.json``: an exact choice of a scheme for every layer."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from .._advice.candidates import WORDS
from .._advice.plan import Plan
from .._advice.recommend import recommend
from .._advice.translate import TOOLS
from .._advice.units import GROUPS
from .._advice.wish import LIMITS, MINIMIZE
from .._results.folders import check_readable
from .._results.results import Results
from .._schemes.scheme import LISTS
from ._table import on_terminal, say, warn

EXAMPLE = """\
apscope recommend notebooks/data/digits -o plan.json --max-volume 0.2
apscope replay notebooks/data/digits --scheme plan.json -o run"""


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "recommend", help="a scheme for every layer: the least error for a volume, or the least "
                          "volume for an error", allow_abbrev=False,
        description="Replays a trace through candidates, chooses one for every layer so that a "
                    "figure is least within limits, replays that choice and writes it as "
                    "plan.json, which is accepted wherever a spec is. Errors of layers add up, so "
                    "the choice is exact; it is evaluated on held-out steps. docs/advice.md.",
    )  # fmt: skip
    parser.add_argument(
        "source",
        metavar="TRACE|RESULTS|PLAN.json",
        help="a trace, which is replayed; results of the candidates; or a plan, for other limits",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="PLAN.json", help="the file to write"
    )
    parser.add_argument(
        "--minimize",
        metavar="FIGURE",
        help=f"one of {', '.join(MINIMIZE)}; by default step_nmse, for a plan its own",
    )
    for name, figure in LIMITS.items():
        sign = "at least" if name.startswith("min") else "at most"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            metavar="X",
            help=f"{figure} {sign} X; apscope summary has the figures",
        )
    parser.add_argument(
        "--max-layer-error",
        type=float,
        metavar="X",
        help="the minimized error of each layer at most X",
    )
    parser.add_argument(
        "--candidates", action="append", metavar="SPEC",
        help=f"a scheme, or a list: {', '.join((*LISTS, *WORDS))}; repeatable; by default main, "
             "for results all that they have",
    )  # fmt: skip
    parser.add_argument(
        "--groups",
        default="layer",
        metavar="G",
        help=f"tensors that share a choice: {', '.join(GROUPS)}, bucket:25MB, or a REGEX of names",
    )
    parser.add_argument(
        "--periods",
        type=int,
        default=1,
        metavar="N",
        help="number of ranges of steps, each with its own choice",
    )
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="REGEX=SPEC",
        help="layers with a given scheme; repeatable",
    )
    parser.add_argument(
        "--holdout",
        metavar="A:B",
        help="steps that are not used for the choice; by default "
        "every second one; none: all are used",
    )
    parser.add_argument(
        "--any-schemes",
        action="store_true",
        help="the optimum, even if a plan with fewer schemes is not significantly worse",
    )
    parser.add_argument(
        "--topology",
        metavar="NAME",
        help="the order of the additions; by default ring, for results the first replayed",
    )
    parser.add_argument(
        "--steps",
        metavar="A:B",
        help="for a trace: recorded step numbers A <= step < B, or a list A,B,C",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="for a trace: only ranks 0..N-1")
    parser.add_argument("--trace", metavar="NAME", help="the trace, for results of several")
    parser.add_argument(
        "--elements",
        type=float,
        default=25.6e6,
        metavar="N",
        help="time is for a model of N parameters; default %(default)g",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help="threads of a replay; 0: all of the machine",
    )
    parser.add_argument(
        "--as",
        dest="tool",
        metavar="TOOL",
        help=f"print the layers in the syntax of {', '.join(TOOLS)}, not as a table",
    )
    parser.set_defaults(run=run)


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
    if not Path(args.output).absolute().parent.is_dir():
        raise ValueError(f"-o {args.output}: its folder does not exist; make it first")
    limits = {name: getattr(args, name) for name in (*LIMITS, "max_layer_error")}
    plan = _solved(args, limits) if args.source.endswith(".json") else _recommended(args, limits)
    plan.save(args.output)
    if args.tool is not None:
        print(plan.written_as(args.tool), end="")
        return 0
    say(str(plan))
    say(f"\nagain: {shlex.join(['apscope', *args.words])}")
    say(
        f"{args.output}: accepted wherever a spec is, as in apscope replay TRACE --scheme "
        f"{shlex.quote(args.output)} -o RESULTS"
    )
    return 0


def _solved(args: argparse.Namespace, limits: dict[str, float | None]) -> Plan:
    """Makes another choice from a plan's table."""
    given = {"--candidates": args.candidates, "--fix": args.fix, "--holdout": args.holdout,
             "--topology": args.topology, "--steps": args.steps,
             "--workers": args.workers, "--trace": args.trace, "--periods": args.periods != 1,
                 "--groups": args.groups != "layer"}  # fmt: skip
    if wrong := [option for option, value in given.items() if value]:
        raise ValueError(
            f"{wrong[0]} changes the table in the plan {args.source}; "
            "give the trace, or results, instead"
        )
    return Plan.open(args.source).solve(args.minimize, simplest=not args.any_schemes, **limits)


def _recommended(args: argparse.Namespace, limits: dict[str, Any]) -> Plan:
    source: Any = args.source
    folder = check_readable(source) if "://" not in source else None
    if (
        folder is not None
        and (folder / "provenance.json").exists()
        and not (folder / "manifest.json").exists()
    ):
        source = Results.open(folder)
        warn(source)
    return recommend(
        source, args.candidates, minimize=args.minimize or "step_nmse", **limits,
        groups=args.groups, periods=args.periods,
        fixed=_fixed(args.fix), holdout={None: True, "none": False}.get(args.holdout, args.holdout),
        simplest=not args.any_schemes,
        topology=args.topology, trace=args.trace, steps=args.steps, workers=args.workers,
        elements=args.elements, threads=args.threads,
        progress=on_terminal(),
    )  # fmt: skip


def _fixed(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        pattern, sign, spec = text.partition("=")
        if not sign or not pattern or not spec:
            raise ValueError(f"--fix {text} is not REGEX=SPEC, such as head=none:fp16")
        found[pattern] = spec
    return found
