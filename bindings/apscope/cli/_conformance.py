"""``apscope conformance write|check|peers``: test any other implementation of a cast."""

from __future__ import annotations

import argparse
import dataclasses
import json

from .._formats.blackbox import load
from .._proof.conformance_peers import peer_table
from .._text import count_of
from ..conformance import OVERFLOWS, ROUNDINGS, check, write
from ._arguments import adder
from ._table import say

EXAMPLE = """\
apscope conformance write pack --format e4m3fn
apscope conformance check pack --against ml_dtypes:float8_e4m3fn"""
HELP = "test any other implementation of a cast"


def arguments(parser: argparse.ArgumentParser) -> None:
    does = parser.add_subparsers(dest="does", metavar="write|check|peers", required=True)

    add = adder(
        does.add_parser("write", help="write a pack: inputs and correct results, with digests")
    )
    add("directory DIR", "a new folder")
    text = "repeatable; by default all named formats of at most 16 bits"
    add("--format NAME", text, action="append")

    text = "Exits with 1 if any result differs."
    add = adder(does.add_parser("check", help="run a cast on a pack", description=text))
    add("directory DIR", "a folder written by conformance write")
    add("--against MODULE:CALLABLE", "my_module:my_cast, ml_dtypes:float8_e5m2", required=True)
    add("--format NAME", "the format of the cast (found automatically for a dtype)")
    add("--rounding NAME", ", ".join(ROUNDINGS), default="ties_to_even")
    add("--overflow NAME", ", ".join(OVERFLOWS), default="ieee")
    add("--json", "print an object")

    text = "where types of NumPy, ml_dtypes and torch differ, as Markdown"
    add = adder(does.add_parser("peers", help=text))
    add("directory DIR", "a pack of all formats")


def run(args: argparse.Namespace) -> int:
    return {"write": run_write, "check": run_check, "peers": run_peers}[args.does](args)


def run_write(args: argparse.Namespace) -> int:
    manifest = write(args.directory, args.format)
    total = sum(entry["count"] for entry in manifest["formats"].values())
    say(
        f"{args.directory}: {count_of(len(manifest['formats']), 'format')}, "
        f"{count_of(total, 'input')}, {len(ROUNDINGS) * len(OVERFLOWS)} results each"
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
