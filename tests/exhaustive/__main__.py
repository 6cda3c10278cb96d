"""``python -m tests.exhaustive``: runs the outdated proofs, records them, writes the page."""

import argparse
import fcntl
import os
import re
import sys
from pathlib import Path

from apscope import _core, _oracle

from . import jobs, page
from .proved import PATHS, Repository
from .record import RECORDED, ROOT, Record, standings, table


def newer_than_the_module(paths: tuple[str, ...]) -> Path | None:
    """A source of these paths that was written after the oracle's module was built."""
    built = Path(_oracle.__file__).stat().st_mtime
    files = (
        file
        for path in paths
        for file in ([ROOT / path] if (ROOT / path).is_file() else sorted((ROOT / path).rglob("*")))
    )
    return next(
        (file for file in files if file.suffix in (".h", ".cpp") and file.stat().st_mtime > built),
        None,
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    parser.add_argument(
        "--status",
        action="store_true",
        help="run nothing; print what is behind the commit in use, "
        "and exit with 1 where anything is",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="start nothing after N minutes; with 0 the page alone is written",
    )
    parser.add_argument(
        "--only",
        metavar="REGEX",
        default="",
        help="jobs whose name matches, say '^arithmetic: e4m3 '",
    )
    parser.add_argument(
        "--simd", choices=jobs.INSTRUCTION_SETS, help="jobs on this instruction set"
    )
    parser.add_argument("--record", type=Path, default=RECORDED, help="default: %(default)s")
    parser.add_argument(
        "--page", type=Path, default=ROOT / "docs" / "conformance.md", help="default: %(default)s"
    )
    args = parser.parse_args(words)
    asked = [
        (job, simd)
        for job, simd in jobs.expected()
        if re.search(args.only, job.key) and args.simd in (None, simd)
    ]
    if not asked:
        parser.error(
            f"--only '{args.only}'{f' --simd {args.simd}' if args.simd else ''} leaves no job; "
            f"names are like '{next(jobs.jobs()).key}'"
        )
    if args.status:
        found = standings(Record(args.record), asked)
        print(table(found))
        return 0 if all(s.standing == s.expected for s in found) else 1
    paths = tuple(dict.fromkeys(path for job, _ in asked for path in PATHS[job.part]))
    if args.minutes != 0 and (changed := Repository().changed(paths)):
        parser.error(
            f"{changed[0]} is not as the last commit has it; a proof is of a commit: commit first"
        )
    if args.minutes != 0 and (newer := newer_than_the_module(paths)):
        parser.error(
            f"{newer.relative_to(ROOT)} is newer than {Path(_oracle.__file__).name}; build it "
            "first, as make exhaustive does"
        )
    sets = jobs.INSTRUCTION_SETS
    here = sets[sets.index(_core.best_simd_level()) :]
    if lacking := [simd for simd in dict.fromkeys(simd for _, simd in asked) if simd not in here]:
        print(
            f"This machine has no {' and no '.join(lacking)}: those jobs are left to one that has"
        )
    # Locked: two runs would overwrite each other's rows.
    folder = os.open(args.record.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return run(args, [(job, simd) for job, simd in asked if simd in here])
    except BlockingIOError:
        parser.error(
            f"another run writes {args.record}; wait for its end, or give another --record"
        )
    finally:
        os.close(folder)


def run(args: argparse.Namespace, asked: list[tuple[jobs.Job, str]]) -> int:
    record = Record(args.record)
    wrong = record.run(asked, args.minutes)
    page.write(record, args.page)
    print(f"{wrong} jobs found a mismatch" if wrong else "No mismatch", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
