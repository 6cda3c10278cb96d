"""``apscope conformance write|check|peers``: test any other implementation of a cast."""

from __future__ import annotations

import argparse
import dataclasses
import json

from .._formats.blackbox import load
from .._proof.conformance_peers import peer_table
from ..conformance import OVERFLOWS, ROUNDINGS, check, write

EXAMPLE = """\
apscope conformance write pack --format e4m3fn
apscope conformance check pack --against ml_dtypes:float8_e4m3fn"""


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "conformance", help="test any other implementation of a cast", allow_abbrev=False
    )
    does = parser.add_subparsers(dest="does", metavar="write|check|peers", required=True)

    writer = does.add_parser(
        "write", help="write a pack: inputs and correct results, with digests", allow_abbrev=False
    )
    writer.add_argument("directory", metavar="DIR", help="a new folder")
    writer.add_argument(
        "--format",
        action="append",
        metavar="NAME",
        help="repeatable; by default all named formats of at most 16 bits",
    )
    writer.set_defaults(run=run_write)

    checker = does.add_parser(
        "check",
        help="run a cast on a pack",
        description="Exits with 1 if any result differs.",
        allow_abbrev=False,
    )
    checker.add_argument("directory", metavar="DIR", help="a folder written by conformance write")
    checker.add_argument(
        "--against",
        metavar="MODULE:CALLABLE",
        required=True,
        help="my_module:my_cast, ml_dtypes:float8_e5m2",
    )
    checker.add_argument(
        "--format", metavar="NAME", help="the format of the cast (found automatically for a dtype)"
    )
    checker.add_argument(
        "--rounding", default="ties_to_even", metavar="NAME", help=", ".join(ROUNDINGS)
    )
    checker.add_argument("--overflow", default="ieee", metavar="NAME", help=", ".join(OVERFLOWS))
    checker.add_argument("--json", action="store_true", help="print an object")
    checker.set_defaults(run=run_check)

    peers = does.add_parser(
        "peers",
        help="where types of NumPy, ml_dtypes and torch differ, as Markdown",
        allow_abbrev=False,
    )
    peers.add_argument("directory", metavar="DIR", help="a pack of all formats")
    peers.set_defaults(run=run_peers)


def run_write(args: argparse.Namespace) -> int:
    manifest = write(args.directory, args.format)
    total = sum(entry["count"] for entry in manifest["formats"].values())
    print(
        f"{args.directory}: {len(manifest['formats'])} formats, {total} inputs, "
        f"{len(ROUNDINGS) * len(OVERFLOWS)} results each"
    )
    return 0


def run_check(args: argparse.Namespace) -> int:
    found = check(
        args.directory,
        load(args.against),
        format=args.format,
        rounding=args.rounding,
        overflow=args.overflow,
    )
    if args.json:
        print(json.dumps(dataclasses.asdict(found), indent=1))
    else:
        print(
            f"{args.against}: {found.format} {found.rounding} {found.overflow}: {found.differing} "
            f"of {found.inputs} inputs differ"
        )
        if found.first:
            print(f"  first: {found.first}")
    return 1 if found.differing else 0


def run_peers(args: argparse.Namespace) -> int:
    print(peer_table(args.directory))
    return 0
