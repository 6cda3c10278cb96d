"""``apscope cut TRACE DST --size BYTES``: a small trace of a large one."""

from __future__ import annotations

import argparse

from .._text import count_of, printable
from ..record._cut import LONGEST, cut
from ._arguments import adder
from ._table import on_terminal, say

EXAMPLE = "apscope cut notebooks/data/characters small --size 2MB"
HELP = "make a small trace of a large one, of runs at random places"
DESCRIPTION = """\
Writes a trace of at most --size bytes: of every tensor runs of elements at random places that have
the energies of the whole, and of every step the element with the largest magnitude, which sets a
layer's scale. The error over the noise is near the whole trace's, except of one scale per layer with
three exponent bits or fewer in two phases. The step NMSE may be lower by a factor of two. Blocks
across rows, low rank, Fourier transforms and a tensor's top-k are not kept. docs/cut.md.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = adder(parser)
    add("trace TRACE", "folder or URL of a trace")
    add("destination DST", "the new trace's folder; must not exist")
    add("--size BYTES", "the most that its files have together, such as 6MB", required=True)
    add(
        "--longest N",
        "the longest row that stays whole; longer ones are in runs of N elements; default "
        "%(default)s",
        default=LONGEST,
    )
    add("--name NAME", "what reports call it; by default the trace's name")


def run(args: argparse.Namespace) -> int:
    made = cut(
        args.trace, args.destination,
        size=args.size, longest=args.longest, name=args.name, progress=on_terminal(),
    )  # fmt: skip
    total = sum(file.stat().st_size for file in made.path.rglob("*") if file.is_file())
    say(
        f"{printable(args.destination)}: {made.manifest.metadata.get('cut', 'all elements')}; "
        f"{count_of(len(made.steps), 'step')}, {total:,} bytes"
    )
    return 0
