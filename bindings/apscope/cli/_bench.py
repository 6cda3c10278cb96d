"""``apscope bench``: speed of the kernels on this machine, compared with memcpy."""

from __future__ import annotations

import argparse
import json

from .._proof.bench import bench
from ._arguments import adder
from ._table import on_terminal

EXAMPLE = "apscope bench 'quantize e4m3' --rounds 3 --elements 1000000 --no-peers"
HELP = "speed of the kernels on this machine, compared with memcpy"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add(
        "only TEXT",
        "jobs whose name contains TEXT, and their references; by default all",
        nargs="?",
        default="",
    )
    add("--json", "print an object instead of a table")
    add("--rounds N", "interleaved rounds; default %(default)s", default=9)
    add(
        "--elements N",
        "fp32 numbers in arrays for main memory; default %(default)s",
        default=2**25,
    )
    add(
        "--threads N",
        "DRAM jobs run with 1 and with N threads; default %(default)s",
        default=2,
    )
    add("--no-peers", "leave out the casts of ml_dtypes, torch, gfloat and pychop")


def run(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    with tqdm(desc="bench", unit="visit", leave=False, disable=not on_terminal()) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        found = bench(
            args.only,
            rounds=args.rounds,
            elements=args.elements,
            threads=args.threads,
            peers=not args.no_peers,
            progress=progress,
        )
    if not found.rows:
        raise ValueError(
            f"no job's name contains '{args.only}'; 'apscope bench --json' lists all jobs"
        )
    if args.json:
        print(json.dumps(found.to_dict(), indent=1))
        return 0
    m = found.machine
    print(
        f"{m['processor']}, {m['processors']} processors, {m['simd']}, apscope {m['apscope']}, "
        f"{found.created}"
    )
    print(
        f"{'':46} {'where':5} {'thr':>3} {'ns/element':>10} {'±':>4} {'GB/s':>7} {'ratio':>6}  of"
    )
    for r in found.rows:
        rate = f"{r['gb_per_s']:7.1f}" if r["gb_per_s"] else f"{r['ns_per_operation']:5.2f}op"
        ratio = (
            f"{r['ratio']:6.2f}"
            if r["ratio"] and r["ratio"] >= 0.1
            else f"1/{1 / r['ratio']:<4.0f}"
            if r["ratio"]
            else ""
        )
        print(
            f"{r['name']:46} {r['where']:5} {r['threads']:3} {r['ns']:10.3f} {r['spread']:4.0%} "
            f"{rate} {ratio:>6}  {r['floor']}".rstrip()
        )
    return 0
