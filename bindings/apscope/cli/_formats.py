"""``apscope formats [NAME...]``: a table of formats, and one of block formats."""

from __future__ import annotations

import argparse
import json
import math
import re

from .._arrays.blocks import named_block_formats
from .._arrays.inputs import as_format
from .._core import BlockFormat, FloatFormat
from .._formats.formats import format_table, named_formats
from ._arguments import adder
from ._table import print_table

EXAMPLE = "apscope formats e4m3fn e5m2 mxfp4"
HELP = "tables of formats: bits, precision, limits, specials; block formats"


_GRAMMAR = """\
Names. Those of the table, their aliases, P3109's such as binary8p3se, and for any other format the
general name, of these words in this order and without spaces:

  e<E>m<M> [fn|fnuz|finite] [u] [b<bias>] [nosub|sub<exponent>] [zero1|zero0]
           [nan<codes>|nannz] [inf|noinf] [eventies]

e3m0noinf is e3m0 without infinity, e3m2nan1noinf has one NaN and no infinity, e3m4b6 has bias 6.
OCP's e3m2fn, e2m3fn and e2m1fn have no NaN; before other words fn means one NaN (e3m2fnb4), finite
none (e3m2finiteb4).
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _GRAMMAR
    add = adder(parser)
    add(
        "names NAME",
        "a named format, a block format, or your own: e<E>m<M>[fn|fnuz|finite][u][b<bias>]; by "
        "default all",
        nargs="*",
    )
    add("--json", "the fields of each float format, or of those named, as JSON")


def _requested(names: list[str]) -> tuple[list[FloatFormat], list[BlockFormat]]:
    """Formats of these names, or all named ones."""
    if not names:
        return list(named_formats().values()), list(named_block_formats().values())
    floats: list[FloatFormat] = []
    blocks: list[BlockFormat] = []
    for name in names:
        try:
            floats.append(as_format(name))
        except ValueError:
            try:
                blocks.append(BlockFormat(name))
                continue
            except ValueError:
                pass
            raise
    return floats, blocks


def _other_specials(name: str) -> str:
    """A sentence on e3m2fnb4 beside OCP's e3m2fn: before other words, fn is a NaN; else empty."""
    match = re.fullmatch(r"(e\d+m\d+)fn(?!uz)[a-z].*", name)
    if match is None or f"{match[1]}fn" not in named_formats():
        return ""
    short, given_format = as_format(f"{match[1]}fn"), as_format(name)
    if short.has_nan == given_format.has_nan:
        return ""
    right = name.replace("fn", "finite", 1)
    return (
        f"{name} has a NaN, which {short.name} has not: before other words fn means one NaN; "
        f"without NaN it is {right}"
    )


def run(args: argparse.Namespace) -> int:
    floats, blocks = _requested(args.names)
    if args.json:
        shown: list[FloatFormat | BlockFormat] = [*floats, *(blocks if args.names else [])]
        print(json.dumps({f.name: f.to_dict() for f in shown}, indent=1))
        return 0
    if floats:
        table = format_table([f.name for f in floats])
        for column in ("largest", "smallest_normal", "smallest_subnormal"):
            table[column] = ["" if math.isnan(limit) else f"{limit:.6g}" for limit in table[column]]
        print_table(
            [c.replace("_", " ") for c in table.columns],
            table.astype(str).values.tolist(),
            words=("name", "specials", "aliases"),
        )
    for note in filter(None, map(_other_specials, args.names)):
        print(note)
    if floats and blocks:
        print("\nBlock formats, whose elements share scales:")
    if blocks:
        heads = [
            "name", "bits per element", "element", "block size", "scale", "rule", "tensor scale",
        ]  # fmt: skip
        rows = [
            [
                b.name,
                f"{b.bits_per_element:g}",
                f"int{b.element.storage_bits}" if b.twos_complement else b.element.name,
                str(b.block_size),
                b.scale.name,
                b.rule,
                "fp32" if b.tensor_scale else "",
            ]
            for b in blocks
        ]
        print_table(heads, rows, words=("name", "element", "scale", "rule", "tensor scale"))
    return 0
