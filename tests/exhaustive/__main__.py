"""``python -m tests.exhaustive [--shard I/N] [--simd LEVEL]``: runs the proofs, records them, writes the page."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from apscope import _core

from . import jobs, page
from .record import ROOT, Record


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    parser.add_argument("--shard", metavar="I/N", help="the P3109 formats, every N-th from number I, instead of all the rest")
    parser.add_argument("--only", metavar="REGEX", default="", help="jobs whose name matches, say '^arithmetic: e4m3 '")
    parser.add_argument("--once", action="store_true", help="leave out what is recorded for older sources too, on the instruction set in use")
    parser.add_argument("--simd", choices=("portable", "sse4", "avx2", "avx512"), help="on this instruction set, recorded beside the others")
    parser.add_argument("--record", type=Path, default=Path(__file__).with_name("recorded.json"), help="default: %(default)s")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "conformance.md", help="default: %(default)s")
    args = parser.parse_args()
    if args.simd:
        _core.set_simd_level(args.simd)
    if args.shard:
        match = re.fullmatch(r"(\d+)/(\d+)", args.shard)
        if not match or not int(match[1]) < int(match[2]):
            parser.error(f"--shard {args.shard} is not I/N with I below N, such as 0/8")
        chosen = jobs.p3109_jobs(int(match[1]), int(match[2]))
    else:
        chosen = jobs.main_jobs()
    wrong = Record(args.record).run([job for job in chosen if re.search(args.only, job.key)], args.once)
    page.write(args.record, args.page)
    print(f"{wrong} jobs found a mismatch" if wrong else "No mismatch", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
