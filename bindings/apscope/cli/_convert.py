"""apscope convert: a foreign dump into a trace."""

from __future__ import annotations

import argparse
import re

from ..record._convert import convert


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "convert",
        help="a foreign dump (npz, npy, safetensors) into a trace",
        description="Converts a folder of npz, npy and safetensors files into a trace.",
    )
    parser.add_argument("source", metavar="SRC", help="folder (or file) of gradients")
    parser.add_argument("destination", metavar="DST", help="the trace's folder; must not exist")
    parser.add_argument(
        "--pattern",
        metavar="REGEX",
        help="fits folder/file/key (no suffix); named groups step, worker, tensor; "
        "without a tensor group it fits folder/file and the key names the tensor",
    )
    parser.add_argument(
        "--reduction",
        choices=("sum", "mean"),
        required=True,
        help="what training did with the workers' gradients",
    )
    parser.add_argument(
        "--loss-divided-by-workers",
        action="store_true",
        help="each worker's loss was divided by the number of workers",
    )
    parser.add_argument("--stage", choices=("local", "reduced", "clipped"), default="local")
    parser.add_argument("--name", help="what reports call the trace; the folder's name by default")
    parser.add_argument("--model", default="", help="free text")
    parser.add_argument(
        "--role",
        metavar="REGEX=ROLE",
        action="append",
        default=[],
        help="role of the tensors whose name the expression is found in; repeatable, first match wins",
    )
    parser.add_argument(
        "--round-to-fp32",
        action="store_true",
        help="round float64 values that are no fp32 values instead of refusing them",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    rules = [_rule(text) for text in args.role]
    result = convert(
        args.source,
        args.destination,
        reduction=args.reduction,
        pattern=args.pattern,
        stage=args.stage,
        loss_divided_by_workers=args.loss_divided_by_workers,
        name=args.name,
        model=args.model,
        roles=lambda name, _: next((role for regex, role in rules if regex.search(name)), None),
        round_to_fp32=args.round_to_fp32,
        progress=True,
    )
    print(f"pattern {result.pattern}" + ("" if args.pattern else " (default)"))
    if result.ignored:
        print(f"{len(result.ignored)} arrays did not fit the pattern, the first {result.ignored[0]}")
    trace = result.trace
    print(f"{args.destination}: {len(trace.steps)} steps, {trace.workers} workers, {len(trace.tensors)} tensors")
    return 0


def _rule(text: str) -> tuple[re.Pattern, str]:
    expression, separator, role = text.rpartition("=")
    if not separator or not role or not expression:
        raise ValueError(f"--role {text!r} is not of the form REGEX=ROLE")
    try:
        return re.compile(expression), role
    except re.error as error:
        raise ValueError(f"--role {text!r}: {expression!r} is no regular expression: {error}") from None
