"""``apscope fingerprint CALLABLE``: finds the rule of an undocumented cast, or the order of a sum."""

from __future__ import annotations

import argparse
import dataclasses
import json

from .._formats.blackbox import load
from .._proof.fingerprint import fingerprint
from ._arguments import adder

EXAMPLE = "apscope fingerprint ml_dtypes:float8_e4m3fn"
HELP = "format and rounding of an unknown cast, or the order of an unknown sum"
DESCRIPTION = (
    "Probes a cast of float32 arrays, or with --kind the order in which a callable adds: a sum, a "
    "product of vectors or matrices, or an all-reduce of (workers, n). Always exits with 0."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("callable CALLABLE", "MODULE:NAME, such as my_module:my_cast or ml_dtypes:float8_e4m3fn")
    add("--codes NAME", "the format of the codes, for a cast that returns integers")
    add("--kind KIND", "cast, sum, dot, matmul or allreduce (default cast)")
    add("--inputs NAME", "the format of a sum's operands (default fp32)")
    add("--terms N", "terms of a sum, elements of an all-reduce (default 64)")
    add("--workers N", "rows of an all-reduce (default 4)")
    add("--addend", "the product takes a third operand, which it adds")
    add("--json", "print an object")


def run(args: argparse.Namespace) -> int:
    sums = {
        "inputs": args.inputs,
        "n": args.terms,
        "workers": args.workers,
        "addend": args.addend or None,
    }
    options = {"kind": args.kind, "codes": args.codes, **sums}
    given = {name: value for name, value in options.items() if value is not None}
    found = fingerprint(load(args.callable), **given)
    print(json.dumps(dataclasses.asdict(found), indent=1) if args.json else found)
    return 0
