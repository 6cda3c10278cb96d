"""``apscope verify``: prove the emulator on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

from .._formats.formats import named_formats
from .._proof.certificate import write_certificate
from .._proof.verify import OPERATIONS, ROUNDINGS, WITHOUT_ORACLE, Verification, has_oracle, verify
from ._arguments import adder
from ._table import on_terminal

EXAMPLE = "apscope verify e4m3 --rounding ties_to_even"
HELP = "prove the emulator on this machine"
DESCRIPTION = (
    "Compare the rounding rule with exact oracles, the array path with the rule, codes "
    "with values, and arithmetic with MPFR. Exits with 1 if anything differs."
)

#: Options that `verify` has by the same names.
_SAME = ("operation", "samples", "exhaustive", "oracle", "random_bits", "threads", "seed")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("format FORMAT", "a format's name, or 'all' for every named format")
    add("--rounding NAME", f"all (the default), {', '.join(ROUNDINGS)}", default="all")
    add(
        "--operation NAME",
        f"{', '.join(OPERATIONS)} or all (default: quantize)",
        default="quantize",
    )
    add("--exhaustive", "the array path on all 2^32 inputs; fma on all operands of up to 6 bits")
    add(
        "--oracle",
        "with --exhaustive: also compare the rule with MPFR on all of them",
        choices=["mpfr"],
    )
    add("--random-bits N", "random bits of stochastic rounding, 1 to 64", default=32)
    add(
        "--samples N",
        "random operands of an operation (default: 100000), inputs of a wide format (10^6)",
    )
    add("--threads N", "worker threads (default: all processors)")
    add("--seed N", "seed of the random inputs", default=1)
    add("--json", "print a list of objects")
    add("--certificate FILE", "write the results with formats, versions and machine as JSON")


def run(args: argparse.Namespace) -> int:
    if args.certificate and not Path(args.certificate).absolute().parent.is_dir():
        raise ValueError(
            f"--certificate {args.certificate}: the folder "
            f"{Path(args.certificate).parent} does not exist"
        )
    formats = list(named_formats()) if args.format == "all" else [args.format]
    results: list[Verification] = []
    bar = _Bar()
    for name in formats:
        found = verify(
            name,
            args.rounding,
            progress=bar.report(name),
            **{option: getattr(args, option) for option in _SAME},
        )
        results += found
        bar.clear()
        if not args.json:
            _print_rows(found, header=name == formats[0])
    if args.certificate:
        write_certificate(args.certificate, results, ["apscope", *args.words])
    if args.json:
        print(json.dumps([dataclasses.asdict(result) for result in results], indent=2))
    if not has_oracle():
        print(f"apscope: {WITHOUT_ORACLE}", file=sys.stderr)
    return 1 if any(result.mismatches for result in results) else 0


def _print_rows(results: list[Verification], header: bool) -> None:
    if header:
        print(
            f"{'format':<14} {'operation':<9} {'rounding':<16} {'cases':>12} {'mismatches':>10}  "
            f"{'oracle':<14} {'seconds':>8}"
        )
    for r in results:
        print(
            f"{r.format:<14} {r.operation:<9} {r.rounding:<16} {r.cases:>12} {r.mismatches:>10}  "
            f"{r.oracle:<14} {r.seconds:>8.1f}"
        )
        if r.first:
            print(f"  first mismatch: {r.first}")
    sys.stdout.flush()


class _Bar:
    """One progress line on a terminal's standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self._visible = on_terminal()

    def report(self, name: str) -> Callable[[str, int, int], None]:
        def show(words: str, done: int, total: int) -> None:
            if self._visible and total > 0:
                print(
                    f"\r{name} {words} {100 * done // total:3d} %\033[K",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )

        return show

    def clear(self) -> None:
        if self._visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
