"""``apscope fingerprint CALLABLE``: finds the rule of an undocumented cast."""

from __future__ import annotations

import argparse
import dataclasses
import json

from .._formats.blackbox import load
from .._proof.fingerprint import fingerprint
from ._arguments import adder

EXAMPLE = "apscope fingerprint ml_dtypes:float8_e4m3fn"
HELP = "format, rounding, overflow, subnormals, NaN and zeros of an unknown cast"
DESCRIPTION = "Probes a cast of float32 arrays. Always exits with 0."


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("callable CALLABLE", "MODULE:NAME, such as my_module:my_cast or ml_dtypes:float8_e4m3fn")
    add("--codes NAME", "the format of the codes, for a cast that returns integers")
    add("--json", "print an object")


def run(args: argparse.Namespace) -> int:
    found = fingerprint(load(args.callable), codes=args.codes)
    print(json.dumps(dataclasses.asdict(found), indent=1) if args.json else found)
    return 0
