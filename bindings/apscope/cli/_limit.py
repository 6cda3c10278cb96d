"""``apscope limit TRACE``: the error that no memoryless code of R bits undercuts, and schemes against it."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from .._rate_limit.limit import BITS, ENTROPY_CODED, SCHEMES, Limit, limit
from .._text import count_of, plain_number, printable
from ._arguments import add_threads, adder, listed
from ._table import json_rows, on_terminal, print_frame

EXAMPLE = "apscope limit notebooks/data/digits --steps 0:8"
HELP = "the error that no memoryless code of R bits per value undercuts, and schemes against it"
DESCRIPTION = (
    "Prints Shannon's lower bound of the mean squared error of R bits per value, computed of a "
    "trace's own gradients in blocks that are divided by a power of two each, the best grid of "
    "2^R levels, and schemes with their distance from the bound in bits. Errors are in units of "
    "4^floor(log2 rms) of the block. docs/limit.md."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("trace TRACE", "a recorded trace")
    add(
        "--scheme SPEC",
        f"a scheme, whose bits include its scales; repeatable; by default {' '.join(SCHEMES)}",
        action="append",
    )
    add(
        "--bits R,...",
        f"bits per value; repeatable; by default {','.join(map(str, BITS))}",
        action="append",
    )
    add(
        "--block N",
        "elements that share a power of two; default %(default)s",
        default=32,
    )
    add("--steps A:B", "recorded step numbers A <= step < B, or a list A,B,C")
    add("--tensors REGEX", "only tensors in whose names this is found")
    add("--workers N", "ranks 0..N-1 only")
    add("--seed N", "of schemes that draw; default %(default)s", default=0)
    add_threads(add)
    add(
        "--json",
        'print {"curve": [...], "grids": [...], "schemes": [...], ...}; null for an unknown or '
        "infinite number",
    )


def run(args: argparse.Namespace) -> int:
    found = limit(
        args.trace,
        SCHEMES if args.scheme is None else args.scheme,
        bits=BITS if args.bits is None else [_number(word) for word in listed(args.bits) or []],
        block=args.block, steps=args.steps, tensors=args.tensors, workers=args.workers,
        seed=args.seed, threads=args.threads, progress=on_terminal(),
    )  # fmt: skip
    if args.json:
        print(json.dumps(_json(found), indent=1, allow_nan=False))
    else:
        _print(found)
    return 0


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(
            f"limit: --bits {printable(word)!r} must be numbers, such as 2,4,8"
        ) from None


def _json(found: Limit) -> dict[str, Any]:
    facts: dict[str, Any] = {
        name: getattr(found, name)
        for name in (
            "trace", "block", "workers", "steps", "blocks", "zero_blocks", "nonfinite", "is_sample",
            "every", "elements", "values",
        )
    }  # fmt: skip
    return facts | {name: json_rows(getattr(found, name)) for name in ("curve", "grids", "schemes")}


def _print(found: Limit) -> None:
    sample = "" if found.every == 1 else f", of every {found.every}th block"
    print(
        f"{printable(found.trace)}: {count_of(found.steps, 'step')}, "
        f"{count_of(found.workers, 'worker')}, {found.blocks:,} blocks of {found.block}; "
        f"n = {found.values:,} nonzero values{sample}"
    )
    if found.is_sample:
        print("tensors are samples of larger ones; all figures are of the samples alone")
    if found.zero_blocks or found.nonfinite:
        print(
            f"left out: {count_of(found.zero_blocks, 'block')} of zeros, "
            f"{count_of(found.nonfinite, 'element')} not finite"
        )
    print()
    print_frame(
        "limit: the least error of a value in units of its block's binade, 4^floor(log2 rms); "
        f"entropy-coded: {ENTROPY_CODED:.3f} bits above it; over noise: of the sum of all workers",
        found.curve,
        fit=True,
    )
    if len(found.grids):
        print_frame("the best grid of 2^R levels", found.grids, fit=True)
    if len(found.schemes):
        table = found.schemes.sort_values("bits_above_limit", kind="stable", na_position="last")
        print_frame(
            "schemes, each worker's gradients encoded alone; bits include the scales",
            table,
            fit=True,
        )
    known = found.curve["limit"].notna()
    if not known.all():
        most = math.log2(found.values) * found.values / found.elements
        print(
            f"{found.values:,} values have a limit up to {plain_number(math.floor(most - 4))} bits"
        )
    print(
        "The limit holds for every map that treats all elements alike; a code that uses the places "
        "of elements may be below it."
    )
