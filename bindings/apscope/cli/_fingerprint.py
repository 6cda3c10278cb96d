"""``apscope fingerprint CALLABLE``: finds the rule of an undocumented cast."""

from __future__ import annotations

import argparse
import dataclasses
import json

from .._formats.blackbox import load
from .._formats.fingerprint import fingerprint

EXAMPLE = "apscope fingerprint ml_dtypes:float8_e4m3fn"


def add_parser(verbs: argparse._SubParsersAction) -> None:
    parser = verbs.add_parser(
        "fingerprint",
        help="format, rounding, overflow, subnormals, NaN and zeros of an unknown cast",
        description="Probes a cast of float32 arrays. Always exits with 0.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "callable",
        metavar="CALLABLE",
        help="MODULE:NAME, such as my_module:my_cast or ml_dtypes:float8_e4m3fn",
    )
    parser.add_argument(
        "--codes", metavar="NAME", help="the format of the codes, for a cast that returns integers"
    )
    parser.add_argument("--json", action="store_true", help="print an object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    found = fingerprint(load(args.callable), codes=args.codes)
    print(json.dumps(dataclasses.asdict(found), indent=1) if args.json else found)
    return 0
