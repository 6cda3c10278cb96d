"""``apscope units [NAME...]``: how devices add the products of a matrix product."""

from __future__ import annotations

import argparse
import json

from .._arrays.units import units
from ._arguments import adder
from ._table import print_table

EXAMPLE = "apscope units h100 h100:fp8"
HELP = "matrix units: the order in which devices add products, for order=unit:NAME"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("names NAME", "a matrix unit, such as h100:fp8; by default all", nargs="*")
    add("--json", "print a list of objects instead of a table")


def run(args: argparse.Namespace) -> int:
    found = units(*args.names)
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    rows = [
        [
            unit["name"],
            unit["instruction"],
            unit["inputs"],
            f"{unit['scales']} of {unit['scaled']}" if unit["scales"] else "",
            str(unit["k"]) + ("" if unit["interleave"] == "none" else f" {unit['interleave']}"),
            "" if unit["fraction"] is None else str(unit["fraction"]),
            f"{unit['result']}, {unit['result_bits']} bits",
            unit["c"],
            unit["evidence"],
        ]
        for unit in found
    ]
    heads = ["name", "instruction", "inputs", "scales", "K", "F", "result", "C", "evidence"]
    print_table(
        heads,
        rows,
        words=("name", "instruction", "inputs", "scales", "K", "result", "C", "evidence"),
    )
    return 0
